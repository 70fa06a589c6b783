"""§4.5's sentences on DecoReco, by the recipe that they are about.  Undecided unless it ran with its full budget."""

from __future__ import annotations

from dataclasses import replace

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure

from companion.chapters.landscape.experiment_recipe import Metrics as RecipeMetrics
from companion.chapters.landscape.experiment_recipe import RecipeSizes, lead
from companion.chapters.landscape.story_bilevel import CALLED
from companion.chapters.pictures import PAGE, STARTS, chart, end_labels, image_rows
from companion.store.record import Record
from companion.store.results import Claim, Result, verdict

FIFTH, TENTH = 0.8, 0.1  # how much smaller the bilevel distances have to be; how much steeper its line


def claims(metrics: RecipeMetrics, sizes: RecipeSizes) -> list[Claim]:
    """The corners, where truth and partition swap, the neighbours of the truth, and the way to noise.  Undecided where
    the steps were not scaled to the number of images: they are too long then, and leave every start."""
    found = [_corners(metrics), _crossing(metrics), _near_truth(metrics), _degrades(metrics)]
    if sizes.scaled:
        return found
    why = "; steps ten times too long for as many images: undecided"
    return [replace(each, verdict="undecided", ours=each.ours + why, margin=None) for each in found]


def _corners(metrics: RecipeMetrics) -> Claim:
    truth, partition = metrics.at(1, 1), metrics.at(0, 1)
    least = min(lead(truth.end, "truth"), lead(partition.end, "partition"))
    return _claim(
        metrics,
        "landscape-decoreco-corners",
        "4.5, Fig. 10b",
        "From the truth DecoReco's result is nearest to the truth, from the partition nearest to the partition.",
        "heatmap",
        f"(1, 1): {_to(truth.end)}{_ncc(truth)}; (0, 1): {_to(partition.end)}{_ncc(partition)}",
        f"held-out images: {metrics.null_distance_to_truth:.1f} to truth",
        least > 0,
        (least, min(lead(truth.start, "truth"), lead(partition.start, "partition"))),
    )


def _crossing(metrics: RecipeMetrics) -> Claim:
    line = metrics.to_partition()
    below = [cell for cell in line if cell.lambda1 < 0.5]
    lead = min(cell.end.truth - cell.end.partition for cell in below)
    begun = min(cell.start.truth - cell.start.partition for cell in below)
    return _claim(
        metrics,
        "landscape-decoreco-crossing",
        "4.5, Fig. 11",
        "Between partition and truth DecoReco's result is closer to the partition below λ₁ = 0.5.",
        "0.5",
        "to truth and to partition: "
        + "; ".join(f"{cell.end.truth:.1f} and {cell.end.partition:.1f} (λ₁ = {cell.lambda1:g})" for cell in line),
        f"the starts lead by {begun:.2g}",
        lead > 0,
        (lead, begun),
    )


def _near_truth(metrics: RecipeMetrics) -> Claim:
    """Smaller by a fifth at both neighbours of (1, 1); at (1, 1) itself the bilevel attack has nothing to do."""
    beside = [metrics.at(1, 0.75), metrics.at(0.75, 1)]
    gain = min(FIFTH * cell.end.truth - cell.bilevel.truth for cell in beside)
    return _claim(
        metrics,
        "landscape-near-truth",
        "4.5",
        "Near the truth the bilevel distances become much smaller than DecoReco's.",
        "heatmaps",
        f"{metrics.at(1, 1).end.truth:.1f} at (1, 1), "
        + ", ".join(f"{cell.end.truth:.1f} against {cell.bilevel.truth:.1f}" for cell in beside)
        + " beside it; a fifth less is asked for",
        "the starts: " + ", ".join(f"{cell.start.truth:.1f}" for cell in beside),
        gain > 0,
        (gain, min((FIFTH - 1) * cell.start.truth for cell in beside)),
    )


