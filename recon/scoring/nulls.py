"""Baselines that cost nothing: candidates made from released weights without demixing them, and
what they score.

Held-out images are no exchangeable null for candidates in the span of the training images: any
mixture of those is nearer to them than to images never seen. An attack's number is therefore its
excess over the best of these sets, made without any attack, and of the attack's own candidates
against held-out images.
"""

import operator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from recon.errors import ReconError
from recon.optim.spectrum import right_singular
from recon.scoring.matching import ByYardstick, Counts, match_counts, padded
from recon.scoring.metrics import Shape

HELD_OUT = "held_out"


def null_candidates(
    w1: Tensor,
    train: Tensor,
    others: Tensor,
    photographs: Tensor,
    m: int,
    generator: torch.Generator,
    basis: Tensor | None = None,
    others_labels: Tensor | None = None,
) -> dict[str, Tensor]:
    """Sets of m candidates (m, d) each, by name; zero rows where a set has fewer (a zero row scores
    NCC 0).

    span: z w1 Bᵀ B with z ~ N(0, I_h): Gaussian mixtures of the searched span, in it as large as w1
    is there · mixtures: z X / √n with z ~ N(0, I_n): of the training images X themselves. Knows the
    truth: what blur of the right span scores, and so the hardest · rows: ± rows of w1, largest norm
    first · directions: ± right singular vectors of w1, largest singular value first · means: ± the
    mean of `others`, ± the mean of each of their classes, then ± means of random halves of them ·
    photographs: the first m of `photographs` as they are · photographs_2: the next m. ReconError
    for shapes that do not fit.

    Args:
        w1 (h, d): first layer.
        train (n, d).
        others (k, d): images that nobody trained on, with labels (k,).
        photographs (p, d): further ones of the same pool, none of which is in any other set, held
            out or not; none where there is no such pool · all centred alike.
        basis (r, d): orthonormal rows of the searched span B; default: the min(n, rank) first right
            singular vectors of w1.
        generator: on the CPU, so that devices agree.
    """
    dims = {x.shape[1] if x.dim() == 2 else 0 for x in (w1, train, others, photographs)}
    if len(dims) > 1 or m < 1:
        raise ReconError(f"w1 and all images must be rows of one length, and m = {m} positive")
    values, directions = right_singular(w1)
    directions = directions[values > 1e-6 * values.max().clamp_min(1e-30)].to(w1.dtype)
    basis = directions[: len(train)] if basis is None else basis

    def mixtures(x: Tensor) -> Tensor:
        return torch.randn(m, len(x), generator=generator).to(x) @ x

    sets = {
        "span": mixtures(w1 @ basis.mT) @ basis,
        "mixtures": mixtures(train) / max(len(train), 1) ** 0.5,
        "rows": both_signs(w1[w1.norm(dim=1).argsort(descending=True, stable=True)]),
        "directions": both_signs(directions),
        "means": both_signs(means(others, (m + 1) // 2, generator, others_labels)),
        "photographs": photographs,
        "photographs_2": photographs[m:],
    }
    return {name: padded(x[:m], m) for name, x in sets.items()}


def both_signs(x: Tensor) -> Tensor:
    """Rows x_1, −x_1, x_2, −x_2, …: (k, d) -> (2k, d)."""
    return torch.stack([x, -x], dim=1).flatten(0, 1)


def means(
    x: Tensor, count: int, generator: torch.Generator, labels: Tensor | None = None
) -> Tensor:
    """Means (count, d) of images x (k, d): of all, of each class, then of random halves; (0, d) if
    there are none.
    """
    if len(x) == 0:
        return x
    everything = x.new_ones(len(x), dtype=torch.bool)
    classes = [] if labels is None else labels.unique()
    parts = [everything, *(labels == label for label in classes)]
    while len(parts) < count:
        half = torch.randperm(len(x), generator=generator)[: (len(x) + 1) // 2]
        parts.append(torch.zeros_like(everything).index_fill(0, half.to(x.device), True))
    # all means in one product: nobody's images are gathered
    members = torch.stack(parts[:count]).to(x.dtype)
    return members @ x / members.sum(1, keepdim=True)


@dataclass(frozen=True)
class NullTable:
    """What an attack finds above what finds itself.

    Attributes:
        matches: of the attack's candidates with the training images.
        nulls: name of a set of null candidates -> its matches with the training images; "held_out":
            the attack's candidates' with as many held-out images.
        best_null: the largest of the nulls.
        best_null_name: whose that is, the first of equals.
        excess: matches − best_null.
    """

    matches: Counts
    nulls: dict[str, Counts]
    best_null: Counts
    best_null_name: ByYardstick[str]
    excess: Counts


def null_table(
    candidates: dict[str, Tensor],
    train: Tensor,
    held_out: Tensor,
    mean: Tensor,
    x_hat: Tensor,
    shape: Shape,
) -> NullTable:
    """What no attack scores by `match_counts`, and what the attack's x_hat (m, d) scores above it.
    Null candidates but photographs are stretched to the median norm of the training images first:
    SSIM sees their contrast.

    Args:
        candidates: null sets (k, d) by name, see `null_candidates`.
        train, held_out: (n, d) · all centred by `mean` (d,).
        shape: (C, H, W).
    """
    norm = train.norm(dim=1).median()
    nulls = {
        name: match_counts(x if "photo" in name else norm * normalize(x), train, mean, shape)
        for name, x in candidates.items()
    }
    nulls[HELD_OUT] = match_counts(x_hat, held_out, mean, shape)
    matches = match_counts(x_hat, train, mean, shape)
    first, *others = nulls.values()
    best = first.map(lambda *counts: max(counts), *others)
    names = first.map(lambda *counts: list(nulls)[counts.index(max(counts))], *others)
    return NullTable(matches, nulls, best, names, matches.map(operator.sub, best))


def clears(matches: int, null: int) -> bool:
    """Whether a count is above its null by more than chance may be: matches − null >
    2 √(matches + null).

    Two standard deviations of the difference of two Poisson counts.

    >>> clears(5, 0), clears(4, 0), clears(30, 14), clears(27, 111)
    (True, False, True, False)
    """
    return margin(matches, null) > 0


def margin(matches: int, null: int) -> float:
    """How far a count is above what `clears` asks for."""
    return matches - null - 2 * (matches + null) ** 0.5
