"""Chapter 11's sentences: Appendix E, method by method, and what the paper says of its table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from torch import Tensor

from companion.chapters.base import Tensors
from companion.chapters.claims import claim
from companion.chapters.leakage_attacks.experiment import Metrics, Sizes
from companion.chapters.leakage_common import EPOCHS, TABLE_1, by_coins
from companion.chapters.pictures import (
    PAGE,
    REFERENCE,
    SERIES,
    chart,
    image_rows,
    levels,
    photographs,
)
from companion.chapters.published import DIVERGED, LABELS, METHODS, PRE_TRAINED, PUBLISHED
from companion.store.record import Record
from companion.store.kept import LEVELS
from companion.store.results import Claim, Result, verdict

WITHIN_MSE, WITHIN_DB = 0.02, 0.15  # of the published mean
PRE_TRAINED_ON = 10_000  # images, Appendix F
PRINTED = 5e-5  # half of the last digit that Appendix E prints


def claims(metrics: Metrics, sizes: Sizes) -> list[Claim]:
    """On the networks that were run."""
    made = [
        method_claim(method, metrics, sizes)
        for method in METHODS
        if any(fared(method, metrics)[:2])
    ]
    if both_ran(metrics, "rgap", "hybrid"):
        made += [hybrid_against(parent, metrics, sizes) for parent in ("rgap", "cosine_tv")]
    names = metrics.networks
    trained = [n for n in names if n.endswith(PRE_TRAINED) and n.removesuffix(PRE_TRAINED) in names]
    return [*made, pre_trained_claim(trained, metrics)] if trained else made


def both_ran(metrics: Metrics, *methods: str) -> list[str]:
    """Untrained networks on which all these methods ran."""
    untrained = [name for name in metrics.networks if not name.endswith(PRE_TRAINED)]
    return [name for name in untrained if set(methods) <= metrics.networks[name].methods.keys()]


def deviation(row: Record, published: tuple[float, float]) -> tuple[bool, float]:
    """Whether a row is within 2 % of the published MSE, 0.15 dB or the last printed digit; the
    relative deviation.
    """
    if row.diverged or row.mse is None or row.psnr_255 is None:
        return False, math.inf
    relative = abs(row.mse / published[0] - 1)
    near = relative <= WITHIN_MSE or abs(row.mse - published[0]) <= PRINTED
    return near or abs(row.psnr_255 - published[1]) <= WITHIN_DB, relative


def as_published(row: Record, published: tuple[float, float]) -> bool:
    """Whether a row is near the published one; one printed as 0.0000 must be exact to that."""
    if published[0] == 0:
        return row.mse is not None and row.mse < PRINTED
    return deviation(row, published)[0]


# --------------------------------------------------------------------------------- method by method
def fared(
    method: str, metrics: Metrics
) -> tuple[dict[str, tuple[bool, float]], dict[str, bool], dict[str, bool]]:
    """One method on the untrained networks it ran on, by how it fared in the paper: those with an
    error -> `deviation`; those it ran away on -> whether it does here; those printed as 0.0000 ->
    whether it is exact here.
    """
    near, away, zeros = {}, {}, {}
    for name in both_ran(metrics, method):
        row, published = metrics.networks[name].methods[method], PUBLISHED[name][method]
        if published[0] == 0:
            zeros[name] = as_published(row, published)
        elif published[0] <= DIVERGED:
            near[name] = deviation(row, published)
        else:
            away[name] = row.diverged
    return near, away, zeros


def judged(
    near: dict[str, tuple[bool, float]], away: dict[str, bool], zeros: dict[str, bool]
) -> str:
    """Reproduced if all fare as in the paper, partly if any network with an error is near."""
    alike = [ok for ok, _ in near.values()]
    exact = all(alike) and all(away.values()) and all(zeros.values())
    return verdict(exact) if exact or not any(alike) else "partly"


def method_claim(method: str, metrics: Metrics, sizes: Sizes) -> Claim:
    """Appendix E for one method."""
    full = method == "rgap" or (sizes.share == 1.0 and (method != "dlg" or sizes.dlg_steps == 300))
    near, _, zeros = found = fared(method, metrics)
    judgement, ours = judged(*found), in_words(method, metrics)
    if not metrics.images.the_papers or not full:
        judgement = "undecided"
        ours += (
            " (other images)"
            if not metrics.images.the_papers
            else f" ({sizes.share:.0%} of the published steps)"
        )
    grey = metrics.images.grey_mse
    ran = {name: PUBLISHED[name][method][0] for name in both_ran(metrics, method)}
    names = [name for name in ran if name not in zeros]
    worse = [name for name in ran if (error := metrics.mse(name, method)) is None or error > grey]
    by_grey = [
        name for name, published in ran.items() if abs(grey - published) <= WITHIN_MSE * published
    ]
    return claim(
        f"leakage-{method.replace('_', '-')}",
        paper="; ".join(f"{name}: {ran[name]:.4g}" for name in names),
        ours=ours,
        null=(
            f"a grey image: {grey:.4f}, better than this attack on {len(worse)} of {len(ran)}"
            f" networks, and as published on {len(by_grey)}"
        ),
        verdict=judgement,
        value=float(sum(ok for ok, _ in near.values())),
        null_value=float(len(by_grey)),
    )


def in_words(method: str, metrics: Metrics) -> str:
    """How many networks fare as in the paper, and the one that is farthest from it."""
    near, away, zeros = fared(method, metrics)
    ours = (
        f"{sum(ok for ok, _ in near.values())} of {len(near)} networks within 2 %, 0.15 dB or the"
        " last digit"
    )
    if near:
        worst = max(near, key=lambda name: near[name][1])
        value = metrics.mse(worst, method)
        ours += (
            f"; farthest {worst}: MSE {value:.4f}" if value is not None else f"; {worst} diverged"
        )
        ours += f" against {PUBLISHED[worst][method][0]:.4f}"
    ours += (
        f"; diverged on {sum(away.values())} of the {len(away)} that diverged there" if away else ""
    )
    return ours + (
        f"; exact on {sum(zeros.values())} of the {len(zeros)} printed as 0.0000" if zeros else ""
    )


# ---------------------------------------------------------------------------- method against method
def hybrid_against(parent: str, metrics: Metrics, sizes: Sizes) -> Claim:
    """The paper's sentence that Hybrid improves on its parents, network by network."""
    names = both_ran(metrics, "rgap", "hybrid", parent)
    worse = [
        n for n in names if not at_least_as_good(metrics.mse(n, "hybrid"), metrics.mse(n, parent))
    ]
    theirs = [n for n in names if PUBLISHED[n]["hybrid"][0] > PUBLISHED[n][parent][0]]
    comparable = metrics.images.the_papers and sizes.share == 1.0
    better = len(names) - len(worse)

    def said(not_on: list[str]) -> str:
        return f"on {len(names) - len(not_on)} of {len(names)}" + (
            f", not on {', '.join(not_on)}" if not_on else ""
        )

    return claim(
        f"leakage-hybrid-against-{parent.replace('_', '-')}",
        paper=said(theirs),
        ours=said(worse),
        null=(
            f"{len(names) / 2:g} of {len(names)} by tossing coins, and {better} or more in "
            f"{by_coins(better, len(names)):.2g} of all cases"
        ),
        verdict=(
            "undecided"
            if not comparable
            else "partly"
            if worse and worse == theirs
            else verdict(not worse)
        ),
        value=float(better),
        null_value=len(names) / 2,
    )


