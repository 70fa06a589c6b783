"""§4.5's sentences on the bilevel landscape and whether its solutions are connected; on DecoReco's,
by the recipe that they are about, undecided unless it ran with its full budget; and the conjecture
on both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
import torch
from matplotlib.figure import Figure

from companion.chapters.base import Tensors
from companion.chapters.claims import claim
from companion.chapters.landscape.experiment_bilevel import FREE, BilevelSizes
from companion.chapters.landscape.experiment_bilevel import Metrics as BilevelMetrics
from companion.chapters.landscape.experiment_decoreco import DecorecoSizes
from companion.chapters.landscape.experiment_decoreco import Metrics as DecorecoMetrics
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
from companion.store.results import Claim, Result, verdict

ROUNDING = 1e-10  # relative error of a classifier below which it counts as the same, in float64
# longest step of a curve, relative to the straight segment's, below which neighbours stay
# neighbours
STRIDE = 1.5
# how much smaller the bilevel distances have to be; how much steeper its line
FIFTH, TENTH = 0.8, 0.1
CALLED = {"truth": "training", "partition": "partition", "random": "noise"}


def claims(metrics: BilevelMetrics, _: BilevelSizes) -> list[Claim]:
    """The bilevel landscape, and whether its solutions are connected."""
    truth, partition = metrics.distance.truth, metrics.distance.partition
    null = f"held-out images: {metrics.null_distance_to_truth:.1f} to truth"
    at_corners = f"(1, 1): {truth[-1][-1]:.1f} to truth, {partition[-1][-1]:.1f} to partition; "
    at_corners += f"(0, 1): {truth[0][-1]:.1f} and {partition[0][-1]:.1f}"
    below = [i for i, value in enumerate(metrics.lambda1) if value < 0.5]

    def ahead(name: str, lead: Callable[[Record], float], **words: str) -> Claim:
        """A sentence that holds where its lead is above 0; the null: the starts' own."""
        value = lead(metrics.distance)
        return claim(
            f"landscape-bilevel-{name}",
            verdict=verdict(value > 0),
            value=value,
            null_value=lead(metrics.start_distance),
            margin=value,
            **words,
        )

    def before_partition(distance: Record) -> float:
        return min(distance.truth[i][-1] - distance.partition[i][-1] for i in below)

    def grows(distance: Record) -> float:
        return min(a - b for a, b in pairwise(distance.truth[-1]))

    return [
        ahead(
            "corners",
            corner_lead,
            ours=at_corners,
            null=null,
        ),
        ahead(
            "crossing",
            before_partition,
            ours=crossing_text(metrics),
            null="starts swap at 0.5",
        ),
        ahead(
            "noise",
            grows,
            ours="from λ₂ = 1 to 0: " + ", ".join(f"{value:.1f}" for value in reversed(truth[-1])),
            null=null,
        ),
        _connected(metrics.connection),
    ]


def _connected(connection: Record) -> Claim:
    """Without bounds, where the theorem says so: at rounding error, and without a jump."""
    applies, routes = (
        connection.level > connection.sufficient,
        list(connection.only(*FREE).values()),
    )
    holds = [applies and same_classifier(route) for route in routes]
    first = (
        f"nω‖θ*‖² = {connection.level:.1f}, more than {connection.sufficient:.2f} suffices; "
        if applies
        else ""
    )
    error, straight = (
        max(route.error for route in routes),
        min(route.straight_error for route in routes),
    )
    return claim(
        "landscape-bilevel-connected",
        ours=(
            f"{first}highest error of the retrained classifier on the curves {error:.0e}, longest"
            f" step {max(route.largest_step for route in routes):.2f} of the straight segment's"
        ),
        null=f"straight segments: {straight:.2g} at least",
        verdict="finding" if all(holds) else of_all(holds),
        value=error,
        null_value=straight,
    )


def same_classifier(route: Record) -> bool:
    """On every frame, and without a jump: a double step would then be little longer than a single
    one.
    """
    steady = route.largest_double_step > 0.75 * route.largest_step
    return route.error < ROUNDING and route.largest_step < STRIDE and steady


def of_all(holds: list[bool]) -> str:
    """ "partly" where some hold and others do not."""
    return verdict(all(holds)) if all(holds) or not any(holds) else "partly"


def lead(distances: Record, target: str) -> float:
    """How much nearer they are to the set `own` than to the nearest other."""
    return float(
        min(value for name, value in distances.items() if name != target) - distances[target]
    )


