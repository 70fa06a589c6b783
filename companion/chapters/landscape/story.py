"""§4.5's sentences on the bilevel landscape and whether its solutions are connected; and on
DecoReco's, by the recipe that they are about, undecided unless it ran with its full budget.
"""

from itertools import pairwise
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
import torch
from matplotlib.figure import Figure

from companion.chapters.base import Tensors
from companion.chapters.claims import claim
from companion.chapters.landscape.experiment_bilevel import FREE, BilevelSizes
from companion.chapters.landscape.experiment_bilevel import Metrics as BilevelMetrics
from companion.chapters.landscape.experiment_recipe import Metrics as RecipeMetrics
from companion.chapters.landscape.experiment_recipe import RecipeSizes
from companion.chapters.landscape.shared import SETS
from companion.chapters.pictures import (
    PAGE,
    STARTS,
    chart,
    end_labels,
    heatmap,
    image_rows,
    levels,
    photographs,
)
from companion.store.record import Record
from companion.store.results import Claim, Result, graded, verdict

ROUNDING = 1e-10  # relative error of a classifier below which it counts as the same, in float64
# longest step of a curve, relative to the straight segment's, below which neighbours stay
# neighbours
STRIDE = 1.5
FIFTH = 0.8  # how much smaller the bilevel distances have to be
TENTH = 0.1  # how much steeper its line
CALLED = {"truth": "training", "partition": "partition", "random": "noise"}


def claims(metrics: BilevelMetrics, _: BilevelSizes) -> list[Claim]:
    """The bilevel landscape, each sentence holding where its lead is above 0, the starts' own its
    null; and whether its solutions are connected.
    """
    distance = metrics.distance
    below = [i for i, at in enumerate(metrics.lambda1) if at < 0.5]
    words = {
        **metrics,
        "at_truth": corner(distance, -1),
        "at_partition": corner(distance, 0),
        "crossing": crossing_text(metrics),
        "to_noise": distance.truth[-1][::-1],
    }
    leads = {
        "corners": lambda far: min(
            lead(corner(far, -1), "truth"), lead(corner(far, 0), "partition")
        ),
        "crossing": lambda far: min(far.truth[i][-1] - far.partition[i][-1] for i in below),
        "noise": lambda far: min(a - b for a, b in pairwise(far.truth[-1])),
    }
    return [
        *(
            claim(
                f"landscape-bilevel-{name}",
                words,
                verdict=verdict(ahead(distance) > 0),
                value=ahead(distance),
                null_value=ahead(metrics.start_distance),
                margin=ahead(distance),
            )
            for name, ahead in leads.items()
        ),
        _connected(metrics.connection),
    ]


def _connected(connection: Record) -> Claim:
    """Without bounds, where the theorem says so: at rounding error, and without a jump."""
    routes = connection.only(*FREE).values()
    applies = connection.level > connection.sufficient
    holds = [applies and same_classifier(route) for route in routes]
    theorem = f"nω‖θ*‖² = {connection.level:.1f}, more than {connection.sufficient:.2f} suffices; "
    words = {
        "theorem": theorem if applies else "",
        "error": max(route.error for route in routes),
        "step": max(route.largest_step for route in routes),
        "straight": min(route.straight_error for route in routes),
    }
    return claim(
        "landscape-bilevel-connected",
        words,
        verdict=graded(*holds),
        value=words["error"],
        null_value=words["straight"],
    )


def same_classifier(route: Record) -> bool:
    """On every frame, and without a jump: a double step would then be little longer than a single
    one.
    """
    steady = route.largest_double_step > 0.75 * route.largest_step
    return route.error < ROUNDING and route.largest_step < STRIDE and steady


def lead(distances: Record, target: str) -> float:
    """How much nearer they are to the set `target` than to the nearest other."""
    others = [value for name, value in distances.items() if name != target]
    return float(min(others) - distances[target])


def corner(distance: Record, i: int) -> Record:
    """From (1, 1) for −1, and from (0, 1) for 0."""
    return Record({name: distance[name][i][-1] for name in SETS})