def at_least_as_good(ours: float | None, other: float | None) -> bool:
    """Of two errors, None being infinite."""
    return ours is not None and (other is None or ours <= other)


# ------------------------------------------------------------------------------------- pre-training
def pre_trained_claim(names: list[str], metrics: Metrics) -> Claim:
    """The paper's sentence on its pre-trained networks, method by method.

    Its own R-GAP on CNN4 V2 contradicts it, and our networks are trained on fewer images: "partly"
    at best.
    """
    methods = [m for m in METHODS if all(m in metrics.networks[n].methods for n in names)]

    def changes(mse: Callable[[str, str], float | None]) -> dict[str, list[float]]:
        """Method -> error on each pre-trained network over that on the untrained one; infinite
        where it diverged.
        """
        pairs = {
            m: [(mse(n, m), mse(n.removesuffix(PRE_TRAINED), m)) for n in names] for m in methods
        }
        return {
            m: [a / b if a is not None and b else math.inf for a, b in each]
            for m, each in pairs.items()
        }

    def said(found: dict[str, list[float]]) -> str:
        each = (
            f"{LABELS[m]} {', '.join(f'{value:.2g}' for value in values)}"
            for m, values in found.items()
        )
        return f"MSE times ({', '.join(names)}): " + "; ".join(each)

    theirs, ours = changes(lambda name, method: PUBLISHED[name][method][0]), changes(metrics.mse)
    degraded = [value > 1 for values in ours.values() for value in values]
    theirs_too = [value > 1 for values in theirs.values() for value in values]
    trained = [row for name in names if (row := metrics.networks[name].pre_training) is not None]
    accuracies = ", ".join(f"{row.accuracy:.0%}" for row in trained)
    as_theirs = trained[0].n_train == PRE_TRAINED_ON and all(theirs_too)
    judgement = (
        verdict(any(degraded)) if as_theirs and all(degraded) or not any(degraded) else "partly"
    )
    return claim(
        "leakage-pre-trained",
        paper=said(theirs) + f": {sum(theirs_too)} of {len(theirs_too)} degraded",
        ours=said(ours)
        + f": {sum(degraded)} of {len(degraded)}; our own variant: {trained[0].n_train} images, not"
        " 10 000, " + f"{trained[0].epochs} epochs of 300, training accuracy {accuracies}",
        null="1 (no change); half of them by tossing coins",
        verdict=(
            judgement if metrics.images.the_papers and trained[0].epochs == EPOCHS else "undecided"
        ),
        value=float(sum(degraded)),
        null_value=len(degraded) / 2,
    )


