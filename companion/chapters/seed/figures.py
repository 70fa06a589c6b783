"""Figures of appendix G: what comes back against what is known of the start, and the images."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from companion.chapters.pictures import FREE, PAGE, SERIES, Colour, chart, end_labels, image_rows
from companion.chapters.seed.claims import OPTIMISERS
from companion.chapters.seed.metrics import SEPARATION, TANGENT, Metrics
from companion.store.results import Result

SHOWN = 5  # images of a strip


def in_words(noise: float | None) -> str:
    """Of an error in θ⁰."""
    return "nothing" if noise is None else ("θ⁰ itself" if noise == 0 else f"θ⁰ up to\n{noise:.0%}")


@chart
def plot_knowledge(result: Result[Metrics]) -> Figure:
    """Images above NCC 0.7, as a share, against what is known of the start: a colour for each number of training
    images, a line for each width after gradient descent, dashes after Adam; the largest of all best nulls dotted."""
    nets = result.metrics.nets
    counts = sorted({net.n_train for net in nets})
    figure, ax = plt.subplots(figsize=(PAGE, 3.4))
    ax.set(ylim=(-0.03, 1.05), ylabel="share of the training images", xlabel="what the adversary knows of the start")
    places = range(len(nets[0].of(SEPARATION)))
    ends: dict[tuple[str, int], tuple[float, str, Colour]] = {}
    for net in nets:
        colour = SERIES[counts.index(net.n_train)]
        share = [rung.matches.ncc_07 / net.n_train for rung in net.of(SEPARATION)]
        ax.plot(places, share, "o-" if net.optimiser == "gd" else "s--", color=colour, ms=4, lw=1.4)
        words = f"{net.n_train} images,\n{OPTIMISERS[net.optimiser]}"
        ends[net.optimiser, net.n_train] = (share[-1], words, colour)
    nulls = [max(net.of(SEPARATION)[k].best_null.ncc_07 / net.n_train for net in nets) for k in places]
    ax.plot(places, nulls, ":", color=FREE)
    ax.set_xticks(places, [in_words(rung.noise) for rung in nets[0].of(SEPARATION)])
    end_labels(ax, [*ends.values(), (nulls[-1], "largest null", FREE)])
    return figure


def plot_images(result: Result[Metrics], net: int = 1) -> Figure:
    """Training images of one network, and the candidate nearest to each: by what is known, and without an attack."""
    k = min(net, len(result.metrics.nets) - 1)
    found = result.metrics.nets[k]
    rows = [("training\nimage", result.array(f"truth {k}"), "grey")]
    for rung in found.of(SEPARATION):
        if rung.noise in (None, 0.1, 0.0):
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
    return image_rows([(label, (x[:SHOWN] + mean).clamp(0, 1), frame) for label, x, frame in rows])


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {"knowledge": plot_knowledge, "images": plot_images}
