"""Appendix A's sentence, with our value and what it is compared with."""

from operator import itemgetter

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from companion.chapters.claims import claim
from companion.chapters.kkt_training.experiment import Metrics, Sizes
from companion.chapters.pictures import PAGE, REFERENCE, SERIES, Colour, chart, end_labels, note
from companion.store.results import Claim, Result, graded


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """Whether more training always brings the images nearer to a KKT point."""
    end = metrics.loss_scaled
    later = end.observed[len(end.observed) // 2 :]
    residuals = {"smoothed": "kkt_residual_smoothed", "hard": "kkt_residual"}
    least = {name: min(later, key=itemgetter(field)) for name, field in residuals.items()}
    rises = [end[field] / least[name][field] for name, field in residuals.items()]
    return [
        claim(
            "kkt-residual-rises",
            {"end": end, **least},
            verdict=graded(*(rise >= 1.05 for rise in rises)),
            value=min(rises),
            null_value=1.0,
        )
    ]


@chart
def plot_residual(result: Result[Metrics]) -> Figure:
    """What the training images leave of layer 1 against steps: both methods, with the hard ReLU′
    and the smoothed.
    """
    metrics = result.metrics
    figure, ax = plt.subplots(figsize=(PAGE, 3.4))
    ends: list[tuple[float, str, Colour]] = []
    for label, run, colour in (
        ("loss-scaled", metrics.loss_scaled, SERIES[0]),
        ("gradient descent", metrics.gradient_descent, SERIES[1]),
    ):
        for field, kind, style in (
            ("kkt_residual", "hard", "o-"),
            ("kkt_residual_smoothed", "smoothed", "s:"),
        ):
            left = [100 * row[field] for row in run.observed]
            ax.plot([row.step for row in run.observed], left, style, color=colour, markersize=4)
            ends.append((left[-1], f"{label},\n{kind} ReLU′", colour))
    ax.set(
        xscale="log", xlabel="step", ylabel="left of the first layer's norm, in %", ylim=(0, 105)
    )
    if (reached := metrics.at_reference_loss) is not None:
        ax.axvline(reached.step, color=REFERENCE, linestyle="--")
        place, words = (reached.step, 0.12), "a loss of\n4e-6"
        note(ax, words, place, (-5, 0), REFERENCE, "right", high=True)
    end_labels(ax, ends)
    return figure


FIGURES = {"residual": plot_residual}
