"""Chapter 2's sentences, with the true training data's objective as the bar."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from companion.chapters.base import Tensors
from companion.chapters.claims import claim
from companion.chapters.collapse.experiment import Metrics, Sizes
from companion.chapters.pictures import (
    HELD_OUT,
    NOISE,
    PAGE,
    REFERENCE,
    TRAIN,
    chart,
    end_labels,
    image_rows,
    levels,
    note,
    photographs,
)
from companion.store.results import Claim, Result, orders_below, verdict


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """§3.2, and what weight decay changes."""
    truth, decay, no = metrics.objective_true, metrics.weight_decay, "not reproduced"
    blocked = decay.objective_true <= 0.5 * min(
        decay.objective_repeated_heldout, decay.objective_repeated_train
    )
    bar = f"true training data: {truth:.1e}"
    return [
        claim(
            "collapse-repeated-train",
            ours=f"objective {metrics.objective_repeated_train:.1e}",
            null=bar,
            verdict=verdict(metrics.objective_repeated_train <= truth),
            value=metrics.objective_repeated_train,
            null_value=metrics.objective_repeated_noise,
            margin=orders_below(metrics.objective_repeated_train, truth),
        ),
        claim(
            "collapse-repeated-heldout",
            ours=(
                f"objective {metrics.objective_repeated_heldout:.1e} for the most confident"
                f" held-out pair; {metrics.share_of_held_out_below_truth:.0%} of all held-out"
                " images, each alone, are below the truth"
            ),
            null=bar,
            verdict=verdict(metrics.objective_repeated_heldout <= truth),
            value=metrics.objective_repeated_heldout,
            null_value=metrics.objective_repeated_noise,
            margin=orders_below(metrics.objective_repeated_heldout, truth),
        ),
        claim(
            "collapse-weight-decay",
            ours=f"held-out pair {decay.objective_repeated_heldout:.1e}",
            null=(
                f"true training data: {decay.objective_true:.1e}; no images at all:"
                f" {decay.objective_no_images:.1e}"
            ),
            verdict=(
                "finding"
                if blocked
                else "partly"
                if decay.objective_repeated_heldout > decay.objective_true
                else no
            ),
            value=decay.objective_repeated_heldout / decay.objective_true,
            null_value=decay.objective_no_images / decay.objective_true,
        ),
    ]


KINDS = {
    "train": ("training images", "o", TRAIN),
    "held_out": ("held-out images", "^", HELD_OUT),
    "noise": ("U(0, 1) noise", "x", NOISE),
}


CANDIDATES = {
    "training images": ("truth", TRAIN),
    "n held-out images": ("held_out", HELD_OUT),
    "confident training pair": ("train_pair", TRAIN),
    "confident held-out pair": ("held_out_pair", HELD_OUT),
    "noise pair": ("noise_pair", NOISE),
}


def selected(_: Metrics, arrays: Tensors) -> Tensors:
    """All there is: every image's confidence and objective, too small for float32, and some
    images.
    """
    return {name: levels(x) if name.startswith("x_") else x.clone() for name, x in arrays.items()}


@chart
def plot_objective(result: Result[Metrics]) -> Figure:
    """‖∇_θ E‖² of every image repeated, against |Φ|; the horizontal line is the true training
    data's objective.
    """
    figure, ax = plt.subplots(figsize=(PAGE, 4))
    for kind, (label, marker, colour) in KINDS.items():
        confidence, objective = (result.figure(f"{x}_{kind}") for x in ("confidence", "objective"))
        ax.scatter(confidence, objective, s=18, marker=marker, color=colour, label=label, alpha=0.7)
    ax.axhline(result.metrics.objective_true, color=REFERENCE, linestyle="--")
    words = r"objective $\|\nabla_\theta E\|^2$, image repeated"
    ax.set(yscale="log", xlabel="confidence |Φ(x)| (logit)", ylabel=words)
    end_labels(ax, [(result.metrics.objective_true, "the true\ntraining data", REFERENCE)])
    figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    figure.set_layout_engine("constrained")
    return figure


@photographs
def plot_images(result: Result[Metrics]) -> Figure:
    """Some training images above the pair of training and the pair of held-out images that can
    replace them all.
    """
    metrics = result.metrics
    rows = [
        (f"training data:\n{metrics.objective_true:.0e}", result.figure("x_train"), "none"),
        (
            f"one pair of\nthem: {metrics.objective_repeated_train:.0e}",
            result.figure("x_repeated_train"),
            "grey",
        ),
        (
            f"held-out pair:\n{metrics.objective_repeated_heldout:.0e}",
            result.figure("x_repeated_held_out"),
            "black",
        ),
    ]
    return image_rows(rows)


@chart
def plot_explained(result: Result[Metrics]) -> Figure:
    """The share of ‖θ‖² that candidates leave unexplained, at a network whose first layer started
    small.
    """
    figure, ax = plt.subplots(figsize=(PAGE, 2.2))
    for row, (field, colour) in enumerate(CANDIDATES.values()):
        value = result.metrics.explained_small_start[field]
        ax.plot([value, 1], [row, row], "o-", color=colour, markevery=[0])
        note(ax, f"{value:.1%}", (value, row), (-7, 0), colour, "right")
    ax.axvline(1, color=REFERENCE, linestyle="--")
    ax.set(xlim=(0, 1.05), xlabel="left of ‖θ‖² (dashed: no images)")
    ax.set_yticks(range(len(CANDIDATES)), list(CANDIDATES))
    ax.invert_yaxis()
    return figure


FIGURES = {"objective": plot_objective, "images": plot_images, "explained": plot_explained}
