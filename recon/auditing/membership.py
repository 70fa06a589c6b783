"""Was this image trained on?  The question that can be asked of every classifier, answered with shadow networks.

The audited network's confidence in an image's class is compared with that of k shadow networks, half of which were
trained on the image (`recon.auditing.shadows`).  Confidence is φ = log p_y / (1 − p_y), which is nearly normal.  Scores
and statistics are those of `recon.scoring.membership`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recon.auditing.shadows import Shadows
from recon.scoring.membership import FALSE_RATES, auc, intervals, lira, permutation_p, rmia, true_rate

SCORES = ("lira", "rmia")


def confidence(logits: Tensor, labels: Tensor) -> Tensor:
    """φ = log p_y − log(1 − p_y), (..., N) for logits (..., N, K) and classes (N,); K = 1 is one logit for class 1.

    >>> confidence(torch.tensor([[2.0], [2.0]]), torch.tensor([1, 0])).tolist()
    [2.0, -2.0]
    """
    if logits.shape[-1] == 1:
        return logits[..., 0] * (2 * labels - 1)
    own = logits.gather(-1, labels.expand(logits.shape[:-1])[..., None])[..., 0]
    others = torch.where(torch.nn.functional.one_hot(labels, logits.shape[-1]).bool(), -torch.inf, logits)
    return own - others.logsumexp(-1)


@dataclass(frozen=True)
class Inferred:
    """score (N,) of the better of SCORES by its p · name: which · table: of both, area, rates, intervals, p · power:
    what the same scores say of the shadows themselves."""

    score: np.ndarray
    name: str
    table: dict[str, Any]
    power: dict[str, float]


def infer(logits: Tensor, labels: Tensor, n: int, shadows: Shadows, seed: int) -> Inferred:
    """logits (N, K) of the audited network, labels (N,), the n training images first."""
    member = np.arange(len(labels)) < n
    phi, others = confidence(logits, labels), confidence(shadows.logits, labels)
    scores = {"lira": lira(phi, others, shadows.inside).numpy(), "rmia": rmia(phi, others).numpy()}
    table: dict[str, Any] = {}
    for name, score in scores.items():
        table[name] = {
            "auc": auc(score, member),
            **{f"tpr_{rate:g}": true_rate(score, member, rate) for rate in FALSE_RATES},
            "intervals": {key: list(pair) for key, pair in intervals(score, member, seed).items()},
            "p_value": permutation_p(score, member, seed),
        }
    name = min(SCORES, key=lambda each: (table[each]["p_value"], -table[each]["auc"]))
    return Inferred(scores[name], name, table, power(labels, shadows))


def power(labels: Tensor, shadows: Shadows) -> dict[str, float]:
    """Each shadow in the place of the audited network, compared with the others but for its complement: mean area and
    rates by LiRA.  NaN for fewer than two pairs of shadows."""
    phi = confidence(shadows.logits, labels)
    found: dict[str, list[float]] = {name: [] for name in ("auc", *(f"tpr_{rate:g}" for rate in FALSE_RATES))}
    for k in range(len(shadows) if len(shadows) > 2 else 0):
        rest = [j for j in range(len(shadows)) if j // 2 != k // 2]
        score = lira(phi[k], phi[rest], shadows.inside[rest]).numpy()
        member = shadows.inside[k].numpy()
        found["auc"].append(auc(score, member))
        for rate in FALSE_RATES:
            found[f"tpr_{rate:g}"].append(true_rate(score, member, rate))
    return {name: float(np.mean(values)) if values else float("nan") for name, values in found.items()}
