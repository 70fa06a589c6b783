"""Are held-out images such as training images are? Everything goes by *group*: one image by
default, near-copies of it, a patient, a person.

Groups are what is drawn: they go as one through the halves of shadow networks, permutations and
intervals. Near-copies are images alike but for brightness, contrast, noise, a mirror and a shift of
up to two pixels. Held-out images in a group with training images are left out. Of groups that
differ in size between the sets as many images are taken as leave them alike, and where the sets
differ in their mix of classes, as many groups of every class. Then two tests by permutation of
groups: a classifier two-sample test (Lopez-Paz & Oquab 2017) and one on nearest neighbours
(Schilling 1986), which also sees images that are alike within a set and not across.

Labels match the mix where those of held-out images have to do with what the network answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.stats import permutation_test, rankdata
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, one_hot

from recon.scoring.metrics import ncc
from recon_audit.images import Images
from recon_audit.labels import look_up, of_both
from recon_audit.words import say

NEAR = 0.98  # NCC above which two images are copies
SHIFT, COARSE = 2, 12  # pixels; side of the pictures on which copies are sought first
MOST_PAIRS = 500_000_000  # of pictures, in all motions
TOLD_APART = 0.01  # p of a test below which nothing else is said
UNLIKE = 0.1  # p below which sizes or classes of the sets are matched, and labels doubted
MOST_COPIES = 0.5  # share of the held-out images
PERMUTATIONS = 999
THUMBNAIL = 4
MOST_TOLD = 2000
LEAST = 6  # groups: with 5 of each even a perfect attack has p = 9/252


@dataclass(frozen=True)
class Exchangeability:
    """
    Attributes:
        train, held_out: rows that are compared, of either set.
        groups: number of the group of each of them, the training ones first.
        size: images of a group, at most.
        copies: held-out images that are near-copies of training images.
        p: the smaller one of both tests.
        why_not: one sentence where the sets cannot be compared, else None.
        notes: what was left out, and why.
    """

    train: list[int]
    held_out: list[int]
    groups: Tensor
    size: int
    copies: int
    p: float
    why_not: str | None
    notes: tuple[str, ...]


def compare_sets(
    train: Tensor,
    held_out: Tensor,
    seed: int,
    y: Tensor | None = None,
    groups: Sequence[str] = (),
) -> Exchangeability:
    """Of pixels (n, C, H, W) and (m, C, H, W).

    Args:
        y, groups (n + m,): classes; groups as they are given, "" for an image by itself.
    """
    x, n, m = torch.cat([train, held_out]), len(train), len(held_out)
    member, notes, p, why_not = np.arange(n + m) < n, [], 1.0, None
    given = [name or f"\0{row}" for row, name in enumerate(groups)] or np.arange(n + m)
    first, named = np.unique(given, return_index=True, return_inverse=True)[1:]
    links = near_copies(x)
    ends = named[np.array(links, int).reshape(-1, 2)].T
    graph = coo_matrix((np.ones(len(links)), ends), (len(first), len(first)))
    number = connected_components(graph, False)[1][named]
    kept = member | ~np.isin(number, number[member])
    copies = {j for i, j in links if i < n <= j}
    if left := int((~kept).sum()):
        notes.append(say("copies", left, m))
        why_not = notes[0] if left > MOST_COPIES * m else None

    rank, sizes = _rank(number), np.bincount(number[kept], minlength=n + m)[number]
    size = longest = int(sizes.max())
    rows = np.flatnonzero(kept & (rank == 1))
    if longest > 1 and _apart(sizes[rows, None], member[rows], seed) < UNLIKE:
        size = 1
        notes.append(say("sizes", size, longest))
    kept &= rank <= size
    if y is not None:
        before = kept.sum()
        kept &= np.isin(number, number[rows[_matched(y.numpy()[rows], member[rows], seed)]])
        if left := int(before - kept.sum()):
            notes.append(say("mix", left, int(kept[:n].sum()), int(kept[n:].sum())))

    _, first, group = np.unique(number[kept], return_index=True, return_inverse=True)
    drawn, first = torch.from_numpy(first.argsort().argsort()[group]), np.sort(first)
    sides = [np.flatnonzero(part).tolist() for part in (kept[:n], kept[n:])]
    inside, few = member[kept][first], [*map(len, sides)]
    counts = int(inside.sum()), int((~inside).sum())
    if any(groups) or len(inside) < sum(few):
        notes.append(say("groups", *counts, *few))
    if why_not is None and min(counts) < LEAST:
        why_not = say("too_few", *counts, LEAST)
    if why_not is None:
        apart = two_sample(by_group(features(x[kept]).mT, drawn).mT, inside, seed)
        p = min(apart, neighbours(x[kept][first], inside, seed))
        if p < TOLD_APART:
            why_not = say("told_apart" if p == apart else "clustered", p)
    return Exchangeability(sides[0], sides[1], drawn, size, len(copies), p, why_not, tuple(notes))


def _rank(keys: np.ndarray) -> np.ndarray:
    """How many of the keys up to each one are equal to it: 1 for the first."""
    seen: Counter[int] = Counter()
    return np.array([seen.update([key]) or seen[key] for key in keys.tolist()])


def _matched(y: np.ndarray, member: np.ndarray, seed: int) -> np.ndarray:
    """Which groups are kept, (G,): of every class as many as leave the mix of both sets alike; all
    where no test tells them apart.
    """
    kind = np.unique(y, return_inverse=True)[1]
    values = one_hot(torch.from_numpy(kind)).numpy()
    inner, outer = (values[part].sum(0) for part in (member, ~member))
    ratio = max(outer.sum() / inner.sum(), 1e-9)  # where all held-out images are copies
    few = np.minimum(inner * ratio, outer)
    most = np.where(member, (few / ratio).round()[kind], few.round()[kind])
    order = np.random.default_rng([seed, 21]).permutation(len(y))
    left = _rank((2 * kind + member)[order])[order.argsort()] <= most
    # of few groups of many classes little would be left, and chance alone makes them differ
    return left | (_apart(values, member, seed) >= (UNLIKE if left.mean() >= 0.5 else TOLD_APART))


# ------------------------------------------------------------------------------------------- groups


def near_copies(x: Tensor) -> list[tuple[int, int]]:
    """(i, j), i < j, of images (N, C, H, W) that are copies but for a mirror and a shift.

    The middle of image j is compared with every window of image i of its size; first on grey
    pictures of COARSE pixels a side, of very many images in fewer motions. Signals, volumes and
    features, H or W = 1, are not moved.
    """
    flat, (height, width) = min(x.shape[2:]) == 1, x.shape[2:]
    h, w = (0 if flat else min(SHIFT, side // 8) for side in (height, width))
    # (N, C, 2h + 1, 2w + 1, …): all windows of all images, and of their mirror images
    windows = [
        t.unfold(2, height - 2 * h, 1).unfold(3, width - 2 * w, 1)
        for t in ((x,) if flat else (x, x.flip(3)))
    ]
    middle = windows[0][:, :, h, w]
    moves = product(range(2 * h + 1), range(2 * w + 1), windows)
    ways = sorted(moves, key=lambda way: abs(way[0] - h) + abs(way[1] - w))
    copies = set()
    for down, right, seen in ways[: max(2, MOST_PAIRS // len(x) ** 2)]:
        moved = seen[:, :, down, right]
        coarse = _coarse(moved)
        for k, part in enumerate(_coarse(middle).split(500)):
            for row, i in (ncc(part, coarse) > NEAR).nonzero().tolist():
                pair = i, row + 500 * k
                both = moved[i].flatten(), middle[pair[1]].flatten()
                if i < pair[1] and pair not in copies and ncc(*torch.stack(both)[:, None]) > NEAR:
                    copies.add(pair)
    return sorted(copies)


def groups_of(train: Images, held_out: Images, source: Any) -> list[str]:
    """Of all images, the training ones first; "" for an image by itself.

    Args:
        source: None, a pair of sequences, "folders" (of each file), or a CSV file with lines
            `name,group`.
    """
    sets = train, held_out
    if str(source) == "folders":
        return [Path(name).parent.name for part in sets for name in part.names]
    if isinstance(source, str | Path):
        return look_up(sets, source)
    if source is None:
        return [""] * (len(train) + len(held_out))
    named = of_both(sets, source, "groups", lambda part: np.asarray(part, dtype=object))
    return ["" if of is None or of != of else str(of) for of in named]


def by_group(values: Tensor, groups: Tensor) -> Tensor:
    """Means (…, G) over the images of each group of values (…, N)."""
    counts = groups.bincount()
    total = values.new_zeros(*values.shape[:-1], len(counts)).index_add(-1, groups, values)
    return total / counts


# -------------------------------------------------------------------------------------------- tests


def draw_rows(count: int, n: int, seed: int) -> Tensor:
    """n of `count` rows, drawn by `seed`, in their order; all of them where there are no more."""
    drawn = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    return drawn[:n].sort().values


def features(x: Tensor) -> Tensor:
    """(n, f) of images (n, C, H, W): by channel mean, spread and mean absolute differences of
    neighbours; a thumbnail of THUMBNAIL × THUMBNAIL, grey. Standardised; those that do not vary are
    0.
    """
    grey = _thumbnails(x, THUMBNAIL)
    rows = [x.mean((2, 3)), x.std((2, 3), correction=0), grey.flatten(1)]
    rows += [x.diff(dim=dim).abs().mean((2, 3)) for dim in (2, 3) if x.shape[dim] > 1]
    return standardised(torch.cat(rows, dim=1).double())


def _thumbnails(x: Tensor, side: int) -> Tensor:
    return adaptive_avg_pool2d(
        x.mean(1, keepdim=True), (min(side, x.shape[2]), min(side, x.shape[3]))
    )


def _coarse(x: Tensor) -> Tensor:
    """(n, f): grey pictures of COARSE pixels a side; signals, volumes and features as they are,
    whose channels are no colours.
    """
    return (x if min(x.shape[2:]) == 1 else _thumbnails(x, COARSE)).flatten(1)


def standardised(values: Tensor) -> Tensor:
    spread = values.std(0, correction=0)
    return torch.where(spread > 1e-9, (values - values.mean(0)) / spread.clamp_min(1e-12), 0.0)


def permutation_p(
    member: np.ndarray,
    seed: int,
    permutations: int,
    statistic: Callable[[np.ndarray, Tensor], Tensor],
) -> float:
    """p-value of a statistic of which groups (G,) are training ones; of large sets on `MOST_TOLD`
    groups of each, drawn by `seed`.

    Args:
        statistic: (1 + permutations,) of rows that are taken and ±1 (rows, 1 + permutations), less
            their mean: as it is, and in other orders.
    """
    sets = [np.flatnonzero(member == is_in) for is_in in (True, False)]
    rows = np.concatenate([part[draw_rows(len(part), MOST_TOLD, seed)] for part in sets])
    y = torch.from_numpy(np.where(member[rows], 1.0, -1.0))
    generator = torch.Generator().manual_seed(seed)
    orders = [torch.randperm(len(y), generator=generator) for _ in range(permutations)]
    values = statistic(rows, torch.stack([y, *(y[order] for order in orders)], 1) - y.mean())
    return float((values >= values[0] - 1e-12).sum()) / len(values)


def two_sample(
    values: Tensor, member: np.ndarray, seed: int, permutations: int = PERMUTATIONS
) -> float:
    """p-value of the correlation between set and left-out prediction of a ridge classifier, by
    permutation.

    Predictions of group i by the classifier fitted without it are (ŷ_i − h_ii y_i) / (1 − h_ii), ŷ
    = H y.

    Args:
        values (G, f): standardised; member (G,): training or held out.
    """

    def correlation(rows: np.ndarray, labels: Tensor) -> Tensor:
        x = values[rows]
        inverse = torch.linalg.inv(x.mT @ x + x.shape[1] * torch.eye(x.shape[1], dtype=x.dtype))
        leverage = ((x @ inverse) * x).sum(1, keepdim=True).clamp_max(1 - 1e-6)
        left_out = (x @ (inverse @ (x.mT @ labels)) - leverage * labels) / (1 - leverage)
        left_out = left_out - left_out.mean(0)
        return (left_out * labels).sum(0) / left_out.norm(dim=0).clamp_min(1e-12)

    return permutation_p(member, seed, permutations, correlation)


def _apart(values: np.ndarray, member: np.ndarray, seed: int) -> float:
    return two_sample(standardised(torch.from_numpy(values).double()), member, seed)


def neighbours(x: Tensor, member: np.ndarray, seed: int, permutations: int = PERMUTATIONS) -> float:
    """p-value of the number of images (G, C, H, W) whose nearest neighbour is of their own set, by
    permutation (Schilling 1986).
    """

    def alike(rows: np.ndarray, labels: Tensor) -> Tensor:
        seen = _coarse(x[rows])
        nearest = ncc(seen, seen).fill_diagonal_(-2).argmax(1)
        return ((labels[nearest] > 0) == (labels > 0)).double().sum(0)

    return permutation_p(member, seed, permutations, alike)


# ------------------------------------------------------------------------------------------- labels


def why_no_labels(logits: Tensor, y: Tensor, y_held_out: Tensor) -> str | None:
    """Why the labels y (n,), y_held_out (m,) are not used, in a clause; None where they are: where
    the ranks of held-out images in the confidence in a class are higher for their own.

    Args:
        logits (m, K): answers to held-out images.
    """
    kinds, others = y.unique(), y_held_out.unique()
    top, other = int(kinds.max()), int(others.max())
    if len(kinds) == top + 1 > other + 1 == len(others):
        return say("own_numbers", top, other)
    z = logits if logits.shape[1] > 1 else torch.cat([-logits, logits], dim=1)
    ranks, rows = rankdata(z.double().log_softmax(1), axis=0), np.arange(len(z))
    told = permutation_test(
        (y_held_out.numpy(),),
        lambda classes: ranks[rows, classes].mean(),
        permutation_type="pairings",
        alternative="greater",
        n_resamples=PERMUTATIONS,
        rng=0,
    )
    one_class = len({*kinds.tolist(), *others.tolist()}) < 2
    return None if one_class or told.pvalue < TOLD_APART else say("no_relation")
