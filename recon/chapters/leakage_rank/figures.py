"""Figure of chapter 14: rank against unknowns."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
import torch
from matplotlib.figure import Figure

from recon.chapters.leakage_common import PRIOR
from recon.chapters.leakage_rank.metrics import IdentifiabilityMetrics, Metrics
from recon.chapters.pictures import PAGE, REFERENCE, SERIES, chart, image_rows, note
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


@chart
def plot_spectra(result: Result[IdentifiabilityMetrics]) -> Figure:
    """Singular values of the Jacobian of all gradients, largest first, relative to the largest; each ends where it has
    no rank left."""
    figure, ax = plt.subplots(figsize=(PAGE, 3.8), layout="constrained")
    for (name, row), colour in zip(result.metrics.networks.items(), SERIES, strict=False):
        values = result.array(f"singular {name}")
        whole = row.joint_deficiency == -row.unread_pixels
        ax.plot(range(1, len(values) + 1), values / values[0], "-" if whole else "--", color=colour, label=name)
        ax.plot(len(values), values[-1] / values[0], "o", color=colour, ms=5)
    ax.axvline(3 * 32 * 32, color=REFERENCE, ls=":")
    ax.set(yscale="log", xlabel="number of the singular value; the image has 3072 entries", ylabel="over the largest")
    figure.legend(loc="outside upper center", ncols=4)
    return figure


def plot_unread(result: Result[IdentifiabilityMetrics], name: str = "CNN4 V2") -> Figure:
    """The first victim by one network: three attacks, which entries it never reads, and how well faint noise on the
    gradient lets each be known."""
    name = name if name in result.metrics.networks else next(iter(result.metrics.networks))
    truth = result.array("truth")[:1]
    attacks = {"R-GAP": "rgap", "all layers": "x_hat", "the smoothest": "smoothest"}
    found = {words: result.array(f"{kind} {name}")[:1] for words, kind in attacks.items()}
    titles = [f"{words}, MSE {(image - truth).square().mean():.2g}" for words, image in found.items()]
    known = 1 - result.array(f"deviation {name}").view(1, -1).float() / PRIOR**0.5
    read = result.array(f"read {name}").view(1, -1).float()
    above, below = list(found.values())[:2], list(found.values())[2:]
    return image_rows(
        [
            (name, torch.cat([truth, *above]), "grey"),
            ("", torch.cat([*below, read, known.clamp(0, 1)]), "grey"),
        ],
        [["victim", *titles[:2]], [titles[2], "white: read", "white: known under noise"]],
        size=1.9,
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


def singular_table(metrics: IdentifiabilityMetrics) -> pd.DataFrame:
    """How much noise on the gradient can grow in the image: the least singular value that counts, over the greatest."""
    rows = {
        name: {
            "rank": 3 * 32 * 32 + row.joint_deficiency,
            "greatest": f"{row.singular.greatest:.2g}",
            "least": f"{row.singular.least:.2g}",
            "ratio": f"{row.singular.greatest / row.singular.least:.2g}",
        }
        for name, row in metrics.networks.items()
        if row.singular is not None
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
