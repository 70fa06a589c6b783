"""How a computation began: the energies of its descents at a few steps, and other numbers that it
notes on its way.

Inside `recorded`, whatever is iterated or noted leaves a row in a `Trace`; outside, nothing is
recorded and nothing costs time. Two traces of the same run agree but for rounding, which is how a
kept number is bound to code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import torch
from torch import Tensor

#: steps of a descent that a trace holds: 1, 2, 5, 10, 20, 50, …
MILESTONES = tuple(digit * 10**power for power in range(8) for digit in (1, 2, 5))


@dataclass
class Trace:
    """
    Attributes:
        rows: name -> (k, 2) float64, step and number, in the order in which they came.
    """

    rows: dict[str, Tensor] = field(default_factory=dict)

    def add(self, name: str, steps: list[int], numbers: Tensor) -> None:
        """Numbers (k,) at steps (k,), under a name of their own: "training", then "training
        2", …
        """
        key, count = name, 1
        while key in self.rows:
            count += 1
            key = f"{name} {count}"
        self.rows[key] = torch.stack(
            [torch.tensor(steps, dtype=torch.float64), numbers.double().cpu()], 1
        )


_current: ContextVar[Trace | None] = ContextVar("trace", default=None)


@contextmanager
def recorded(trace: Trace) -> Iterator[Trace]:
    """All that is iterated or noted inside goes to `trace`."""
    token = _current.set(trace)
    try:
        yield trace
    finally:
        _current.reset(token)


def current() -> Trace | None:
    """The trace that is being recorded."""
    return _current.get()


def note(name: str, *values: Tensor | float) -> None:
    """A number, or the root mean square of a tensor, for each value."""
    if values and (trace := _current.get()) is not None:
        tensors = [torch.as_tensor(value, dtype=torch.float64).detach().cpu() for value in values]
        numbers = torch.stack(
            [tensor.square().mean().sqrt() if tensor.dim() else tensor for tensor in tensors]
        )
        trace.add(name, list(range(1, len(numbers) + 1)), numbers)


def note_descent(name: str, energies: Tensor) -> None:
    """Mean energy of the rows at the `MILESTONES` of a descent.

    Args:
        energies: (steps, S).
    """
    trace = _current.get()
    if trace is not None and len(energies):
        steps = [step for step in MILESTONES if step <= len(energies)]
        trace.add(name, steps, torch.stack([energies[step - 1].double().mean() for step in steps]))


def note_step(name: str, step: int, energy: Tensor) -> None:
    """Energy () of a descent after a step, where that is one of the `MILESTONES`."""
    trace = _current.get()
    if trace is not None and step in MILESTONES:
        trace.add(name, [step], energy.detach()[None])
