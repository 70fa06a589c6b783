"""Training: the inner problem (1), solved to a stated accuracy.

E(x, y; θ) = (1/n) Σ_i L(Φ(x_i; θ), y_i) + (weight_decay/2) ‖θ‖² (eq. 4, plus the decay that makes
it well posed), with L the logistic loss and y in {0, 1}. Leading batch dimensions are independent
training runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from recon.errors import ReconError
from recon.nets.mlp import MLP
from recon.optim.lbfgs import LBFGSSettings, lbfgs
from recon.optim.subspace import in_span
from recon.released import Weights


@dataclass(frozen=True)
class Objective:
    """E of eq. (4) for a network, labels y (n,) in {0, 1} and weight decay; a function of θ (S, p)
    and x (S, n, d).
    """

    network: MLP
    y: Tensor
    weight_decay: float

    def __post_init__(self) -> None:
        if not torch.isin(self.y, self.y.new_tensor([0.0, 1.0])).all():
            raise ReconError("labels must be 0 or 1")
        if self.weight_decay < 0:
            raise ReconError(f"weight decay must not be negative, not {self.weight_decay}")

    @staticmethod
    def of(weights: Weights) -> Objective:
        """E of the training that gave these weights; ReconError where its labels are not known."""
        if weights.y is None:
            raise ReconError("the inner problem needs the labels of the training images")
        return Objective(weights.network, weights.y, weights.weight_decay)

    def logits(self, theta: Tensor, x: Tensor) -> Tensor:
        """Φ(x; θ), (S, n)."""
        return self.network(self.network.unflatten(theta), x)

    def value(self, theta: Tensor, x: Tensor) -> Tensor:
        """E(x, y; θ), (S,)."""
        logits = self.logits(theta, x)
        losses = F.binary_cross_entropy_with_logits(
            logits, self.y.expand_as(logits), reduction="none"
        )
        return losses.mean(-1) + 0.5 * self.weight_decay * theta.square().sum(-1)

    def grad(self, theta: Tensor, x: Tensor, create_graph: bool = False) -> Tensor:
        """∇_θ E, (S, p), with a graph to x on demand."""
        theta = theta if create_graph else theta.detach()
        theta = theta if theta.requires_grad else theta.requires_grad_()
        with torch.enable_grad():
            value = self.value(theta, x).sum()
        return torch.autograd.grad(value, theta, create_graph=create_graph)[0]

    def value_and_grad(self, theta: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """(E, ∇_θ E) without a graph."""
        theta = theta.detach().requires_grad_()
        with torch.enable_grad():
            value = self.value(theta, x)
        return value.detach(), torch.autograd.grad(value.sum(), theta)[0]


@dataclass(frozen=True)
class InnerSolution:
    """
    Attributes:
        theta: θ(x) (S, p).
        logits (S, n): where Newton's method can go on from.
    """

    theta: Tensor
    logits: Tensor


def with_ones(x: Tensor) -> Tensor:
    """X̄: images with an appended 1, (..., n, d + 1)."""
    return torch.cat([x, torch.ones_like(x[..., :1])], dim=-1)


def solve_affine(
    objective: Objective,
    x: Tensor,
    logits: Tensor | None = None,
    tol: float = 1e-10,
    max_iter: int = 50,
) -> InnerSolution:
    """Minimise E over θ exactly for the affine network, by Newton's method in the n logits.
    Stationarity is θ = X̄ᵀ(y − σ(z))/(n·wd) with z = X̄θ, hence z = K(y − σ(z))/(n·wd) with the
    Gram matrix K = X̄X̄ᵀ: n unknowns instead of d + 1. E is strongly convex, so the answer does not
    depend on any start θ⁰; `logits` only saves iterations. x (S, n, d); stops when no logit changes
    by more than `tol`. Raises ReconError without decay.
    """
    if objective.network.depth != 1:
        raise ReconError("solve_affine needs the affine network")
    if objective.weight_decay <= 0:
        raise ReconError(
            "the affine inner problem needs a positive weight decay to have one solution"
        )
    xb, y = with_ones(x), objective.y
    gram = xb @ xb.mT / (len(y) * objective.weight_decay)
    z = torch.zeros_like(gram[..., 0]) if logits is None else logits
    identity = torch.eye(len(y)).to(x)
    for _ in range(max_iter):
        s = torch.sigmoid(z)
        mismatch = z + (gram @ (s - y).unsqueeze(-1)).squeeze(-1)
        step = torch.linalg.solve(
            identity + gram * (s * (1 - s)).unsqueeze(-2), mismatch.unsqueeze(-1)
        ).squeeze(-1)
        z = z - step
        if step.abs().max() <= tol:
            break
    theta = ((y - torch.sigmoid(z)).unsqueeze(-2) @ xb).squeeze(-2) / (
        len(y) * objective.weight_decay
    )
    return InnerSolution(theta, z)


#: of `solve_lbfgs`
INNER = LBFGSSettings(tol=1e-5, history=20)


def solve_lbfgs(
    objective: Objective, x: Tensor, theta: Tensor, settings: LBFGSSettings = INNER
) -> Tensor:
    """θ(x) (1, p) for any network, x (1, n, d), from `theta` (1, p), until ‖∇_θ E‖₂ ≤ tol or
    max_iter. With weight decay the minimiser's first layer lies in the span of the n images (the
    loss does not see the rest, the decay removes it): for n < d everything happens there, in n
    coordinates, exactly.
    """
    network, start, inputs, lift = objective.network, theta[0], x[0].detach(), None
    if objective.weight_decay > 0:
        network, inputs, start, lift = in_span(network, start, inputs, keep_outside=False)
    inner = replace(objective, network=network)

    def one_row(t: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = inner.value_and_grad(t[None], inputs[None])
        return value[0], grad[0]

    end = lbfgs(one_row, start, settings).theta
    return (lift(end) if lift else end)[None]
