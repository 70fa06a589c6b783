"""Are held-out images such as training images are? Everything goes by *group*: one image by
default, near-copies of it, a patient, a person.

Groups are what is drawn: they go as one through the halves of shadow networks, permutations and
intervals. Near-copies are images alike but for brightness, contrast, noise, a mirror and a shift of
up to two pixels. Held-out images in a group with training images are left out. Of groups that
differ in size between the sets as many images are taken as leave them alike, and where the sets
differ in their mix of classes, as many groups of every class. Then two tests by permutation of
groups: a classifier two-sample test (Lopez-Paz & Oquab 2017) and one on nearest neighbours
(Schilling 1986), which also sees images that are alike within a set and not across.

Labels are used where those of held-out images have to do with what the network answers to them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.stats import mannwhitneyu, rankdata
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, one_hot

from recon.attacks.multipliers import confidence
from recon.errors import ReconError, one_reason
from recon.scoring.metrics import ncc
from recon_audit.images import Images
from recon_audit.labels import look_up
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
        copies: (row held out, row in training, NCC).
        p: the smaller one of both tests.
        why_not: one sentence where the sets cannot be compared, else None.
        notes: what was left out, and why.
    """

    train: list[int]
    held_out: list[int]
    groups: Tensor
    size: int
    copies: list[tuple[int, int, float]]
    p: float
    why_not: str | None
    notes: tuple[str, ...]


def compare_sets(
    train: Tensor,
    held_out: Tensor,
    seed: int,
    y: Tensor | None = None,
    names: Sequence[str] | None = None,
    groups: Sequence[str] = (),
) -> Exchangeability:
    """Of pixels (n, C, H, W) and (m, C, H, W).

    Args:
        y, names, groups (n + m,): classes; names; groups as they are given, "" for an image by
            itself.
    """
    x, n, m = torch.cat([train, held_out]), len(train), len(held_out)
    names = names or list(map(str, range(n + m)))
    member, notes, p, why_not = np.arange(n + m) < n, [], 1.0, None
    links, first_of = near_copies(x), {name: k for k, name in [*enumerate(groups)][::-1]}
    edges = [pair[:2] for pair in links]
    edges += [(first_of[name], row) for row, name in enumerate(groups) if name]
    ends = np.array(edges or [(0, 0)]).T
    number = connected_components(coo_matrix((ends[0] * 0 + 1, ends), (n + m, n + m)), False)[1]
    kept = member | ~np.isin(number, number[member])
    copies = [(j - n, i, value) for i, j, value in links if i < n <= j]
    copied = len({row for row, _, _ in copies})
    if copies:
        row, of, value = copies[0]
        twins = names[n + row], names[of], value
        notes.append(say("copies", int(kept[n:].sum()), copied, m, twins))
    if both := sorted({name for name in groups[:n] if name} & set(groups[n:])):
        notes.append(say("both", both))
    if (left := int((~kept).sum())) > MOST_COPIES * m:
        why_not = say("too_many", copied, copied or left, m)

    rank = _rank(number)
    sizes = np.bincount(number[kept], minlength=len(number))[number]
    size = longest = int(sizes.max())
    first = kept & (rank == 1)
    values = torch.from_numpy(sizes[first, None]).double()
    if longest > 1 and two_sample(standardised(values), member[first], seed) < UNLIKE:
        size = 1
        notes.append(say("sizes", size, longest))
    kept &= rank <= size
    if y is not None:
        rows, before = np.flatnonzero(first), kept.sum()
        kept &= np.isin(number, number[rows[_matched(y.numpy()[rows], member[rows], seed)]])
        if left := int(before - kept.sum()):
            notes.append(say("mix", left, int(kept[:n].sum()), int(kept[n:].sum())))

    _, first, group = np.unique(number[kept], return_index=True, return_inverse=True)
    inside, drawn = member[kept][np.sort(first)], torch.from_numpy(first.argsort().argsort()[group])
    counts = int(inside.sum()), int(kept[:n].sum()), int((~inside).sum()), int(kept[n:].sum())
    if any(groups) or len(inside) < kept.sum():
        notes.append(say("groups", *counts))
    if why_not is None and min(counts) < LEAST:
        why_not = say("too_few", counts[0], counts[2], LEAST)
    if why_not is None:
        compared = x[kept]
        apart = two_sample(by_group(features(compared).mT, drawn).mT, inside, seed)
        clustered = neighbours(compared[np.sort(first)], inside, seed)
        p = min(apart, clustered)
        if p < TOLD_APART:
            why_not = say("told_apart" if p == apart else "clustered", p)
    sides = [np.flatnonzero(part).tolist() for part in (kept[:n], kept[n:])]
    return Exchangeability(sides[0], sides[1], drawn, size, copies, p, why_not, tuple(notes))