#: what the grid shows, and how it is called there
HEADS = {
    "rgap": "R-GAP",
    "dlg": "DLG",
    "cosine_tv": "CosineTV,\npaper's way",
    "cosine_tv_authors": "CosineTV, its\nauthors' way",
    "hybrid": "Hybrid",
}


def drawn_networks(metrics: Metrics) -> list[str]:
    """Those of the grid: untrained, attacked by gradient matching too, and of the fewest or of the
    most layers.
    """
    depth = {
        name: TABLE_1[name].depth
        for name, row in metrics.networks.items()
        if name in TABLE_1 and len(row.methods) > 1
    }
    return [
        name for name, each in depth.items() if each in (min(depth.values()), max(depth.values()))
    ]


def drawn_methods(metrics: Metrics) -> list[str]:
    """Those of the grid."""
    ran = [metrics.networks[name].methods for name in drawn_networks(metrics)]
    return [method for method in HEADS if any(method in methods for methods in ran)]


def selected(metrics: Metrics, arrays: Tensors) -> Tensors:
    """The first image, and what attacks make of it, (methods, d) of each network of the grid."""
    images = {"truth": arrays["truth"][0]}
    for name in drawn_networks(metrics):
        by_method = [arrays[f"x_hat {name} {method}"][0] for method in drawn_methods(metrics)]
        images[name] = torch.stack(by_method)
    return {name: levels(x) for name, x in images.items()}


@photographs
def plot_grid(result: Result[Metrics]) -> Figure:
    """The first image by every attack, on the networks of fewest and of most layers; its mean
    squared error above each, and below all the null, a grey image.
    """
    truth, methods = result.figure("truth"), drawn_methods(result.metrics)
    rows: list[tuple[str, Sequence[Tensor | None], str]] = [("original", [truth], "grey")]
    titles: list[list[str]] = [[]]
    for name in drawn_networks(result.metrics):
        found = result.metrics.networks[name].methods
        rows.append((name, list(result.figure(name)), "black"))
        titles.append([scored(found[method]) for method in methods])
    titles[1] = [
        f"{HEADS[method]}\n{error}" for method, error in zip(methods, titles[1], strict=True)
    ]
    grey = torch.full(truth.shape, 0.5)
    rows.append(("a grey image\n(null)", [grey], "black"))
    titles.append([f"{(truth / LEVELS - grey).square().mean().item():.4f}"])
    return image_rows(rows, titles)


def scored(scores: Record) -> str:
    """Mean squared error of the first image."""
    each = next(iter(scores.per_image.values()))
    return f"{each.mse:.4f}" if each and each.mse < DIVERGED else "diverged"


@chart
def plot_scores(result: Result[Metrics]) -> Figure:
    """Our mean PSNR against the published one, every network and method; open: pre-trained
    networks.
    """
    figure, ax = plt.subplots(figsize=(PAGE, 3.6))
    for method, colour in zip(METHODS, SERIES, strict=False):
        for trained in (False, True):
            points = [
                (PUBLISHED[name][method][1], row.methods[method].psnr_255)
                for name, row in result.metrics.networks.items()
                if method in row.methods and name.endswith(PRE_TRAINED) == trained
            ]
            shown = [
                (x, y) for x, y in points if y is not None and max(x, y) < 100 and min(x, y) > 40
            ]
            if shown:
                face = "none" if trained else colour
                label = LABELS[method] + (", pre-trained" if trained else "")
                ax.scatter(*zip(*shown, strict=True), color=colour, facecolors=face, label=label)
    low, high = 44, 82
    ax.plot([low, high], [low, high], color=REFERENCE, linestyle=":")
    ax.set(
        xlabel="published PSNR in dB (peak 255)", ylabel="ours", xlim=(low, high), ylim=(low, high)
    )
    ax.set_aspect("equal")
    ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
    return figure


FIGURES = {"grid": plot_grid, "scores": plot_scores}
