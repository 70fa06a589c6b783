"""Descent schemes that treat every row of a batch as a problem of its own, all with the same two
methods.

`init(x)` gives a state, a tree of tensors, whose "x" is the next point at which energy and gradient
are wanted; `step(state, energy, grad)` takes them and gives the next state. `HeavyBall` is gradient
descent with momentum whose step finds its own length: the outer iteration of eq. (7) and, on the
logarithm of the loss, the descent to the KKT regime. It keeps the best point as "accepted". `SGD`
and `Adam` take every step, whatever the energy: DecoReco's.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from recon.optim.tree import State, chosen, dot, keep, rows, unevaluated


@dataclass(frozen=True)
class HeavyBall:
    """Gradient descent with momentum, an adaptive step, and a restart after every rejected step.

    v ← μ v + ∇E(x), x ← x − η v. A step that lowered E makes η grow by `grow`; one that raised it
    is taken back, η shrinks by `shrink` and v starts again from zero (cf. O'Donoghue & Candès
    2015). Rows are independent.

    The energy decides, nothing else: no truth enters. A row whose energy is ≤ `tol` stops where it
    is. `box`: bounds to which every proposal is clipped (projected descent).

    Attributes:
        max_relative_step: η shrinks so that ‖η v‖ ≤ max_relative_step · max(‖x‖, 1).
    """

    step_size: float = 1.0
    momentum: float = 0.9
    grow: float = 1.1
    shrink: float = 0.5
    tol: float = 0.0
    box: tuple[float, float] | None = None
    max_relative_step: float = math.inf

    def init(self, x: Tensor) -> State:
        """State before the first evaluation; x (S, ...) is the first proposal. "accepted": x,
        energy (S,), grad.
        """
        accepted = unevaluated(x, grad=torch.zeros_like(x))
        step_size = torch.full_like(accepted["energy"], self.step_size)
        return {
            "x": x.clone(),
            "velocity": torch.zeros_like(x),
            "step_size": step_size,
            "accepted": accepted,
        }

    def step(self, state: State, energy: Tensor, grad: Tensor) -> State:
        """Accept or reject the proposal state["x"], given its energy (S,) and gradient, and make
        the next one.
        """
        before = state["accepted"]
        # a NaN energy is not better: it is rejected like any bad step
        better = energy < before["energy"]
        accepted = keep(better, {"x": state["x"], "energy": energy, "grad": grad}, before)
        first = torch.isinf(before["energy"])
        step_size = state["step_size"] * torch.where(
            first, 1.0, torch.where(better, self.grow, self.shrink)
        )
        velocity = self.momentum * chosen(better, state["velocity"], 0.0) + accepted["grad"]
        step_size = self._limited(step_size, velocity, accepted["x"])
        active = accepted["energy"] > self.tol
        proposal = accepted["x"] - chosen(active, rows(step_size, velocity) * velocity, 0.0)
        proposal = proposal if self.box is None else proposal.clamp(*self.box)
        return {"x": proposal, "velocity": velocity, "step_size": step_size, "accepted": accepted}

    def _limited(self, step_size: Tensor, velocity: Tensor, x: Tensor) -> Tensor:
        """η (S,), made smaller where the step would be longer than `max_relative_step` allows."""
        if self.max_relative_step == math.inf:
            return step_size
        length, size = step_size * dot(velocity, velocity).sqrt(), dot(x, x).sqrt().clamp_min(1.0)
        longest = self.max_relative_step * size
        return step_size * (longest / length.clamp_min(torch.finfo(length.dtype).tiny)).clamp_max(
            1.0
        )


@dataclass(frozen=True)
class SGD:
    """v ← μ v + g, x ← x − η v; momentum 0 is plain gradient descent."""

    step_size: float
    momentum: float = 0.0

    def init(self, x: Tensor) -> State:
        """State before the first evaluation; x (S, ...) is the first point."""
        return {"x": x.clone(), "velocity": torch.zeros_like(x)}

    def step(self, state: State, energy: Tensor, grad: Tensor, factor: float = 1.0) -> State:
        """The next point, with step size η · factor; the energy does not matter."""
        velocity = self.momentum * state["velocity"] + grad
        return {"x": state["x"] - self.step_size * factor * velocity, "velocity": velocity}


@dataclass(frozen=True)
class Adam:
    """Kingma & Ba (2015), each entry with its own scale; same interface as `SGD`."""

    step_size: float
    betas: tuple[float, float] = (0.9, 0.99)
    eps: float = 1e-12

    def init(self, x: Tensor) -> State:
        """State before the first evaluation; x (S, ...) is the first point."""
        # a counter stays on the host: reading it must not wait for a GPU
        taken = torch.zeros((), dtype=torch.int64)
        return {
            "x": x.clone(),
            "mean": torch.zeros_like(x),
            "square": torch.zeros_like(x),
            "taken": taken,
        }

    def step(self, state: State, energy: Tensor, grad: Tensor, factor: float = 1.0) -> State:
        """The next point, with step size η · factor; the energy does not matter."""
        b1, b2 = self.betas
        taken = state["taken"] + 1
        k = int(taken)
        mean = torch.lerp(grad, state["mean"], b1)
        square = torch.lerp(grad.square(), state["square"], b2)
        step = mean / (1 - b1**k) / ((square / (1 - b2**k)).sqrt() + self.eps)
        return {
            "x": state["x"] - self.step_size * factor * step,
            "mean": mean,
            "square": square,
            "taken": taken,
        }


def cosine(k: int, steps: int, final: float = 0.05) -> float:
    """Schedule factor: from 1 down to `final` over `steps`, along half a cosine."""
    return final + (1 - final) * 0.5 * (1 + math.cos(math.pi * min(k / steps, 1.0)))
