"""Trees of tensors, the states of everything that is iterated: dicts of tensors, or of further such
dicts.

A state is never changed in place: a step returns a new one, and whoever holds an older one may go
on from there.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

State = dict[str, Any]


def rows(scalar: Tensor, like: Tensor) -> Tensor:
    """Shape (S,) -> (S, 1, …, 1), to scale the rows of `like`."""
    return scalar.reshape(scalar.shape + (1,) * (like.dim() - scalar.dim()))


def dot(a: Tensor, b: Tensor) -> Tensor:
    """Inner product of each row: (S, ...) x (S, ...) -> (S,)."""
    return (a * b).flatten(1).sum(-1)


def mapped(function: Callable[..., Tensor], tree: Any, *others: Any) -> Any:
    """`function` of every tensor, and of those at the same place in trees that hold at least the
    same names.
    """
    if not isinstance(tree, dict):
        return function(tree, *others)
    return {
        name: mapped(function, value, *(other[name] for other in others))
        for name, value in tree.items()
    }


def chosen(better: Tensor, new: Tensor, old: Tensor | float) -> Tensor:
    """Row by row `new` (S, …) where `better` (S,), else `old`. On a CPU, where a look costs
    nothing, `new` is handed on without a copy where all rows have it.
    """
    if better.device.type == "cpu" and bool(better.all()):
        return new
    return torch.where(rows(better, new), new, old)


def keep(better: Tensor, new: State, old: State) -> State:
    """`chosen` of every tensor (S, …) of two trees."""
    return mapped(lambda a, b: chosen(better, a, b), new, old)


def unevaluated(x: Tensor, **more: Tensor) -> State:
    """What is accepted before the first evaluation: x (S, ...) at energy (S,) = ∞, so that any
    number is lower.
    """
    infinite = x.new_full(x.shape[:1], torch.inf)
    return {"x": x.clone(), "energy": infinite, **more}
