"""Which heads are trained and attacked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from recon.attacks.heads import SparseSettings
from recon.errors import ReconError
from recon.training.recipes import Recipe

SGD = "SGD, decay 5e-3"
#: the best of fifteen pairs of step size and number of steps, on other images
PRIVATE = {"batch": None, "momentum": 0.0, "weight_decay": 0.0, "epochs": 0.2}
#: recipe -> what it changes in the base recipe, in steps of an epoch where it says "epochs"
RECIPES: dict[str, dict[str, Any]] = {
    SGD: {},
    "SGD, decay 5e-4": {"weight_decay": 5e-4},
    "SGD, no decay": {"weight_decay": 0.0},
    "Adam, decay 1e-3": {"optimiser": "adam", "lr": 1e-3, "weight_decay": 1e-3, "epochs": 0.6},
    "AdamW, default": {"optimiser": "adamw", "lr": 1e-3, "weight_decay": 1e-2, "epochs": 0.3},
    "dropout 0.5": {"dropout": 0.5},
    "batch norm": {},
    "standardised features": {},
    "flips and shifts": {},
    "early stopping": {},
    "linear head": {},
    "8-bit weights": {},
    "half of the weights pruned": {},
    "average of five checkpoints": {},
    "noise 0.1 on the weights": {},
    "noise 0.3 on the weights": {},
    "noise 1 on the weights": {},
    "DP-SGD, ε = 8": {**PRIVATE, "epsilon": 8.0},
    "DP-SGD, ε = 3": {**PRIVATE, "epsilon": 3.0},
    "DP-SGD, ε = 1": {**PRIVATE, "epsilon": 1.0},
}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One head: n training images, hidden units, classes, backbone, a recipe of `RECIPES`, and what is known of the
    start in the attacks on it.  ReconError for fewer hidden units than images."""

    n: int = 100
    width: int = 512
    classes: int = 10
    backbone: str = "lite0"
    recipe: str = SGD
    starts: tuple[str, ...] = ("unknown",)

    def __post_init__(self) -> None:
        if self.n > self.width and self.recipe != "linear head":
            raise ReconError(f"a first layer of {self.width} rows cannot hold the span of {self.n} images' features")

    @property
    def name(self) -> str:
        """For people and checkpoints."""
        return f"{self.backbone}, n = {self.n}, h = {self.width}, {self.classes} classes, {self.recipe}"


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """n_train: images of the first cell · side: of the images that the backbone is given · public, others: images, at
    most · base: the recipe, for `epochs` passes over the images."""

    n_train: int
    cells: tuple[Cell, ...]
    side: int = 128
    public: int = 2034
    others: int = 2034
    epochs: int = 1000
    base: Recipe = field(
        default=Recipe(depth=2, lr=0.05, momentum=0.9, batch=25, weight_decay=5e-3, cosine=False, classes=10)
    )
    attack: SparseSettings = SparseSettings()


THREE = ("unknown", "known", "known up to 10 %")
LAPTOP = (
    Cell(),
    Cell(recipe="SGD, decay 5e-4", starts=("unknown", "known")),
    Cell(recipe="AdamW, default", starts=("unknown", "known")),
)
PAPER = (
    Cell(),
    *(Cell(n=n) for n in (20, 50, 200, 300, 500)),
    Cell(n=500, width=1024),
    *(Cell(width=width) for width in (128, 256, 1024)),
    *(Cell(backbone=name) for name in ("lite1", "lite2")),
    Cell(classes=2),
    Cell(recipe="SGD, decay 5e-4", starts=THREE),
    Cell(recipe="SGD, decay 5e-4", classes=2, starts=THREE),
    Cell(n=300, recipe="SGD, decay 5e-4", starts=("known",)),
    Cell(recipe="SGD, no decay", starts=THREE),
    Cell(recipe="Adam, decay 1e-3", starts=THREE),
    Cell(recipe="AdamW, default", starts=THREE),
    *(Cell(n=n, recipe="AdamW, default") for n in (20, 50, 200, 300, 500)),
    *(Cell(recipe=name) for name in list(RECIPES)[5:]),
)

SIZES = {
    "smoke": Sizes(
        n_train=20,
        cells=(
            Cell(n=20, width=64, recipe="SGD, decay 5e-4", starts=("known",)),
            Cell(n=20, width=64),
            Cell(n=20, width=64, recipe="AdamW, default"),
            Cell(n=20, width=64, recipe="8-bit weights"),
        ),
        side=64,
        public=100,
        others=60,
        epochs=100,
        base=Recipe(depth=2, lr=0.05, momentum=0.9, batch=10, weight_decay=1e-2, cosine=False, classes=10),
        attack=SparseSettings(anchors=50, rounds=2),
    ),
    "laptop": Sizes(n_train=100, cells=LAPTOP),
    "paper": Sizes(n_train=100, cells=PAPER),
}
