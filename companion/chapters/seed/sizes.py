"""How large appendix G is."""

from __future__ import annotations

from dataclasses import dataclass

from recon.attacks.separation import SeparationSettings


@dataclass(frozen=True, kw_only=True)
class NetSizes:
    """One network 3072-width-width-1 on n_train images · optimiser: "gd", full batches with momentum, or "adam" ·
    tangent: whether the tangent attack is run on it too."""

    n_train: int
    width: int
    optimiser: str
    tangent: bool = False


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """noise: sizes of the error in the adversary's θ⁰, over that of θ⁰, from the largest to 0 · tangent_noise: those
    that the tangent attack is run with · steps: of training · tangent_steps: of the tangent attack."""

    nets: tuple[NetSizes, ...]
    noise: tuple[float, ...]
    tangent_noise: tuple[float, ...]
    attack: SeparationSettings
    steps: int
    tangent_steps: int


SIZES = {
    "smoke": Sizes(
        nets=(
            NetSizes(n_train=10, width=64, optimiser="gd", tangent=True),
            NetSizes(n_train=10, width=64, optimiser="adam"),
        ),
        noise=(0.1, 0.0),
        tangent_noise=(0.0,),
        attack=SeparationSettings(first_rank=8, iterations=40),
        steps=200,
        tangent_steps=60,
    ),
    "laptop": Sizes(
        nets=(
            NetSizes(n_train=20, width=250, optimiser="gd"),
            NetSizes(n_train=20, width=1000, optimiser="gd", tangent=True),
            NetSizes(n_train=20, width=1000, optimiser="adam"),
            NetSizes(n_train=100, width=1000, optimiser="gd"),
        ),
        noise=(1.0, 0.1, 0.01, 0.0),
        tangent_noise=(0.1, 0.0),
        attack=SeparationSettings(),
        steps=600,
        tangent_steps=600,
    ),
    "paper": Sizes(
        nets=(
            *(
                NetSizes(n_train=n, width=width, optimiser="gd", tangent=n == 20 and width <= 1000)
                for n, widths in ((20, (250, 1000, 4000)), (100, (250, 1000, 4000)), (500, (250, 1000)))
                for width in widths
            ),
            *(NetSizes(n_train=n, width=1000, optimiser="adam") for n in (20, 100, 500)),
        ),
        noise=(1.0, 0.3, 0.1, 0.03, 0.01, 0.0),
        tangent_noise=(0.1, 0.0),
        attack=SeparationSettings(),
        steps=3000,
        tangent_steps=20_000,  # a quarter of Loo et al.'s
    ),
}
