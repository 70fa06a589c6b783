"""Was this image trained on?  The question that can be asked of every classifier, answered in three ways.

The audited network's confidence in an image's class is compared with that of k shadow networks, half of which were
trained on the image (`recon.auditing.shadows`).  Confidence is φ = log p_y / (1 − p_y), which is nearly normal.

- LiRA, online, with one common variance, as Carlini et al. (2022) advise for few shadows:
  score = log N(φ; μ_in, σ_in²) − log N(φ; μ_out, σ_out²), means by image, variances over all images.
- RMIA (Zarifzadeh et al. 2024): score = share of the other images z for which (p(x)/p̄(x)) / (p(z)/p̄(z)) ≥ γ, where
  p̄ is the mean over shadows.  They take z from the population; here z are all other images of the audit.
- Multipliers (`recon.attacks.multipliers`): how much of the weights themselves an image accounts for beside all
  others; no shadow enters.  Where the start is known, θ* or θ* − θ⁰ is explained, whichever the images explain better.

Under the null that the network does not depend on which of the images are members, given that members and others are
exchangeable, every relabelling of them is as likely as the true one: shadows were drawn without asking.  So the p-value
of the area under the ROC curve is that of a permutation test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor, nn

from recon.attacks.multipliers import Multipliers, confidence, from_module, multipliers
from recon.auditing.networks import Anatomy, answers_of
from recon.auditing.shadows import Shadows, as_logits
from recon.errors import ReconError

FALSE_RATES = (0.01, 0.001)
GAMMA = 1.0  # the paper takes 2 against a large population: against few images all members would tie at the top
PERMUTATIONS = 9999
DRAWS = 500
FLOOR = 1e-3  # of a standard deviation of φ
SCORES = ("lira", "rmia", "multipliers")
MAX_IMAGES, MAX_NUMBERS = 2000, 4_000_000_000  # of multipliers: least squares are cubic, gradients large


def lira(phi: Tensor, shadows: Tensor, inside: Tensor) -> Tensor:
    """Scores (N,) of φ (N,) against shadows (k, N), trained where `inside` (k, N): larger means rather a member."""
    found = {}
    for name, members in (("in", inside), ("out", ~inside)):
        count = members.sum(0)
        mean = (shadows * members).sum(0) / count.clamp_min(1)
        residual = (shadows - mean).square() * members
        spread = (residual.sum() / (count - 1).clamp_min(0).sum().clamp_min(1)).sqrt().clamp_min(FLOOR)
        z = (phi - mean) / spread
        found[name] = -0.5 * z.square() - spread.log()
    return found["in"] - found["out"]


def rmia(phi: Tensor, shadows: Tensor, gamma: float = GAMMA) -> Tensor:
    """Shares (N,) of the other images that an image dominates; φ (N,), shadows (k, N)."""
    log_p = torch.nn.functional.logsigmoid
    ratio = log_p(phi) - (log_p(shadows).logsumexp(0) - torch.tensor(float(len(shadows))).log())
    ordered = ratio.sort().values
    below = torch.searchsorted(ordered, ratio - torch.tensor(gamma).log(), right=True)
    return below.double() / max(len(phi) - 1, 1)


# ----------------------------------------------------------------------------------------------------- multipliers


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

    found = multipliers(from_module(module, x, y, None, answers))
    if start is None:
        return found
    return min(found, multipliers(from_module(module, x, y, start, answers)), key=lambda each: each.residual)


# ------------------------------------------------------------------------------------------------------ statistics


def auc(score: np.ndarray, member: np.ndarray) -> float:
    """P(score of a member > that of another image), ties counted half."""
    ranks = rankdata(score)
    n, m = int(member.sum()), int((~member).sum())
    return float((ranks[member].sum() - n * (n + 1) / 2) / (n * m))


def true_rate(score: np.ndarray, member: np.ndarray, false_rate: float) -> float:
    """Largest share of members accepted while at most `false_rate` of the others are; of fewer than 1/`false_rate`
    others none may be."""
    others = np.sort(score[~member])[::-1]
    allowed = int(false_rate * len(others) + 1e-9)
    return float((score[member] > others[allowed]).mean()) if allowed < len(others) else 1.0


def permutation_p(score: np.ndarray, member: np.ndarray, seed: int, draws: int = PERMUTATIONS) -> float:
    """P(sum of the members' ranks as large, were membership drawn at random), by `draws` permutations."""
    random = np.random.default_rng([seed, 18])
    ranks = rankdata(score)
    n, observed = int(member.sum()), ranks[member].sum()
    drawn = np.array([random.permutation(ranks)[:n].sum() for _ in range(draws)])
    return float((1 + (drawn >= observed - 1e-9).sum()) / (1 + draws))


def intervals(score: np.ndarray, member: np.ndarray, seed: int, draws: int = DRAWS) -> dict[str, tuple[float, float]]:
    """Central 95 % of the bootstrap over images, members and others drawn apart: "auc" and "tpr_…" of FALSE_RATES."""
    random = np.random.default_rng([seed, 19])
    inner, outer = score[member], score[~member]
    found: dict[str, list[float]] = {name: [] for name in ("auc", *(f"tpr_{rate:g}" for rate in FALSE_RATES))}
    flags = np.arange(len(score)) < len(inner)
    for _ in range(draws):
        drawn = np.concatenate([random.choice(inner, len(inner)), random.choice(outer, len(outer))])
        found["auc"].append(auc(drawn, flags))
        for rate in FALSE_RATES:
            found[f"tpr_{rate:g}"].append(true_rate(drawn, flags, rate))
    return {name: (float(np.quantile(v, 0.025)), float(np.quantile(v, 0.975))) for name, v in found.items()}


def probability(score: np.ndarray, member: np.ndarray) -> np.ndarray:
    """For every member (n,): 1 − the estimated share of chance among the members that score as high.

    (others as high + 1) / (others + 1) · members / (members as high), at most 1, made to rise with the score.
    """
    inner, outer = score[member], np.sort(score[~member])
    order = np.argsort(-inner, kind="stable")
    above_out = len(outer) - np.searchsorted(outer, inner[order], side="left")
    above_in = len(inner) - np.searchsorted(np.sort(inner), inner[order], side="left")
    chance = np.minimum(1.0, (above_out + 1) / (len(outer) + 1) * len(inner) / above_in)
    chance = np.minimum.accumulate(chance[::-1])[::-1]  # a higher score is never less certain
    found = np.empty(len(inner))
    found[order] = 1 - chance
    return found


@dataclass(frozen=True)
class Inferred:
    """score (N,) of the best of SCORES by its p · name: which · table: of all, area, rates, intervals, p · power: what
    the same scores say of the shadows themselves."""

    score: np.ndarray
    name: str
    table: dict[str, Any]
    power: dict[str, float]


def infer(
    logits: Tensor, labels: Tensor, n: int, shadows: Shadows, seed: int, weights: Tensor | None = None
) -> Inferred:
    """logits (N, K) of the audited network, labels (N,), the n training images first · weights (N,): the score of
    `explained`, where there is one."""
    member = np.arange(len(labels)) < n
    phi, others = confidence(logits, labels), confidence(shadows.logits, labels)
    scores = {"lira": lira(phi, others, shadows.inside).numpy(), "rmia": rmia(phi, others).numpy()}
    if weights is not None:
        scores["multipliers"] = weights.cpu().numpy()
    table: dict[str, Any] = {}
    for name, score in scores.items():
        table[name] = {
            "auc": auc(score, member),
            **{f"tpr_{rate:g}": true_rate(score, member, rate) for rate in FALSE_RATES},
            "intervals": {key: list(pair) for key, pair in intervals(score, member, seed).items()},
            "p_value": permutation_p(score, member, seed),
        }
    name = min(scores, key=lambda each: (table[each]["p_value"], -table[each]["auc"]))
    return Inferred(scores[name], name, table, power(labels, shadows))


def reach_of_multipliers(seen: Anatomy, x: Tensor, y: Tensor, shadows: Shadows, start: nn.Module | None) -> float:
    """Area under the ROC curve of the multipliers of the first shadow, of which we know whom it was trained on; NaN
    where there are none to fit."""
    try:
        found = explained(shadows.modules[0], seen, x, y, start)
    except ReconError:
        return float("nan")
    return auc(found.score.cpu().numpy(), shadows.inside[0].numpy())


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
