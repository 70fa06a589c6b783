"""Figure of chapter 14: rank against unknowns."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from recon.chapters.leakage_rank.metrics import IdentifiabilityMetrics, Metrics
from recon.chapters.pictures import image_rows, on_white
from recon.chapters.published import LABELS
from recon.store.results import Result


def plot_rank(result: Result[Metrics]) -> Figure:
    """Every layer's rank against its unknowns: what is missing is what cannot be solved for."""
    rows = [
        (f"{name}\nlayer {i}", unknowns, unknowns + rd)
        for name, row in result.metrics.networks.items()
        for i, (unknowns, rd) in enumerate(zip(row.unknowns, row.rd, strict=True), start=1)
    ]
    figure, ax = plt.subplots(figsize=(9.5, 4))
    place = np.arange(len(rows))
    ax.bar(place, [r[1] for r in rows], color="#d9d9d9", label="unknowns x_{i−1}")
    ax.bar(place, [r[2] for r in rows], color="#0173b2", width=0.5, label="rank of U_i")
    ax.set_xticks(place, [r[0] for r in rows], fontsize=7, rotation=60)
    ax.set(ylabel="number")
    ax.legend(fontsize=8)
    figure.tight_layout(pad=0.4)
    return on_white(figure)


def plot_identified(result: Result[IdentifiabilityMetrics]) -> Figure:
    """Every network: what single layers lose, what all of them together do, and what the network never reads."""
    networks = result.metrics.networks
    figure, ax = plt.subplots(figsize=(8.5, 3.6))
    place = np.arange(len(networks))
    ax.bar(place - 0.2, [-row.c for row in networks.values()], 0.38, color="#d9d9d9", label="−c(M), layer by layer")
    ax.bar(place + 0.2, [-row.joint_deficiency for row in networks.values()], 0.38, color="#0173b2", label="all layers")
    ax.bar(
        place + 0.2, [row.unread_pixels for row in networks.values()], 0.38, color="#de8f05", label="entries never read"
    )
    for k, row in enumerate(networks.values()):
        ax.annotate(f"{-row.joint_deficiency}", (k + 0.2, -row.joint_deficiency), ha="center", va="bottom", fontsize=9)
    ax.set_xticks(place, list(networks), fontsize=9)
    ax.set(ylabel="missing equations")
    ax.legend(fontsize=9)
    figure.tight_layout()
    return on_white(figure)


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
            ("fixed entries\n(white)", fixed.view(-1, *shape).flatten(1), "none"),
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
