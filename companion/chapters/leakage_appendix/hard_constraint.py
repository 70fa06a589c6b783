"""Hybrid's correction with U x = V as a hard constraint, eq. (11) of Chen & Campbell (2022), Appendix B.

    min_x  α Σ_j D(g_j(x), g_j) + β TV(x)   subject to   U x = V.

The paper tried trust regions (Nocedal & Wright 2006; Lalee, Nocedal & Plantenga 1998, which is SciPy's `trust-constr`)
and found them slow; it then made the constraint soft, eq. (16).  Here x = x_0 + N c, with N an orthonormal basis of the
kernel of U: the constraint holds for every c, and any method for problems without constraints will do.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from recon.attacks.gauss_newton import RowSpace
from recon.attacks.gradient_matching import GradientMatching
from recon.attacks.rgap import LayerSystem, system_of
from recon.errors import ReconError
from recon.nets.conv import ConvNet


@dataclass(frozen=True)
class Course:
    """After every step, the start's first: the image of lowest energy so far (steps + 1, c·h·w), and the processor's
    seconds since the start (steps + 1,)."""

    x: Tensor
    seconds: Tensor


@dataclass(frozen=True)
class HardConstraint:
    """One layer of one image: the energy without its γ term, and where x may be.

    matching: `GradientMatching` of B = 1 with γ = 0 · start (c·h·w,): a solution of U x = V · kernel (c·h·w, k): an
    orthonormal basis of what U does not see.
    """

    matching: GradientMatching
    start: Tensor
    kernel: Tensor

    @staticmethod
    def of(matching: GradientMatching, layer: LayerSystem) -> HardConstraint:
        """From the layer's minimum-norm solution; ReconError unless it is the layer that `matching` is about, and has a
        kernel."""
        if matching.first != layer.layer:
            raise ReconError(f"the energy is about layer {matching.first}, the system about layer {layer.layer}")
        network = matching.gradient.network
        if not isinstance(network, ConvNet):
            raise ReconError("the linear systems are those of a ConvNet")
        conv, shape = network.convs[layer.layer - 1], network.image_shapes()[layer.layer - 1]
        weight = matching.gradient.theta[f"w{layer.layer}"].double()
        system = torch.from_numpy(system_of(conv, weight, layer.delta[0], shape).dense())
        seen = RowSpace.of(system).basis
        if seen.shape[0] == seen.shape[1]:
            raise ReconError("U x = V has one solution only: nothing is left to choose")
        kernel = torch.linalg.qr(seen, mode="complete").Q[:, seen.shape[1] :]
        return HardConstraint(matching, layer.x.flatten(), kernel.contiguous())

    def at(self, c: np.ndarray) -> Tensor:
        """x_0 + N c."""
        return self.start + self.kernel @ torch.from_numpy(c)

    def value_and_grad(self, x: Tensor) -> tuple[float, Tensor]:
        """Of the energy at x (c·h·w,), in the precision of the gradient."""
        dtype = self.matching.gradient.theta["w1"].dtype
        leaf = x.detach().clone().to(dtype).requires_grad_()
        with torch.enable_grad():
            energy = self.matching.energy(leaf.view(1, *self.matching.shape))
        (grad,) = torch.autograd.grad(energy.sum(), leaf)
        return energy.item(), grad.double()

    def violation(self, x: Tensor) -> float:
        """Length of the part of x − x_0 that U sees, over ‖x_0‖."""
        moved = x.double() - self.start
        return float((moved - self.kernel @ (self.kernel.mT @ moved)).norm() / self.start.norm())


def by_trust_region(problem: HardConstraint, steps: int) -> Course:
    """SciPy's `trust-constr`: steps within a trust region, second derivatives by BFGS."""
    return _minimised(problem, "trust-constr", {"maxiter": steps, "gtol": 0.0, "xtol": 0.0})


def by_lbfgs(problem: HardConstraint, steps: int) -> Course:
    """SciPy's L-BFGS: no matrix of second derivatives."""
    return _minimised(problem, "L-BFGS-B", {"maxiter": steps, "maxfun": 4 * steps, "ftol": 0.0, "gtol": 0.0})


def _minimised(problem: HardConstraint, method: str, options: dict[str, float]) -> Course:
    began, lowest = time.process_time(), problem.value_and_grad(problem.start)[0]
    images, seconds = [problem.start], [0.0]
    best = problem.start

    def value(c: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best, lowest
        x = problem.at(c)
        energy, grad = problem.value_and_grad(x)
        if energy < lowest:
            best, lowest = x, energy
        return energy, (problem.kernel.mT @ grad).numpy()

    def note(*_: object) -> None:
        images.append(best)
        seconds.append(time.process_time() - began)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a step so short that float32 sees no change of the gradient
        minimize(value, np.zeros(problem.kernel.shape[1]), jac=True, method=method, callback=note, options=options)
    return Course(torch.stack(images), torch.tensor(seconds))
