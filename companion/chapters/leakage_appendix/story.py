"""Three sentences of the appendices."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from companion.chapters.base import Tensors
from companion.chapters.claims import claim
from companion.chapters.leakage_appendix.experiment import (
    Metrics,
    Sizes,
    ratio,
    relative_time,
    smaller,
)
from companion.chapters.leakage_common import by_coins, graded
from companion.chapters.pictures import (
    PAGE,
    REFERENCE,
    SERIES,
    chart,
    image_rows,
    levels,
    photographs,
)
from companion.store.kept import LEVELS
from companion.store.record import Record
from companion.store.results import Claim, Result

SAME = 1e-6  # relative, of two errors; absolute below which both are rounding
MUCH = 2.0  # times as long
# the same code at laptop took 1.3 to 3.0 times as long as the soft constraint, by processor and its
# load
SPREAD = 2.5
MOST = 0.9  # of the images


def claims(metrics: Metrics, sizes: Sizes) -> list[Claim]:
    """A, B, F."""
    return [no_bias(metrics), hard_constraint(metrics, sizes), smaller_gradients(metrics)]


def no_bias(metrics: Metrics) -> Claim:
    """Eq. (5) gives what (4) gives."""
    off = {}
    for name, row in metrics.without_bias.items():
        a, b = np.array(row.with_bias), np.array(row.without)
        off[name] = float((abs(a - b) / a.clip(SAME)).max())
    return claim(
        "leakage-no-bias",
        ours=(
            "R-GAP's errors with (5), the gradient of the bias withheld, differ from those with (4)"
            " by at most "
        )
        + ", ".join(f"{value:.0e} on {name}" for name, value in off.items())
        + "; ∂ℓ/∂z follows from the softmax",
        null="with the bias: MSE "
        + ", ".join(
            f"{np.mean(row.with_bias):.2g} on {name}" for name, row in metrics.without_bias.items()
        ),
        verdict=graded((value <= SAME for value in off.values()), "reproduced"),
        value=max(off.values()),
        null_value=SAME,
    )


def hard_constraint(metrics: Metrics, sizes: Sizes) -> Claim:
    """Appendix B: steps, and processor's time, until the error is that of the soft constraint in
    the end.

    The trust region is SciPy's, given U x = V as the paper writes it. Seconds decide only where no
    processor would turn them: "reproduced" from `MUCH` · `SPREAD` times the soft constraint's time
    on (what was spent, where the error was never reached); "not reproduced" if no more steps *and*
    at most 1 / `SPREAD` of its time were needed. In between undecided. The same solver in
    coordinates of the kernel stands beside it.
    """
    ends = metrics.constrained
    soft, hard, kernel = ends.soft, ends.as_given, ends.in_kernel
    times = relative_time(hard, soft)
    longer = MUCH * SPREAD
    sooner = hard.reached is not None and hard.steps <= soft.steps and times <= 1 / SPREAD
    return claim(
        "leakage-hard-constraint",
        ours=(
            f"truck, {sizes.constrained}: the soft constraint reaches MSE {soft.mse:.4f} in"
            f" {soft.seconds:.3g} s ({soft.steps} steps); the trust region, given U as a matrix, is"
            f" {until(hard)}; in coordinates of the kernel of U it is {until(kernel)}, with"
            f" {ends.kernel_seconds:.3g} s for their basis. What U sees of the move ends, relative"
            f" to the start, at {hard.violation:.0e}, {kernel.violation:.0e}, and"
            f" {soft.violation:.2g} (soft)"
        ),
        null=(
            f"the start: MSE {ends.start_mse:.4f}; {times:.2g} times the soft constraint's time,"
            f" and {relative_time(kernel, soft):.2g} in the kernel; processors differ by up to"
            f" {SPREAD:g} times: above {longer:g} it is longer, up to {1 / SPREAD:g} and in no more"
            " steps it is not, and between it is undecided"
        ),
        verdict="reproduced" if times > longer else ("not reproduced" if sooner else "undecided"),
        value=hard.mse,
        null_value=soft.mse,
    )


def until(end: Record) -> str:
    """When it had the soft constraint's error, and where it ended."""
    near = "never as near" if end.reached is None else f"as near after {end.reached:.3g} s"
    return f"{near} and ends at MSE {end.mse:.4f} after {end.seconds:.3g} s ({end.steps} steps)"


