"""Was this image trained on? The question that can be asked of every classifier.

The audited network's confidence in the class that it answers is compared with that of k shadows,
half of which were trained on the image (`recon_audit.shadows`). Confidence is φ = log p_y / (1 −
p_y), which is nearly normal. Scores and statistics are those of `recon.scoring.membership`; the
score of a group is the mean over its images (`recon_audit.exchange`).

Of heads and of whole fine-tunes, scores of the weights themselves are added, which need no shadow.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import binom
from torch import Tensor

from recon.attacks import by_fine_tune
from recon.attacks.from_weights import AskedPool, FineTuneSettings
from recon.attacks.heads import Public, matched_filter
from recon.attacks.multipliers import confidence
from recon.attacks.separation import FirstLayer
from recon.errors import ReconError
from recon.released import Weights
from recon.scoring.membership import FALSE_RATES, intervals, lira, named, permutation_p, rmia
from recon.scoring.roc import auc, true_rate
from recon_audit.exchange import by_group
from recon_audit.files import State
from recon_audit.prepare import Case
from recon_audit.scoring import Json
from recon_audit.shadows import Shadows


def label_filter(case: Case) -> State:
    """Of a whole fine-tune, scores of its inputs by `by_fine_tune`, given the public ones; none
    where the network has no linear head. Batch norm's statistics are re-estimated if they are not
    those of the public network any more.
    """
    if case.start is None or case.sample is None:
        return {}
    seen, module = case.classifier, copy.deepcopy(case.classifier.module).cpu()
    module.register_forward_hook(lambda _, inputs, answers: seen.as_logits(answers))
    x, sample = map(seen.as_taken, (case.x, case.sample))
    buffers = zip(module.buffers(), case.start.module.buffers(), strict=True)
    moved = any(not torch.equal(ours, theirs) for ours, theirs in buffers)
    with suppress(ReconError):
        pool, settings = AskedPool(x, case.member_classes, sample), FineTuneSettings(25 * moved)
        return {"label": by_fine_tune(Weights.of(module), pool, settings).score}
    return {}


def feature_scores(case: Case) -> State:
    """The response of the first layer's rows to what a head's features have of their own; none
    where inputs are images.
    """
    if case.public is None or case.first_layer is None:
        return {}
    layer: Any = case.classifier.module.get_submodule(case.classifier.first or "")
    bias = torch.zeros(1) if layer.bias is None else layer.bias.detach().cpu()
    w1 = FirstLayer.of(case.first_layer.to(torch.device("cpu"))).update
    return {"filter": matched_filter(w1, bias, case.x.flatten(1), Public(case.public))}


@dataclass(frozen=True)
class Inferred:
    """
    Attributes:
        score (G,) of the best by its p, of "lira", "rmia" and others that are given.
        name: which.
        table: of all, area, rates, intervals, p.
        power: what the same scores say of the shadows themselves, see `power`.
        scores (G,): all.
    """

    score: np.ndarray
    name: str
    table: Json
    power: dict[str, float | None]
    scores: dict[str, np.ndarray]


def infer(
    logits: Tensor,
    labels: Tensor,
    n: int,
    shadows: Shadows,
    seed: int,
    more: State | None = None,
    groups: Tensor | None = None,
) -> Inferred:
    """
    Args:
        logits (N, K) of the audited network, labels (N,).
        n: groups of training images, which come first.
        more: other scores (N,), by their names.
        groups (N,): numbers, by default each image is one; its score is the mean of its images'.
    """
    groups = torch.arange(len(labels)) if groups is None else groups
    phi, others = confidence(logits, labels), shadows.phi
    scores = {"lira": lira(phi, others, shadows.inside), "rmia": rmia(phi, others)} | (more or {})
    arrays = {
        name: by_group(score.cpu().double(), groups).numpy() for name, score in scores.items()
    }
    member = np.arange(len(arrays["lira"])) < n
    table: Json = {}
    for name, score in arrays.items():
        row: Json = _rates(score, member)
        row["intervals"] = {k: list(pair) for k, pair in intervals(score, member, seed).items()}
        row["p_value"] = permutation_p(score, member, seed)
        row["named"] = named(row, n, len(member) - n, len(arrays))
        table[name] = row
    best = min(table, key=lambda name: (table[name]["p_value"], -table[name]["auc"]))
    return Inferred(arrays[best], best, table, power(shadows, groups), arrays)


def power(shadows: Shadows, groups: Tensor) -> dict[str, float | None]:
    """Each shadow in the place of the audited network, compared with the others but for its
    complement: mean area and rate by LiRA. None for fewer than two pairs of shadows.
    """
    phi, inside, rates = shadows.phi, shadows.inside, list[dict[str, float]]()
    pair = torch.arange(len(phi)) // 2
    for k in range(len(phi)) if len(phi) > 2 else ():
        others = pair != pair[k]
        score = by_group(lira(phi[k], phi[others], inside[others]), groups)
        member = by_group(inside[k].double(), groups) > 0.5
        rates.append(_rates(score.numpy(), member.numpy()))
    return {
        name: float(np.mean([row[name] for row in rates])) if rates else None
        for name in ("auc", "tpr_0.01")
    }


def _rates(score: np.ndarray, member: np.ndarray) -> dict[str, float]:
    """The area under the ROC curve, and the share of members found at each of `FALSE_RATES`."""
    return {
        "auc": auc(score, member),
        **{f"tpr_{rate:g}": true_rate(score, member, rate) for rate in FALSE_RATES},
    }


# -------------------------------------------------------------------------------------- lower bound

GUESSED = (1.0, 0.25, 0.05)  # shares of groups that are guessed, fixed before any score is seen
SURE = 0.05


def beside_claim(
    scores: Sequence[np.ndarray], n: int, seed: int, claim: tuple[float, float] | None, size: int
) -> Json:
    """The largest lower bound of ε by any of the scores (G,), n training groups first, beside (ε,
    δ) as it is claimed of an image: k images of a group have (k ε, k e^((k − 1) ε) δ) (Dwork & Roth
    2014). Without a claim δ = 1/(10 n).
    """
    epsilon, delta = claim or (0.0, 1 / (10 * n))
    delta = min(1.0, size * math.exp(min((size - 1) * epsilon, 700)) * delta)
    member = np.arange(len(scores[0])) < n
    bounds = [epsilon_bound(score, member, seed, delta, len(scores)) for score in scores]
    best = max(bounds, key=lambda bound: bound["lower"])
    verdict = "violated" if best["lower"] > size * epsilon else "consistent"
    return best | {"claimed": claim and epsilon, "size": size, "verdict": claim and verdict}


def epsilon_bound(
    score: np.ndarray, member: np.ndarray, seed: int, delta: float, choices: int = 1
) -> Json:
    """A lower bound of ε at this δ that holds with probability 95 %, from one training run (Steinke
    et al. 2023), and the counts that it is from.

    Of as many groups of either set, the r with the largest and the smallest scores are guessed to
    be in and out; v guesses are right. Were training (ε, δ)-private and each group in by a fair
    coin of its own, P(v or more) would be at most β + 2 m δ max_i P(v − i ≤ B < v) / i, with B
    binomial of r and 1/(1 + e^−ε) and β = P(B ≥ v), whose inversion is Clopper and Pearson's.

    Args:
        choices: scores of which this is one: they and the shares of GUESSED are paid for.
    """
    drawn, few = np.random.default_rng([seed, 20]), int(min(member.sum(), (~member).sum()))
    kept = [drawn.permutation(np.flatnonzero(part))[:few] for part in (member, ~member)]
    rows = drawn.permutation(np.concatenate(kept))  # ties by chance
    ordered = member[rows][np.argsort(score[rows], kind="stable")]
    found = []
    for share in GUESSED:
        half = max(round(share * few), 1)
        right = int(ordered[-half:].sum() + (~ordered[:half]).sum())

        def surplus(epsilon: float, right: int = right, half: int = half) -> float:
            law = binom(2 * half, expit(epsilon))
            below = law.pmf(np.arange(right - 1, -1, -1)).cumsum() / np.arange(1, right + 1)
            p = law.sf(right - 1) + 4 * few * delta * below.max(initial=0.0)
            return float(p) - SURE / (choices * len(GUESSED))

        # p rises with ε to at least 1
        lower = 0.0 if surplus(0.0) >= 0 else float(brentq(surplus, 0.0, 50.0))
        found.append({"lower": lower, "delta": delta, "right": right, "guesses": 2 * half})
    return max(found, key=lambda bound: bound["lower"])
