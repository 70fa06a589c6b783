"""The gradient of one image by any `torch.nn.Module` as a system in that image, for `recon.attacks.gauss_newton`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import grad

from recon.attacks.gauss_newton import Dense, Solved, by_columns, gauss_newton
from recon.nets.module import ModuleNetwork
from recon.nets.network import Params

FAINT = 0.1  # standard deviation of a start
FIRST_STEPS, STEPS = 40, 15  # of Gauss–Newton
GROW, SHRINK, LEAST = 1.5, 0.6, 1e-4  # of the noise of a hop


@dataclass(frozen=True)
class ModuleGradient:
    """h(x) = ∇_θ ℓ(x; y)/‖∇_θ ℓ‖, all parameters as one vector, ℓ the cross-entropy.

    network · theta · label: y, 0-dim · shape: (c, h, w) of the image · released (p,): what the client sent · seed: of
    the start.
    """

    network: ModuleNetwork
    theta: Params
    label: Tensor
    shape: tuple[int, int, int]
    released: Tensor
    seed: int = 0

    @staticmethod
    def of(network: ModuleNetwork, x: Tensor, label: Tensor) -> ModuleGradient:
        """What a client with the image x (c, h, w) sends, from the parameters that the module holds."""
        shape = (x.shape[0], x.shape[1], x.shape[2])
        made = ModuleGradient(network, network.parameters(), label, shape, x.new_ones(1))
        return replace(made, released=made.gradient(x.flatten()))

    @property
    def start(self) -> Tensor:
        """N(0, 0.1²), (c·h·w,)."""
        own = torch.Generator().manual_seed(self.seed)
        return FAINT * torch.randn(math.prod(self.shape), generator=own, dtype=torch.float64)

    @property
    def target(self) -> Tensor:
        """(p,), of norm 1."""
        return self.released / self.released.norm()

    def gradient(self, x: Tensor) -> Tensor:
        """∇_θ ℓ at x (c·h·w,), (p,)."""

        def loss(theta: Params) -> Tensor:
            return F.cross_entropy(self.network(theta, x.view(1, *self.shape)), self.label.view(1))

        return torch.cat([each.flatten() for each in grad(loss)(self.theta).values()])

    def __call__(self, x: Tensor) -> Tensor:
        """h(x), (p,)."""
        return self.gradient(x) / self.released.norm()

    def linear(self, x: Tensor) -> Dense:
        """With the whole Jacobian, (p, c·h·w): for small networks."""
        return Dense(by_columns(self, x).mT)


def by_hopping(system: ModuleGradient, rounds: int, enough: float = 1e-20) -> Solved:
    """Gauss–Newton, and up to `rounds` times again from its result with noise added: basin hopping (Wales & Doye 1997).

    A result of lower energy ‖h(x) − h*‖² is kept, and the noise grows; else it shrinks.  It stops at energy ≤ `enough`.
    It goes by the energy alone, which the adversary sees.
    """
    best, size = gauss_newton(system, steps=FIRST_STEPS), FAINT / 2
    generator = torch.Generator().manual_seed(system.seed + 1)
    for _ in range(rounds):
        if best.energy[-1] <= enough:
            break
        noise = torch.randn(best.x.shape, generator=generator, dtype=best.x.dtype)
        found = gauss_newton(system, best.x + size * noise, steps=STEPS)
        if found.energy[-1] < best.energy[-1]:
            best, size = found, min(GROW * size, 2 * FAINT)
        else:
            size = max(SHRINK * size, LEAST)
    return best


def by_cosine(system: ModuleGradient, steps: int, step_size: float = 0.01) -> Tensor:
    """The plain rival: Adam on 1 − cos(∇ℓ(x), ∇ℓ) from the same start; the image of lowest energy (c·h·w,)."""
    x = system.start.requires_grad_()
    adam = torch.optim.Adam([x], lr=step_size)
    best, lowest = x.detach().clone(), math.inf
    for _ in range(steps):
        adam.zero_grad()
        energy = 1 - F.cosine_similarity(system(x), system.target, dim=0)
        if energy.item() < lowest:
            best, lowest = x.detach().clone(), energy.item()
        energy.backward()  # type: ignore[no-untyped-call]
        adam.step()
    return best


__all__ = ["ModuleGradient", "by_cosine", "by_hopping"]