def corner_lead(distance: Record) -> float:
    """How much nearer (1, 1) is to the truth, and (0, 1) to the partition, than to any other set;
    the lesser.
    """
    truth, partition = (Record({name: distance[name][i][-1] for name in SETS}) for i in (-1, 0))
    return min(lead(truth, "truth"), lead(partition, "partition"))


def crossing_text(metrics: Record) -> str:
    """Where truth and partition swap, over seeds."""
    at = metrics.crossing.truth_partition
    if at.mean is None:
        return f"they do not swap in {at.per_seed.count(None)} of {len(at.per_seed)} seeds"
    spread = "" if at.sd is None else f" ± {at.sd:.2f}"
    return f"they swap at λ₁ = {at.mean:.2f}{spread}"


@heatmap
def plot_maps(result: Result[BilevelMetrics]) -> Figure:
    """Fig. 10a: distances of the bilevel end points to the nearest image of each set; below, of the
    starts themselves. λ₁ to the right, λ₂ upwards; a cell whose search had not converged in every
    seed has a white corner.
    """
    metrics = result.metrics
    figure, axes = plt.subplots(2, 3, figsize=(PAGE, 5.5))
    rows = {"end point": metrics.distance, "start": metrics.start_distance}
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


def decoreco_claims(metrics: DecorecoMetrics, _: DecorecoSizes) -> list[Claim]:
    """The conjecture on the same net: lower barriers, less curvature, fewer minima on the way."""
    other, same = (metrics.variants[name].geometry for name in ("bilevel", "affine"))
    smoother = [
        same.barrier_mean < other.barrier_mean,
        same.curvature.random < other.curvature.random,
    ]
    # where neither has one, there is nothing to compare
    if same.minima_to_partition or other.minima_to_partition:
        smoother.append(same.minima_to_partition < other.minima_to_partition)
    return [
        claim(
            "landscape-smoothed",
            ours=(
                f"same affine net, relative to noise: mean barrier {same.barrier_mean:.2g} against"
                f" {other.barrier_mean:.2g}, curvature at the end from noise"
                f" {same.curvature.random:.1g} against {other.curvature.random:.1g}, minima on the"
                f" line from truth to partition {same.minima_to_partition:.1f} against"
                f" {other.minima_to_partition:.1f}; {sum(smoother)} of {len(smoother)}"
                " comparisons hold"
            ),
            null="no difference: none holds",
            verdict=of_all(smoother),
            value=float(sum(smoother)) / len(smoother),
            null_value=0.0,
        )
    ]


def recipe_claims(metrics: RecipeMetrics, _: RecipeSizes) -> list[Claim]:
    """The corners, where truth and partition swap, the neighbours of the truth, and the way to
    noise.
    """
    changes = [-cell.fell_layer_1 for cell in metrics.cells]
    came = f"{metrics.steps:,} of {metrics.published_steps:,} steps: undecided"
    if in_full := metrics.steps >= metrics.published_steps:
        came = (
            f"all {metrics.steps:,} published steps, their length by the number of candidates; over"
            " the last tenth "
        )
        came += "layer 1's energy changed by "
        came += f"{min(changes):+.1%} to {max(changes):+.1%}"
    claims = [_corners(metrics), _crossing(metrics), _near_truth(metrics), _degrades(metrics)]
    return [
        replace(
            row,
            ours=f"{row.ours}; {came}",
            verdict=row.verdict if in_full else "undecided",
            margin=row.value,
        )
        for row in claims
    ]


def _corners(metrics: RecipeMetrics) -> Claim:
    truth, partition = metrics.at(1, 1), metrics.at(0, 1)
    least = min(lead(truth.end, "truth"), lead(partition.end, "partition"))
    return claim(
        "landscape-decoreco-corners",
        ours=(
            f"(1, 1): {_to(truth.end)}{_ncc(truth)}; (0, 1): {_to(partition.end)}{_ncc(partition)}"
        ),
        null=f"held-out images: {metrics.null_distance_to_truth:.1f} to truth",
        verdict=verdict(least > 0),
        value=least,
        null_value=min(lead(truth.start, "truth"), lead(partition.start, "partition")),
    )


def _crossing(metrics: RecipeMetrics) -> Claim:
    line = metrics.to_partition()
    below = [cell for cell in line if cell.lambda1 < 0.5]
    least, begun = (
        min(cell[at].truth - cell[at].partition for cell in below) for at in ("end", "start")
    )
    return claim(
        "landscape-decoreco-crossing",
        ours="to truth and to partition: "
        + "; ".join(
            f"{cell.end.truth:.1f} and {cell.end.partition:.1f} (λ₁ = {cell.lambda1:g})"
            for cell in line
        ),
        null=f"the starts lead by {begun:.2g}",
        verdict=verdict(least > 0),
        value=least,
        null_value=begun,
    )


