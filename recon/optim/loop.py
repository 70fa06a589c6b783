"""The one loop that every long computation runs in: budget, progress bar, checkpoints from which it
resumes exactly.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from tqdm import tqdm

from recon.optim.trace import note_descent
from recon.optim.tree import State, mapped


class Checkpoint(Protocol):
    """Where an unfinished run keeps its state, a tree of tensors."""

    def load(self) -> State | None:
        """What was saved last; None if there is nothing, or nothing that can be read."""
        ...

    def save(self, tree: State) -> None: ...


class Checkpoints(Protocol):
    """Places for the checkpoints of a run's parts, by name; `inside`, of a part that has parts
    itself.
    """

    def at(self, name: str) -> Checkpoint: ...

    def inside(self, name: str) -> Checkpoints: ...


@dataclass(frozen=True)
class LoopSettings:
    """
    Attributes:
        steps: at most.
        tol: energy at which a row is done.
        device: where a resumed state goes.
        label: of the bar.
        every_s: seconds between checkpoints.
    """

    steps: int
    tol: float = -torch.inf
    device: torch.device | str = "cpu"
    label: str = "steps"
    every_s: float = 20.0


def iterate(
    init: Callable[[], State],
    step: Callable[[State], State],
    settings: LoopSettings,
    checkpoint: Checkpoint | None = None,
    observe: Callable[[int, State], None] | None = None,
) -> tuple[State, Tensor]:
    """Apply `step` until every row's accepted energy is ≤ tol, or `steps` times; (last state,
    energies (steps, S)). A state is a tree with at least "accepted", itself with at least "energy"
    (S,).

    Args:
        checkpoint: where state and energies go every `every_s` seconds, and from which an
            interrupted run goes on to the same answer. observe(k, state) is called after step k.
    """
    state, past = _resumed(checkpoint, settings.device) or (init(), torch.empty(0, 1))
    taken, saved, energy = len(past), time.monotonic(), state["accepted"]["energy"]
    # one tensor for all: a small one each step would pin a page
    history = energy.new_empty(max(settings.steps, taken), len(energy))
    history[:taken] = past
    try:
        with tqdm(
            total=settings.steps, initial=taken, desc=settings.label, disable=None, leave=False
        ) as bar:
            while taken < settings.steps and not (
                taken and settings.tol > -torch.inf and (history[taken - 1] <= settings.tol).all()
            ):
                state = step(state)
                energy = state["accepted"]["energy"]
                history[taken] = energy
                taken += 1
                if observe is not None:
                    observe(taken, state)
                if bar.update():  # true where it was drawn: a look waits for a GPU
                    bar.set_postfix(energy=f"{energy.max().item():.3g}", refresh=False)
                if checkpoint is not None and time.monotonic() - saved > settings.every_s:
                    checkpoint.save({"state": state, "history": history[:taken]})
                    saved = time.monotonic()
    finally:  # also of a descent that was stopped half-way
        note_descent(settings.label, history[:taken])
    return state, history[:taken].clone()


def _resumed(
    checkpoint: Checkpoint | None, device: torch.device | str
) -> tuple[State, Tensor] | None:
    tree = checkpoint.load() if checkpoint is not None else None
    if tree is None or not {"state", "history"} <= set(tree):  # another program's
        return None
    # counters stay on the host, where they are read
    state = mapped(lambda tensor: tensor.to(device) if tensor.dim() else tensor, tree["state"])
    return state, tree["history"].to(device)
