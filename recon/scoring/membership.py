"""Was this image trained on? Scores that compare a network with shadow networks, and how well such
scores tell.

Shadow networks are trained alike, some on the image and some not. Their confidences φ in its class
are compared with that of the network in question.

- LiRA, online, with one common variance, as Carlini et al. (2022) advise for few shadows:
  score = log N(φ; μ_in, σ_in²) − log N(φ; μ_out, σ_out²), means by image, variances over all
  images.
- RMIA (Zarifzadeh et al. 2024): score = share of the other images z for which
  (p(x)/p̄(x)) / (p(z)/p̄(z)) ≥ γ, where p̄ is the mean over shadows. They take z from the
  population; here z are all other images that are asked about.

Under the null that the network does not depend on which of the images are members, given that
members and others are exchangeable, every relabelling of them is as likely as the true one: shadows
were drawn without asking. So the p-value of the area under the ROC curve is that of a permutation
test.
"""

from typing import Any

import numpy as np
import torch
from scipy.stats import nhypergeom, rankdata
from torch import Tensor

from recon.scoring.roc import auc, true_rate

FALSE_RATES = (0.01, 0.001)
# the paper takes 2 against a large population: against few images all members would tie at the top
GAMMA = 1.0
PERMUTATIONS = 9999
DRAWS = 500
FLOOR = 1e-3  # of a standard deviation of φ
RARE = 0.05  # of guesses name more than `guessed` says


def lira(phi: Tensor, shadows: Tensor, inside: Tensor) -> Tensor:
    """Scores (N,) of φ (N,) against shadows (k, N), trained where `inside` (k, N): larger means
    rather a member.
    """
    densities = []
    for members in (inside, ~inside):
        count = members.sum(0)
        mean = (shadows * members).sum(0) / count.clamp_min(1)
        residual = (shadows - mean).square() * members
        freedom = (count - 1).clamp_min(0).sum().clamp_min(1)
        spread = (residual.sum() / freedom).sqrt().clamp_min(FLOOR)
        densities.append(-0.5 * ((phi - mean) / spread).square() - spread.log())
    return densities[0] - densities[1]


def rmia(phi: Tensor, shadows: Tensor, gamma: float = GAMMA) -> Tensor:
    """Shares (N,) of the other images that an image dominates; φ (N,), shadows (k, N)."""
    log_p = torch.nn.functional.logsigmoid
    ratio = log_p(phi) - (log_p(shadows).logsumexp(0) - torch.tensor(float(len(shadows))).log())
    ordered = ratio.sort().values
    below = torch.searchsorted(ordered, ratio - torch.tensor(gamma).log(), right=True)
    return below.double() / max(len(phi) - 1, 1)


def guessed(n: int, others: int, allowed: int, rare: float = RARE) -> tuple[float, int]:
    """What a score that knows nothing accepts of n members above all but `allowed` of the others:
    the mean, and the count that at most a share `rare` of such scores exceed.

    Every order of members and others is equally likely, so the count is negative hypergeometric.

    >>> guessed(500, 500, 5)[1], guessed(20, 20, 0)
    (12, (0.9523809523809523, 4))
    """
    if allowed >= others:
        return float(n), n
    count = nhypergeom(n + others, n, allowed + 1)
    return float(count.mean()), int(count.isf(rare))


def named(row: dict[str, Any], n: int, others: int, choices: int = 1) -> dict[str, dict[str, Any]]:
    """Rates as counts of the n members, by false rate: what a score names, and what a guess would.

    Args:
        row: "tpr_…" of FALSE_RATES and "intervals" of one score.
        choices: scores of which this is the best, for which `guess_most` pays. false_alarms: others
            accepted · resolved: whether there are as many others as the rate needs; where there are
            not, none of them is accepted.
    """
    rows = {}
    for rate in FALSE_RATES:
        name, allowed = f"tpr_{rate:g}", int(rate * others + 1e-9)
        mean, most = guessed(n, others, min(allowed, others), RARE / choices)
        count, low, high = (round(share * n) for share in (row[name], *row["intervals"][name]))
        rows[f"{rate:g}"] = {
            "count": count,
            "low": low,
            "high": high,
            "guess": mean,
            "guess_most": most,
            "of": n,
            "others": others,
            "false_alarms": allowed,
            "resolved": allowed > 0,
        }
    return rows


def permutation_p(
    score: np.ndarray, member: np.ndarray, seed: int, draws: int = PERMUTATIONS
) -> float:
    """P(sum of the members' ranks as large, were membership drawn at random), by `draws`
    permutations.
    """
    random = np.random.default_rng([seed, 18])
    ranks = rankdata(score)
    n, observed = int(member.sum()), ranks[member].sum()
    sums = np.array([random.permutation(ranks)[:n].sum() for _ in range(draws)])
    return float((1 + (sums >= observed - 1e-9).sum()) / (1 + draws))


def intervals(
    score: np.ndarray, member: np.ndarray, seed: int, draws: int = DRAWS
) -> dict[str, tuple[float, float]]:
    """Central 95 % of the bootstrap over images, members and others drawn apart: "auc" and "tpr_…"
    of FALSE_RATES.
    """
    random = np.random.default_rng([seed, 19])
    kinds = [np.flatnonzero(member), np.flatnonzero(~member)]
    rows = ([random.choice(kind, len(kind)) for kind in kinds] for _ in range(draws))
    weights = np.stack([np.bincount(np.concatenate(row), minlength=len(score)) for row in rows])
    values = {"auc": auc(score, member, weights)}
    values |= {f"tpr_{rate:g}": true_rate(score, member, rate, weights) for rate in FALSE_RATES}
    return {
        name: (float(np.quantile(v, 0.025)), float(np.quantile(v, 0.975)))
        for name, v in values.items()
    }


def probability(score: np.ndarray, member: np.ndarray) -> np.ndarray:
    """For every member (n,): 1 − the estimated share of chance among the members that score as
    high. (others as high + 1) / (others + 1) · members / (members as high), at most 1, made to rise
    with the score.
    """
    inner, outer = score[member], np.sort(score[~member])
    order = np.argsort(-inner, kind="stable")
    above_out = len(outer) - np.searchsorted(outer, inner[order], side="left")
    above_in = len(inner) - np.searchsorted(np.sort(inner), inner[order], side="left")
    chance = np.minimum(1.0, (above_out + 1) / (len(outer) + 1) * len(inner) / above_in)
    chance = np.minimum.accumulate(chance[::-1])[::-1]  # a higher score is never less certain
    certainty = np.empty(len(inner))
    certainty[order] = 1 - chance
    return certainty
