"""How large the chapter is."""

from __future__ import annotations

from dataclasses import dataclass, field

from recon.attacks.separation import SeparationSettings
from recon.training.weight_decay import DecaySettings


@dataclass(frozen=True, kw_only=True)
class SetSizes:
    """Other sets with the same weights: n_train images, width, steps of training · iterations: of the projection that
    finds pairs · run_steps, run_step_size: of plain descent, for the same run · attack: separation of the twin ·
    cell_*: networks on images averaged down to cell_side, one a width and a start, cell_images tried in each ·
    steps_back: shares of the way from the pairs to the images between."""

    n_train: int
    width: int
    train_steps: int
    iterations: int
    run_steps: int
    attack: SeparationSettings
    cell_widths: tuple[int, ...]
    cell_n: int
    cell_images: int
    cell_steps: int
    cell_side: int = 8
    run_step_size: float = 0.1
    steps_back: int = 10


SET_SIZES = {
    "smoke": SetSizes(
        n_train=20,
        width=64,
        train_steps=100,
        iterations=100,
        run_steps=20,
        attack=SeparationSettings(first_rank=8, iterations=40),
        cell_widths=(50, 400),
        cell_n=20,
        cell_images=2,
        cell_steps=100,
    ),
    "laptop": SetSizes(
        n_train=50,
        width=500,
        train_steps=300,
        iterations=300,
        run_steps=100,
        attack=SeparationSettings(),
        cell_widths=(50, 100, 200, 400),
        cell_n=60,
        cell_images=6,
        cell_steps=300,
    ),
    "paper": SetSizes(
        n_train=500,
        width=1000,
        train_steps=3000,
        iterations=1000,
        run_steps=300,
        attack=SeparationSettings(),
        cell_widths=(50, 100, 200, 400, 800, 1600),
        cell_n=60,
        cell_images=20,
        cell_steps=600,
    ),
}


@dataclass(frozen=True, kw_only=True)
class MemberSizes:
    """Membership: (images, width) of the networks, each trained by every recipe · shadow_n: at this number of images
    shadow networks are trained, in so many `rounds` that each split the pool into sets of that size; the shares of the
    training images in the pool are tried there as well · ratio: other images for each training image · steps, decay:
    of training."""

    networks: tuple[tuple[int, int], ...]
    shadow_n: int
    rounds: int
    steps: int
    decay: DecaySettings = field(default_factory=lambda: DecaySettings(steps=400))
    ratio: int = 10
    coverage: tuple[float, ...] = (0.5, 0.2, 0.1)
    draws: int = 200


MEMBER_SIZES = {
    "smoke": MemberSizes(
        networks=((20, 64),), shadow_n=20, rounds=2, steps=60, decay=DecaySettings(steps=60), ratio=2, draws=50
    ),
    "laptop": MemberSizes(networks=((50, 200), (100, 200), (200, 100)), shadow_n=100, rounds=2, steps=300),
    "paper": MemberSizes(
        networks=((50, 1000), (100, 1000), (200, 1000), (400, 1000), (400, 200)), shadow_n=200, rounds=4, steps=600
    ),
}
