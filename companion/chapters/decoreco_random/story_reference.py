"""The sentences on the start from noise, and on three starts with few images: the paper's value, ours, the nulls and
a verdict."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from companion.chapters.decoreco_random.experiment_reference import Metrics as ReferenceMetrics
from companion.chapters.decoreco_random.experiment_reference import ReferenceTable
from companion.chapters.pictures import PAGE, SERIES, STARTS, Colour, chart, end_labels
from companion.chapters.reference_common import UNDECIDED, came_text, if_in_full
from companion.chapters.yardstick import in_words as yardsticks
from companion.chapters.yardstick import recovery
from companion.store.results import Claim, Result


def claims(metrics: ReferenceMetrics, _: ReferenceTable) -> list[Claim]:
    """The published recipe on few images: from which start it finds them.

    "The scale decides" holds if images are recovered from the tuned scale (`companion.chapters.yardstick`) and from
    N(0, 1) are not; "partly" if the yardsticks disagree.  Undecided unless all arms ran with the published budget,
    converged or not.
    """
    random, tuned, partition = (metrics.arm(start) for start in ("random", "tuned", "partition"))
    arms = {"N(0, 1)": random, "its tuned scale": tuned, "other images": partition}
    there, here = (recovery(arm, arm.competition.ncc_06, metrics.n_train) for arm in (random, tuned))
    verdict_of = "finding" if here.shown and not there.shown else "not reproduced" if here.excluded else "partly"
    ours, null = yardsticks(tuned, tuned.competition.ncc_06, metrics.n_train)
    for arm in arms.values():
        verdict_of = if_in_full(arm, verdict_of) if verdict_of != UNDECIDED else verdict_of
    return [
        Claim(
            "decoreco-reference-start",
            "",
            "With few images the published recipe finds training images, and the scale of its start decides how many.",
            "",
            "SSIM above 0.4: "
            + ", ".join(f"{arm.matches.ssim_04} from {name}" for name, arm in arms.items())
            + f"; from its tuned scale {ours}; from N(0, 1) {came_text(random)}",
            null,
            verdict_of,
            value=tuned.matches.ssim_04,
            null_value=tuned.best_null.ssim_04,
        )
    ]


START_LABELS = {"random": "N(0, 1)", "tuned": "tuned scale", "partition": "other images"}
START_COLOURS = {"random": STARTS["random"], "tuned": SERIES[0], "partition": STARTS["partition"]}


@chart
def plot_descent(result: Result[ReferenceMetrics]) -> Figure:
    """Layer 1's energy, as a share of its norm, and how far the images moved, against the steps of every run."""
    figure, (above, below) = plt.subplots(2, 1, figsize=(PAGE, 5.2), sharex=True)
    energies: list[tuple[float, str, Colour]] = []
    moved: list[tuple[float, str, Colour]] = []
    for arm in result.metrics.arms:
        key, style = f"{arm.start}_{arm.precision}", "-" if arm.precision == "float32" else ":"
        trace, steps = result.array(f"trace_{key}"), result.array(f"trace_steps_{key}")
        energy = trace[:, 0] * (arm.start_share[0] / trace[0, 0])
        for ax, values, ends in ((above, energy, energies), (below, trace[:, -1], moved)):
            ax.plot(steps[values > 0], values[values > 0], style, color=START_COLOURS[arm.start])
            if style == "-":  # the same start in bfloat16 lies on its curve
                ends.append((float(values[-1]), START_LABELS[arm.start], START_COLOURS[arm.start]))
    truth = result.metrics.net.truth_share[0]
    above.axhline(truth, color=STARTS["truth"], ls="--")
    above.set(xscale="log", yscale="log", ylabel="layer 1: energy / ‖θ₁‖²")
    below.set(yscale="log", xlabel="step", ylabel="moved, relative\nto the start")
    end_labels(above, [*energies, (truth, "the training images", STARTS["truth"])])
    end_labels(below, moved)
    return figure


FIGURES: dict[str, Callable[[Result[ReferenceMetrics]], Figure]] = {"descent": plot_descent}
