"""Figure of appendix J: what is found by depth and by classes."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.chapters.architectures.metrics import (
    DECORECO,
    NOTHING,
    SAME_NETWORK,
    SEPARATION,
    START,
    DenseMetrics,
    DenseNet,
)
from companion.chapters.pictures import FREE, PAGE, SERIES, Colour, chart, end_labels
from companion.store.results import Result

#: attack, what is known, words, colour
LINES: list[tuple[str, str, str, Colour]] = [
    (SEPARATION, START, "separation,\nstart known", SERIES[0]),
    (SEPARATION, NOTHING, "separation,\nsmall start", SERIES[1]),
    (DECORECO, NOTHING, "DecoReco,\nsmall start", SERIES[2]),
    (SAME_NETWORK, NOTHING, "separation,\nstart unknown", SERIES[3]),
]


@chart
def plot_dense(result: Result[DenseMetrics]) -> Figure:
    """Share of the training images above NCC 0.7, against layers and against classes; the best null dotted."""
    metrics = result.metrics
    figure, axes = plt.subplots(1, 2, figsize=(PAGE, 3.2), sharey=True)
    deeper = [net for net in metrics.nets if net.classes == 2]
    classes = [net for net in metrics.nets if net.depth == 3]
    axes[0].set(xlabel="linear layers (two classes)", ylabel="share of the training images", ylim=(-0.04, 1.06))
    axes[1].set(xlabel="classes (three layers)")
    _panel(axes[0], deeper, [net.depth for net in deeper], metrics.n_train)
    end_labels(axes[1], _panel(axes[1], classes, [net.classes for net in classes], metrics.n_train))
    return figure


def _panel(ax: Axes, nets: list[DenseNet], x: list[int], n: int) -> list[tuple[float, str, Colour]]:
    """Curves, and the names of their ends."""
    ends: list[tuple[float, str, Colour]] = []
    for attack, known, words, colour in LINES:
        found = [net.of(attack, known).matches.ncc_07 / n for net in nets]
        ax.plot(x, found, "o-", color=colour)
        ends.append((found[-1], words, colour))
    null = [max(each.best_null.ncc_07 for each in net.attacks) / n for net in nets]
    ax.plot(x, null, ":", color=FREE)
    ax.set_xticks(x)
    return [*ends, (null[-1], "best null", FREE)]


DENSE_FIGURES: dict[str, Callable[[Result[DenseMetrics]], Figure]] = {"dense": plot_dense}
