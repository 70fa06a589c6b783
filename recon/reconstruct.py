"""The one loop that every attack runs in: budget, checkpoints, progress bar, stopping by the attack's own energy."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor
from tqdm import tqdm

from recon.descent import State
from recon.errors import ReconError
from recon.results import load_tensors, save_tensors


class Attack(Protocol):
    """State is a flat dict of tensors with at least `accepted_x` (S, n, d) and `accepted_energy` (S,)."""

    def init(self, x_init: Tensor) -> State: ...

    def step(self, state: State) -> State: ...


@dataclass(frozen=True)
class Reconstruction:
    """x_hat: (S, n, d) · energy: (S,) of x_hat · history: (steps, S) energy after each step · steps · converged: (S,)
    whether the energy reached the tolerance."""

    x_hat: Tensor
    energy: Tensor
    history: Tensor
    steps: int
    converged: Tensor


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
    state, history = _resume(checkpoint, x_init.device)
    if state is None:
        state = attack.init(x_init)
    saved = time.monotonic()
    with tqdm(total=steps, initial=len(history), desc=label, disable=not sys.stderr.isatty(), leave=False) as bar:
        while len(history) < steps:
            state = attack.step(state)
            energy = state["accepted_energy"]
            history.append(energy.clone())
            bar.update()
            bar.set_postfix(energy=f"{energy.max().item():.1e}", refresh=False)
            if (energy <= tol).all():
                break
            if checkpoint is not None and time.monotonic() - saved > every_s:
                save_tensors({**state, "history": torch.stack(history)}, checkpoint)
                saved = time.monotonic()
    energy = state["accepted_energy"]
    return Reconstruction(state["accepted_x"], energy, torch.stack(history), len(history), energy <= tol)


def _resume(checkpoint: Path | None, device: torch.device) -> tuple[State | None, list[Tensor]]:
    if checkpoint is None or not checkpoint.is_file():
        return None, []
    try:
        state = {name: tensor.to(device) for name, tensor in load_tensors(checkpoint).items()}
        return state, list(state.pop("history"))
    except (ReconError, KeyError):  # a damaged checkpoint costs time, nothing else
        return None, []
