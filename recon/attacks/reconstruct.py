"""From a start to a reconstruction: every attack runs here, and stops by its own energy and budget
alone.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from recon.errors import ReconError
from recon.optim.loop import Checkpoint, LoopSettings, iterate
from recon.optim.tree import State


class Attack(Protocol):
    """State is a tree of tensors with at least "accepted", itself with at least x (S, n, d) and its
    energy (S,).
    """

    def init(self, x_init: Tensor) -> State: ...

    def step(self, state: State) -> State: ...


@dataclass(frozen=True)
class Reconstruction:
    """
    Attributes:
        x_hat: (S, n, d).
        energy: (S,) of x_hat.
        history: (steps, S) energy after each step.
        steps.
        converged: (S,) whether the energy reached the tolerance.
        accepted: what else the attack keeps with x_hat, by name.
    """

    x_hat: Tensor
    energy: Tensor
    history: Tensor
    steps: int
    converged: Tensor
    accepted: State


def reconstruct(
    attack: Attack,
    x_init: Tensor,
    steps: int,
    tol: float = 0.0,
    checkpoint: Checkpoint | None = None,
    every_s: float = 20.0,
    label: str = "reconstruct",
) -> Reconstruction:
    """Run `attack` from x_init (S, n, d) until every row's energy is ≤ tol, or for `steps`
    iterations. Raises ReconError for non-finite or wrongly shaped starts.

    Args:
        checkpoint: where the state goes every `every_s` seconds, and from which an interrupted run
            goes on to the same answer.
    """
    if x_init.dim() != 3 or 0 in x_init.shape:
        raise ReconError(f"x_init must have shape (starts, n, d), not {tuple(x_init.shape)}")
    if not torch.isfinite(x_init).all():
        raise ReconError("x_init holds numbers that are not finite")
    settings = LoopSettings(steps, tol, x_init.device, label, every_s)
    state, history = iterate(lambda: attack.init(x_init), attack.step, settings, checkpoint)
    accepted = dict(state["accepted"])
    x_hat, energy = accepted.pop("x"), accepted.pop("energy")
    return Reconstruction(x_hat, energy, history, len(history), energy <= tol, accepted)
