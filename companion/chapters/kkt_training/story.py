"""Appendix A's sentence, with our value and what it is compared with."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from companion.chapters.claims import claim
from companion.chapters.kkt_training.experiment import Metrics, Sizes
from companion.chapters.pictures import PAGE, REFERENCE, SERIES, Colour, chart, end_labels, note
from companion.store.results import Claim, Result


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """Whether more training always brings the images nearer to a KKT point."""
    ours = metrics.loss_scaled
    later = ours.observed[len(ours.observed) // 2 :]
    smooth = min(later, key=lambda row: row.kkt_residual_smoothed)
    hard = min(later, key=lambda row: row.kkt_residual)
    rises = (
        ours.kkt_residual_smoothed / smooth.kkt_residual_smoothed,
        ours.kkt_residual / hard.kkt_residual,
    )
    rising = [rise >= 1.05 for rise in rises]
    return [
        claim(
            "kkt-residual-rises",
            ours=(
                f"smoothed: {smooth.kkt_residual_smoothed:.1%} at step {smooth.step},"
                f" {ours.kkt_residual_smoothed:.1%} at step {ours.step}; hard:"
                f" {hard.kkt_residual:.1%} at step {hard.step}, {ours.kkt_residual:.1%} at the end"
            ),
            null="no images: 100%; no rise: 1",
            verdict="finding" if all(rising) else "partly" if any(rising) else "not reproduced",
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
        steps = [row.step for row in run.observed]
        for kind, style in (("", "o-"), ("_smoothed", "s:")):
            left = [100 * getattr(row, f"kkt_residual{kind}") for row in run.observed]
            ax.plot(steps, left, style, color=colour, markersize=4)
            ends.append((left[-1], f"{label},\n{'smoothed' if kind else 'hard'} ReLU′", colour))
    ax.set(
        xscale="log", xlabel="step", ylabel="left of the first layer's norm, in %", ylim=(0, 105)
    )
    if (reached := metrics.at_reference_loss) is not None:
        ax.axvline(reached.step, color=REFERENCE, linestyle="--")
        note(
            ax,
            "the reference's\nfinal loss",
            (reached.step, 0.12),
            (-5, 0),
            REFERENCE,
            "right",
            high=True,
        )
    end_labels(ax, ends)
    return figure


FIGURES = {"residual": plot_residual}
