"""The one loop that every long computation runs in: budget, progress bar, checkpoints from which it resumes exactly."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from tqdm import tqdm

from recon.optim.tree import State, mapped


class Checkpoint(Protocol):
    """Where an unfinished run keeps its state, a tree of tensors."""

    def load(self) -> State | None:
        """What was saved last; None if there is nothing, or nothing that can be read."""
        ...

    def save(self, tree: State) -> None: ...


class Checkpoints(Protocol):
    """Places for the checkpoints of a run's parts, by name."""

    def at(self, name: str) -> Checkpoint:
        """The checkpoint `name`."""
        ...

    def inside(self, name: str) -> Checkpoints:
        """Those of a part that has parts itself."""
        ...


@dataclass(frozen=True)
class LoopSettings:
    """steps: at most · tol: energy at which a row is done · device: where a resumed state goes · label: of the bar ·
    every_s: seconds between checkpoints · look_every: steps between looks at the energies; default 1 on a CPU and 10 on
    an accelerator, which has to be waited for at every look.  The answer does not depend on it."""

    steps: int
    tol: float = -torch.inf
    device: torch.device | str = "cpu"
    label: str = "steps"
    every_s: float = 20.0
    look_every: int | None = None

    @property
    def stretch(self) -> int:
        """Steps between two looks."""
        return self.look_every or (1 if torch.device(self.device).type == "cpu" else 10)

    def finished(self, history: History) -> bool:
        """Whether the budget is spent, or every row done; a look."""
        if len(history) >= self.steps:
            return True
        return self.tol > -torch.inf and len(history) > 0 and bool((history.last <= self.tol).all())


class History:
    """Energies (steps, S), in one tensor that grows.

    A list of one small tensor a step pins a page of the heap each: what a step allocates and frees is then never used
    again, and a run of 50,000 steps comes to hold gigabytes.
    """

    def __init__(self, energies: Tensor | None = None) -> None:
        self._rows = torch.empty(0) if energies is None else energies
        self._taken = len(self._rows)

    def __len__(self) -> int:
        return self._taken

    def extend(self, energies: list[Tensor]) -> None:
        """Those of further steps, (S,) each."""
        if self._taken + len(energies) > len(self._rows):
            more = energies[0].new_empty(max(1024, len(energies), self._taken), len(energies[0]))
            self._rows = more if not self._taken else torch.cat([self.tensor, more])
        self._rows[self._taken : self._taken + len(energies)] = torch.stack(energies)
        self._taken += len(energies)

    @property
    def tensor(self) -> Tensor:
        """(steps, S); (0,) before the first step."""
        return self._rows[: self._taken]

    @property
    def last(self) -> Tensor:
        """(S,)."""
        return self._rows[self._taken - 1]


def iterate(
    init: Callable[[], State],
    step: Callable[[State], State],
    settings: LoopSettings,
    checkpoint: Checkpoint | None = None,
    observe: Callable[[int, State], None] | None = None,
) -> tuple[State, Tensor]:
    """Apply `step` until every row's accepted energy is ≤ tol, or `steps` times; (last state, energies (steps, S)).

    A state is a tree with at least "accepted", itself with at least "energy" (S,).  checkpoint: where state and
    energies go every `every_s` seconds, and from which an interrupted run goes on to the same answer.
    observe(k, state) is called after step k.
    """
    state, history = _resume(checkpoint, settings.device)
    state = init() if state is None else state
    saved = time.monotonic()
    bar = tqdm(
        total=settings.steps, initial=len(history), desc=settings.label, disable=not sys.stderr.isatty(), leave=False
    )
    with bar:
        while not settings.finished(history):
            state, energies = _stretch(step, state, settings, len(history), observe)
            history.extend(energies)
            bar.update(len(energies))
            if not bar.disable:
                bar.set_postfix(energy=f"{energies[-1].max().item():.3g}", refresh=False)
            if checkpoint is not None and time.monotonic() - saved > settings.every_s:
                checkpoint.save({"state": state, "history": history.tensor})
                saved = time.monotonic()
    return state, history.tensor.clone()


def _stretch(
    step: Callable[[State], State],
    state: State,
    settings: LoopSettings,
    taken: int,
    observe: Callable[[int, State], None] | None,
) -> tuple[State, list[Tensor]]:
    """The steps up to the next look, and their energies; none after the first at which all rows are done.

    That is seen only afterwards, and a step too many may still have lowered an energy: so they are taken again from
    the start of the stretch, as many as it should have been.  An observer must not see them: it looks at every step.
    """
    start, energies = state, []
    count = 1 if observe is not None else min(settings.stretch, settings.steps - taken)
    for _ in range(count):
        state = step(state)
        energies.append(state["accepted"]["energy"].clone())
    if observe is not None:
        observe(taken + 1, state)
    done = (torch.stack(energies[:-1]) <= settings.tol).all(dim=1).tolist() if count > 1 else []
    if True not in done:
        return state, energies
    needed = done.index(True) + 1
    for _ in range(needed):
        start = step(start)
    return start, energies[:needed]


def _resume(checkpoint: Checkpoint | None, device: torch.device | str) -> tuple[State | None, History]:
    tree = checkpoint.load() if checkpoint is not None else None
    if tree is None or not {"state", "history"} <= set(tree):  # another program's
        return None, History()
    # counters stay on the host, where they are read
    state = mapped(lambda tensor: tensor.to(device) if tensor.dim() else tensor, tree["state"])
    return state, History(tree["history"].to(device))
