"""ROC curves of scores that should be larger for what is true: their area, and what is found at a
false rate.

Weighted, so that a bootstrap is one call: weights (..., m) say how often each of the m scores
counts.
"""

from typing import Any

import numpy as np

Array = np.ndarray


def auc(score: Array, true: Array, weights: Array | None = None) -> Any:
    """P(score of a true one > that of a false one), ties counted half: a float, or (...,) for
    weights (..., m).

    NaN where one kind has no weight.

    >>> auc(np.array([3.0, 2.0, 2.0, 1.0]), np.array([True, True, False, False]))
    0.875
    """
    order, first = groups(score)
    found, false = (summed(part[..., order], first) for part in _of_each_kind(true, weights))
    below = false.cumsum(-1) - false / 2
    return _plain(ratio((found * below).sum(-1), found.sum(-1) * false.sum(-1)))


def true_rate(score: Array, true: Array, false_rate: float, weights: Array | None = None) -> Any:
    """Largest share of the true ones accepted while at most `false_rate` of the others are: a
    float, or (...,). In steps from the highest score down, equal scores together; of fewer than
    1/`false_rate` others none may be accepted. NaN where one kind has no weight.
    """
    order, first = groups(-score)
    found, false = (
        summed(part[..., order], first).cumsum(-1) for part in _of_each_kind(true, weights)
    )
    all_true, all_false = (part.sum(-1) for part in _of_each_kind(true, weights))
    allowed = false <= false_rate * all_false[..., None] + 1e-9
    best = np.where(allowed, found, 0.0).max(-1, initial=0.0)
    return _plain(np.where(all_false > 0, ratio(best, all_true), np.nan))


def groups(score: Array) -> tuple[Array, Array]:
    """Ascending order of the scores (m,), and the first position of each group of equal ones."""
    order = np.argsort(score, kind="stable")
    first = (
        np.flatnonzero(np.concatenate([[True], np.diff(score[order]) != 0]))
        if len(score)
        else order
    )
    return order, first


def summed(values: Array, first: Array) -> Array:
    """(..., m) summed over groups that begin at `first` (g,), (..., g)."""
    return np.add.reduceat(values, first, axis=-1) if len(first) else values[..., :0]


def ratio(above: Array, below: Array) -> Array:
    """above / below, NaN where below is 0."""
    return np.where(below > 0, above / np.where(below > 0, below, 1.0), np.nan)


def _of_each_kind(true: Array, weights: Array | None) -> tuple[Array, Array]:
    """Weights (..., m) of the true ones, and of the others."""
    whole = np.ones(len(true)) if weights is None else weights
    return whole * true, whole * ~true


def _plain(value: Array) -> Any:
    return value if value.ndim else float(value)
