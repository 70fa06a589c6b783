"""Fig. 5: results beside their nearest training images; and the recipe's way down from every start."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from companion.chapters.decoreco_random.metrics import Metrics, ReferenceMetrics
from companion.chapters.pictures import PAGE, SERIES, STARTS, Colour, chart, count_label, end_labels, image_rows, shown
from companion.store.results import Result
from recon.scoring.matching import nearest


def plot_random(result: Result[Metrics], n: int = 8) -> Figure:
    """Fig. 5: the results of the published recipe that are most like a training image, with how many are above NCC 0.6,
    and how many of the best null; above them their starts, below them those training images."""
    train, x_hat = result.array("x_train"), result.array("x_hat_random")
    best = nearest(train, x_hat, "ncc")
    picked = best.score.argsort(descending=True)[:n]
    found = best.index[picked]
    return image_rows(
        [
            ("its start", shown(result, result.array("x_init_random")[found]), "none"),
            (count_label("published\nrecipe", result.metrics.variants.reference), shown(result, x_hat[found]), "black"),
            ("training\nimage", shown(result, train[picked]), "grey"),
        ],
        [[], [f"{score:.2f}" for score in best.score[picked]], []],
    )


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


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {"rows": plot_random}
REFERENCE_FIGURES: dict[str, Callable[[Result[ReferenceMetrics]], Figure]] = {"descent": plot_descent}
