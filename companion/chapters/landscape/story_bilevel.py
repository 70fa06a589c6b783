"""§4.5's sentences on the bilevel landscape, and whether its solutions are connected."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from companion.chapters.landscape.experiment_bilevel import BOXED, BilevelSizes, free
from companion.chapters.landscape.experiment_bilevel import Metrics as BilevelMetrics
from companion.chapters.landscape.shared import Grid
from companion.chapters.pictures import PAGE, heatmap, letters_on
from companion.store.record import Record
from companion.store.results import Claim, Result, verdict

ROUNDING = 1e-10  # relative error of a classifier below which it counts as the same, in float64
STRIDE = 1.5  # longest step of a curve, relative to the straight segment's, below which neighbours stay neighbours
CALLED = {"truth": "training", "partition": "partition", "random": "noise"}


def claims(metrics: BilevelMetrics, _: BilevelSizes) -> list[Claim]:
    """The bilevel landscape, and whether its solutions are connected."""
    ends, starts = metrics.distance, metrics.start_distance
    null = f"held-out images: {metrics.null_distance_to_truth:.1f} to truth"
    truth = ends.truth[-1]
    return [
        Claim(
            "landscape-bilevel-corners",
            "4.5, Fig. 10a",
            "From the truth the bilevel result is nearest to the truth, from the partition nearest to the partition.",
            "heatmap",
            corners(ends),
            null,
            verdict(corner_lead(ends) > 0),
            value=corner_lead(ends),
            null_value=corner_lead(starts),
            margin=corner_lead(ends),
        ),
        Claim(
            "landscape-bilevel-crossing",
            "4.5, Fig. 11",
            "Between partition and truth the bilevel result is closer to the partition below λ₁ = 0.5.",
            "0.5",
            crossing_text(metrics),
            "starts swap at 0.5",
            verdict(lead_below_half(ends, metrics.lambda1) > 0),
            value=lead_below_half(ends, metrics.lambda1),
            null_value=lead_below_half(starts, metrics.lambda1),
            margin=lead_below_half(ends, metrics.lambda1),
        ),
        Claim(
            "landscape-bilevel-noise",
            "4.5, Fig. 12",
            "Between noise and truth the bilevel result's distance to the truth grows with the share of noise.",
            "curve",
            "from λ₂ = 1 to 0: " + ", ".join(f"{value:.1f}" for value in reversed(truth)),
            null,
            verdict(least_cost(truth) > 0),
            value=least_cost(truth),
            null_value=least_cost(starts.truth[-1]),
            margin=least_cost(truth),
        ),
        _connected(metrics.connection),
    ]


def _connected(found: Record) -> Claim:
    """Without bounds, where the theorem says so: at rounding error, and without a jump."""
    applies, routes = found.level > found.sufficient, free(found)
    holds = [applies and same_classifier(route) for route in routes]
    first = f"nω‖θ*‖² = {found.level:.1f}, more than {found.sufficient:.2f} suffices; " if applies else ""
    error, straight = max(route.error for route in routes), min(route.straight_error for route in routes)
    return Claim(
        "landscape-bilevel-connected",
        "",
        "All training sets of the affine classifier are connected, pixels being any real numbers: explicit curves "
        "lead from the truth to where the attack ends from the partition and from noise.",
        "",
        f"{first}highest error of the retrained classifier on the curves {error:.0e}, longest step "
        f"{max(route.largest_step for route in routes):.2f} of the straight segment's",
        f"straight segments: {straight:.2g} at least",
        "finding" if all(holds) else of_all(holds),
        value=error,
        null_value=straight,
    )


def same_classifier(route: Record) -> bool:
    """On every frame, and without a jump: a double step would then be little longer than a single one."""
    steady = route.largest_double_step > 0.75 * route.largest_step
    return route.error < ROUNDING and route.largest_step < STRIDE and steady


# ------------------------------------------------------------------------------------------------ what they share
def of_all(holds: list[bool]) -> str:
    """ "partly" where some hold and others do not."""
    return verdict(all(holds)) if all(holds) or not any(holds) else "partly"


def corners(distance: Record) -> str:
    """Distances at (1, 1) and (0, 1)."""
    return (
        f"(1, 1): {distance.truth[-1][-1]:.1f} to truth, {distance.partition[-1][-1]:.1f} to partition; "
        f"(0, 1): {distance.truth[0][-1]:.1f} and {distance.partition[0][-1]:.1f}"
    )


def corner_lead(distance: Record) -> float:
    """How much nearer (1, 1) is to the truth, and (0, 1) to the partition, than to any other set; the lesser."""
    leads = []
    for i, own in ((-1, "truth"), (0, "partition")):
        here = {name: values[i][-1] for name, values in distance.only(*CALLED).items()}
        leads.append(min(value for name, value in here.items() if name != own) - here[own])
    return min(leads)


def lead_below_half(distance: Record, lambdas: Sequence[float]) -> float:
    """How much nearer the partition is than the truth at λ₂ = 1, at least, for all λ₁ < 0.5."""
    return min(distance.truth[i][-1] - distance.partition[i][-1] for i, value in enumerate(lambdas) if value < 0.5)


def least_cost(line: Sequence[float]) -> float:
    """Of distances for growing λ₂: by how much they fall at least from one to the next."""
    return min(a - b for a, b in zip(line, line[1:], strict=False))


def crossing_text(found: Record) -> str:
    """Where truth and partition swap, over seeds."""
    at = found.crossing.truth_partition
    if at.mean is None:
        return f"they do not swap in {at.per_seed.count(None)} of {len(at.per_seed)} seeds"
    spread = "" if at.sd is None else f" ± {at.sd:.2f}"
    return f"they swap at λ₁ = {at.mean:.2f}{spread}"


def heatmaps(
    axes: Sequence[Axes], distance: Record, lambdas: list[float], top: float, label: str, converged: Grid | None = None
) -> None:
    """One row: distance to the nearest image of each set; λ₁ to the right, λ₂ upwards; values printed.  A cell whose
    search had not converged in every seed has a white corner."""
    side = len(lambdas)
    ticks = range(side), [f"{value:g}" for value in lambdas]
    for ax, (name, values_of_set) in zip(axes, distance.only(*CALLED).items(), strict=True):
        values = np.array(values_of_set).T  # [λ₂][λ₁]
        image = ax.imshow(values, origin="lower", vmin=0, vmax=top, cmap="viridis")
        for (j, i), value in np.ndenumerate(values):
            colour = letters_on(image.to_rgba(value)[:3])
            ax.text(i, j, f"{value:.1f}", ha="center", va="center", color=colour, fontsize=8)
        ax.set_xticks(*ticks)
        ax.set_yticks(*ticks)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        ax.set(title=f"to the nearest\n{CALLED[name]} image", xlabel="λ₁ (partition → truth)")
        for i, row in enumerate(converged or []):
            for j in (j for j, share in enumerate(row) if share < 1):
                ax.fill([i - 0.5, i - 0.25, i - 0.5], [j + 0.5, j + 0.5, j + 0.25], color="white")
    axes[0].set_ylabel(f"{label}\nλ₂ (noise → image)")


@heatmap
def plot_maps(result: Result[BilevelMetrics]) -> Figure:
    """Fig. 10a: the bilevel end points; below, the starts themselves."""
    metrics = result.metrics
    figure, axes = plt.subplots(2, 3, figsize=(PAGE, 5.5))
    both = (metrics.distance, metrics.start_distance)
    top = max(float(np.max(values)) for distance in both for values in distance.only(*CALLED).values())
    heatmaps(axes[0], metrics.distance, metrics.lambda1, top, "end point", metrics.cells_converged)
    heatmaps(axes[1], metrics.start_distance, metrics.lambda1, top, "start")
    return figure


def walk_frames(result: Result[BilevelMetrics]) -> tuple[Tensor, list[float]]:
    """Both legs with pixels in [0, 1] as one: images (frames, k, d), and the error of every frame."""
    legs = [(result.array(f"walk_{name}_frames"), result.array(f"walk_{name}_error")) for name in BOXED]
    (first, first_error), (second, second_error) = legs
    return torch.cat([first, second[1:]]), [*first_error.tolist(), *second_error[1:].tolist()]


FIGURES = {"maps": plot_maps}
