"""Figures of chapter 22: what is found by depth and classes; images whose training was simulated, and what is left."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from recon.chapters.architectures.metrics import (
    DECORECO,
    EXPLAINED,
    NOTHING,
    SAME_NETWORK,
    SEPARATION,
    START,
    SURE,
    DenseMetrics,
    DenseNet,
    SimulatedMetrics,
    SimulatedNet,
)
from recon.chapters.pictures import (
    FREE,
    PAGE,
    REFERENCE,
    SERIES,
    TRAIN,
    Colour,
    activations_in,
    chart,
    end_labels,
    image_rows,
    note,
)
from recon.store.results import Result

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
    figure, axes = plt.subplots(2, 1, figsize=(PAGE, 6.6))
    _panel(axes[0], [net for net in metrics.nets if net.classes == 2], lambda net: net.depth, metrics.n_train)
    axes[0].set(xlabel="linear layers (two classes)")
    _panel(axes[1], [net for net in metrics.nets if net.depth == 3], lambda net: net.classes, metrics.n_train)
    axes[1].set(xlabel="classes (three layers)")
    return figure


def _panel(ax: Axes, nets: list[DenseNet], along: Callable[[DenseNet], int], n: int) -> None:
    x = [along(net) for net in nets]
    ends: list[tuple[float, str, Colour]] = []
    ax.set(ylim=(-0.04, 1.06), ylabel="share of the training images")
    for attack, known, words, colour in LINES:
        found = [net.of(attack, known).matches.ncc_07 / n for net in nets]
        ax.plot(x, found, "o-", color=colour)
        ends.append((found[-1], words, colour))
    null = [max(each.best_null.ncc_07 for each in net.attacks) / n for net in nets]
    ax.plot(x, null, ":", color=FREE)
    ax.set_xticks(x)
    end_labels(ax, [*ends, (null[-1], "best null", FREE)])


def plot_simulated(result: Result[SimulatedMetrics]) -> Figure:
    """Training images, and what simulated training gives of each network, beside an attack that takes it for one
    step, and the nearest to it of what nobody trained on."""
    first = result.metrics.nets[0]
    rows = [("training\nimage", result.array("truth"), "grey")]
    rows += [
        (
            in_words(net).replace("residual, ", "residual,\n") + f":\n{net.found} found",
            result.array(f"x_hat {net.name}"),
            "black",
        )
        for net in result.metrics.nets
    ]
    rows.append((f"as one step:\n{first.nulls['one step']} found", result.array(f"one_step {first.name}"), "black"))
    rows.append(("never seen", result.array("held_out"), "black"))
    return image_rows([(label, x[:8].clamp(0, 1), frame) for label, x, frame in rows])


def in_words(net: SimulatedNet) -> str:
    """Short, for figures."""
    if net.residual_net:
        return f"residual, norm {'by batch' if net.by_batch else 'fixed'}"
    written = activations_in(f"{net.activation}{', pooled' if net.pooled else ''}").replace("silu", "SiLU")
    return written if net.enough else f"{written}, few"


@chart
def plot_known(result: Result[SimulatedMetrics]) -> Figure:
    """Network by network: what is left of θ* − θ⁰ and how many images are found; the error of the pixels, and the one
    that the adversary expects."""
    metrics = result.metrics
    nets = metrics.nets
    figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE, 0.45 * len(nets) + 1.2), sharey=True)
    for y, net in enumerate(nets):
        left.plot(net.residual, y, "o", ms=7, color=TRAIN)
        note(left, f"{net.found} of {metrics.n_train}", (net.residual, y), (7, 0), TRAIN)
        right.plot(net.mse**0.5, y, "o", ms=7, color=TRAIN)
        if net.expected_error is not None:
            right.plot(net.expected_error, y, "o", ms=10, mew=1.6, mfc="none", color=SERIES[1])
    residuals = [net.residual for net in nets]
    left.set(xscale="log", xlim=(min(residuals) / 3, max(residuals) * 12), xlabel="left of θ* − θ⁰")
    left.axvline(EXPLAINED, color=REFERENCE, lw=0.8, ls=":")
    right.axvline(SURE, color=REFERENCE, lw=0.8, ls=":")
    right.set(xscale="log", xlabel="error of a pixel: dot, it is; ring, expected")
    right.xaxis.set_minor_formatter(NullFormatter())
    left.xaxis.set_minor_formatter(NullFormatter())
    left.set_yticks(range(len(nets)), [in_words(net) for net in nets])
    left.set_ylim(len(nets) - 0.4, -0.6)
    return figure


DENSE_FIGURES: dict[str, Callable[[Result[DenseMetrics]], Figure]] = {"dense": plot_dense}
SIMULATED_FIGURES: dict[str, Callable[[Result[SimulatedMetrics]], Figure]] = {
    "simulated": plot_simulated,
    "known": plot_known,
}