def crossing_text(metrics: Record) -> str:
    """Where, along λ₁ at λ₂ = 1, the truth becomes nearer than the partition, by linear
    interpolation.
    """
    gap = np.subtract(metrics.distance.truth, metrics.distance.partition)[:, -1]
    swaps = (gap[:-1] > 0) & (gap[1:] <= 0)
    if not swaps.any():
        return "they do not swap"
    before = swaps.argmax()
    ends = [before + 1, before]
    return f"they swap at λ₁ = {np.interp(0, gap[ends], np.array(metrics.lambda1)[ends]):.2f}"


@heatmap
def plot_maps(result: Result[BilevelMetrics]) -> Figure:
    """Fig. 10a: distances of the bilevel end points to the nearest image of each set; below, of the
    starts themselves. λ₁ to the right, λ₂ upwards; a cell whose search had not converged in every
    seed has a white corner.
    """
    metrics = result.metrics
    figure, axes = plt.subplots(2, 3, figsize=(PAGE, 5.5))
    rows = {"end": metrics.distance, "starting images": metrics.start_distance}
    ticks = [f"{value:g}" for value in metrics.lambda1]
    how = {
        "vmin": 0,
        "vmax": max(float(np.max(distance[name])) for distance in rows.values() for name in SETS),
        "cmap": "viridis",
        "annot": True,
        "fmt": ".1f",
        "annot_kws": {"fontsize": 8},
        "cbar": False,
        "square": True,
        "xticklabels": ticks,
        "yticklabels": ticks,
    }
    for row, (label, distance) in zip(axes, rows.items(), strict=True):
        for ax, name in zip(row, SETS, strict=True):
            sns.heatmap(np.array(distance[name]).T, ax=ax, **how)  # [λ₂][λ₁]
            ax.invert_yaxis()
            ax.tick_params(length=0, rotation=0)
            ax.set(title=f"to the nearest\n{CALLED[name]} image", xlabel="λ₁ (partition → truth)")
        row[0].set_ylabel(f"{label}\nλ₂ (noise → image)")
    for i, j in np.argwhere(np.array(metrics.cells_converged) < 1):
        for ax in axes[0]:
            ax.fill([i, i + 0.25, i], [j + 1, j + 1, j + 0.75], color="white")
    return figure


def recipe_claims(metrics: RecipeMetrics, _: RecipeSizes) -> list[Claim]:
    """The corners, where truth and partition swap, the neighbours of the truth, and the way to
    noise.
    """
    changes = [-cell.fell_layer_1 for cell in metrics.cells]
    came = f"{metrics.steps:,} of {metrics.published_steps:,} steps: undecided"
    if in_full := metrics.steps >= metrics.published_steps:
        came = (
            f"all {metrics.steps:,} published steps, their length by the number of candidates;"
            f" over the last tenth layer 1's energy changed by {min(changes):+.1%} to"
            f" {max(changes):+.1%}"
        )
    judged = {
        "decoreco-corners": _corners(metrics),
        "decoreco-crossing": _crossing(metrics),
        "near-truth": _near_truth(metrics),
        "degrades": _degrades(metrics),
    }
    return [
        claim(
            f"landscape-{name}",
            {**metrics, **words, "came": came},
            verdict="undecided" if holds is None or not in_full else verdict(holds),
            value=value,
            null_value=begun,
            margin=value,
        )
        for name, (words, holds, value, begun) in judged.items()
    ]


#: its words' values, whether it holds, None where that cannot be told, its number, and the starts'
Judged = tuple[dict[str, Any], bool | None, float, float]


def _corners(metrics: RecipeMetrics) -> Judged:
    corners = {"truth": metrics.at(1, 1), "partition": metrics.at(0, 1)}
    least, begun = (
        min(lead(cell[at], name) for name, cell in corners.items()) for at in ("end", "start")
    )
    return corners, least > 0, least, begun


