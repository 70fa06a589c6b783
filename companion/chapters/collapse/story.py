"""Chapter 2's sentences, with the true training data's objective as the bar."""

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from companion.chapters.base import Tensors
from companion.chapters.claims import claim
from companion.chapters.collapse.experiment import Metrics, Sizes
from companion.chapters.pictures import (
    NOISE,
    OTHERS,
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
from companion.store.results import Claim, Result, graded, orders_below, verdict


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """§3.2, and what weight decay changes."""
    decay = metrics.weight_decay
    heldout = decay.objective_repeated_heldout
    blocked = decay.objective_true <= 0.5 * min(decay.objective_repeated_train, heldout)
    worse = heldout > decay.objective_true
    return [
        _repeated(metrics, "train"),
        _repeated(metrics, "heldout"),
        claim(
            "collapse-weight-decay",
            decay,
            verdict=graded(blocked, worse),
            value=heldout / decay.objective_true,
            null_value=decay.objective_no_images / decay.objective_true,
        ),
    ]


def _repeated(metrics: Metrics, kind: str) -> Claim:
    objective = metrics[f"objective_repeated_{kind}"]
    truth = metrics.objective_true
    return claim(
        f"collapse-repeated-{kind}",
        metrics,
        verdict=verdict(objective <= truth),
        value=objective,
        null_value=metrics.objective_repeated_noise,
        margin=orders_below(objective, truth),
    )


KINDS = {
    "train": ("training images", "o", TRAIN),
    "held_out": ("held-out images", "^", OTHERS),
    "noise": ("U(0, 1) noise", "x", NOISE),
}


CANDIDATES = {
    "training images": ("truth", TRAIN),
    "n held-out images": ("held_out", OTHERS),
    "confident training pair": ("train_pair", TRAIN),
    "confident held-out pair": ("held_out_pair", OTHERS),
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
    rows = (
        ("training data:\n", metrics.objective_true, "x_train", "none"),
        ("one pair of\nthem: ", metrics.objective_repeated_train, "x_repeated_train", "training"),
        ("held-out pair:\n", metrics.objective_repeated_heldout, "x_repeated_held_out", "baseline"),
    )
    return image_rows(
        [(f"{words}{value:.0e}", result.figure(name), frame) for words, value, name, frame in rows]
    )


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
