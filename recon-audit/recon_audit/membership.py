"""Was this image trained on? The question that can be asked of every classifier, answered in three
ways.

The audited network's confidence in an image's class is compared with that of k shadow networks,
half of which were trained on the image (`recon_audit.shadows`). Confidence is φ = log p_y / (1 −
p_y), which is nearly normal. Scores and statistics are those of `recon.scoring.membership`.

The multipliers of `recon.attacks.multipliers` are a third score: how much of the weights themselves
an image accounts for beside all others. No shadow enters. Where the start is known, θ* or θ* − θ⁰
is explained, whichever the images explain better.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from recon.attacks import Candidates, by_fine_tune, by_multipliers
from recon.attacks.from_weights import AskedPool, FineTuneSettings, Pool
from recon.attacks.multipliers import confidence
from recon.errors import ReconError, one_reason
from recon.released import Weights
from recon.scoring.membership import FALSE_RATES, intervals, lira, named, permutation_p, rmia
from recon.scoring.roc import auc, true_rate
from recon_audit.anatomy import Classifier
from recon_audit.scoring import Json
from recon_audit.shadows import Shadows

# of multipliers: least squares are cubic, gradients large
MAX_IMAGES, MAX_NUMBERS = 2000, 4_000_000_000


def why_no_multipliers(module: nn.Module, count: int) -> str | None:
    """Why they are not fitted to `count` images, in one sentence; decided by sizes alone, before
    any image counts.
    """
    numbers = sum(p.numel() for p in module.parameters())
    if count > MAX_IMAGES or count * numbers > MAX_NUMBERS:
        return (
            f"Multipliers were not fitted: gradients of {numbers:,} weights at {count:,} images are"
            " too many."
        )
    return None


class Logits(nn.Module):
    """A module that answers logits (n, K), whatever it takes and answers itself."""

    def __init__(self, classifier: Classifier) -> None:
        super().__init__()
        self.module, self.classifier = classifier.module, classifier

    def forward(self, x: Tensor) -> Tensor:
        """Of inputs (n, C, H, W)."""
        return self.classifier.answers(x)


def fit_multipliers(
    classifier: Classifier, x: Tensor, y: Tensor, start: nn.Module | None
) -> Candidates:
    """Multipliers of inputs x (N, C, H, W) with classes y (N,), on the device of the module, and
    the `residual` of what they explain; ReconError where there are none to fit.
    """
    device = next(classifier.module.parameters()).device
    pool, network = Pool(x.to(device), y.to(device)), Logits(classifier).eval()
    with one_reason("gradients cannot be taken"):
        fits = [by_multipliers(Weights.of(network), pool)]
        if start is not None:
            released = Weights.of(network, Logits(classifier.of(start)))
            fits.append(by_multipliers(released, pool))
        return min(fits, key=lambda fit: fit.diagnostics["residual"])


def label_filter(
    classifier: Classifier, x: Tensor, y: Tensor, public: Tensor, start: nn.Module
) -> dict[str, Tensor]:
    """Of a whole fine-tune, scores of inputs x (N, C, H, W) with classes y (N,) by `by_fine_tune`,
    given public inputs; none where the network has no linear head. Batch norm's statistics are
    re-estimated if they are not those of the public network any more.
    """
    device = next(classifier.module.parameters()).device
    pool = AskedPool(x.to(device), y.to(device), public.to(device))
    buffers = zip(classifier.module.buffers(), start.buffers(), strict=True)
    moved = any(not torch.equal(ours, theirs.to(ours)) for ours, theirs in buffers)
    with suppress(ReconError):
        released, batch = Weights.of(Logits(classifier).eval()), 25 if moved else None
        return {"label": by_fine_tune(released, pool, FineTuneSettings(batch)).score}
    return {}


@dataclass(frozen=True)
class Inferred:
    """
    Attributes:
        score (N,) of the best by its p, of "lira", "rmia" and others that are given.
        name: which.
        table: of all, area, rates, intervals, p.
        power: what the same scores say of the shadows themselves, see `power`.
    """

    score: np.ndarray
    name: str
    table: Json
    power: dict[str, float | None]


def infer(
    logits: Tensor,
    labels: Tensor,
    n: int,
    shadows: Shadows,
    seed: int,
    more: dict[str, Tensor] | None = None,
) -> Inferred:
    """
    Args:
        logits (N, K) of the audited network, labels (N,), the n training images first.
        more: other scores (N,), by their names.
    """
    member = np.arange(len(labels)) < n
    phi, others = confidence(logits, labels), shadows.phi
    scores = {"lira": lira(phi, others, shadows.inside), "rmia": rmia(phi, others)} | (more or {})
    arrays = {name: score.cpu().numpy() for name, score in scores.items()}
    table: Json = {}
    for name, score in arrays.items():
        row: Json = _rates(score, member)
        row["intervals"] = {k: list(pair) for k, pair in intervals(score, member, seed).items()}
        row["p_value"] = permutation_p(score, member, seed)
        row["named"] = named(row, n, len(labels) - n, len(arrays))
        table[name] = row
    best = min(table, key=lambda name: (table[name]["p_value"], -table[name]["auc"]))
    return Inferred(arrays[best], best, table, power(shadows))


def power(shadows: Shadows) -> dict[str, float | None]:
    """Each shadow in the place of the audited network, compared with the others but for its
    complement: mean area and rates by LiRA. None for fewer than two pairs of shadows.
    """
    phi, inside = shadows.phi, shadows.inside
    rates = []
    for k in range(len(phi)):
        others = [j for j in range(len(phi)) if j // 2 != k // 2]
        if others:
            score = lira(phi[k], phi[others], inside[others])
            rates.append(_rates(score.numpy(), inside[k].numpy()))
    names = ("auc", *(f"tpr_{rate:g}" for rate in FALSE_RATES))
    return {name: float(np.mean([row[name] for row in rates])) if rates else None for name in names}


def _rates(score: np.ndarray, member: np.ndarray) -> dict[str, float]:
    """The area under the ROC curve, and the share of members found at each of `FALSE_RATES`."""
    return {
        "auc": auc(score, member),
        **{f"tpr_{rate:g}": true_rate(score, member, rate) for rate in FALSE_RATES},
    }
