"""Chapter 1's sentences, each with the paper's value, ours, the null and a verdict."""

import torch
from matplotlib.figure import Figure

from companion.chapters.base import Tensors
from companion.chapters.claims import claim
from companion.chapters.linear.experiment import Metrics, Sizes
from companion.chapters.pictures import image_rows, photographs
from companion.store.results import Claim, Result, graded, verdict


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """§3.1 and what goes beyond it."""
    moved = metrics.counterfactual
    trivial = metrics.trivial
    kernel = metrics.kernel
    lines = torch.tensor(kernel.anscombe_lines)
    most = max(kernel.anscombe_product_max)
    least = min(kernel.anscombe_gradient_norm)
    in_kernel = most < 1e-10 < least and bool((lines - lines[0]).abs().max() < 0.01)
    zero_solves = trivial.residual_as_in_paper == 0
    bias_matters = trivial.residual_with_bias_and_decay > 1e-6
    same = moved.relative_theta_error <= 1e-8 and moved.mean_change_l2 <= 0.2 * moved.nn_train_l2
    unlike = moved.nn_train_l2 >= 0.9 * moved.held_out_nn_l2
    twins = metrics.twins
    share = 0.0
    if not twins.same_images:
        share = twins.agree / twins.numbers
    return [
        claim(
            "linear-underdetermined",
            moved,
            verdict=verdict(moved.solution_dim > 0.9 * moved.unknowns),
            value=moved.unknowns / (moved.unknowns - moved.solution_dim),
            null_value=1.0,
        ),
        claim(
            "linear-trivial",
            trivial,
            verdict="partly" if zero_solves and bias_matters else verdict(zero_solves),
            value=trivial.residual_as_in_paper,
            null_value=trivial.residual_with_bias_and_decay,
        ),
        claim(
            "linear-kernel",
            {"n": moved.n, "most": most, "least": least, "kernel": kernel},
            verdict=verdict(in_kernel),
            value=most,
            null_value=least,
        ),
        claim(
            "linear-counterfactual",
            moved,
            verdict="finding" if same and unlike else "not reproduced",
            value=moved.relative_theta_error,
            null_value=moved.relative_theta_error_unmoved,
        ),
        claim(
            "linear-8bit",
            twins,
            verdict=graded(share == 1, share >= 0.9),
            value=twins.agree,
            null_value=max(twins.agree_rounded, twins.agree_unmoved),
        ),
    ]


TWINS = ("train", "start", "other")


def selected(_: Metrics, arrays: Tensors) -> Tensors:
    """Ten images of both sets, evenly, and the photographs that became those of the second."""
    rows = torch.linspace(0, len(arrays["twin_train"]) - 1, 10).round().long()
    return {f"twins.{name}": arrays[f"twin_{name}"][rows] for name in TWINS}


@photographs
def plot_twins(result: Result[Metrics]) -> Figure:
    """Training images · other photographs · what they became · difference, amplified
    around grey.
    """
    train, start, other = (result.figure(f"twins.{name}") for name in TWINS)
    difference = (other.double() - start.double()) / 255
    most = 0.5 / float(difference.abs().quantile(0.995))
    factor = max([f for e in range(5) for m in (1, 2, 5) if (f := m * 10**e) <= most], default=1)
    change = [f"{255 * d:.1f}" for d in difference.abs().mean(1)]
    return image_rows(
        [
            ("training\nimages", train, "training"),
            ("other\nphotographs", start, "none"),
            ("the twins,\n8 bits, moved\nby (of 255)", other, "none"),
            (f"difference\n× {factor}", 0.5 + factor * difference, "none"),
        ],
        [[], [], change, []],
    )


FIGURES = {"twins": plot_twins}