def _rank(keys: np.ndarray) -> np.ndarray:
    """How many of the keys up to each one are equal to it: 1 for the first."""
    seen: Counter[int] = Counter()
    return np.array([(seen.update([key]), seen[key])[1] for key in keys.tolist()])


def _matched(y: np.ndarray, member: np.ndarray, seed: int) -> np.ndarray:
    """Which groups are kept, (G,): of every class as many as leave the mix of both sets alike; all
    where no test tells them apart.
    """
    kind = np.unique(y, return_inverse=True)[1]
    values = one_hot(torch.from_numpy(kind)).double()
    p = two_sample(standardised(values), member, seed)
    inner, outer = (values[part].sum(0).numpy() for part in (member, ~member))
    ratio = max(outer.sum() / inner.sum(), 1e-9)  # where all held-out images are copies
    few = np.minimum(inner * ratio, outer)
    most = np.where(member, (few / ratio).round()[kind], few.round()[kind])
    order = np.random.default_rng([seed, 21]).permutation(len(y))
    left = _rank((2 * kind + member)[order])[order.argsort()] <= most
    # of few groups of many classes little would be left, and chance alone makes them differ
    return left | (p >= (UNLIKE if left.mean() >= 0.5 else TOLD_APART))


# ------------------------------------------------------------------------------------------- groups


