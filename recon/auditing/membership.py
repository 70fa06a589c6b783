"""Was this image trained on?  The question that can be asked of every classifier, answered in three ways.

The audited network's confidence in an image's class is compared with that of k shadow networks, half of which were
trained on the image (`recon.auditing.shadows`).  Confidence is φ = log p_y / (1 − p_y), which is nearly normal.  Scores
and statistics are those of `recon.scoring.membership`.

The multipliers of `recon.attacks.multipliers` are a third score: how much of the weights themselves an image accounts
for beside all others.  No shadow enters.  Where the start is known, θ* or θ* − θ⁰ is explained, whichever the images
explain better.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from recon.attacks.multipliers import Multipliers, confidence, from_module, multipliers
from recon.auditing.anatomy import Anatomy, answers_of
from recon.auditing.shadows import Shadows, as_logits, one_reason
from recon.errors import ReconError
from recon.scoring.membership import FALSE_RATES, auc, intervals, lira, named, permutation_p, rmia, true_rate

Answers = Callable[[nn.Module, Tensor], Tensor]
MAX_IMAGES, MAX_NUMBERS = 2000, 4_000_000_000  # of multipliers: least squares are cubic, gradients large


def why_no_multipliers(module: nn.Module, count: int) -> str | None:
    """Why they are not fitted to `count` images, in one sentence; decided by sizes alone, before any image counts."""
    numbers = sum(p.numel() for p in module.parameters())
    if count > MAX_IMAGES or count * numbers > MAX_NUMBERS:
        return f"Multipliers were not fitted: gradients of {numbers:,} weights at {count:,} images are too many."
    return None


def explained(module: nn.Module, seen: Anatomy, x: Tensor, y: Tensor, start: nn.Module | None) -> Multipliers:
    """Multipliers of inputs x (N, C, H, W) with classes y (N,), on the device of `module`; ReconError where there are
    none to fit."""
    device = next(module.parameters()).device
    x, y = x.to(device), y.to(device)

    def answers(net: nn.Module, x: Tensor) -> Tensor:
        return as_logits(answers_of(net, x.flatten(1) if seen.flat else x), seen)

    with one_reason("gradients cannot be taken"):
        return _fitted(module, x, y, start, answers)


def _fitted(module: nn.Module, x: Tensor, y: Tensor, start: nn.Module | None, answers: Answers) -> Multipliers:
    found = multipliers(from_module(module, x, y, None, answers))
    if start is None:
        return found
    return min(found, multipliers(from_module(module, x, y, start, answers)), key=lambda each: each.residual)


@dataclass(frozen=True)
class Inferred:
    """score (N,) of the best by its p, of "lira", "rmia" and others that are given · name: which · table: of all, area,
    rates, intervals, p · power: what the same scores say of the shadows themselves."""

    score: np.ndarray
    name: str
    table: dict[str, Any]
    power: dict[str, float]


def infer(
    logits: Tensor, labels: Tensor, n: int, shadows: Shadows, seed: int, more: dict[str, Tensor] | None = None
) -> Inferred:
    """logits (N, K) of the audited network, labels (N,), the n training images first · more: other scores (N,), by
    their names."""
    member = np.arange(len(labels)) < n
    phi, others = confidence(logits, labels), shadows.phi
    scores = {"lira": lira(phi, others, shadows.inside).numpy(), "rmia": rmia(phi, others).numpy()}
    scores |= {name: score.cpu().numpy() for name, score in (more or {}).items()}
    table: dict[str, Any] = {}
    for name, score in scores.items():
        table[name] = {
            "auc": auc(score, member),
            **{f"tpr_{rate:g}": true_rate(score, member, rate) for rate in FALSE_RATES},
            "intervals": {key: list(pair) for key, pair in intervals(score, member, seed).items()},
            "p_value": permutation_p(score, member, seed),
        }
        table[name]["named"] = named(table[name], n, len(labels) - n, len(scores))
    name = min(scores, key=lambda each: (table[each]["p_value"], -table[each]["auc"]))
    return Inferred(scores[name], name, table, power(shadows))


def reach_of_multipliers(seen: Anatomy, x: Tensor, y: Tensor, shadows: Shadows, start: nn.Module | None) -> float:
    """Area under the ROC curve of the multipliers of the first shadow, which began as `start`, where that would be
    known; NaN where there are none to fit."""
    try:
        found = explained(shadows.modules[0], seen, x, y, start)
    except ReconError:
        return float("nan")
    return auc(found.score.cpu().numpy(), shadows.inside[0].numpy())


def power(shadows: Shadows) -> dict[str, float]:
    """Each shadow in the place of the audited network, compared with the others but for its complement: mean area and
    rates by LiRA.  NaN for fewer than two pairs of shadows."""
    phi = shadows.phi
    found: dict[str, list[float]] = {name: [] for name in ("auc", *(f"tpr_{rate:g}" for rate in FALSE_RATES))}
    for k in range(len(shadows) if len(shadows) > 2 else 0):
        rest = [j for j in range(len(shadows)) if j // 2 != k // 2]
        score = lira(phi[k], phi[rest], shadows.inside[rest]).numpy()
        member = shadows.inside[k].numpy()
        found["auc"].append(auc(score, member))
        for rate in FALSE_RATES:
            found[f"tpr_{rate:g}"].append(true_rate(score, member, rate))
    return {name: float(np.mean(values)) if values else float("nan") for name, values in found.items()}
