"""All that an adversary sees: `Weights` of a trained network.  Attacks take this and nothing else of the victim's."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recon.errors import ReconError
from recon.nets.mlp import MLP, Params


@dataclass(frozen=True)
class Weights:
    """A released network.

    network · theta_star: θ* (p,), or one per row (S, p) · theta_init: θ⁰ of the same shape, where it is known · y:
    labels (n,) of the training images, where they are known · weight_decay: of the training, 0 for none · n_train:
    number of the training images, where it is known.
    ReconError unless θ* and θ⁰ fit the network and are finite.
    """

    network: MLP
    theta_star: Tensor
    theta_init: Tensor | None = None
    y: Tensor | None = None
    weight_decay: float = 0.0
    n_train: int | None = None

    def __post_init__(self) -> None:
        for name, theta in (("θ*", self.theta_star), ("θ⁰", self.theta_init)):
            if theta is None:
                continue
            if theta.dim() < 1 or theta.shape[-1] != self.network.n_params:
                raise ReconError(
                    f"{name} has shape {tuple(theta.shape)}, the network {self.network.n_params} parameters"
                )
            if not torch.isfinite(theta).all():
                raise ReconError(f"{name} holds numbers that are not finite")
        if self.theta_init is not None and self.theta_init.shape != self.theta_star.shape:
            raise ReconError(f"θ⁰ has shape {tuple(self.theta_init.shape)}, θ* {tuple(self.theta_star.shape)}")

    @property
    def params(self) -> Params:
        """θ* by name."""
        return self.network.unflatten(self.theta_star)

    @property
    def params_init(self) -> Params | None:
        """θ⁰ by name, where it is known."""
        return None if self.theta_init is None else self.network.unflatten(self.theta_init)
