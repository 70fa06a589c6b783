"""How large chapter 19 is."""

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


@dataclass(frozen=True, kw_only=True)
class LawSizes:
    """Random features and networks of one hidden layer, attacked with θ⁰ known.

    features_side, features_n: pixels and number of the images for random features · ratios: p / (d n) of those ·
    n_train, widths: images of the pool's own size for the networks d-width-1 · steps, tangent_steps: of training and of
    the attack · restarts: of the attack; the one with the lowest energy is the answer.
    """

    features_side: int
    features_n: int
    ratios: tuple[float, ...]
    n_train: int
    widths: tuple[int, ...]
    attack: SeparationSettings
    steps: int
    tangent_steps: int
    restarts: int = 1


LAW_SIZES = {
    "smoke": LawSizes(
        features_side=4,
        features_n=2,
        ratios=(0.2, 1.0, 10.0),
        n_train=4,
        widths=(2, 16),
        attack=SeparationSettings(first_rank=8, iterations=40),
        steps=200,
        tangent_steps=200,
    ),
    "laptop": LawSizes(
        features_side=8,
        features_n=10,
        ratios=(0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
        n_train=10,
        widths=(2, 5, 10, 20, 50, 100),
        attack=SeparationSettings(),
        steps=600,
        tangent_steps=2000,
    ),
    "paper": LawSizes(
        features_side=8,
        features_n=20,
        ratios=(0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
        n_train=50,
        widths=(5, 10, 25, 50, 100, 250),
        attack=SeparationSettings(),
        steps=600,
        tangent_steps=10_000,
        restarts=2,
    ),
}


@dataclass(frozen=True, kw_only=True)
class DistributionSizes:
    """Networks of the ladder whose adversary knows how the start was drawn, and nothing else of it · steps: of
    training."""

    nets: tuple[NetSizes, ...]
    attack: SeparationSettings
    steps: int


DISTRIBUTION_SIZES = {
    "smoke": DistributionSizes(
        nets=(
            NetSizes(n_train=10, width=64, optimiser="gd"),
            NetSizes(n_train=10, width=64, optimiser="adam"),
        ),
        attack=SeparationSettings(first_rank=8, iterations=40),
        steps=200,
    ),
    "laptop": DistributionSizes(
        nets=(
            NetSizes(n_train=20, width=250, optimiser="gd"),
            NetSizes(n_train=20, width=1000, optimiser="gd"),
            NetSizes(n_train=20, width=1000, optimiser="adam"),
            NetSizes(n_train=100, width=1000, optimiser="gd"),
        ),
        attack=SeparationSettings(),
        steps=600,
    ),
    "paper": DistributionSizes(
        nets=tuple(
            NetSizes(n_train=n, width=1000, optimiser=optimiser) for optimiser in ("gd", "adam") for n in (20, 100, 500)
        ),
        attack=SeparationSettings(),
        steps=3000,
    ),
}
