"""Was this image trained on? The question that can be asked of every classifier, answered in three
ways.

The audited network's confidence in an image's class is compared with that of k shadow networks,
half of which were trained on the image (`recon_audit.shadows`). Confidence is φ = log p_y / (1 −
p_y), which is nearly normal. Scores and statistics are those of `recon.scoring.membership`; the
score of a group is the mean over its images (`recon_audit.exchange`).

The multipliers of `recon.attacks.multipliers` are a third score: how much of the weights themselves
an image accounts for beside all others. No shadow enters. Where the start is known, θ* or θ* − θ⁰
is explained, whichever the images explain better.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import expit
from scipy.stats import binom, rankdata
from torch import Tensor, nn

from recon.attacks import Candidates, by_multipliers
from recon.attacks.from_weights import Pool
from recon.attacks.multipliers import confidence
from recon.errors import one_reason
from recon.released import Weights
from recon.scoring.membership import FALSE_RATES, intervals, lira, named, permutation_p, rmia
from recon.scoring.roc import auc, true_rate
from recon_audit.anatomy import Classifier
from recon_audit.exchange import by_group, two_sample
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


@dataclass(frozen=True)
class Inferred:
    """
    Attributes:
        score (G,) of the best by its p, of "lira", "rmia" and others that are given.
        name: which.
        table: of all, area, rates, intervals, p.
        power: what the same scores say of the shadows themselves, see `power`.
        epsilon: the largest lower bound by any of them, see `epsilon_bound`.
    """

    score: np.ndarray
    name: str
    table: Json
    power: dict[str, float | None]
    epsilon: Json


def infer(
    logits: Tensor,
    labels: Tensor,
    n: int,
    shadows: Shadows,
    seed: int,
    more: dict[str, Tensor] | None = None,
    groups: Tensor | None = None,
    delta: float = 0.0,
) -> Inferred:
    """
    Args:
        logits (N, K) of the audited network, labels (N,).
        n: groups of training images, which come first.
        more: other scores (N,), by their names.
        groups (N,): numbers, by default each image is one; its score is the mean of its images'.
        delta: of the bound on ε.
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
    bounds = [epsilon_bound(score, member, seed, delta, len(arrays)) for score in arrays.values()]
    bound = max(bounds, key=lambda found: found["lower"])
    return Inferred(arrays[best], best, table, power(shadows, groups), bound)


def power(shadows: Shadows, groups: Tensor) -> dict[str, float | None]:
    """Each shadow in the place of the audited network, compared with the others but for its
    complement: mean area and rates by LiRA. None for fewer than two pairs of shadows.
    """
    phi, inside = shadows.phi, shadows.inside
    rates = []
    for k in range(len(phi)):
        others = [j for j in range(len(phi)) if j // 2 != k // 2]
        if others:
            score = by_group(lira(phi[k], phi[others], inside[others]), groups)
            member = by_group(inside[k].double(), groups) > 0.5
            rates.append(_rates(score.numpy(), member.numpy()))
    names = ("auc", *(f"tpr_{rate:g}" for rate in FALSE_RATES))
    return {name: float(np.mean([row[name] for row in rates])) if rates else None for name in names}


def unseen(shadows: Shadows, member: np.ndarray, groups: Tensor, seed: int) -> Json:
    """Share of right answers of shadows to groups that they did not see, by set, and the p-value of
    the sets being alike in how sure those answers are (`two_sample`).

    Shadows do not know the sets, so that where those are alike, labels included, answers are, too.
    """
    outside = by_group((~shadows.inside).double(), groups) > 0.5
    count = outside.sum(0).clamp_min(1)
    right = (by_group((shadows.phi > 0).double(), groups) * outside).sum(0) / count
    sure = (by_group(shadows.phi, groups) * outside).sum(0) / count
    ranks = rankdata(sure.numpy())
    values = torch.from_numpy((ranks - ranks.mean()) / max(ranks.std(), 1e-9))[:, None]
    sets = {"train": member, "held_out": ~member}
    about: Json = {name: right[torch.from_numpy(part)].mean().item() for name, part in sets.items()}
    return about | {"p_value": two_sample(values, member, seed)}


def _rates(score: np.ndarray, member: np.ndarray) -> dict[str, float]:
    """The area under the ROC curve, and the share of members found at each of `FALSE_RATES`."""
    return {
        "auc": auc(score, member),
        **{f"tpr_{rate:g}": true_rate(score, member, rate) for rate in FALSE_RATES},
    }


# -------------------------------------------------------------------------------------- lower bound

GUESSED = (1.0, 0.25, 0.05)  # shares of groups that are guessed, fixed before any score is seen
SURE = 0.05


def epsilon_bound(
    score: np.ndarray, member: np.ndarray, seed: int, delta: float, choices: int = 1
) -> Json:
    """A lower bound of ε at this δ that holds with probability 95 %, from one training run (Steinke
    et al. 2023), and the counts that it is from.

    Of as many groups of either set, the r with the largest and the smallest scores are guessed to
    be in and out; v guesses are right. Were training (ε, δ)-private and each group in by a fair
    coin of its own, P(v or more) would be at most that of a binomial of r and 1/(1 + e^−ε), whose
    inversion is Clopper and Pearson's, plus what δ adds.

    Args:
        choices: scores of which this is one: they and the shares of GUESSED are paid for.
    """
    drawn = np.random.default_rng([seed, 20])
    few = int(min(member.sum(), (~member).sum()))
    kept = [drawn.permutation(np.flatnonzero(member == is_in))[:few] for is_in in (True, False)]
    rows = drawn.permutation(np.concatenate(kept))  # ties by chance
    ordered = member[rows][np.argsort(score[rows], kind="stable")]
    level, best = SURE / (choices * len(GUESSED)), {"lower": -1.0}
    for share in GUESSED:
        half = max(round(share * few), 1)
        right = int(ordered[-half:].sum() + (~ordered[:half]).sum())
        lower = _largest_refuted(2 * few, 2 * half, right, delta, level)
        if lower > best["lower"]:
            best = {"lower": lower, "delta": delta, "right": right, "guesses": 2 * half}
    return best


def _largest_refuted(m: int, guesses: int, right: int, delta: float, level: float) -> float:
    """The largest ε that the guesses refute at this level, by bisection; 0 where they refute
    none.
    """
    low, high = 0.0, 50.0
    if _p_of_guesses(m, guesses, right, low, delta) > level:
        return 0.0
    for _ in range(40):
        middle = (low + high) / 2
        refuted = _p_of_guesses(m, guesses, right, middle, delta) <= level
        low, high = (middle, high) if refuted else (low, middle)
    return low


def _p_of_guesses(m: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Steinke et al.'s bound on the probability of as many right guesses under (ε, δ)-privacy: β +
    2 m δ max_i P(v − i ≤ Binomial < v) / i.
    """
    law = binom(guesses, expit(epsilon))
    below = np.cumsum(law.pmf(np.arange(right - 1, -1, -1)))
    more = (below / np.arange(1, right + 1)).max(initial=0.0)
    return float(min(1.0, law.sf(right - 1) + 2 * m * delta * more))
