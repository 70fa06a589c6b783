"""Training as a function of its images: θ_{t+1} = θ_t − η ∇ℓ(θ_t; X), T times, which can be differentiated by X.

What an adversary can simulate who holds the start θ⁰, the labels and the recipe.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad

from recon.errors import ReconError
from recon.nets.network import Params


@dataclass(frozen=True)
class Simulation:
    """`steps` steps of full-batch gradient descent on the mean cross-entropy.

    module: whose parameters are replaced; its buffers stay as they are · theta_init: θ⁰ by name · labels (n,): classes
    of the images, in their order · step_size: η.  ReconError for batch norm that keeps running means while it trains
    (they would be written by every simulated step), no step, or a step of no size.
    """

    module: nn.Module
    theta_init: Params
    labels: Tensor
    step_size: float
    steps: int

    def __post_init__(self) -> None:
        norms = [each for each in self.module.modules() if isinstance(each, nn.BatchNorm2d)]
        if any(norm.training and norm.track_running_stats for norm in norms):
            raise ReconError("batch norm in training mode must not track running means: they would be overwritten")
        if self.steps < 1 or not self.step_size > 0:
            raise ReconError(f"at least one step of positive size, not {self.steps} of {self.step_size}")

    @staticmethod
    def of(module: nn.Module, labels: Tensor, step_size: float, steps: int) -> Simulation:
        """From the parameters that the module has now."""
        theta = {name: value.detach().clone() for name, value in module.named_parameters()}
        return Simulation(module, theta, labels, step_size, steps)

    def to(self, dtype: torch.dtype) -> Simulation:
        """The same in another precision; the module's buffers with it."""
        theta = {name: value.to(dtype) for name, value in self.theta_init.items()}
        return Simulation(deepcopy(self.module).to(dtype), theta, self.labels, self.step_size, self.steps)

    def loss(self, theta: Params, x: Tensor) -> Tensor:
        """Mean cross-entropy of images x (n, c, h, w) with `labels`."""
        return F.cross_entropy(functional_call(self.module, theta, (x,)), self.labels)

    def __call__(self, x: Tensor) -> Params:
        """θ_T by name, from images x (n, c, h, w)."""
        theta = self.theta_init
        for _ in range(self.steps):
            slope = grad(self.loss)(theta, x)
            theta = {name: value - self.step_size * slope[name] for name, value in theta.items()}
        return theta

    def update(self, x: Tensor) -> Tensor:
        """θ_T − θ⁰ as one vector (p,)."""
        return self.difference(self(x))

    def difference(self, theta: Params) -> Tensor:
        """θ − θ⁰ as one vector (p,)."""
        return torch.cat([(value - self.theta_init[name]).flatten() for name, value in theta.items()])


__all__ = ["Simulation"]
