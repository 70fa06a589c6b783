"""The affine inner problem stopped before it is solved: what is left of θ⁰ in a θ(x) that an iterative solver returns.

Eq. (7) of Runkel et al. (2024) solves the inner problem by "a descent scheme" from θ⁰ ~ U(0, 1).  Stopped at ‖∇E‖ ≤ ε
it is as far from the minimiser as ε/ω, ω the weight decay: outside the span of the images the loss is flat, and only
the decay removes what θ⁰ had there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from recon.errors import ReconError
from recon.optim.lbfgs import LBFGSSettings, lbfgs
from recon.optim.subspace import Subspace, reduced
from recon.training.inner_problem import Objective


@dataclass(frozen=True)
class InexactSolve:
    """A solver stopped at ‖∇E‖ ≤ tol: distance ‖θ* − θ‖² summed over parameters, ‖∇E‖ there, iterations made."""

    tol: float
    distance: float
    grad_norm: float
    iterations: int


def inexact_solves(
    objective: Objective, x: Tensor, theta_0: Tensor, theta_star: Tensor, tols: tuple[float, ...], max_iter: int = 2000
) -> list[InexactSolve]:
    """L-BFGS from θ⁰ (d + 1,) on images x (n, d), once for each tolerance; all in the span of x, θ⁰ and θ*.

    ReconError for a network that is not affine.
    """
    if objective.network.depth != 1:
        raise ReconError("the affine network only")
    rows = torch.stack([theta_0[:-1], theta_star[:-1]])
    space = Subspace.spanned_by(x, rows)
    network, star = reduced(objective.network, theta_star, space)
    small, inputs = replace(objective, network=network), space.reduce(x)[None]
    start = reduced(objective.network, theta_0, space)[1][None]
    found = []
    for tol in tols:
        settings = LBFGSSettings(tol=tol, max_iter=max_iter, history=20)
        end = lbfgs(lambda theta: small.value_and_grad(theta, inputs), start, settings)
        distance = (end.theta - star).square().sum().item()
        found.append(InexactSolve(tol, distance, end.grad_norm.item(), end.iterations))
    return found


def descent_steps(objective: Objective, x: Tensor, theta_0: Tensor, distance: float) -> float:
    """Steps t of gradient descent, at step size η = 1/L, after which what θ⁰ (d + 1,) has outside the span of x (n, d)
    is down to a squared length `distance`:  (1 − ηω)^{2t} ‖θ⁰_outside‖² = distance, with L = λ_max(X̄X̄ᵀ)/(4n) + ω.

    0 where it never was more.  What is inside the span takes time, too: a lower bound.
    """
    outside = Subspace.spanned_by(x).outside(theta_0[None, :-1]).square().sum().item()
    largest = torch.linalg.eigvalsh(x @ x.mT + 1)[-1].item() / (4 * len(x)) + objective.weight_decay
    return max(0.0, math.log(outside / distance) / (-2 * math.log1p(-objective.weight_decay / largest)))
