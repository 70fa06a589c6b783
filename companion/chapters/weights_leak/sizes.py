"""How large chapter 8 is."""

from __future__ import annotations

from dataclasses import dataclass

from companion.chapters.weights_leak.separation_prior import PriorSettings
from recon.attacks.separation import SeparationSettings
from recon.training.denoiser import DenoiserSettings
from recon.training.recipes import Recipe


@dataclass(frozen=True, kw_only=True)
class MapSizes:
    """The limits: numbers of images and widths of the map, trained for `steps_per_image` times as many steps · sides,
    side_ns: images averaged down to these widths in pixels, at these numbers, with the map's last width ·
    photograph_sides, photograph_n: patches of the bundled photographs, the same scenes at several sizes."""

    ns: tuple[int, ...]
    widths: tuple[int, ...]
    attack: SeparationSettings
    sides: tuple[int, ...]
    side_ns: tuple[int, ...]
    photograph_sides: tuple[int, ...]
    photograph_n: int
    steps_per_image: int = 6


MAP_SIZES = {
    "smoke": MapSizes(
        ns=(10, 20),
        widths=(32, 64),
        attack=SeparationSettings(first_rank=8, iterations=40),
        sides=(16,),
        side_ns=(20,),
        photograph_sides=(16, 32),
        photograph_n=20,
    ),
    "laptop": MapSizes(
        ns=(20, 50, 100),
        widths=(100, 400),
        attack=SeparationSettings(),
        sides=(16,),
        side_ns=(50, 100),
        photograph_sides=(16, 32),
        photograph_n=100,
    ),
    "paper": MapSizes(
        ns=(20, 50, 100, 150, 200, 300, 500),
        widths=(100, 400, 1000),
        attack=SeparationSettings(),
        sides=(16,),
        side_ns=(20, 50, 100, 150, 200, 300),
        photograph_sides=(16, 32, 64, 96),
        photograph_n=100,
    ),
}


@dataclass(frozen=True, kw_only=True)
class RecipeSizes:
    """The recipes: `n_train` images; every cell changes `base`, see `companion.chapters.weights_leak.cells` · families
    of cells that run, and how many of each · shadow_n: images of the adversary's networks, trained by `base` on the
    other partition."""

    n_train: int
    base: Recipe
    attack: SeparationSettings
    families: tuple[str, ...]
    shadow_n: tuple[int, ...]
    limit: int | None = None


FAMILIES = ("decay", "start", "stop", "task", "data", "defence", "convolution")
RECIPE_SIZES = {
    "smoke": RecipeSizes(
        n_train=20,
        base=Recipe(width=64, steps=150),
        attack=SeparationSettings(first_rank=8, iterations=40, restarts=2),
        families=("decay", "convolution"),
        shadow_n=(20, 40),
        limit=2,
    ),
    "laptop": RecipeSizes(
        n_train=100,
        base=Recipe(),
        attack=SeparationSettings(restarts=2),
        families=("decay", "start"),
        shadow_n=(100, 200),
        limit=2,
    ),
    "paper": RecipeSizes(
        n_train=100, base=Recipe(), attack=SeparationSettings(restarts=2), families=FAMILIES, shadow_n=(100, 200)
    ),
}


@dataclass(frozen=True, kw_only=True)
class PriorSizes:
    """Separation with a learned prior: a network with two hidden layers of `width` and biases in all, trained by
    `steps` of Adam with `weight_decay` on n_train images averaged down to side × side · separation: how its sources are
    found · denoiser, attack: of the prior and of what is done with it."""

    n_train: int
    side: int
    width: int
    steps: int
    weight_decay: float
    separation: SeparationSettings
    denoiser: DenoiserSettings
    attack: PriorSettings


PRIOR_SIZES = {
    "smoke": PriorSizes(
        n_train=20,
        side=16,
        width=64,
        steps=100,
        weight_decay=1e-3,
        separation=SeparationSettings(first_rank=8, iterations=40),
        denoiser=DenoiserSettings(channels=8, steps=20, batch=16),
        attack=PriorSettings(orthogonal=3, free=7),
    ),
    "laptop": PriorSizes(
        n_train=60,
        side=16,
        width=200,
        steps=600,
        weight_decay=1e-3,
        separation=SeparationSettings(),
        denoiser=DenoiserSettings(steps=800, step_size=2e-3),
        attack=PriorSettings(),
    ),
    "paper": PriorSizes(
        n_train=500,
        side=32,
        width=1000,
        steps=600,
        weight_decay=1e-3,
        separation=SeparationSettings(),
        denoiser=DenoiserSettings(steps=2500, bfloat16=True),
        attack=PriorSettings(orthogonal=15, free=45),
    ),
}
