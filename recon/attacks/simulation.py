"""The start θ⁰ and the recipe known: images whose *simulated* training ends at θ* (SimuDy: Tian et al. 2025).

With u(X) = θ_T(X) − θ⁰, T steps of training on the candidates X, and u* = θ* − θ⁰, first the published energy,

    E(X) = 1 − ⟨u(X), u*⟩ / (‖u(X)‖ ‖u*‖) + τ TV(X),

by Adam through all T steps, then, ours, the plain system u(X) = u* by L-BFGS on

    r(X)² = ‖u(X) − u*‖² / ‖u*‖²,

without any prior.  r is what the adversary sees: it is 0 at the training images.  As in the published code the labels
are known, here one by one.  What differs: their start is pre-trained, their Adam takes 30 000 steps, and pixels are
kept in their range.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from recon.attacks.gauss_newton import by_columns
from recon.attacks.gradient_matching import total_variation
from recon.attacks.reconstruct import reconstruct
from recon.errors import ReconError
from recon.nets.network import Params
from recon.optim.descent import Adam, cosine
from recon.optim.lbfgs_in_place import InPlaceSettings, lbfgs_in_place
from recon.optim.loop import Checkpoint
from recon.optim.tree import State, keep, unevaluated
from recon.training.simulated import Simulation

BOX = (-0.5, 0.5)
START_STD = 0.1
SCALE = 100.0  # of r² in L-BFGS, whose tolerance is absolute


@dataclass(frozen=True)
class SimulationSettings:
    """steps, step_size: of Adam · tv: τ · polish: iterations of L-BFGS, 0 for none."""

    steps: int = 300
    step_size: float = 0.03
    tv: float = 1e-3
    polish: int = 300


@dataclass(frozen=True)
class SimulationMatching:
    """E for images x (1, n, c·h·w), one start at a time; shape: (c, h, w)."""

    training: Simulation
    wanted: Tensor
    shape: tuple[int, int, int]
    settings: SimulationSettings

    @property
    def optimiser(self) -> Adam:
        """What moves x."""
        return Adam(self.settings.step_size, (0.9, 0.999), 1e-8)

    def init(self, x_init: Tensor) -> State:
        """State at x_init (1, n, c·h·w)."""
        if len(x_init) != 1:
            raise ReconError(f"one start at a time, not {len(x_init)}")
        return {"adam": self.optimiser.init(x_init), "accepted": unevaluated(x_init)}

    def energy(self, x: Tensor) -> Tensor:
        """Of images x (n, c, h, w), a scalar."""
        update = self.training.update(x)
        return 1 - torch.cosine_similarity(update, self.wanted, dim=0) + self.settings.tv * total_variation(x).mean()

    def step(self, state: State) -> State:
        """Evaluate, keep the best by energy, move."""
        x, taken = state["adam"]["x"], int(state["adam"]["taken"])
        leaf = x.detach().requires_grad_()
        with torch.enable_grad():
            energy = self.energy(leaf.view(-1, *self.shape))[None]
        (slope,) = torch.autograd.grad(energy.sum(), leaf)
        energy = energy.detach()
        accepted = keep(energy < state["accepted"]["energy"], {"x": x, "energy": energy}, state["accepted"])
        adam = self.optimiser.step(state["adam"], energy, slope, cosine(taken, self.settings.steps, 0.01))
        adam["x"] = adam["x"].clamp(*BOX)
        return {"adam": adam, "accepted": accepted}


@dataclass(frozen=True)
class Simulated:
    """x_hat (n, c, h, w) · matched (n, c, h, w): before L-BFGS · residual, residual_matched: r of both, what the
    adversary sees."""

    x_hat: Tensor
    residual: float
    matched: Tensor
    residual_matched: float


@contextmanager
def one_thread() -> Iterator[None]:
    """Many small products: several threads wait for each other longer than they compute, for minutes on a busy CPU."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@one_thread()
def simulate(
    training: Simulation,
    theta_star: Params,
    shape: tuple[int, int, int],
    settings: SimulationSettings,
    generator: torch.Generator,
    checkpoint: Checkpoint | None = None,
) -> Simulated:
    """The attack, from N(0, 0.1²): one image of `shape` (c, h, w) for every label of `training`.

    ReconError where θ* is θ⁰: nothing was trained.
    """
    wanted = training.difference(theta_star).detach()
    size = wanted.norm()
    if not size > 0:
        raise ReconError("θ* is θ⁰: there is no training to simulate")
    n = len(training.labels)
    x_init = START_STD * torch.randn(1, n, torch.Size(shape).numel(), generator=generator).to(wanted)
    attack = SimulationMatching(training, wanted, shape, settings)
    matched = reconstruct(attack, x_init, settings.steps, checkpoint=checkpoint, label="simulating").x_hat[0]

    def squared(x: Tensor) -> tuple[Tensor, Tensor]:
        leaf = x.detach().requires_grad_()
        with torch.enable_grad():
            value = SCALE * (training.update(leaf.view(n, *shape)) - wanted).square().sum() / size**2
        (slope,) = torch.autograd.grad(value, leaf)
        return value.detach(), slope

    def residual(x: Tensor) -> float:
        return ((training.update(x.view(n, *shape)) - wanted).norm() / size).item()

    solver = InPlaceSettings(tol=1e-9, max_iter=settings.polish, history=30, trials=10)
    x_hat = lbfgs_in_place(squared, matched.flatten(), solver).theta
    return Simulated(x_hat.view(n, *shape), residual(x_hat), matched.view(n, *shape), residual(matched))


@dataclass(frozen=True)
class Certificate:
    """What the adversary computes at their solution X.  rank: of ∂θ_T/∂X · unknowns: n·c·h·w, the rank that fixes X ·
    step (n, c, h, w): of Gauss–Newton, what X lacks to first order; in the directions that the rank does not cover it
    is 0, and nothing is known."""

    rank: int
    unknowns: int
    step: Tensor

    @property
    def whole(self) -> bool:
        """Whether no other images nearby train to the same weights."""
        return self.rank == self.unknowns

    @property
    def error(self) -> float:
        """Root mean square of `step`: how far off the pixels are, if the rank is whole."""
        return self.step.square().mean().sqrt().item()


@one_thread()
def certificate(training: Simulation, theta_star: Params, x: Tensor) -> Certificate:
    """At images x (n, c, h, w): rank as `recon.attacks.gauss_newton.RowSpace` counts it, step (JᵀJ)⁺ Jᵀ (u* − u(X)).

    In float64; p · n·c·h·w numbers are held at once.
    """
    exact = training.to(torch.float64)
    x = x.detach().double()
    rest = exact.difference({name: value.double() for name, value in theta_star.items()}) - exact.update(x)
    columns = by_columns(lambda flat: exact.update(flat.view_as(x)), x.flatten())
    squares, vectors = torch.linalg.eigh(columns @ columns.mT)
    counted = squares > torch.finfo(squares.dtype).eps * squares.sum()
    basis = vectors[:, counted]
    step = basis @ (basis.mT @ (columns @ rest) / squares[counted])
    return Certificate(int(counted.sum()), x.numel(), step.view_as(x))


__all__ = ["Certificate", "Simulated", "SimulationMatching", "SimulationSettings", "certificate", "simulate"]
