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
    hits, false = _by_score(score, true, weights)
    below = false.cumsum(-1) - false / 2
    area = ratio((hits * below).sum(-1), hits.sum(-1) * false.sum(-1))
    return area if area.ndim else float(area)


def true_rate(score: Array, true: Array, false_rate: float, weights: Array | None = None) -> Any:
    """Largest share of the true ones accepted while at most `false_rate` of the others are: a
    float, or (...,). In steps from the highest score down, equal scores together; of fewer than
    1/`false_rate` others none may be accepted. NaN where one kind has no weight.
    """
    hits, false = _by_score(score, true, weights)
    accepted, alarms = hits[..., ::-1].cumsum(-1), false[..., ::-1].cumsum(-1)
    allowed = alarms <= false_rate * false.sum(-1)[..., None] + 1e-9
    best = np.where(allowed, accepted, 0.0).max(-1, initial=0.0)
    rate = np.where(false.sum(-1) > 0, ratio(best, hits.sum(-1)), np.nan)
    return rate if rate.ndim else float(rate)


def ratio(above: Array, below: Array) -> Array:
    """above / below, NaN where below is 0."""
    return np.where(below > 0, above / np.where(below > 0, below, 1.0), np.nan)


def _by_score(score: Array, true: Array, weights: Array | None) -> tuple[Array, Array]:
    """Weights (..., g) of the true ones and of the others at each of the g scores that occur,
    ascending.
    """
    weights = np.ones(len(true)) if weights is None else weights
    order = np.argsort(score, kind="stable")
    first = np.flatnonzero(np.diff(score[order], prepend=np.nan) != 0)
    hits, false = weights * true, weights * ~true
    return (
        np.add.reduceat(hits[..., order], first, axis=-1),
        np.add.reduceat(false[..., order], first, axis=-1),
    )