def near_copies(x: Tensor) -> list[tuple[int, int, float]]:
    """(i, j, NCC), i < j, of images (N, C, H, W) that are copies but for a mirror and a shift.

    The middle of image j is compared with every window of image i of its size; first on grey
    pictures of COARSE pixels a side, of very many images in fewer motions. Signals, volumes and
    features, H or W = 1, are not moved.
    """
    flat = min(x.shape[2:]) == 1
    h, w = (0 if flat else min(SHIFT, side // 8) for side in x.shape[2:])
    moves = product(range(-h, h + 1), range(-w, w + 1), ((),) if flat else ((), (3,)))
    ways = sorted(moves, key=lambda move: abs(move[0]) + abs(move[1]))

    def window(images: Tensor, down: int, right: int, mirrored: tuple[int, ...]) -> Tensor:
        height, width = images.shape[2:]
        images = images.flip(mirrored) if mirrored else images
        return images[:, :, h + down : height - h + down, w + right : width - w + right]

    middle = window(x, 0, 0, ())
    best: dict[tuple[int, int], float] = {}
    parts = _coarse(middle).split(500)
    for way in ways[: max(2, MOST_PAIRS // len(x) ** 2)]:
        moved = window(x, *way)
        other = _coarse(moved)
        for k, part in enumerate(parts):
            j, i = torch.nonzero(ncc(part, other) > NEAR, as_tuple=True)
            for one, two in zip(i.tolist(), (j + 500 * k).tolist(), strict=True):
                if one < two:
                    value = ncc(*(t.flatten()[None] for t in (moved[one], middle[two]))).item()
                    best[one, two] = max(value, best.get((one, two), NEAR))
    return [(*pair, value) for pair, value in sorted(best.items()) if value > NEAR]


def groups_of(train: Images, held_out: Images, source: Any) -> list[str]:
    """Of all images, the training ones first; "" for an image by itself.

    Args:
        source: None, a pair of sequences, "folders" (of each file), or a CSV file with lines
            `name,group`.
    """
    sets = train, held_out
    if isinstance(source, str | Path):
        folders = str(source) == "folders"
        parts = [
            [Path(name).parent.name for name in part.names] if folders else look_up(part, source)
            for part in sets
        ]
    else:
        with one_reason("groups must be a pair of sequences, a CSV file or folders"):
            source = [[""] * len(part) for part in sets] if source is None else source
            parts = [list(np.asarray(part, dtype=object)) for part in source]
    if [len(part) for part in parts] != [len(part) for part in sets]:
        raise ReconError(f"groups must be for {len(train)} training and {len(held_out)} images")
    return ["" if of in (None, "") or of != of else str(of) for part in parts for of in part]


def by_group(values: Tensor, groups: Tensor) -> Tensor:
    """Means (…, G) over the images of each group of values (…, N)."""
    counts = groups.bincount()
    total = values.new_zeros(*values.shape[:-1], len(counts)).index_add(-1, groups, values)
    return total / counts


# -------------------------------------------------------------------------------------------- tests


def draw_rows(count: int, n: int, seed: int) -> list[int]:
    """n of `count` rows, drawn by `seed`; all of them, in their order, where there are no more."""
    if count <= n:
        return list(range(count))
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))[:n].tolist()


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


def _permuted(member: np.ndarray, seed: int, permutations: int) -> Tensor:
    """±1 (G, 1 + permutations), less their mean: which groups are training ones, and in other
    orders.
    """
    y = torch.from_numpy(np.where(member, 1.0, -1.0))
    generator = torch.Generator().manual_seed(seed)
    orders = [torch.randperm(len(y), generator=generator) for _ in range(permutations)]
    return torch.stack([y, *(y[order] for order in orders)], dim=1) - y.mean()


def _p_of(statistic: Tensor) -> float:
    """Of the first among those under permutation."""
    return float((statistic[1:] >= statistic[0] - 1e-12).sum() + 1) / len(statistic)


def two_sample(
    values: Tensor, member: np.ndarray, seed: int, permutations: int = PERMUTATIONS
) -> float:
    """p-value of the correlation between set and left-out prediction of a ridge classifier, by
    permutation; of large sets on `MOST_TOLD` groups of each, drawn by `seed`.

    Predictions of group i by the classifier fitted without it are (ŷ_i − h_ii y_i) / (1 − h_ii), ŷ
    = H y.

    Args:
        values (G, f): standardised; member (G,): training or held out.
    """
    rows = _few(member, seed)
    x, labels = values[rows], _permuted(member[rows], seed, permutations)
    inverse = torch.linalg.inv(x.mT @ x + x.shape[1] * torch.eye(x.shape[1], dtype=x.dtype))
    leverage = ((x @ inverse) * x).sum(1, keepdim=True).clamp_max(1 - 1e-6)
    left_out = (x @ (inverse @ (x.mT @ labels)) - leverage * labels) / (1 - leverage)
    left_out = left_out - left_out.mean(0)
    return _p_of((left_out * labels).sum(0) / left_out.norm(dim=0).clamp_min(1e-12))


def neighbours(x: Tensor, member: np.ndarray, seed: int, permutations: int = PERMUTATIONS) -> float:
    """p-value of the number of images (G, C, H, W) whose nearest neighbour is of their own set, by
    permutation (Schilling 1986).
    """
    rows = _few(member, seed)
    seen = _coarse(x[rows])
    alike = ncc(seen, seen).fill_diagonal_(-2)
    labels = _permuted(member[rows], seed, permutations)
    return _p_of(((labels[alike.argmax(1)] > 0) == (labels > 0)).double().sum(0))


def _few(member: np.ndarray, seed: int) -> np.ndarray:
    sets = [np.flatnonzero(member == is_in) for is_in in (True, False)]
    return np.concatenate([part[draw_rows(len(part), MOST_TOLD, seed)] for part in sets])


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
    classes = range(max(logits.shape[1], 2))
    phi = [confidence(logits, torch.full_like(y_held_out, k)) for k in classes]
    ranks, own = rankdata(torch.stack(phi), axis=1), one_hot(y_held_out, len(classes)).bool().T
    told = mannwhitneyu(ranks[own], ranks[~own], alternative="greater").pvalue < TOLD_APART
    if told or len(torch.cat([kinds, others]).unique()) < 2:
        return None
    return say("no_relation")
