"""Figures of chapter 10 and appendix C: ranks against unknowns, and what the truck's gradient gives back."""

from __future__ import annotations

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure

from companion.chapters.leakage_rank.metrics import IdentifiabilityMetrics, Metrics
from companion.chapters.pictures import PAGE, SERIES, chart, image_rows, note
from companion.store.results import Result


@chart
def plot_rank(result: Result[Metrics]) -> Figure:
    """Every layer's rank against its unknowns: what is missing is what cannot be solved for."""
    rows = [
        (f"{name}, layer {i}", unknowns, unknowns + rd)
        for name, row in result.metrics.networks.items()
        for i, (unknowns, rd) in enumerate(zip(row.unknowns, row.rd, strict=True), start=1)
    ]
    figure, ax = plt.subplots(figsize=(PAGE, 0.22 * len(rows) + 1.0), layout="constrained")
    for y, (_, unknowns, rank) in enumerate(rows):
        ax.plot([rank, unknowns], [y, y], color="#cccccc", lw=2, zorder=1)
        ax.plot(unknowns, y, "o", mfc="white", mec=SERIES[0], mew=1.6, ms=8)
        ax.plot(rank, y, "o", color=SERIES[0], ms=5)
        if rank < unknowns:
            note(ax, f"{rank - unknowns}".replace("-", "−"), (rank, y), (-6, 0), ha="right")
    ax.set_yticks(range(len(rows)), [row[0] for row in rows])
    ax.set(xlabel="number", ylim=(len(rows) - 0.4, -0.6), xlim=(-0.1 * max(row[1] for row in rows), None))
    words = {"white": "unknowns $x_{i-1}$", SERIES[0]: "rank of $U_i$; beside it what is missing"}
    dots = [plt.Line2D([], [], color=SERIES[0], marker="o", ls="", mfc=k, label=v) for k, v in words.items()]
    figure.legend(handles=dots, loc="outside upper center", ncols=2)
    return figure


@chart
def plot_identified(result: Result[IdentifiabilityMetrics]) -> Figure:
    """Every network: what single layers lack, what all of them together do, and what the network never reads."""
    networks = result.metrics.networks
    figure, ax = plt.subplots(figsize=(PAGE, 0.42 * len(networks) + 1.0), layout="constrained")
    kinds = {
        "−c(M), layer by layer": ("o", SERIES[0]),
        "all layers together": ("D", SERIES[1]),
        "entries never read": ("|", SERIES[2]),
    }
    for y, row in enumerate(networks.values()):
        values = (-row.c, -row.joint_deficiency, row.unread_pixels)
        ax.plot([min(values), max(values)], [y, y], color="#cccccc", lw=2, zorder=1)
        for value, (marker, colour) in zip(values, kinds.values(), strict=True):
            ax.plot(value, y, marker, color=colour, ms=14 if marker == "|" else 7, mew=2.5 if marker == "|" else 1)
        note(ax, f"{-row.joint_deficiency}", (-row.joint_deficiency, y), (0, 6), SERIES[1], "center", "bottom")
    ax.set_yticks(range(len(networks)), list(networks))
    ax.set(xlabel="missing equations", ylim=(len(networks) - 0.5, -0.8))
    named = kinds.items()
    dots = [
        plt.Line2D([], [], color=colour, marker=marker, ls="", label=words, mew=2) for words, (marker, colour) in named
    ]
    figure.legend(handles=dots, loc="outside upper center", ncols=3)
    return figure


def plot_found(result: Result[IdentifiabilityMetrics]) -> Figure:
    """The first victim, and what R-GAP and all layers together find of it by every network; above R-GAP's the security
    metric, above the others what the gradient leaves open of the entries that are read."""
    networks = result.metrics.networks
    above = [f"{name}\n{row.c}".replace("-", "−") for name, row in networks.items()]
    return image_rows(
        [
            ("the image", result.array("truth")[:1], "grey"),
            ("layer by layer\n(R-GAP);\nabove: c(M)", first_by(result, "rgap"), "black"),
            ("all layers\ntogether", first_by(result, "x_hat"), "black"),
        ],
        [[], above, [f"{-row.joint_deficiency - row.unread_pixels} open" for row in networks.values()]],
    )


def plot_moved(result: Result[IdentifiabilityMetrics]) -> Figure:
    """The first victim, another photograph, and that photograph moved until it has the victim's gradient, by every
    network; above each its errors to the victim and to what it was."""
    moved = [row.counterfactual for row in result.metrics.networks.values()]
    errors = [f"{row.mse_to_victim:.3f}\n{row.mse_to_start:.3f}" for row in moved]
    above = [f"{name}\n{each}" for name, each in zip(result.metrics.networks, errors, strict=True)]
    return image_rows(
        [
            ("victim, and another\nphotograph", result.array("truth"), "grey"),
            ("moved; above:\nerror to the victim,\nto what it was", first_by(result, "counterfactual"), "black"),
        ],
        [[], above],
    )


def first_by(result: Result[IdentifiabilityMetrics], kind: str) -> torch.Tensor:
    """What was found of the first victim, (networks, d)."""
    return torch.stack([result.array(f"{kind} {name}")[0] for name in result.metrics.networks])
