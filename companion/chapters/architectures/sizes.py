"""How large the experiment of appendix J is."""

from __future__ import annotations

from dataclasses import dataclass

from recon.attacks.separation import SeparationSettings


@dataclass(frozen=True, kw_only=True)
class DenseSizes:
    """Fully connected networks d-width-…-width-K on n_train images.

    depths: linear layers, each with two classes · classes: K, each with three linear layers; labels are CIFAR-10's,
    modulo K · steps: of training, at most · separation: settings · decoreco_steps: of each of its runs.
    """

    n_train: int
    width: int
    depths: tuple[int, ...]
    classes: tuple[int, ...]
    steps: int
    separation: SeparationSettings
    decoreco_steps: int


DENSE_SIZES = {
    "smoke": DenseSizes(
        n_train=10,
        width=64,
        depths=(3, 4),
        classes=(3,),
        steps=300,
        separation=SeparationSettings(first_rank=8, iterations=40),
        decoreco_steps=50,
    ),
    "laptop": DenseSizes(
        n_train=50,
        width=300,
        depths=(3, 4, 5, 6),
        classes=(3, 5, 10),
        steps=600,
        separation=SeparationSettings(),
        decoreco_steps=400,
    ),
    "paper": DenseSizes(
        n_train=100,
        width=1000,
        depths=(3, 4, 5, 6),
        classes=(3, 5, 10),
        steps=1000,
        separation=SeparationSettings(),
        decoreco_steps=3000,
    ),
}