def smaller_gradients(metrics: Metrics) -> Claim:
    """Appendix F, on images that training did not see."""
    groups = {"the two classes": "unseen", "other classes": "other"}
    rows = [
        (name, words, row[group])
        for name, row in metrics.trained.items()
        for words, group in groups.items()
    ]
    shares = [smaller(row) for _, _, row in rows]
    tosses = [len(row.after) for _, _, row in rows]
    beyond_chance = [
        by_coins(round(share * n), n) < 0.05 for share, n in zip(shares, tosses, strict=True)
    ]
    return claim(
        "leakage-smaller-gradients",
        ours="; ".join(
            f"{name}: of {words} smaller on {smaller(row):.0%} of {len(row.after)}, in the middle "
            f"{ratio(row):.2g} times as large"
            for name, words, row in rows
        ),
        null="images it trained on: "
        + "; ".join(
            f"{name} smaller on {smaller(row.seen):.0%}, {ratio(row.seen):.2g} times"
            for name, row in metrics.trained.items()
        ),
        verdict=graded([*beyond_chance, min(shares) > MOST], "reproduced")
        if any(beyond_chance)
        else "not reproduced",
        value=float(np.mean(shares)),
        null_value=0.5,
    )


def selected(_: Metrics, arrays: Tensors) -> Tensors:
    """The truck, and what was made of it."""
    return {name: levels(x[0]) for name, x in arrays.items()}


@photographs
def plot_constrained(result: Result[Metrics]) -> Figure:
    """The truck; the minimum-norm solution, and what the three make of it; the null, a grey
    image.
    """
    truth, found = result.figure("truth"), result.metrics.constrained
    grey = torch.full(truth.shape, 0.5)
    images = [result.figure(name) for name in ("start", "soft", "as given", "in the kernel")]
    ended = {"soft": found.soft, "as given": found.as_given, "in the kernel": found.in_kernel}
    above = [f"{label}\n{end.mse:.4f}\n{end.seconds:.0f} s" for label, end in ended.items()]
    rows = [
        ("original", [truth], "grey"),
        ("Tanh", images, "black"),
        ("a grey image\n(null)", [grey], "black"),
    ]
    titles = [
        [],
        [f"least norm\n{found.start_mse:.4f}", *above],
        [f"{(truth / LEVELS - grey).square().mean():.4f}"],
    ]
    return image_rows(rows, titles, size=0.85)


@chart
def plot_training(result: Result[Metrics]) -> Figure:
    """The norm of each image's gradient before and after training."""
    trained = result.metrics.trained
    kinds = {
        "seen": ("x", "seen"),
        "unseen": ("o", "unseen,\nof the two classes"),
        "other": ("^", "of other\nclasses"),
    }
    figure, ax = plt.subplots(figsize=(PAGE, 3.8))
    for (name, row), colour in zip(trained.items(), SERIES, strict=False):
        for group, (marker, words) in kinds.items():
            norms, label = row[group], f"{name}, {words}"
            ax.plot(norms.before, norms.after, marker, color=colour, label=label, alpha=0.7)
    ax.set(xscale="log", yscale="log")
    low, high = ax.get_xlim()
    ax.axline((low, low), (high, high), ls=":", color=REFERENCE)
    ax.set(xlabel="norm of the gradient, untrained", ylabel="norm of the gradient, pre-trained")
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


FIGURES = {"constrained": plot_constrained, "training": plot_training}