def _crossing(metrics: RecipeMetrics) -> Judged:
    line = metrics.to_partition()
    least, begun = (
        min(cell[at].truth - cell[at].partition for cell in line if cell.lambda1 < 0.5)
        for at in ("end", "start")
    )
    places = "; ".join(
        f"{cell.end.truth:.1f} and {cell.end.partition:.1f} (λ₁ = {cell.lambda1:g})"
        for cell in line
    )
    return {"places": places, "begun": begun}, least > 0, least, begun


def _near_truth(metrics: RecipeMetrics) -> Judged:
    """Smaller by a fifth at both neighbours of (1, 1); at (1, 1) itself the bilevel attack has
    nothing to do.
    """
    beside = [metrics.at(1, 0.75), metrics.at(0.75, 1)]
    gain = min(FIFTH * cell.end.truth - cell.bilevel.truth for cell in beside)
    pairs = [f"{cell.end.truth:.1f} against {cell.bilevel.truth:.1f}" for cell in beside]
    begun = min((FIFTH - 1) * cell.start.truth for cell in beside)
    return {"truth": metrics.at(1, 1), "beside": beside, "pairs": pairs}, gain > 0, gain, begun


def _degrades(metrics: RecipeMetrics) -> Judged:
    """Faster: by a tenth. A result that is no nearer to the truth than held-out images has none to
    lose.
    """
    noise = metrics.at(1, 0)
    truth = metrics.at(1, 1)
    grows = {at: noise[at].truth - truth[at].truth for at in ("end", "bilevel", "start")}
    faster = grows["bilevel"] - grows["end"]
    holds = None
    lost = ""
    if truth.end.truth < metrics.null_distance_to_truth:
        holds = faster > TENTH * grows["bilevel"]
    else:
        lost = "; at (1, 1) the truth is lost already: undecided"
    return {**grows, "lost": lost}, holds, faster, grows["bilevel"] - grows["start"]


@chart
def plot_recipe(result: Result[RecipeMetrics]) -> Figure:
    """Fig. 11 by the published recipe: along λ₁ at λ₂ = 1, distances of the ends to training images
    and to the partition; dotted: of the starts.
    """
    figure, ax = plt.subplots(figsize=(PAGE, 3.0))
    line = result.metrics.to_partition()
    lambdas = [cell.lambda1 for cell in line]
    ends = []
    for name in ("truth", "partition"):
        end, start = ([cell[which][name] for cell in line] for which in ("end", "start"))
        ax.plot(lambdas, end, color=STARTS[name], marker="o", markersize=5)
        ax.plot(lambdas, start, color=STARTS[name], linestyle=":")
        ends.append((end[-1], f"to the nearest\n{CALLED[name]} image", STARTS[name]))
    ax.set(
        xlabel="λ₁ of the starting images, from the partition to the truth",
        ylabel="mean L2 distance",
        ylim=(0, None),
    )
    ax.set_xticks(lambdas, [f"{value:g}" for value in lambdas])
    end_labels(ax, ends)
    return figure


#: what the images are called -> where they begin
PLACES = {"truth": (1, 1), "partition": (0, 1), "random": (1, 0)}


def recipe_selected(metrics: RecipeMetrics, arrays: Tensors) -> Tensors:
    """Ten images, half of either class, where the recipe starts and ends; cut to [0, 1]."""
    cells = [(cell.lambda1, cell.lambda2) for cell in metrics.cells]
    last = len(arrays["truth"])
    picked = torch.tensor([*range(5), *range(last - 5, last)])
    images = Tensors()
    for name, place in PLACES.items():
        images[f"{name}.start"] = levels(arrays[name][picked])
        images[f"{name}.end"] = levels(arrays["x_hat"][cells.index(place)][picked])
    return images


@photographs
def plot_recipe_images(result: Result[RecipeMetrics]) -> Figure:
    """Where the recipe begins and ends, from the training images, the partition and noise."""
    rows = []
    for name in PLACES:
        rows += [
            (f"start:\n{CALLED[name]}", result.figure(f"{name}.start"), "none"),
            ("end", result.figure(f"{name}.end"), "recovered"),
        ]
    return image_rows(rows)


FIGURES = {"maps": plot_maps}
