"""Figures of chapter 19: what comes back against what is known; the images; the law."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recon.chapters.pictures import (
    FREE,
    PAGE,
    REFERENCE,
    SERIES,
    TRAIN,
    Colour,
    chart,
    end_labels,
    image_rows,
)
from recon.chapters.seed.claims import OPTIMISERS
from recon.chapters.seed.metrics import (
    FEATURES,
    HIDDEN,
    SEPARATION,
    TANGENT,
    DistributionMetrics,
    LawMetrics,
    Metrics,
    Net,
)
from recon.store.results import Result


def ladder(net: Net) -> list[str]:
    """The amounts of knowledge in words, from nothing to θ⁰."""
    return [in_words(rung.noise) for rung in net.of(SEPARATION)]


def in_words(noise: float | None) -> str:
    """Of an error in θ⁰."""
    return "nothing" if noise is None else ("θ⁰" if noise == 0 else f"θ⁰ up to\n{noise:.0%}")


DRAWN = "its\ndistribution\nonly"  # a tick of its own, after that of who knows nothing


@chart
def plot_knowledge(result: Result[Metrics], drawn: Result[DistributionMetrics] | None = None) -> Figure:
    """Images above NCC 0.7, as a share, against what is known: a panel for each number of training images; the best
    null dotted, the tangent attack as crosses.  drawn: the same networks to who knows how the start was drawn, as
    diamonds, their best null as a dash."""
    nets = result.metrics.nets
    told = drawn.metrics.nets if drawn else []
    counts = sorted({net.n_train for net in nets})
    figure, axes = plt.subplots(
        len(counts), 1, figsize=(PAGE, 1 + 2.5 * len(counts)), sharex=True, squeeze=False, layout="constrained"
    )
    words = ladder(nets[0])
    if told:
        words.insert(1, DRAWN)
    kinds = sorted({(net.optimiser, net.width) for net in nets}, reverse=True)
    for ax, n in zip(axes[:, 0], counts, strict=True):
        ends: list[tuple[float, str, Colour]] = []
        for net in (net for net in nets if net.n_train == n):
            colour = SERIES[kinds.index((net.optimiser, net.width)) % len(SERIES)]
            share_line(ax, net, words, colour)
            for same in told:
                if (same.n_train, same.width, same.optimiser) == (net.n_train, net.width, net.optimiser):
                    ax.plot(1, same.distribution.best_null.ncc_07 / n, "_", ms=14, mew=1.5, color=colour)
                    ax.plot(1, same.distribution.matches.ncc_07 / n, "D", ms=7, mec="white", color=colour, zorder=3)
            last = net.of(SEPARATION)[-1].matches.ncc_07 / n
            ends.append((last, f"width {net.width},\n{OPTIMISERS[net.optimiser]}", colour))
        ax.set(ylim=(-0.03, 1.05), ylabel="share found", title=f"{n} training images")
        end_labels(ax, ends)
    axes[-1, 0].set_xticks(range(len(words)), words)
    axes[-1, 0].set_xlabel("what the adversary knows of the start")
    return figure


def share_line(ax: Axes, net: Net, words: list[str], colour: Colour) -> None:
    """One network's line, its null and its crosses."""
    rungs = net.of(SEPARATION)
    places = [words.index(in_words(rung.noise)) for rung in rungs]
    ax.plot(places, [rung.matches.ncc_07 / net.n_train for rung in rungs], "o-", color=colour)
    ax.plot(places, [rung.best_null.ncc_07 / net.n_train for rung in rungs], ":", color=colour)
    for rung in net.of(TANGENT):
        where = words.index(in_words(rung.noise))
        ax.plot(where, rung.matches.ncc_07 / net.n_train, "x", ms=9, mew=2, color=colour)


