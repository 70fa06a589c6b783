"""What the adversary can tell, and what they trust most."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from recon.chapters.decoreco_adversary.metrics import Metrics
from recon.chapters.pictures import PAGE, REFERENCE, SERIES, chart, image_rows, ink
from recon.scoring.discrimination import FALSE_RATE
from recon.store.results import Result

ARM_TITLES = {"decoreco": "DecoReco", "separated": "separation", "more": "separation"}
#: what is drawn of each attack: the practised adversary first
SHOWN = {
    "decoreco": ("combined", "contribution", "agreement", "smoothness", "edges", "separated"),
    "separated": ("certainty", "stability", "sparsity", "smoothness"),
    "more": ("certainty", "stability", "sparsity", "smoothness"),
}
LABELS = {
    "combined": "combined (practised)",
    "certainty": "certainty (practised)",
    "separated": "found by separation too",
    "smoothness": "smoothness (baseline)",
    "edges": "sparse edges (baseline)",
}
ORDER = ("combined", "contribution", "agreement", "smoothness", "edges", "separated", "stability", "sparsity")
COLOURS = dict(zip(ORDER, SERIES, strict=True)) | {"certainty": SERIES[0]}
GRID = np.logspace(-2, 0, 201)


def title(result: Result[Metrics], arm: str) -> str:
    """The attack and the number of images in each network."""
    return f"{ARM_TITLES[arm]}, n = {result.metrics.arms[arm].n_train}"


def roc(result: Result[Metrics], arm: str, kind: str) -> np.ndarray | None:
    """Share of the true accepted at each share of the false of `GRID`, mean over networks (201,), of what looks
    natural; None where no network can be judged."""
    score, true, natural = (result.array(f"{arm}_{key}").numpy() for key in (f"score_{kind}", "true", "natural"))
    curves = [stairs(s[n], t[n]) for s, t, n in zip(score, true.astype(bool), natural.astype(bool), strict=True)]
    known = [curve for curve in curves if curve is not None]
    return np.mean(known, axis=0) if known else None


def stairs(score: np.ndarray, true: np.ndarray) -> np.ndarray | None:
    """One network's, in steps: the largest share of the true while at most a share `GRID` of the false is accepted."""
    if true.all() or not true.any():
        return None
    ordered = true[np.argsort(-score, kind="stable")]
    accepted, false = ordered.cumsum(), (~ordered).cumsum()
    allowed = GRID * false[-1] + 1e-9
    return np.concatenate([[0], accepted])[np.searchsorted(false, allowed, side="right")] / true.sum()


def guess(result: Result[Metrics], arm: str) -> np.ndarray | None:
    """The same for a random order, on average: (k + 1) / (F + 1) with k = ⌊share · F⌋ of F false ones."""
    true, natural = (result.array(f"{arm}_{key}").numpy().astype(bool) for key in ("true", "natural"))
    false = [int((~t[n]).sum()) for t, n in zip(true, natural, strict=True) if t[n].any() and not t[n].all()]
    curves = [np.minimum((np.floor(GRID * f + 1e-9) + 1) / (f + 1), 1) for f in false]
    return np.mean(curves, axis=0) if curves else None


@chart
def plot_roc(result: Result[Metrics]) -> Figure:
    """ROC on logarithmic axes of what looks natural, one panel an attack; names in the order of the area."""
    figure, axes = plt.subplots(3, 1, figsize=(PAGE, 8.4), sharex=True)
    for ax, arm in zip(axes, SHOWN, strict=True):
        group = result.metrics.arms[arm].natural
        areas = {}
        for kind in SHOWN[arm]:
            curve = roc(result, arm, kind) if kind in group.evidence else None
            if curve is not None:
                width = 2.6 if kind in ("combined", "certainty") else 1.4
                areas[kind] = group.evidence[kind].auc.mean or 0.0
                label = f"{LABELS.get(kind, kind)}: {areas[kind]:.2f}"
                ax.plot(GRID, curve, color=COLOURS[kind], linewidth=width, label=label)
        null = guess(result, arm)
        if null is not None:
            ax.plot(GRID, null, color=REFERENCE, linestyle=":", label="a guess: 0.50")
        ax.axvline(FALSE_RATE, color="0.8", linewidth=1, zorder=0)
        ax.set(
            xscale="log",
            yscale="log",
            ylim=(0.01, 1.1),
            ylabel="share of the true accepted",
            title=f"{title(result, arm)}: {group.true} true, {group.candidates - group.true} not",
        )
        lines = sorted(ax.lines[:], key=lambda line: -_area(line.get_label()))
        named = [line for line in lines if ":" in str(line.get_label())]
        if named:
            beside = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5), "title": "area under the curve"}
            ax.legend(handles=named, labelcolor=[ink(line.get_color()) for line in named], **beside)
    axes[-1].set_xlabel("share of the false accepted")
    return figure


