"""Figures of appendix H: images beside their nulls, and the errors of three ways to a digit."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from companion.chapters.all_but_one.metrics import LinearMetrics, ReaderMetrics
from companion.chapters.pictures import FREE, PAGE, TRAIN, chart, image_rows, note
from companion.store.results import Result

SHOWN = 6  # images of a strip


def plot_linear_images(result: Result[LinearMetrics]) -> Figure:
    """The missing images, what each state of knowledge gives, and the nearest known image."""
    rows = (
        ("truth", "missing", "grey"),
        ("exact", "closed form", "black"),
        ("single", "from float32", "black"),
        ("wrong", "wrong about\none image", "black"),
        ("known", "nearest known\n(null)", "none"),
    )
    truth = result.array("truth")[:SHOWN]
    titles = []
    for name, _, _ in rows:
        away = (result.array(name)[:SHOWN] - truth).norm(dim=1).tolist()
        titles.append([] if name == "truth" else [_distance(each) for each in away])
    return image_rows([(words, result.array(name)[:SHOWN].clamp(0, 1), frame) for name, words, frame in rows], titles)


def _distance(value: float) -> str:
    """In few characters; what float32 cannot show is 0."""
    return f"{value:.0f}" if value >= 9.5 or value < 1e-9 else f"{value:.1g}"


def plot_digits(result: Result[ReaderMetrics]) -> Figure:
    """The missing digits, and two ways to them."""
    truth = result.array("truth")[:SHOWN]
    lines = [("missing", truth, "grey")]
    titles: list[list[str]] = [[]]
    for name, words, frame in (
        ("inverted", "retraining", "black"),
        ("network", "reconstructor", "black"),
        ("known", "nearest known\n(null)", "none"),
    ):
        x = result.array(name)[:SHOWN]
        lines.append((words, x, frame))
        titles.append([f"{error:.1g}" for error in (x - truth[: len(x)]).square().mean(1).tolist()])
    return image_rows(lines, titles)


@chart
def plot_errors(result: Result[ReaderMetrics]) -> Figure:
    """Mean squared error of every way to the missing digit (blue), and of what needs no weights (green)."""
    m = result.metrics
    rows = (
        ("retraining, the worst", max(row.mse for row in m.inversions), TRAIN),
        ("retraining, float32, the worst", max(row.single_mse for row in m.inversions), TRAIN),
        ("reconstructor network", m.network.mse, TRAIN),
        ("a matrix", m.linear.mse, TRAIN),
        ("nearest image of the shadow networks", m.nearest_prior, FREE),
        ("nearest known image", m.nearest_known, FREE),
        ("mean of its class", m.class_mean, FREE),
    )
    figure, ax = plt.subplots(figsize=(PAGE, 2.6))
    for y, (_, error, colour) in enumerate(rows):
        ax.plot(error, y, "o", ms=7, color=colour)
        note(ax, f"{error:.2g}", (error, y), (8, 0), colour)
    ax.set_yticks(range(len(rows)), [words for words, *_ in rows])
    ax.set(xscale="log", xlabel="mean squared error of a pixel", ylim=(len(rows) - 0.5, -0.5))
    ax.set_xlim(min(error for _, error, _ in rows) / 3, 30)
    return figure


LINEAR_FIGURES: dict[str, Callable[[Result[LinearMetrics]], Figure]] = {"images": plot_linear_images}
READER_FIGURES: dict[str, Callable[[Result[ReaderMetrics]], Figure]] = {"digits": plot_digits, "errors": plot_errors}
