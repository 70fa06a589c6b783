"""Chapter 1's sentences, each with the paper's value, ours, the null and a verdict."""

from __future__ import annotations

import torch

from recon.chapters.linear.metrics import Metrics
from recon.chapters.linear.sizes import Sizes
from recon.store.results import Claim, verdict


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """§3.1 and what goes beyond it."""
    moved, noise, repeated = metrics.counterfactual, metrics.noise, metrics.repeated
    trivial, kernel = metrics.trivial, metrics.kernel
    lines = torch.tensor(kernel.anscombe_lines)
    same_line = bool((lines - lines[0]).abs().max() < 0.01)
    in_kernel = max(kernel.anscombe_product_max) < 1e-10 < min(kernel.anscombe_gradient_norm)
    zero_solves = trivial.residual_as_in_paper == 0
    bias_matters = trivial.residual_with_bias_and_decay > 1e-6
    same = moved.relative_theta_error <= 1e-8 and moved.mean_change_l2 <= 0.2 * moved.nn_train_l2
    unlike = moved.nn_train_l2 >= 0.9 * moved.held_out_nn_l2
    arbitrary = max(noise.relative_theta_error, repeated.relative_theta_error) <= 1e-8
    sensitive = moved.relative_theta_error_8bit > 1e3 * moved.relative_theta_error
    return [
        Claim(
            "linear-underdetermined",
            "3.1",
            "The reconstruction problem of a linear model is “extremely underdetermined”.",
            "L·N equations for N·K unknowns",
            f"{moved.unknowns} unknowns, rank {moved.jacobian_rank}, solution set of dimension {moved.solution_dim}",
            "",
            verdict(moved.solution_dim > 0.9 * moved.unknowns),
        ),
        Claim(
            "linear-trivial",
            "3.1",
            "X̄ = 0, Y = 0 is “a trivial (but unreasonable) solution”.",
            "residual 0",
            f"residual {trivial.residual_as_in_paper:.0f} as stated; {trivial.residual_with_bias_and_decay:.2g} "
            "with a bias column of ones and weight decay",
            "",
            ("partly" if bias_matters else "reproduced") if zero_solves else "not reproduced",
        ),
        Claim(
            "linear-kernel",
            "3.1",
            "That ∇L lies in ker(X̄ᵀ) suffices, “which further enlarges the possible solution space”.",
            "",
            f"Anscombe's quartet: one line, gradient norms from {min(kernel.anscombe_gradient_norm):.1f}, "
            f"product with X̄ᵀ at most {max(kernel.anscombe_product_max):.0e}; "
            f"kernel dimension {kernel.repeated} for one image repeated {moved.n} times",
            f"kernel dimension {kernel.train} for {moved.n} different photographs",
            verdict(in_kernel and same_line),
        ),
        Claim(
            "linear-counterfactual",
            "",
            "Two disjoint sets of natural photographs have the same classifier.",
            "",
            f"relative error of θ {moved.relative_theta_error:.0e} after moving each image by "
            f"{moved.mean_change_l2:.2f} in L2; distance to the nearest training image {moved.nn_train_l2:.1f}",
            f"unmoved images: {moved.relative_theta_error_unmoved:.2f}; held-out images' distance "
            f"{moved.held_out_nn_l2:.1f}",
            "finding" if same and unlike else "not reproduced",
        ),
        Claim(
            "linear-any-start",
            "",
            "Random noise and one photograph repeated with both labels can be moved onto the same classifier as well.",
            "",
            f"relative error of θ: noise {noise.relative_theta_error:.0e}, repeated "
            f"{repeated.relative_theta_error:.0e}",
            f"unmoved: {noise.relative_theta_error_unmoved:.2f}, {repeated.relative_theta_error_unmoved:.2f}",
            "finding" if arbitrary else "partly" if noise.relative_theta_error <= 1e-8 else "not reproduced",
        ),
        Claim(
            "linear-8bit",
            "",
            "Rounding the counterfactual photographs to 8 bits undoes the exactness.",
            "",
            f"relative error of θ {moved.relative_theta_error_8bit:.2g} after rounding, "
            f"{moved.relative_theta_error:.0e} before",
            f"unmoved images: {moved.relative_theta_error_unmoved:.2f}",
            "finding" if sensitive else "not reproduced",
        ),
    ]
