"""The one loop that every long computation runs in: budget, progress bar, checkpoints from which it resumes exactly."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm

from recon.errors import ReconError
from recon.optim.descent import State
from recon.store.results import load_tensors, save_tensors


def iterate(
    init: Callable[[], State],
    step: Callable[[State], State],
    steps: int,
    *,
    tol: float = -torch.inf,
    device: torch.device | str = "cpu",
    checkpoint: Path | None = None,
    every_s: float = 20.0,
    label: str = "steps",
    observe: Callable[[int, State], None] | None = None,
) -> tuple[State, Tensor]:
    """Apply `step` until every row's `accepted_energy` is ≤ tol, or `steps` times; (last state, energies (steps, S)).

    checkpoint: a file to which the state goes every `every_s` seconds, and from which an interrupted run goes on to
    the same answer; a damaged one costs time, nothing else.  observe(k, state) is called after step k.
    """
    state, history = _resume(checkpoint, device)
    if state is None:
        state = init()
    saved = time.monotonic()
    with tqdm(total=steps, initial=len(history), desc=label, disable=not sys.stderr.isatty(), leave=False) as bar:
        while len(history) < steps and not (history and (history[-1] <= tol).all()):
            state = step(state)
            energy = state["accepted_energy"]
            history.append(energy.clone())
            bar.update()
            bar.set_postfix(energy=f"{energy.max().item():.3g}", refresh=False)
            if observe is not None:
                observe(len(history), state)
            if checkpoint is not None and time.monotonic() - saved > every_s:
                save_tensors({**state, "history": torch.stack(history)}, checkpoint)
                saved = time.monotonic()
    return state, torch.stack(history) if history else torch.empty(0)


def _resume(checkpoint: Path | None, device: torch.device | str) -> tuple[State | None, list[Tensor]]:
    if checkpoint is None or not checkpoint.is_file():
        return None, []
    try:
        state = {name: tensor.to(device) for name, tensor in load_tensors(checkpoint).items()}
        return state, list(state.pop("history"))
    except (ReconError, KeyError):
        return None, []
