"""What an adversary can say of one separated image: a probability that it is a training image. No
image enters.

Evidence is measured on the candidates alone. Which values mean "true" is learned on shadow networks
(Shokri et al. 2017), which the adversary trains on images of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from torch import Tensor

from recon.errors import ReconError
from recon.scoring.roc import auc

if TYPE_CHECKING:  # scikit-learn takes seconds to import
    from sklearn.pipeline import Pipeline

BINS = 5  # of probability
SURE = 0.95  # the probability from which the adversary says "this one"


class Signs(Protocol):
    """What a separation measures of its r sources, (r,) each; meaning and range as in
    `recon.attacks.separation`.
    """

    @property
    def sparsity(self) -> Tensor: ...

    @property
    def stability(self) -> Tensor: ...

    @property
    def share(self) -> Tensor: ...


def evidence(signs: Signs) -> np.ndarray:
    """(r, 3): sparsity; stability over restarts, as log(1 − stability); log of the share of the
    weights explained. ReconError where only one restart was made: it has no stability.
    """
    if len(signs.stability) and signs.stability.isnan().any():
        raise ReconError("stability needs at least two restarts of the separation")
    columns = (
        signs.sparsity,
        -(1 - signs.stability).clamp_min(1e-6).log(),
        signs.share.clamp_min(1e-9).log(),
    )
    return torch.stack([column.double() for column in columns], dim=1).cpu().numpy()


def calibrated(shadows: Sequence[tuple[Signs, Tensor]]) -> Pipeline:
    """Logistic regression from the evidence of shadow networks to their truth (r,), bool: evidence
    -> probability. ReconError unless both true and false candidates occur.
    """
    truth = torch.cat([true for _, true in shadows]).cpu().numpy()
    if truth.all() or not truth.any():
        raise ReconError(
            "the shadow networks have only true or only false candidates: nothing can be learned"
        )
    return shadow_classifier(np.concatenate([evidence(signs) for signs, _ in shadows]), truth)


def shadow_classifier(evidence: np.ndarray, true: np.ndarray) -> Pipeline:
    """Logistic regression from evidence (m, k) to "true" (m,), fitted where the adversary knows the
    answer.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(C=1.0)).fit(evidence, true)


def probability(model: Pipeline, signs: Signs) -> Tensor:
    """Probability (r,) that each source is a training image."""
    if not len(signs.sparsity):
        return signs.sparsity.double()
    return torch.from_numpy(model.predict_proba(evidence(signs))[:, 1])


def assessed(probability: Tensor, true: Tensor) -> dict:
    """How good probabilities (m,) are, given the truth (m,), bool. auc, None where one kind is
    missing · sure, precision_sure, recall_sure: of what is rated at least `SURE` · reliability: per
    bin of probability its mean, the share that is true, and the number.
    """
    p, t = probability.double().cpu().numpy(), true.cpu().numpy().astype(bool)
    sure = p >= SURE
    bins = np.clip((p * BINS).astype(int), 0, BINS - 1)
    reliability = []
    for b in np.unique(bins):
        inside = bins == b
        reliability.append([float(p[inside].mean()), float(t[inside].mean()), int(inside.sum())])
    return {
        "auc": auc(p, t) if t.any() and not t.all() else None,
        "sure": int(sure.sum()),
        "precision_sure": float(t[sure].mean()) if sure.any() else None,
        "recall_sure": float((t & sure).sum() / max(t.sum(), 1)),
        "candidates": len(t),
        "true": int(t.sum()),
        "reliability": reliability,
    }
