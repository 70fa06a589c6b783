"""Chapter 1's sentences, each with the paper's value, ours, the null and a verdict."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure

from companion.chapters.base import Tensors
from companion.chapters.claims import claim
from companion.chapters.linear.experiment import Metrics, Sizes
from companion.chapters.pictures import image_rows, photographs
from companion.store.results import Claim, Result, verdict


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """§3.1 and what goes beyond it."""
    moved, trivial, kernel = metrics.counterfactual, metrics.trivial, metrics.kernel
    lines = torch.tensor(kernel.anscombe_lines)
    same_line = bool((lines - lines[0]).abs().max() < 0.01)
    in_kernel = max(kernel.anscombe_product_max) < 1e-10 < min(kernel.anscombe_gradient_norm)
    zero_solves = trivial.residual_as_in_paper == 0
    bias_matters = trivial.residual_with_bias_and_decay > 1e-6
    same = moved.relative_theta_error <= 1e-8 and moved.mean_change_l2 <= 0.2 * moved.nn_train_l2
    unlike = moved.nn_train_l2 >= 0.9 * moved.held_out_nn_l2
    twins = metrics.twins
    all_bits = twins.agree == twins.numbers and not twins.same_images
    nearly = twins.agree >= 0.9 * twins.numbers and not twins.same_images
    return [
        claim(
            "linear-underdetermined",
            ours=(
                f"{moved.unknowns} unknowns, rank {moved.jacobian_rank}, solution set of dimension"
                f" {moved.solution_dim}"
            ),
            null="determined: 1 unknown an equation",
            verdict=verdict(moved.solution_dim > 0.9 * moved.unknowns),
            value=moved.unknowns / (moved.unknowns - moved.solution_dim),
            null_value=1.0,
        ),
        claim(
            "linear-trivial",
            ours=f"residual {trivial.residual_as_in_paper:.0f} as stated",
            null=(
                "with a bias column of ones and weight decay:"
                f" {trivial.residual_with_bias_and_decay:.2g}"
            ),
            verdict=(
                ("partly" if bias_matters else "reproduced") if zero_solves else "not reproduced"
            ),
            value=trivial.residual_as_in_paper,
            null_value=trivial.residual_with_bias_and_decay,
        ),
        claim(
            "linear-kernel",
            ours=(
                "Anscombe's quartet: one line, product of X̄ᵀ and the gradient at most"
                f" {max(kernel.anscombe_product_max):.0e}; kernel dimension {kernel.repeated} for"
                f" one image repeated {moved.n} times"
            ),
            null=(
                f"norms of these gradients: from {min(kernel.anscombe_gradient_norm):.1f}; kernel"
                f" dimension {kernel.train} for {moved.n} different photographs"
            ),
            verdict=verdict(in_kernel and same_line),
            value=max(kernel.anscombe_product_max),
            null_value=min(kernel.anscombe_gradient_norm),
        ),
        claim(
            "linear-counterfactual",
            ours=(
                f"relative error of θ {moved.relative_theta_error:.0e} after moving each image by"
                f" {moved.mean_change_l2:.2f} in L2; distance to the nearest training image"
                f" {moved.nn_train_l2:.1f}"
            ),
            null=(
                f"unmoved images: {moved.relative_theta_error_unmoved:.2f}; held-out images'"
                f" distance {moved.held_out_nn_l2:.1f}"
            ),
            verdict="finding" if same and unlike else "not reproduced",
            value=moved.relative_theta_error,
            null_value=moved.relative_theta_error_unmoved,
        ),
        claim(
            "linear-8bit",
            ours=(
                f"{twins.agree} of {twins.numbers} float32 numbers equal (n = {twins.n} each); the"
                f" float64 classifier is within {twins.largest_relative_difference:.0e} of each;"
                f" photographs changed by {twins.mean_change_levels:.1f} of 255 levels"
            ),
            null=(
                f"moved, then rounded: {twins.agree_rounded} equal; photographs as they were:"
                f" {twins.agree_unmoved}"
            ),
            verdict="finding" if all_bits else "partly" if nearly else "not reproduced",
            value=twins.agree,
            null_value=max(twins.agree_rounded, twins.agree_unmoved),
        ),
    ]


TWINS = ("train", "start", "other")


def selected(_: Metrics, arrays: Tensors, n: int = 10) -> Tensors:
    """n images of both sets, evenly, and the photographs that became those of the second."""
    rows = torch.linspace(0, len(arrays["twin_train"]) - 1, n).round().long()
    return {f"twins.{name}": arrays[f"twin_{name}"][rows] for name in TWINS}


@photographs
def plot_twins(result: Result[Metrics]) -> Figure:
    """Training images · other photographs · what they became (black frame) · difference, amplified
    around grey.
    """
    train, start, other = (result.figure(f"twins.{name}") for name in TWINS)
    difference = (other.double() - start.double()) / 255
    most = 0.5 / float(difference.abs().quantile(0.995))
    factor = max([f for e in range(5) for m in (1, 2, 5) if (f := m * 10**e) <= most], default=1)
    change = [f"{255 * d:.1f}" for d in difference.abs().mean(1)]
    return image_rows(
        [
            ("training\nimages", train, "none"),
            ("other\nphotographs", start, "none"),
            ("the twins,\n8 bits, moved\nby (of 255)", other, "black"),
            (f"difference\n× {factor}", 0.5 + factor * difference, "none"),
        ],
        [[], [], change, []],
    )


FIGURES = {"twins": plot_twins}
