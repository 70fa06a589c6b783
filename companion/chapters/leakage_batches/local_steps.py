"""What local steps of a client leave of a batch's gradient, and the size of images that are known up to scale."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recon.attacks.batches import BatchSystem
from recon.attacks.gauss_newton import Dense, by_columns
from recon.errors import ReconError


@dataclass(frozen=True)
class LocalSteps:
    """Federated averaging: (θ − θ_k)/(k · step_size), θ_k after k steps of gradient descent on the batch (p,).

    For k = 1 it is the mean gradient.  target: what the client sent, divided so.
    """

    batch: BatchSystem
    k: int
    step_size: float
    target: Tensor

    @staticmethod
    def of(batch: BatchSystem, k: int, step_size: float, x: Tensor) -> LocalSteps:
        """What a client with the images x (n·c·h·w,) sends.  ReconError unless k ≥ 1 and step_size > 0."""
        if k < 1 or not step_size > 0:
            raise ReconError(f"at least one step of positive size, not {k} of {step_size}")
        made = LocalSteps(batch, k, step_size, torch.zeros_like(batch.target))
        return LocalSteps(batch, k, step_size, made(x))

    @property
    def start(self) -> Tensor:
        """The batch's."""
        return self.batch.start

    def __call__(self, x: Tensor) -> Tensor:
        """The update, (p,)."""
        theta, total = dict(self.batch.theta), torch.zeros_like(self.batch.target)
        sizes = [each.numel() for each in theta.values()]
        for _ in range(self.k):
            gradient = self.batch.mean_gradient(theta, x)
            total = total + gradient
            pieces = zip(theta.items(), gradient.split(sizes), strict=True)
            theta = {name: value - self.step_size * piece.view_as(value) for (name, value), piece in pieces}
        return total / self.k

    def linear(self, x: Tensor) -> Dense:
        """With the whole Jacobian: for small networks and batches."""
        return Dense(by_columns(self, x).mT)


def scaled_by_bias(sources: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Images (r, d) at their true size and sign, from directions s_k (r, d) that are images up to a factor.

    Of a fully connected first layer ∇_W ℓ = A X and ∇_b ℓ = A 1 with the images X (n, d) as rows, so that the w of
    least norm with (∇_W ℓ) w = ∇_b ℓ has ⟨x_i, w⟩ = 1 for every image: x̂_k = s_k/⟨s_k, w⟩.
    """
    solution = torch.linalg.lstsq(weight.double().cpu(), bias.double().cpu(), driver="gelsd").solution
    along = sources.double().cpu() @ solution
    return (sources.double().cpu() / along[:, None]).to(sources)
