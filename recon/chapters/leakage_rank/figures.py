"""Figure of chapter 14: rank against unknowns."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
import torch
from matplotlib.figure import Figure

from recon.chapters.leakage_rank.metrics import IdentifiabilityMetrics, Metrics
from recon.chapters.pictures import PAGE, SERIES, chart, image_rows, note
from recon.chapters.published import LABELS
from recon.store.results import Result


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
    """The first victim by every network: what the gradient fixes, R-GAP, Gauss–Newton, and another photograph moved."""
    networks = list(result.metrics.networks)
    truth = result.array("truth")
    shape = (3, 32, 32)

    def of(kind: str) -> torch.Tensor:
        return torch.stack([result.array(f"{kind} {name}")[0] for name in networks])

    fixed = torch.stack([result.array(f"fixed {name}").float() for name in networks])
    names = [[name for name in networks]]
    return image_rows(
        [
            ("victim", truth[:1].expand(len(networks), -1), "none"),
            ("fixed entries\n(white)", fixed.view(-1, *shape).flatten(1), "grey"),
            ("R-GAP", of("rgap"), "black"),
            ("all layers,\nfrom grey", of("x_hat"), "black"),
            ("the smoothest\nsolution", of("smoothest"), "black"),
            ("all layers, from\nthe other image", of("counterfactual"), "black"),
        ],
        [*names, [], [], [], [], []],
        size=1.05,
    )


def identified_table(result: Result[IdentifiabilityMetrics]) -> pd.DataFrame:
    """Counts of images, and errors of what is read."""
    total = result.metrics.n_images
    rows = {
        name: {
            "c(M)": row.c,
            "joint rank − unknowns": row.joint_deficiency,
            "never read": row.unread_pixels,
            f"determined, of {total}": row.counts.determined,
            "found": row.counts.found,
            "known": row.counts.known,
            "known, but wrong": row.counts.falsely_known,
            "found by R-GAP": row.rgap_found,
            "MSE": f"{row.gauss_newton.mse_read:.1e}",
            "R-GAP's MSE": f"{row.rgap_mse:.1e}",
            "gradients differ by": f"{row.gauss_newton.residual:.0e}",
            "seconds an image": f"{row.gauss_newton.seconds:.0f}",
        }
        for name, row in result.metrics.networks.items()
    }
    return pd.DataFrame(rows).T


def predictor_table(result: Result[IdentifiabilityMetrics]) -> pd.DataFrame:
    """Rank correlation of each attack's PSNR over networks with c(M), and with the joint rank."""
    names = {**LABELS, "gauss_newton": "Gauss–Newton, ours", "rgap_ours": "R-GAP, ours"}
    rows = {
        names[attack]: {
            key: "–" if value is None else f"{value:.2f}" for key, value in (("c(M)", rho.c), ("joint rank", rho.joint))
        }
        for attack, rho in result.metrics.spearman.items()
    }
    return pd.DataFrame(rows).T
