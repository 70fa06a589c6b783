"""The gradient of images by any `torch.nn.Module` as a system in them, for `recon.attacks.gauss_newton`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from recon.attacks.gauss_newton import Dense, Solved, by_columns, gauss_newton
from recon.nets.module import ModuleNetwork
from recon.released import Gradient

FAINT = 0.1  # standard deviation of a start
FIRST_STEPS, STEPS = 40, 15  # of Gauss–Newton
GROW, SHRINK, LEAST = 1.5, 0.6, 1e-4  # of the noise of a hop


@dataclass(frozen=True)
class ModuleSystem:
    """h(x) = ∇_θ ℓ(x; y)/‖∇_θ ℓ‖, all parameters as one vector, for the n images of one gradient, x (n·c·h·w,).

    gradient: in float64 · shape: of one image as the module takes it · seed: of the start.
    """

    gradient: Gradient[ModuleNetwork]
    shape: tuple[int, ...]
    seed: int = 0

    @staticmethod
    def of(gradient: Gradient[ModuleNetwork], shape: tuple[int, ...], seed: int = 0) -> ModuleSystem:
        """In float64, whatever the module computes in."""
        return ModuleSystem(gradient.to(torch.float64), shape, seed)

    @property
    def start(self) -> Tensor:
        """N(0, 0.1²), (n·c·h·w,)."""
        own = torch.Generator().manual_seed(self.seed)
        size = len(self.gradient.labels) * math.prod(self.shape)
        return FAINT * torch.randn(size, generator=own, dtype=torch.float64)

    @property
    def released(self) -> Tensor:
        """What was sent, (p,)."""
        return torch.cat([each.flatten() for each in self.gradient.gradients.values()])

    @property
    def target(self) -> Tensor:
        """(p,), of norm 1."""
        return self.released / self.released.norm()

    def __call__(self, x: Tensor) -> Tensor:
        """h(x), (p,)."""
        found = self.gradient.at(x.view(-1, *self.shape))
        return torch.cat([each.flatten() for each in found.values()]) / self.released.norm()

    def linear(self, x: Tensor) -> Dense:
        """With the whole Jacobian, (p, n·c·h·w): for small networks."""
        return Dense(by_columns(self, x).mT)


def by_hopping(system: ModuleSystem, rounds: int, enough: float = 1e-20) -> Solved:
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


def by_cosine(system: ModuleSystem, steps: int, step_size: float = 0.01) -> Tensor:
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


__all__ = ["ModuleSystem", "by_cosine", "by_hopping"]