def _degrades(metrics: RecipeMetrics) -> Claim:
    """Faster: by a tenth.  A result that is no nearer to the truth than held-out images has none to lose."""
    noise, truth = metrics.at(1, 0), metrics.at(1, 1)
    ours, theirs, begun = (
        getattr(noise, name).truth - getattr(truth, name).truth for name in ("end", "bilevel", "start")
    )
    has_it = truth.end.truth < metrics.null_distance_to_truth
    return _claim(
        metrics,
        "landscape-degrades",
        "4.5, Fig. 12",
        "With a growing share of noise the bilevel result loses the truth faster than DecoReco's.",
        "curves",
        f"from truth to noise the distance grows by {ours:.1f}, the bilevel one's by {theirs:.1f}"
        + ("" if has_it else "; at (1, 1) the truth is lost already: undecided"),
        f"the starts' by {begun:.1f}; held-out images: {metrics.null_distance_to_truth:.1f} to truth",
        theirs - ours > TENTH * theirs,
        (theirs - ours, theirs - begun),
        judged=has_it,
    )


def _claim(
    metrics: RecipeMetrics,
    name: str,
    section: str,
    sentence: str,
    paper: str,
    found: str,
    null: str,
    holds: bool,
    values: tuple[float, float],
    *,
    judged: bool = True,
) -> Claim:
    """values: what decides, and the null of it."""
    in_full = metrics.steps >= metrics.published_steps
    least, most = changes(metrics)
    came = (
        f"all {metrics.steps:,} published steps; over the last tenth layer 1's energy changed by {least:+.1%} to "
        f"{most:+.1%}"
        if in_full
        else f"{metrics.steps:,} of {metrics.published_steps:,} steps: undecided"
    )
    return Claim(
        name,
        section,
        sentence,
        paper,
        f"{found}; {came}",
        null,
        verdict(holds) if in_full and judged else "undecided",
        value=values[0],
        null_value=values[1],
        margin=values[0],
    )


def changes(metrics: RecipeMetrics) -> tuple[float, float]:
    """Least and greatest change of a cell's energy of layer 1 over the last tenth of the steps, as a share of it."""
    found = [-cell.fell_layer_1 for cell in metrics.cells]
    return min(found), max(found)


def _ncc(cell: Record) -> str:
    """Their NCC beside the distances, which grow with the norms of the images."""
    return "" if cell.ncc is None else f" (NCC {cell.ncc.truth:.2f} and {cell.ncc.partition:.2f})"


def _to(distance: Record) -> str:
    return f"{distance.truth:.1f} to truth, {distance.partition:.1f} to partition"


@chart
def plot_recipe(result: Result[RecipeMetrics]) -> Figure:
    """Fig. 11 by the published recipe: along λ₁ at λ₂ = 1, distances of the ends to training images and to the
    partition; dotted: of the starts."""
    figure, ax = plt.subplots(figsize=(PAGE, 3.0))
    line = result.metrics.to_partition()
    lambdas, ends = [cell.lambda1 for cell in line], []
    for name in ("truth", "partition"):
        end, start = ([getattr(getattr(cell, which), name) for cell in line] for which in ("end", "start"))
        ax.plot(lambdas, end, color=STARTS[name], marker="o", markersize=5)
        ax.plot(lambdas, start, color=STARTS[name], linestyle=":")
        ends.append((end[-1], f"to the nearest\n{CALLED[name]} image", STARTS[name]))
    ax.set(xlabel="λ₁ of the start, from the partition to the truth", ylabel="mean L2 distance", ylim=(0, None))
    ax.set_xticks(lambdas, [f"{value:g}" for value in lambdas])
    end_labels(ax, ends)
    return figure


def plot_recipe_images(result: Result[RecipeMetrics], n: int = 10) -> Figure:
    """Where the recipe begins and ends, from the training images, the partition and noise: n images of each, half of
    either class; ends cut to [0, 1]."""
    truth, rows = result.array("truth"), []
    places = [(cell.lambda1, cell.lambda2) for cell in result.metrics.cells]
    picked = torch.tensor([*range(n // 2), *range(len(truth) - (n - n // 2), len(truth))])
    for key, place in (("truth", (1, 1)), ("partition", (0, 1)), ("random", (1, 0))):
        ended = result.array("x_hat")[places.index(place)][picked].clamp(0, 1)
        rows += [(f"start:\n{CALLED[key]}", result.array(key)[picked], "grey"), ("end", ended, "black")]
    return image_rows(rows)


FIGURES = {"lines": plot_recipe, "images": plot_recipe_images}
