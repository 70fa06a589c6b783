"""Training images out of θ* − θ⁰, where the start is known: the attack of Loo et al. (2024).

Near the infinite-width limit a network changes so little that training is linear in its parameters, and gradient
descent from θ⁰ ends at θ* = θ⁰ + Σ_i c_i ∇_θ Φ(x_i) with signed c_i.  So look for images and coefficients that minimise

    energy = ‖θ* − θ⁰ − Σ_i c_i ∇_θ Φ(x_i; θ*)‖² + ω_box Σ_i mean(relu(x_i − 1)² + relu(−1 − x_i)²).

As in their code (github.com/yolky/understanding_reconstruction) ReLU is softplus(β z)/β here, with a β that grows from
11 to 200 in the course of the search, which ends where its last step leads.  What differs: their box is that of the
pixels minus the known mean, ours [−1, 1], as in DecoReco.

The attack sees the network, θ* and what is known of θ⁰; never an image, and no label.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from recon.errors import ReconError
from recon.nets.mlp import MLP
from recon.nets.network import Params
from recon.optim.descent import Adam
from recon.optim.tree import State, dot, unevaluated
from recon.released import Weights

START_STD = 0.2  # of the images' start, as in their code
AMPLE = 2  # candidates for each training image, as in theirs
BETAS = (11.0, 200.0)


def beta(k: int, steps: int) -> float:
    """Of the softplus at step k of so many: 10 + 10^(4k/steps), at most 200.

    >>> beta(0, 100), beta(25, 100), beta(100, 100)
    (11.0, 20.0, 200.0)
    """
    return min(BETAS[0] - 1 + 10 ** (4 * k / steps), BETAS[1])


@dataclass(frozen=True)
class TangentMatching:
    """Minimise the energy above over S restarts at once, with m candidates each.

    weights: θ* (p,) and θ⁰ (p,) · multipliers_init (S, m): at which to start, c in units of `unit` · steps: of the
    whole search · optimiser: of both · box_weight: ω_box · unit: of the coefficients, 1 as in their code, or what
    `unit_of` says.  ReconError for weights without a start, or more than one θ*.
    """

    weights: Weights
    multipliers_init: Tensor
    steps: int
    optimiser: Adam = Adam(0.02, (0.9, 0.999), 1e-8)
    box_weight: float = 0.1
    unit: float = 1.0

    def __post_init__(self) -> None:
        if self.weights.theta_init is None:
            raise ReconError("the tangent attack needs to know the start θ⁰, or something near it")
        if self.weights.theta_star.dim() != 1:
            raise ReconError(f"one θ* is wanted, not {tuple(self.weights.theta_star.shape)}")
        if self.multipliers_init.dim() != 2 or self.steps < 1:
            raise ReconError("multipliers_init must have shape (starts, m), and steps be positive")

    @property
    def network(self) -> MLP:
        """That of `weights`."""
        return self.weights.network

    @cached_property
    def update(self) -> Params:
        """θ* − θ⁰, by name."""
        init = self.weights.params_init
        assert init is not None
        return {name: value - init[name] for name, value in self.weights.params.items()}

    def init(self, x_init: Tensor) -> State:
        """State at x_init (S, m, d), with the restarts' coefficients."""
        if x_init.shape[:2] != self.multipliers_init.shape or x_init.shape[2] != self.network.dim:
            raise ReconError(
                f"x_init {tuple(x_init.shape)} does not fit {tuple(self.multipliers_init.shape)} candidates"
            )
        return {
            "x": self.optimiser.init(x_init),
            "multipliers": self.optimiser.init(self.multipliers_init),
            "accepted": unevaluated(x_init, multipliers=self.multipliers_init.clone()),
        }

    def energy(self, x: Tensor, multipliers: Tensor, beta: float) -> Tensor:
        """Of images x (S, m, d) with coefficients (S, m) in units of `unit`; (S,)."""
        network, update = replace(self.network, smoothing=beta), self.update
        p = network.passes(self.weights.params, x, torch.ones_like)
        outside = (x - 1).clamp_min(0).square() + (-1 - x).clamp_min(0).square()
        total = self.box_weight * outside.mean(-1).sum(-1)
        for layer, (weight, bias) in enumerate(network.names, start=1):
            sent = self.unit * multipliers.unsqueeze(-1) * p.delta[layer]
            residual = torch.baddbmm(update[weight].expand(len(x), -1, -1), sent.mT, p.h[layer - 1], alpha=-1)
            rest = dot(residual, residual)
            if bias:
                rest = rest + (update[bias] - sent.sum(-2)).square().sum(-1)
            total = total + rest
        return total

    def step(self, state: State) -> State:
        """Evaluate, and move images and coefficients."""
        x, c = (state[name]["x"].detach().requires_grad_() for name in ("x", "multipliers"))
        with torch.enable_grad():
            energy = self.energy(x, c, beta(int(state["x"]["taken"]), self.steps))
        grad_x, grad_c = torch.autograd.grad(energy.sum(), (x, c))
        energy = energy.detach()
        return {
            "x": self.optimiser.step(state["x"], energy, grad_x),
            "multipliers": self.optimiser.step(state["multipliers"], energy, grad_c),
            "accepted": {"x": x.detach(), "energy": energy, "multipliers": c.detach()},
        }


def unit_of(weights: Weights, x: Tensor) -> float:
    """‖θ* − θ⁰‖ / (√m · root mean square of ‖∇_θ Φ(x_i; θ*)‖) for images x (m, d).

    The size of m equal coefficients of tangents at right angles to each other that would make the whole update: Adam's
    step is a sensible share of that, and of nothing else that the adversary sees.
    """
    assert weights.params_init is not None
    network, update, gradient = weights.network, 0.0, 0.0
    p = network.passes(weights.params, x, torch.ones_like)
    for layer, (weight, bias) in enumerate(network.names, start=1):
        h2 = p.h[layer - 1].square().sum(-1) + (1 if bias else 0)
        gradient += (h2 * p.delta[layer].square().sum(-1)).sum().item()
        for name in filter(None, (weight, bias)):
            update += (weights.params[name] - weights.params_init[name]).square().sum().item()
    return (update / gradient) ** 0.5


def random_candidates(m: int, dim: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """One start as in their code: images (1, m, dim) of N(0, 0.2²), and coefficients (1, m) of U(−½, ½)."""
    return START_STD * torch.randn(1, m, dim, generator=generator), torch.rand(1, m, generator=generator) - 0.5
