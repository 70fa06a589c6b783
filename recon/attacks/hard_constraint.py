"""Hybrid's correction with U x = V as a hard constraint, eq. (11) of Chen & Campbell (2022), Appendix B.

    min_x  α Σ_j D(g_j(x), g_j) + β TV(x)   subject to   U x = V.

The paper tried trust regions (Nocedal & Wright 2006; Lalee, Nocedal & Plantenga 1998, which is SciPy's `trust-constr`)
and found them slow; it then made the constraint soft, eq. (16).  A plain alternative: Adam, with every step projected
onto the kernel of U.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import LinearConstraint, minimize
from torch import Tensor

from recon.attacks.gauss_newton import RowSpace
from recon.attacks.gradient_matching import BETAS, EPS, PAPERS, GradientMatching
from recon.attacks.operators import system_of
from recon.attacks.rgap import LayerSystem
from recon.optim.descent import Adam


@dataclass(frozen=True)
class Course:
    """x (c·h·w,): the image of lowest energy · energy, seconds (steps + 1,): the lowest so far after every step, the
    start's first, and the processor's time since it."""

    x: Tensor
    energy: Tensor
    seconds: Tensor


@dataclass(frozen=True)
class HardConstraint:
    """One layer of one image: the energy without its γ term, and the rows that x must not leave.

    matching: `GradientMatching` of B = 1 with γ = 0 · start (c·h·w,): a solution of U x = V · rows: the row space of U.
    """

    matching: GradientMatching
    start: Tensor
    rows: RowSpace

    @staticmethod
    def of(matching: GradientMatching, layer: LayerSystem) -> HardConstraint:
        """From the layer's minimum-norm solution."""
        conv = matching.gradient.network.convs[layer.layer - 1]
        weight = matching.gradient.theta[f"w{layer.layer}"].double()
        system = system_of(conv, weight, layer.delta[0], matching.shape)
        return HardConstraint(matching, layer.x.flatten(), RowSpace.of(torch.from_numpy(system.dense())))

    def value_and_grad(self, x: Tensor) -> tuple[float, Tensor]:
        """Of the energy at x (c·h·w,), in the precision of the gradient."""
        dtype = self.matching.gradient.theta["w1"].dtype
        leaf = x.detach().clone().to(dtype).requires_grad_()
        with torch.enable_grad():
            energy = self.matching.energy(leaf.view(1, *self.matching.shape))
        (grad,) = torch.autograd.grad(energy.sum(), leaf)
        return energy.item(), grad.double()

    def violation(self, x: Tensor) -> float:
        """‖Q (x − x_0)‖ / ‖x_0‖, Q an orthonormal basis of the rows."""
        return float((self.rows.basis.mT @ (x.double() - self.start)).norm() / self.start.norm())


def by_trust_region(problem: HardConstraint, steps: int) -> Course:
    """SciPy's `trust-constr` (Byrd–Omojokun SQP in a trust region, BFGS), U x = V given by an orthonormal basis."""
    basis = problem.rows.basis.mT.contiguous().numpy()
    seen = _Seen(problem)

    def value(x: np.ndarray) -> tuple[float, np.ndarray]:
        energy, grad = seen(torch.from_numpy(x))
        return energy, grad.numpy()

    fixed = basis @ problem.start.numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a step so short that float32 sees no change of the gradient
        minimize(
            value,
            problem.start.numpy(),
            jac=True,
            method="trust-constr",
            constraints=LinearConstraint(basis, fixed, fixed),
            callback=lambda *_: seen.note(),
            options={"maxiter": steps, "gtol": 0.0, "xtol": 0.0, "factorization_method": "QRFactorization"},
        )
    return seen.course()


def by_projection(problem: HardConstraint, steps: int) -> Course:
    """Adam as in the paper, its gradient and its steps projected onto the kernel of U."""
    adam = Adam(PAPERS.step_size, BETAS, EPS)
    seen = _Seen(problem)
    start = problem.start[None, None]
    state = adam.init(start)
    energy, grad = seen(state["x"].flatten())
    for _ in range(steps):
        moved = adam.step(state, torch.tensor([energy]), problem.rows.unseen(grad)[None, None])
        moved["x"] = state["x"] + problem.rows.unseen((moved["x"] - state["x"]).flatten())[None, None]
        state = moved
        energy, grad = seen(state["x"].flatten())
        seen.note()
    return seen.course()


class _Seen:
    """The energy, which remembers the best x that does not violate the constraint, and when."""

    ALLOWED = 1e-6

    def __init__(self, problem: HardConstraint) -> None:
        self.problem, self.began = problem, time.process_time()
        self.x, self.lowest = problem.start, problem.value_and_grad(problem.start)[0]
        self.energies, self.seconds = [self.lowest], [0.0]

    def __call__(self, x: Tensor) -> tuple[float, Tensor]:
        energy, grad = self.problem.value_and_grad(x)
        if energy < self.lowest and self.problem.violation(x) <= self.ALLOWED:
            self.x, self.lowest = x.clone(), energy
        return energy, grad

    def note(self) -> None:
        """One step is done."""
        self.energies.append(self.lowest)
        self.seconds.append(time.process_time() - self.began)

    def course(self) -> Course:
        """What was seen."""
        return Course(self.x, torch.tensor(self.energies), torch.tensor(self.seconds))


__all__ = ["Course", "HardConstraint", "by_projection", "by_trust_region"]