def _near_truth(metrics: RecipeMetrics) -> Claim:
    """Smaller by a fifth at both neighbours of (1, 1); at (1, 1) itself the bilevel attack has
    nothing to do.
    """
    beside = [metrics.at(1, 0.75), metrics.at(0.75, 1)]
    gain = min(FIFTH * cell.end.truth - cell.bilevel.truth for cell in beside)
    return claim(
        "landscape-near-truth",
        ours=f"{metrics.at(1, 1).end.truth:.1f} at (1, 1), "
        + ", ".join(f"{cell.end.truth:.1f} against {cell.bilevel.truth:.1f}" for cell in beside)
        + " beside it; a fifth less is asked for",
        null="the starts: " + ", ".join(f"{cell.start.truth:.1f}" for cell in beside),
        verdict=verdict(gain > 0),
        value=gain,
        null_value=min((FIFTH - 1) * cell.start.truth for cell in beside),
    )


def _degrades(metrics: RecipeMetrics) -> Claim:
    """Faster: by a tenth. A result that is no nearer to the truth than held-out images has none to
    lose.
    """
    noise, truth = metrics.at(1, 0), metrics.at(1, 1)
    ours, theirs, begun = (
        noise[name].truth - truth[name].truth for name in ("end", "bilevel", "start")
    )
    has_it = truth.end.truth < metrics.null_distance_to_truth
    return claim(
        "landscape-degrades",
        ours=(
            f"from truth to noise the distance grows by {ours:.1f}, the bilevel one's by"
            f" {theirs:.1f}"
        )
        + ("" if has_it else "; at (1, 1) the truth is lost already: undecided"),
        null=(
            f"the starts' by {begun:.1f}; held-out images: {metrics.null_distance_to_truth:.1f} to"
            " truth"
        ),
        verdict=verdict(theirs - ours > TENTH * theirs) if has_it else "undecided",
        value=theirs - ours,
        null_value=theirs - begun,
    )


def _ncc(cell: Record) -> str:
    """Their NCC beside the distances, which grow with the norms of the images."""
    return "" if cell.ncc is None else f" (NCC {cell.ncc.truth:.2f} and {cell.ncc.partition:.2f})"


def _to(distance: Record) -> str:
    return f"{distance.truth:.1f} to truth, {distance.partition:.1f} to partition"


@chart
def plot_recipe(result: Result[RecipeMetrics]) -> Figure:
    """Fig. 11 by the published recipe: along λ₁ at λ₂ = 1, distances of the ends to training images
    and to the partition; dotted: of the starts.
    """
    figure, ax = plt.subplots(figsize=(PAGE, 3.0))
    line = result.metrics.to_partition()
    lambdas, ends = [cell.lambda1 for cell in line], []
    for name in ("truth", "partition"):
        end, start = ([cell[which][name] for cell in line] for which in ("end", "start"))
        ax.plot(lambdas, end, color=STARTS[name], marker="o", markersize=5)
        ax.plot(lambdas, start, color=STARTS[name], linestyle=":")
        ends.append((end[-1], f"to the nearest\n{CALLED[name]} image", STARTS[name]))
    ax.set(
        xlabel="λ₁ of the start, from the partition to the truth",
        ylabel="mean L2 distance",
        ylim=(0, None),
    )
    ax.set_xticks(lambdas, [f"{value:g}" for value in lambdas])
    end_labels(ax, ends)
    return figure


#: what the images are called -> where they begin
PLACES = {"truth": (1, 1), "partition": (0, 1), "random": (1, 0)}


def recipe_selected(metrics: RecipeMetrics, arrays: Tensors, n: int = 10) -> Tensors:
    """n images, half of either class, where the recipe starts and ends; cut to [0, 1]."""
    cells, last = [(cell.lambda1, cell.lambda2) for cell in metrics.cells], len(arrays["truth"])
    picked = torch.tensor([*range(n // 2), *range(last - (n - n // 2), last)])
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
        rows += [(f"start:\n{CALLED[name]}", result.figure(f"{name}.start"), "grey")]
        rows += [("end", result.figure(f"{name}.end"), "black")]
    return image_rows(rows)


FIGURES = {"maps": plot_maps}
