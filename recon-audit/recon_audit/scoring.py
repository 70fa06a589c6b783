"""What an audit counts, what it compares with, and how it decides: the first place where images
enter.

Two things make candidates look like training images without one having been recovered; each gets a
p-value.

1. Chance. `target_decoy`: an exact permutation test, which takes training and held-out images as
   exchangeable given the candidates. True of candidates that know nothing of the training set.
2. Blur. Any mixture of training images is nearer to them than to held-out ones. The nulls of
   `recon.scoring.nulls` are what blur scores; the hardest, random mixtures of the training images,
   knows the truth. Of each, DRAWS sets of as many candidates as the attack offers: the attack's
   excess (training minus held-out images found) must be above all of theirs, and p is that of one
   more draw of a normal distribution like theirs (Student's t, spread at least 1).

The p-value of an attack at a threshold is the larger of the two, valid whichever explanation holds.
It is a leak where the smallest, times the number of looks (Bonferroni), is below LEVEL. Looks are
the attacks that apply times DECISIVE, and those for membership: an audit's tests together are wrong
on at most LEVEL of networks that hold nothing.
Before any of that, are held-out images such as training images are? See `recon_audit.exchange`.
"""

from __future__ import annotations

from typing import Any

import torch
from scipy.stats import t as student
from torch import Tensor

from recon.optim.spectrum import signal_span
from recon.scoring.matching import one_to_one, padded, target_decoy
from recon.scoring.nulls import null_candidates
from recon_audit.files import State

#: a part of report.json
Json = dict[str, Any]
#: training and held-out images (n, d), centred alike
Sets = tuple[Tensor, Tensor]

NULLS = ("mixtures", "span", "directions", "means")  # the rows are an attack here
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)  # NCC
# the decision is taken at the best of these, fixed before any data is seen …
DECISIVE = (0.6, 0.7, 0.8)
LEVEL = 0.05  # … where p, times the number of all looks, is below this
DRAWS = 20  # of every null
RULE = (
    f"p < {LEVEL} at the best of all attacks and of NCC {', '.join(map(str, DECISIVE))}, p times"
    " {looks} for the choice; p is the larger of two, against chance and against mixtures that"
    " recover nothing"
)


# -------------------------------------------------------------------------------------------- nulls


def null_excess(w1: Tensor, sets: Sets, m: int, seed: int) -> State:
    """name -> (DRAWS, len(THRESHOLDS)): training minus held-out images found by m candidates that
    demix nothing. Other photographs of the pool are none of these: an audit has no further ones,
    and images that know of neither set are what the test against chance is exact for.

    Args:
        w1 (h, d), whose n strongest directions that stand out are its span.
    """
    generator, n = torch.Generator().manual_seed(seed), len(sets[0])
    basis = signal_span(w1)[:n]
    _, values, directions = torch.linalg.svd(w1, full_matrices=False)
    w1 = (values[:, None] * directions)[:n]  # the same mixtures, from less
    span = basis if len(basis) else None
    drawn = (null_candidates(w1, *sets, sets[0][:0], m or 1, generator, span) for _ in range(DRAWS))
    table = [[excess(free[name][:m], *sets) for name in NULLS] for free in drawn]
    return dict(zip(NULLS, map(torch.stack, zip(*table, strict=True)), strict=True))


def excess(x_hat: Tensor, train: Tensor, held_out: Tensor) -> Tensor:
    """Training minus held-out images that candidates (m, d) find, by THRESHOLDS; assigned as in
    `target_decoy`.
    """
    images = torch.cat([train, held_out])
    score = one_to_one(images, padded(x_hat, len(images))).score
    above = score[:, None] > score.new_tensor(THRESHOLDS)
    return (above[: len(train)].sum(0) - above[len(train) :].sum(0)).cpu()


def blur_p(count: int, null: Tensor) -> float:
    """P(one more draw ≥ found), where null (K,) is what K draws gave and all of them are normal; 1
    if one did as well.

    >>> null = torch.tensor([1.0, 2.0, 3.0, 2.0])
    >>> blur_p(3, null), round(blur_p(8, null), 4)
    (1.0, 0.0063)
    """
    null = null.double()
    if count <= null.max():
        return 1.0
    spread = max(null.std().item(), 1.0) * (1 + 1 / len(null)) ** 0.5
    return float(student.sf((count - null.mean().item()) / spread, len(null) - 1))


# ------------------------------------------------------------------------------------------ scoring


def score(candidates: State, w1: Tensor, sets: Sets, looks: int, seed: int) -> Json:
    """Counts, nulls and p-values of every attack at every threshold, and the verdict.

    At the top level the row that decides: that of the smallest p, of the largest excess where
    several share it.

    Args:
        candidates: name of the attack -> its candidates (m, d).
        w1 (h, d): the first layer.
        looks: tests in the family, the factor of p.
    """
    sizes = set(map(len, candidates.values()))
    by_size = {m: null_excess(w1, sets, m, seed) for m in sizes}
    attacks: dict[str, Json] = {}
    for name, x_hat in candidates.items():
        table = rows(x_hat, sets, by_size[len(x_hat)])
        attacks[name] = {"counts": table} | min(table, key=_rank)
    attack = min(attacks, key=lambda name: _rank(attacks[name]))
    best = attacks[attack]
    return best | {
        "rule": RULE.format(looks=looks),
        "looks": looks,
        "attack": attack,
        "leak": best["p"] * looks < LEVEL,
        "p_value": min(1.0, best["p"] * looks),
        "attacks": attacks,
    }


def rows(x_hat: Tensor, sets: Sets, null: State) -> list[Json]:
    """One per threshold: targets, decoys, fdr, p_value as in `Competition`;

    Args:
        null: the free set that is hardest to tell from the attack, its mean and largest excess,
            null_p against it; p: the larger of p_value and null_p.
    """
    table = []
    for k, threshold in enumerate(THRESHOLDS):
        row = vars(target_decoy(x_hat, *sets, threshold))
        surplus = row["targets"] - row["decoys"]
        drawn = {name: draws[:, k].double() for name, draws in null.items()}
        p = {name: blur_p(surplus, draws) for name, draws in drawn.items()}
        hardest = max(p, key=lambda name: (p[name], drawn[name].mean().item()))
        row |= {
            "threshold": threshold,
            "null": hardest,
            "null_p": p[hardest],
            "null_mean": drawn[hardest].mean().item(),
            "null_max": int(drawn[hardest].max()),
            "p": max(row["p_value"], p[hardest]),
        }
        table.append(row)
    return table


def _rank(row: Json) -> tuple[bool, float, int]:
    """The best first, of those at which the decision is taken."""
    return row["threshold"] not in DECISIVE, row["p"], row["decoys"] - row["targets"]
