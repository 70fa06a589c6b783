"""From a start to a reconstruction: every attack runs here, and stops by its own energy and budget alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from recon.errors import ReconError
from recon.optim.descent import State
from recon.optim.loop import iterate


class Attack(Protocol):
    """State is a flat dict of tensors with at least `accepted_x` (S, n, d) and `accepted_energy` (S,)."""

    def init(self, x_init: Tensor) -> State: ...

    def step(self, state: State) -> State: ...


@dataclass(frozen=True)
class Reconstruction:
    """x_hat: (S, n, d) · energy: (S,) of x_hat · history: (steps, S) energy after each step · steps · converged: (S,)
    whether the energy reached the tolerance · extra: what else the attack keeps with x_hat (`accepted_…`)."""

    x_hat: Tensor
    energy: Tensor
    history: Tensor
    steps: int
    converged: Tensor
    extra: State = field(default_factory=dict)


def reconstruct(
    attack: Attack,
    x_init: Tensor,
    steps: int,
    tol: float = 0.0,
    checkpoint: Path | None = None,
    every_s: float = 20.0,
    label: str = "reconstruct",
) -> Reconstruction:
    """Run `attack` from x_init (S, n, d) until every row's energy is ≤ tol, or for `steps` iterations.

    checkpoint: a file to which the state goes every `every_s` seconds, and from which an interrupted run goes on to
    the same answer.  Raises ReconError for non-finite or wrongly shaped starts.
    """
    if x_init.dim() != 3 or 0 in x_init.shape:
        raise ReconError(f"x_init must have shape (starts, n, d), not {tuple(x_init.shape)}")
    if not torch.isfinite(x_init).all():
        raise ReconError("x_init holds numbers that are not finite")
    state, history = iterate(
        lambda: attack.init(x_init),
        attack.step,
        steps,
        tol=tol,
        device=x_init.device,
        checkpoint=checkpoint,
        every_s=every_s,
        label=label,
    )
    energy = state["accepted_energy"]
    extra = {k: v for k, v in state.items() if k.startswith("accepted_") and k not in ("accepted_x", "accepted_energy")}
    return Reconstruction(state["accepted_x"], energy, history, len(history), energy <= tol, extra)
