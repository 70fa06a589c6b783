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

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, normalize, one_hot

from recon.attacks.multipliers import confidence
from recon.errors import ReconError, one_reason
from recon.scoring.metrics import ncc
from recon_audit.images import Images
from recon_audit.labels import look_up

NEAR = 0.98  # NCC above which two images are copies
SHIFT, COARSE = 2, 8  # pixels; side of the pictures on which copies are sought first
MOST_COMPARED = 500_000_000  # pairs of pictures, in all motions
TOLD_APART = 0.01  # p of a test below which nothing else is said
UNLIKE = 0.1  # p below which sizes or classes of the sets are matched
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
    groups: Sequence[str] | None = None,
) -> Exchangeability:
    """Of pixels (n, C, H, W) and (m, C, H, W).

    Args:
        y, names, groups (n + m,): classes; names; groups as they are given, "" for an image by
            itself.
    """
    x, n = torch.cat([train, held_out]), len(train)
    member = np.arange(len(x)) < n
    links = near_copies(x)
    number = _components([(i, j) for i, j, _ in links] + _of_one_group(groups or []), len(x))
    shared = ~member & np.isin(number, number[member])
    copies = [(j - n, i, value) for i, j, value in links if i < n <= j]
    notes = _left_out(shared, copies, n, names, groups)
    if shared.sum() > MOST_COPIES * len(held_out):
        why_not = (
            f"{len({row for row, _, _ in copies})} of {len(held_out)} held-out images are"
            " near-copies of training images, some mirrored or moved"
        )
        if not copies:
            why_not = f"{shared.sum()} of {len(held_out)} held-out images are of training groups"
        return Exchangeability([], [], torch.arange(0), 1, copies, 1.0, why_not, tuple(notes))
    rows, size = _alike_in_size(np.flatnonzero(~shared), number, member, seed)
    if size < (longest := np.bincount(number[~shared]).max()):
        notes.append(
            f"groups of the two sets differ in size (up to {longest} images): {size} of each"
            f" {'is' if size == 1 else 'are'} compared"
        )
    classes = torch.zeros(len(x)) if y is None else y
    rows, dropped = _alike_in_classes(rows, number, member, classes, seed)
    if dropped:
        notes.append(
            f"the two sets differ in their mix of classes: {dropped} images are left out, so that"
            f" {int(member[rows].sum())} training and {int((~member[rows]).sum())} held-out ones of"
            " the same mix are compared"
        )
    first, group = np.unique(number[rows], return_index=True, return_inverse=True)[1:]
    group = np.argsort(np.argsort(first))[group]  # in the order of the images
    inside, drawn = member[rows][np.sort(first)], torch.from_numpy(group)
    if group.max(initial=-1) + 1 < len(rows) or groups:
        notes.append(
            f"everything goes by group: {int(inside.sum())} groups of {int(member[rows].sum())}"
            f" training images, {int((~inside).sum())} groups of {int((~member[rows]).sum())}"
            " held-out images"
        )
    p, why_not = 1.0, None
    few, of = min((int((inside == is_in).sum()), is_in) for is_in in (True, False))
    if few < LEAST:
        kind = "training" if of else "held-out"
        what = "images" if len(first) == len(rows) else "groups"
        why_not = (
            f"only {few} {kind} {what} are left, and with fewer than {LEAST} nothing is significant"
        )
    else:
        p, why_not = _tests(x[rows].float(), drawn, inside, seed)
    split = rows < n
    return Exchangeability(
        rows[split].tolist(),
        (rows[~split] - n).tolist(),
        drawn,
        size,
        copies,
        p,
        why_not,
        tuple(notes),
    )


def _left_out(
    shared: np.ndarray,
    copies: list[tuple[int, int, float]],
    n: int,
    names: Sequence[str] | None,
    groups: Sequence[str] | None,
) -> list[str]:
    notes, rows = [], {row for row, _, _ in copies}
    kept = f"compared with {(~shared[n:]).sum()} of {len(shared) - n} held-out images, because"
    if copies and names:
        row, of, value = copies[0]
        first = f"the first: {names[n + row]} of {names[of]}, NCC {value:.3f}"
        notes.append(
            f"{kept} {len(rows)} are near-copies of training images, some of them perhaps mirrored"
            f" or moved ({first})"
        )
    if groups and (both := {groups[n + row] for row in np.flatnonzero(shared[n:])} - {""}):
        also = ", ".join(sorted(both)[:3]) + (", …" if len(both) > 3 else "")
        notes.append(f"{kept} {len(both)} groups are in both sets ({also})")
    return notes


# ------------------------------------------------------------------------------------------- groups


