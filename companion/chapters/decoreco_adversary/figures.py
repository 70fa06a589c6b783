"""What the adversary can tell, and what they trust most."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from companion.chapters.decoreco_adversary.discrimination import TRUSTED
from companion.chapters.decoreco_adversary.metrics import Group, Metrics
from companion.chapters.pictures import PAGE, REFERENCE, SERIES, chart, image_rows, note
from companion.store.results import Result

#: what is drawn of each attack: its title, and the kinds of evidence in words
SHOWN = {
    "decoreco": (
        "DecoReco",
        {
            "edges": "sparse edges: looks alone",
            "combined": "stationarity, practised",
            "separated": "separation finds it too",
        },
    ),
    "more": ("separation", {"edges": "sparse edges: looks alone", "certainty": "certainty, practised"}),
}


@chart
def plot_told(result: Result[Metrics]) -> Figure:
    """Share of true ones among the twenty natural-looking candidates that each kind of evidence trusts most, with its
    interval; dotted, a guess; dashed, what can be reached where there are fewer than twenty true ones."""
    heights = [len(kinds) for _, kinds in SHOWN.values()]
    figure, axes = plt.subplots(len(SHOWN), 1, figsize=(PAGE, 3.5), height_ratios=heights, sharex=True)
    for ax, (arm, (attack, kinds)) in zip(axes, SHOWN.items(), strict=True):
        _told(ax, result.metrics.arms[arm].natural, kinds)
        ax.set_title(f"{attack}, {result.metrics.arms[arm].n_train} images in each network", loc="left")
    axes[-1].set_xlabel(f"share of true ones among the {TRUSTED} most trusted")
    return figure


def _told(ax: Axes, group: Group, kinds: dict[str, str]) -> None:
    for y, kind in enumerate(reversed(kinds)):
        found = group.evidence[kind].precision_at_20 if kind in group.evidence else None
        if found is not None and found.mean is not None and found.low is not None and found.high is not None:
            ax.plot([found.low, found.high], [y, y], color=SERIES[2], linewidth=1.5)
            ax.plot(found.mean, y, "o", color=SERIES[2], markersize=6)
    ax.set(yticks=range(len(kinds)), yticklabels=[*reversed(kinds.values())], xlim=(0, 1.03), ylim=(-0.5, len(kinds)))
    ax.yaxis.set_minor_locator(NullLocator())
    for value, style, words in ((group.guess.precision_at_20, ":", "a guess"), (group.attainable, "--", "at best")):
        if value is not None and value < 1:
            ax.axvline(value, color=REFERENCE, linestyle=style, linewidth=1)
            note(ax, words, (value, len(kinds) - 0.3), (-4, 0), REFERENCE, ha="right")


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
    "told": plot_told,
    "trusted": plot_trusted,
    "trusted_more": plot_trusted_more,
}
