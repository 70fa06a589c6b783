"""The sentences of appendix H: the linear one in closed form, the small network by practice or by
retraining."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from companion.chapters.all_but_one.experiment_reader import Metrics as ReaderMetrics
from companion.chapters.all_but_one.experiment_reader import ReaderSizes
from companion.chapters.all_but_one.story_linear import SHOWN
from companion.chapters.pictures import FREE, PAGE, TRAIN, chart, image_rows, note
from companion.store.results import Claim, Result

HALF_A_LEVEL = (1 / 510) ** 2  # of a pixel, squared


def claims(metrics: ReaderMetrics, _: ReaderSizes) -> list[Claim]:
    """Practice, and retraining."""
    return [practice_claim(metrics), retrain_claim(metrics)]


def free(metrics: ReaderMetrics) -> str:
    """What needs no weights."""
    return (
        f"nearest known image {metrics.nearest_known:.3f}, nearest image of the shadow networks "
        f"{metrics.nearest_prior:.3f} (both chosen by whoever knows the answer), mean of the class "
        f"{metrics.class_mean:.3f}, mean of all {metrics.mean:.3f}; against another network's image "
        f"{metrics.network.other:.3f}"
    )


def practice_claim(metrics: ReaderMetrics) -> Claim:
    """The reconstructor against everything that needs no weights."""
    ours = metrics.network.mse
    by_known = min(metrics.nearest_known, metrics.class_mean, metrics.mean)
    return Claim(
        "informed-reader",
        "Balle et al. 2022, code",
        "A reconstructor network, fitted to shadow networks, reads the last image off the weights.",
        "mean squared error 0.0224, absolute 0.0457 on MNIST, in somebody else's run of their notebook (epoch 190 in "
        "authors_code.ipynb of github.com/kbarbora/database-reconstruction); their own informed_adversary_mnist_"
        "reconstruction.ipynb is kept without outputs",
        f"mean squared error {ours:.4f}, absolute {metrics.network.mae:.4f}, on 8 × 8 digits, {metrics.shadows} shadow "
        f"networks that share {metrics.n_train - 1} images",
        free(metrics),
        "reproduced"
        if ours < min(by_known, metrics.nearest_prior)
        else ("partly" if ours < by_known else "not reproduced"),
        value=ours,
        null_value=min(by_known, metrics.nearest_prior),
    )


def retrain_claim(metrics: ReaderMetrics) -> Claim:
    """Gauss–Newton through training."""
    rows = metrics.inversions
    found = [row.label_right and row.mse < HALF_A_LEVEL for row in rows]
    single = [row.label_right and row.single_mse < HALF_A_LEVEL for row in rows]
    return Claim(
        "informed-retrain",
        "",
        "Whoever also knows the start and the recipe needs no practice: solving for the image by retraining gives it "
        "and its label exactly.",
        "",
        f"{sum(found)} of {len(rows)} images to half a grey level, mean squared error at most "
        f"{max(row.mse for row in rows):.0e}, in at most {max(row.steps for row in rows)} steps; from weights in "
        f"float32 {sum(single)} of {len(rows)}, at most {max(row.single_mse for row in rows):.0e}",
        f"where it starts, the mean of the class: {median(row.start for row in rows):.3f}; the reconstructor: "
        f"{metrics.network.mse:.4f}",
        "finding" if all(found) and all(single) else ("partly" if any(found) else "not reproduced"),
        value=max(row.mse for row in rows),
        null_value=metrics.network.mse,
    )


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


FIGURES: dict[str, Callable[[Result[ReaderMetrics]], Figure]] = {"digits": plot_digits, "errors": plot_errors}