def _area(label: object) -> float:
    return float(str(label).split(": ")[1]) if ": " in str(label) else 0.0


@chart
def plot_evidence(result: Result[Metrics]) -> Figure:
    """AUC and precision of the twenty most trusted, natural-looking ones filled, all hollow; bars are the intervals;
    what natural-looking ones cannot reach, for want of true ones, is shaded."""
    heights = [len(kinds) for kinds in SHOWN.values()]
    figure, axes = plt.subplots(3, 2, figsize=(PAGE, 0.36 * sum(heights) + 2.1), height_ratios=heights, sharey="row")
    for row, arm in enumerate(SHOWN):
        for column, measure in enumerate(("auc", "precision_at_20")):
            _dots(axes[row, column], result, arm, measure)
        axes[row, 0].set_title(title(result, arm), loc="left")
    axes[2, 0].set_xlabel("area under the ROC curve")
    axes[2, 1].set_xlabel("true among the twenty most trusted")
    return figure


def _dots(ax: Axes, result: Result[Metrics], arm: str, measure: str) -> None:
    groups = result.metrics.arms[arm].natural, result.metrics.arms[arm].every
    kinds = SHOWN[arm][::-1]
    for group, shift, face in zip(groups, (0.13, -0.13), ("full", "none"), strict=True):
        null = getattr(group.guess, measure)
        if null is not None:
            ax.axvline(null, color=REFERENCE, linestyle=":" if face == "full" else (0, (1, 4)))
        for y, kind in enumerate(kinds):
            found = getattr(group.evidence[kind], measure) if kind in group.evidence else None
            if found is not None and found.mean is not None:
                ax.plot([found.low, found.high], [y + shift] * 2, color=COLOURS[kind], linewidth=1.5)
                ax.plot(found.mean, y + shift, "o", color=COLOURS[kind], fillstyle=face, markersize=6)
    if measure == "precision_at_20" and groups[0].attainable is not None:
        ax.axvspan(groups[0].attainable, 1.03, color="0.93", zorder=0)
    ax.set(yticks=range(len(kinds)), yticklabels=[LABELS.get(kind, kind) for kind in kinds], xlim=(0, 1.03))
    ax.yaxis.set_minor_locator(NullLocator())


def plot_trusted(result: Result[Metrics], arm: str = "decoreco", columns: int = 10) -> Figure:
    """The twenty natural-looking candidates that the practised adversary trusts most in the network of median AUC,
    black, above the training images of the largest |NCC|, grey: ✓ true, ✗ not, with the NCC; below 0 it is a
    negative."""
    x, nearest = result.array(f"trusted_{arm}"), result.array(f"trusted_{arm}_nearest")
    scores, true = result.array(f"trusted_{arm}_ncc").tolist(), result.array(f"trusted_{arm}_true").tolist()
    rows, titles = [], []
    for start in range(0, max(len(x), 1), columns):
        part = slice(start, start + columns)
        rows += [
            (f"{start + 1}–{start + len(x[part])}", x[part], "black"),
            ("nearest\ntraining image", nearest[part], "grey"),
        ]
        marks = zip(scores[part], true[part], strict=True)
        titles += [[f"{'✓' if so else '✗'} {score:.2f}".replace("-", "−") for score, so in marks], []]
    return image_rows(rows, titles)


def plot_trusted_more(result: Result[Metrics]) -> Figure:
    """The same for separation of the networks on more images."""
    return plot_trusted(result, "more")


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {
    "roc": plot_roc,
    "evidence": plot_evidence,
    "trusted": plot_trusted,
    "trusted_more": plot_trusted_more,
}