def near_copies(x: Tensor) -> list[tuple[int, int, float]]:
    """(i, j, NCC), i < j, of images (N, C, H, W) that are copies but for a mirror and a shift.

    The middle of image j is compared with every window of image i of its size; first on grey
    pictures of COARSE pixels a side, of very many images in fewer motions.
    """
    size = x.shape[2:]
    shift = [min(SHIFT, side // 8) if min(size) > 1 else 0 for side in size]
    steps = [range(-most, most + 1) for most in shift]
    moves = sorted(product(*steps), key=lambda move: sum(map(abs, move)))
    motions = list(product(moves, (False, True) if min(size) > 1 else (False,)))

    def window(images: Tensor, move: Sequence[int], mirrored: bool) -> Tensor:
        images = images.flip(-1) if mirrored else images
        for dim, most, step in zip((2, 3), shift, move, strict=True):
            images = images.narrow(dim, most + step, images.shape[dim] - 2 * most)
        return images

    def coarse(images: Tensor) -> Tensor:
        if min(images.shape[2:]) > COARSE:
            images = adaptive_avg_pool2d(images.mean(1, keepdim=True), COARSE)
        return normalize((images.flatten(1) - images.flatten(1).mean(1, keepdim=True)).float())

    middle, best = coarse(window(x, (0, 0), False)), {}
    for move, mirrored in motions[: max(2, MOST_COMPARED // len(x) ** 2)]:
        other = coarse(window(x, move, mirrored))
        for at in range(0, len(x), 500):
            for k, i in torch.nonzero(middle[at : at + 500] @ other.mT > NEAR).tolist():
                j = at + k
                if i < j:
                    pair = window(x[i : i + 1], move, mirrored), window(x[j : j + 1], (0, 0), False)
                    value = ncc(*(part.flatten(1).float() for part in pair)).item()
                    if value > best.get((i, j), NEAR):
                        best[i, j] = value
    return [(i, j, value) for (i, j), value in sorted(best.items())]


def groups_of(train: Images, held_out: Images, source: Any) -> list[str]:
    """Of all images, the training ones first; "" for an image by itself.

    Args:
        source: None, a pair of sequences, "folders" (of each file), or a CSV file with lines
            `name,group`.
    """
    names = train.names + held_out.names
    if source is None:
        return [""] * len(names)
    if isinstance(source, str) and source == "folders":
        return [name.rpartition("/")[0].rpartition("/")[2] for name in names]
    if isinstance(source, str | Path):
        return [group for part in (train, held_out) for group in look_up(part, source)]
    with one_reason("groups must be a group for each training and each held-out image"):
        parts = [np.asarray(part).tolist() for part in source]
    if [len(part) for part in parts] != [len(train), len(held_out)]:
        counts = f"{len(train)} and {len(held_out)} images"
        raise ReconError(f"groups must be a pair of sequences, for {counts}")
    return ["" if group in (None, "") or group != group else str(group) for group in sum(parts, [])]


def _of_one_group(groups: Sequence[str]) -> list[tuple[int, int]]:
    """Each image of a group with the first of it."""
    first: dict[str, int] = {}
    return [(first.setdefault(name, row), row) for row, name in enumerate(groups) if name]


def _components(links: list[tuple[int, int]], count: int) -> np.ndarray:
    """The number of every image's group, where links join two."""
    rows, columns = np.array(links, dtype=int).reshape(-1, 2).T
    graph = coo_matrix((np.ones(len(rows)), (rows, columns)), shape=(count, count))
    return connected_components(graph, directed=False)[1]


def _alike_in_size(
    rows: np.ndarray, number: np.ndarray, member: np.ndarray, seed: int
) -> tuple[np.ndarray, int]:
    """The first images of every group, as many as leave groups of both sets alike in size."""
    rank = np.zeros(len(number), dtype=int)  # of an image in its group
    seen: dict[int, int] = {}
    for row in rows:
        rank[row] = seen[number[row]] = seen.get(number[row], -1) + 1
    first = rows[rank[rows] == 0]
    sizes = np.array([seen[number[row]] + 1 for row in first])
    for size in sorted(set(sizes.tolist()), reverse=True):
        value = torch.from_numpy(np.minimum(sizes, size)[:, None]).double()
        if size == 1 or two_sample(_standardised(value), member[first], seed) >= UNLIKE:
            return rows[rank[rows] < size], size
    return first, 1


def _alike_in_classes(
    rows: np.ndarray, number: np.ndarray, member: np.ndarray, y: Tensor, seed: int
) -> tuple[np.ndarray, int]:
    """As many groups of every class as leave the mix of both sets alike, and how many images that
    leaves out; a group is of the class of its first image.
    """
    first = rows[np.unique(number[rows], return_index=True)[1]]
    kinds, kind = np.unique(y.numpy()[first], return_inverse=True)
    inside = member[first]
    values = _standardised(one_hot(torch.from_numpy(kind)).double())
    if len(kinds) < 2 or two_sample(values, inside, seed) >= UNLIKE:
        return rows, 0
    ratio, drawn = (~inside).sum() / max(inside.sum(), 1), np.random.default_rng([seed, 21])
    kept: list[int] = []
    for k in range(len(kinds)):
        of = [drawn.permutation(first[(kind == k) & (inside == is_in)]) for is_in in (True, False)]
        few = min(len(of[0]) * ratio, len(of[1]))
        kept += [*of[0][: round(few / ratio)], *of[1][: round(few)]]
    left = rows[np.isin(number[rows], number[kept])]
    return left, len(rows) - len(left)


def by_group(values: Tensor, groups: Tensor) -> Tensor:
    """Means (…, G) over the images of each group of values (…, N)."""
    counts = groups.bincount()
    total = values.new_zeros(*values.shape[:-1], len(counts)).index_add(-1, groups, values)
    return total / counts


# -------------------------------------------------------------------------------------------- tests


def _tests(x: Tensor, groups: Tensor, member: np.ndarray, seed: int) -> tuple[float, str | None]:
    """p of both tests, the smaller one, and a sentence where it is too small."""
    values = by_group(features(x).mT, groups).mT
    firsts = torch.from_numpy(np.unique(groups.numpy(), return_index=True)[1])
    p = {
        "held-out images can be told from training images without the network (two-sample test on"
        " brightness, contrast, edges and thumbnails": two_sample(values, member, seed),
        "images of one set are more alike than images of both, as copies, frames or images of one"
        " patient are: say which belong together, groups=, --groups (test on nearest"
        " neighbours": neighbours(x[firsts], member, seed),
    }
    words, least = min(p.items(), key=lambda pair: pair[1])
    return least, f"{words}, p = {least:.1g})" if least < TOLD_APART else None


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
    return _standardised(torch.cat(rows, dim=1).double())


def _thumbnails(x: Tensor, side: int) -> Tensor:
    return adaptive_avg_pool2d(
        x.mean(1, keepdim=True), (min(side, x.shape[2]), min(side, x.shape[3]))
    )


def _standardised(values: Tensor) -> Tensor:
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
    flat = _thumbnails(x[rows], COARSE).flatten(1)
    alike = ncc(flat, flat).fill_diagonal_(-2)
    labels = _permuted(member[rows], seed, permutations)
    return _p_of(((labels[alike.argmax(1)] > 0) == (labels > 0)).double().sum(0))


def _few(member: np.ndarray, seed: int) -> np.ndarray:
    sets = [np.flatnonzero(member == is_in) for is_in in (True, False)]
    return np.concatenate([part[draw_rows(len(part), MOST_TOLD, seed)] for part in sets])


# ------------------------------------------------------------------------------------------- labels


def why_no_labels(logits: Tensor, y: Tensor, y_held_out: Tensor, seed: int) -> str | None:
    """Why the labels y (n,), y_held_out (m,) are not used, in a clause; None where they are.

    Args:
        logits (m, K): answers to held-out images.
    """
    top, top_held_out = int(y.max()), int(y_held_out.max())
    if len(y.unique()) == top + 1 > top_held_out + 1 == len(y_held_out.unique()):
        return (
            f"those of held-out images end at {top_held_out} and those of training images at {top},"
            " as where each set is numbered by itself"
        )
    if (
        label_p(logits, y_held_out, seed) < TOLD_APART
        or len(torch.cat([y, y_held_out]).unique()) < 2
    ):
        return None
    return "those of held-out images have nothing to do with what the network answers to them"


def label_p(logits: Tensor, y: Tensor, seed: int, permutations: int = PERMUTATIONS) -> float:
    """p-value of the ranks of images (m,) in the confidence in their own class y, by permutation of
    their labels.
    """
    classes = range(max(logits.shape[1], 2))
    phi = [confidence(logits, torch.full_like(y, k)) for k in classes]
    ranks = torch.stack(phi, 1).argsort(0).argsort(0).double()
    generator = torch.Generator().manual_seed(seed)
    orders = [torch.randperm(len(y), generator=generator) for _ in range(permutations)]
    return _p_of(
        torch.stack([ranks.gather(1, o[:, None]).sum() for o in [y, *(y[o] for o in orders)]])
    )