def plot_images(result: Result[Metrics], net: int = 1) -> Figure:
    """Training images of one network, and the candidate nearest to each: by what is known, and without an attack."""
    k = min(net, len(result.metrics.nets) - 1)
    found = result.metrics.nets[k]
    rows = [("training\nimage", result.array(f"truth {k}"), "grey")]
    for rung in found.of(SEPARATION):
        if rung.noise in (None, 1.0, 0.1, 0.0):
            words = in_words(rung.noise).replace("\n", " ")
            rows.append(
                (f"{words}:\n{rung.matches.ncc_07} found", result.array(f"{SEPARATION} {rung.noise} {k}"), "black")
            )
    for rung in found.of(TANGENT)[-1:]:
        rows.append(
            (f"tangents, θ⁰:\n{rung.matches.ncc_07} found", result.array(f"{TANGENT} {rung.noise} {k}"), "black")
        )
    rows.append(("nearest image\nnever seen", result.array(f"null {k}"), "black"))
    mean = result.array(f"mean {k}")
    return image_rows([(label, (x + mean).clamp(0, 1), frame) for label, x, frame in rows])


@chart
def plot_law(result: Result[LawMetrics]) -> Figure:
    """Mean error of the training images against parameters per unknown: random features, and one hidden layer."""
    figure, axes = plt.subplots(2, 1, figsize=(PAGE, 6.4))
    for ax, model in zip(axes, (FEATURES, HIDDEN), strict=True):
        cells = result.metrics.of(model)
        unmixed = [cell.separation_error for cell in cells if cell.separation_error is not None]
        lines: list[tuple[list[float], str, Colour]] = [([cell.error for cell in cells], "tangents", TRAIN)]
        lines += [(unmixed, "separation", SERIES[1])] if unmixed else []
        lines.append(([cell.null_error for cell in cells], "best that costs\nnothing (null)", FREE))
        x = [cell.equations_per_unknown for cell in cells]
        for values, _, colour in lines:
            ax.plot(x, values, "o-", color=colour)
        ax.set(xscale="log", ylim=(-0.03, 1.05), ylabel="1 − NCC², mean", title=model)
        ax.axvline(1, color=REFERENCE, lw=0.8, ls=":")
        end_labels(ax, [(values[-1], label, colour) for values, label, colour in lines])
    axes[-1].set(xlabel="parameters for each unknown, p / (d n)")
    return figure


@chart
def plot_distribution(result: Result[DistributionMetrics]) -> Figure:
    """Network by network: share of the images above NCC 0.7 by who knows nothing (ring) and by who knows what the start
    was drawn from (dot), and the best null of the latter (line)."""
    nets = result.metrics.nets
    figure, ax = plt.subplots(figsize=(PAGE, 0.42 * len(nets) + 1.3))
    for y, net in enumerate(nets):
        none, told, null = (
            count / net.n_train
            for count in (
                net.nothing.matches.ncc_07,
                net.distribution.matches.ncc_07,
                net.distribution.best_null.ncc_07,
            )
        )
        ax.plot([none, told], [y, y], "-", color=REFERENCE, lw=1)
        ax.plot(none, y, "o", ms=9, mew=1.6, mfc="none", color=SERIES[1], label="" if y else "nothing known")
        ax.plot(told, y, "o", ms=5, color=TRAIN, label="" if y else "distribution known")
        ax.plot(null, y, "|", ms=12, mew=2, color=FREE, label="" if y else "best null")
    words = [f"{net.n_train} images, width {net.width},\n{OPTIMISERS[net.optimiser]}" for net in nets]
    ax.set_yticks(range(len(nets)), words)
    ax.set(xlim=(-0.03, 1.03), ylim=(len(nets) - 0.5, -0.5), xlabel="share found")
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {"knowledge": plot_knowledge, "images": plot_images}
DISTRIBUTION_FIGURES: dict[str, Callable[[Result[DistributionMetrics]], Figure]] = {"distribution": plot_distribution}
LAW_FIGURES: dict[str, Callable[[Result[LawMetrics]], Figure]] = {"law": plot_law}
