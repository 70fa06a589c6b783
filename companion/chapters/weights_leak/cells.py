"""The cells of chapter 8's recipes: what each changes in the base recipe, and what is tried of its start."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from recon.training.recipes import Recipe

#: family -> cell -> what it changes in the base recipe
CHANGES: dict[str, dict[str, dict[str, Any]]] = {
    "decay": {
        **{f"SGD, decay {decay:g}": {"weight_decay": decay} for decay in (0.0, 2e-2, 1e-2, 5e-3, 2e-3, 1e-3, 5e-4)},
        "GD, decay 1e-2": {"optimiser": "gd", "batch": None},
        "GD, lr 0.5, decay 2e-2": {"optimiser": "gd", "batch": None, "lr": 0.5, "weight_decay": 2e-2},
        "Adam, decay 0": {"optimiser": "adam", "lr": 1e-3, "weight_decay": 0.0},
        "Adam, decay 1e-3": {"optimiser": "adam", "lr": 1e-3, "weight_decay": 1e-3},
        "Adam, decay 1e-2": {"optimiser": "adam", "lr": 1e-3, "weight_decay": 1e-2},
        "AdamW, decay 1e-2": {"optimiser": "adamw", "lr": 1e-3, "weight_decay": 1e-2},
        "AdamW, decay 10": {"optimiser": "adamw", "lr": 1e-3, "weight_decay": 10.0},
    },
    "start": {
        "small start": {"start": "small", "weight_decay": 0.0},
        "default × 0.01": {"start_scale": 0.01, "weight_decay": 0.0},
        "default × 0.1": {"start_scale": 0.1, "weight_decay": 0.0},
        "default": {"weight_decay": 0.0},
        "Kaiming": {"start": "kaiming", "weight_decay": 0.0},
        "small start, Adam": {"start": "small", "optimiser": "adam", "lr": 1e-3, "weight_decay": 0.0},
    },
    "stop": {
        f"stopped at loss {loss:g}": {"start": "small", "weight_decay": 0.0, "stop_loss": loss, "cosine": False}
        for loss in (0.6, 0.3, 0.1, 1e-2, 1e-3)
    },
    "task": {
        "10 classes": {"classes": 10},
        "20 % of labels wrong": {"label_noise": 0.4},
        "bias in layer 1 only": {"bias": False},
        "2 layers": {"depth": 2},
        "4 layers": {"depth": 4},
        "6 layers": {"depth": 6},
        "base": {},
        "flips": {"augment": ("flip",)},
        "shifts": {"augment": ("shift",)},
        "flips and shifts": {"augment": ("flip", "shift")},
    },
    "data": {"digits": {}, "tabular": {}, "bundled photographs": {}},
    "defence": {
        "base, twice the steps": {"steps": 2.0},
        "dropout 0.5": {"dropout": 0.5},
        **{f"noise {sigma:g} on the weights": {} for sigma in (0.1, 0.3, 1.0)},
        "early stopping, small start": {"start": "small", "weight_decay": 0.0, "cosine": False},
        "early stopping": {"cosine": False},
        "small start, short": {"start": "small", "weight_decay": 0.0, "batch": None, "steps": 0.15},
        **{
            f"small start, short, DP-SGD, ε = {epsilon:g}": {
                "start": "small",
                "weight_decay": 0.0,
                "batch": None,
                "steps": 0.15,
                "epsilon": epsilon,
            }
            for epsilon in (100.0, 8.0, 3.0, 1.0)
        },
    },
    "convolution": {"dense after a fixed convolution": {}, "first layer convolutional": {}},
}
#: what is known of W1(0), tried for these cells, whose start is not gone
KNOWN = ("unknown", "known")
KNOWN_FOR = ("SGD, decay 0", "SGD, decay 0.001", "Adam, decay 0")


def recipe_of(base: Recipe, family: str, cell: str) -> Recipe:
    """The base recipe as a cell changes it; "steps" in `CHANGES` is a multiple of the base recipe's."""
    change = CHANGES[family][cell]
    if "steps" in change:
        change = {**change, "steps": round(change["steps"] * base.steps)}
    return replace(base, **change)


def file_name(cell: str) -> str:
    """A cell's name, FAMILY/CELL, as a file's: family and number within it."""
    family, name = cell.split("/", 1)
    return f"{family}-{list(CHANGES[family]).index(name)}"


def cell_of(stem: str) -> tuple[str, str]:
    """Inverse of `file_name`: (family, cell)."""
    family, number = stem.split("-")
    return family, list(CHANGES[family])[int(number)]
