"""Figs. 6 to 8 of the paper: reconstructions in the order of their similarity to the nearest training image.

The list holds reconstructions, not images.  Its null is the same list made with images that nobody trained on, many
times over.  A blend of training images is nearer to them than to any others, too, and is no reconstruction of one; so a
reconstruction counts as a training image's only above what blends reach as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from companion.store.record import Record
from recon.scoring.matching import nearest, rescale
from recon.scoring.metrics import Shape, ncc, ssim
from recon.scoring.naturalness import Photographs

SHOWN = 5  # as many as Figs. 6 and 7 show
TOP = 40  # as many as Fig. 8 shows
HIGH = 10  # the paper's "top 10"
LISTS = 500  # made with images that nobody trained on
CHANCE = 0.01  # of the lists, and of the blends
PHOTOGRAPHS = 500  # that say what looks natural, at most


@dataclass(frozen=True)
class Ranking:
    """Of m reconstructions, (m,) each: similarity to the nearest training image (NCC), rank in the list by it (1 is
    the most similar), rank by SSIM, whether it looks natural, and the `bar` above which it is more like a training
    image than chance explains · rank_lists, true_lists (LISTS, m): rank and truth with other images in the place of
    the training images · similar: in the paper's order."""

    similarity: Tensor
    rank: Tensor
    rank_ssim: Tensor
    natural: Tensor
    bar: Tensor
    rank_lists: Tensor
    true_lists: Tensor
    similar: Record

    @property
    def true(self) -> Tensor:
        """(m,) bool."""
        return self.similarity > self.bar

    @property
    def shown(self) -> Tensor:
        """Rows of the `SHOWN` natural-looking ones that come first, which is by contribution."""
        return self.natural.nonzero()[:SHOWN, 0]


def places(similarity: Tensor) -> Tensor:
    """Ranks (..., m), 1 for the largest of similarity (..., m), equal ones alike."""
    ordered = similarity.sort(dim=-1).values
    return similarity.shape[-1] - torch.searchsorted(ordered, similarity.contiguous(), right=True) + 1


def ranking(
    x_hat: Tensor,
    train: Tensor,
    others: Tensor,
    blends: Tensor,
    mean: Tensor,
    shape: Shape,
    generator: torch.Generator,
) -> Ranking:
    """Reconstructions x_hat (m, d), most contributing first, against training images (n, d) and blends of them (b, d).

    others (g, d): images that nobody trained on.  Some of them, at most a third, say what looks natural; of the rest
    every list takes n at random (at most half).  All are centred by `mean` (d,).  A reconstruction has to exceed the
    similarity that `CHANCE` of the lists give it, and the one that `CHANCE` of the blends have.
    """
    order = torch.randperm(len(others), generator=generator)
    few = min(PHOTOGRAPHS, len(others) // 3)
    photographs, rest = others[order[:few]], others[order[few:]]
    similarity, size = nearest(x_hat, train, "ncc").score, min(len(train), len(rest) // 2)
    to_rest = ncc(x_hat, rest)
    draws = [torch.randperm(len(rest), generator=generator)[:size].to(x_hat.device) for _ in range(LISTS)]
    lists = torch.stack([to_rest[:, drawn].amax(1) for drawn in draws])
    by_blends = nearest(blends, train, "ncc").score.quantile(1 - CHANCE)
    bar = lists.quantile(1 - CHANCE, dim=0).clamp_min(by_blends)
    shown = rescale(x_hat + mean)
    by_ssim = nearest(shown, train + mean, "ssim", shape).score
    natural = Photographs.of(photographs, shape).look_like(x_hat)
    to_rest = ssim(shown[natural], rest + mean, shape)
    by_blends = nearest(rescale(blends + mean), train + mean, "ssim", shape).score.quantile(1 - CHANCE)
    by_lists = torch.stack([to_rest[:, drawn].amax(1) for drawn in draws])
    return Ranking(
        similarity,
        places(similarity),
        places(by_ssim),
        natural,
        bar,
        places(lists),
        lists > bar,
        most_similar(by_ssim[natural], by_lists, by_blends),
    )


def most_similar(similarity: Tensor, lists: Tensor, by_blends: Tensor) -> Record:
    """The `TOP` most similar of k natural-looking reconstructions, similarity (k,) to the training images and
    lists (LISTS, k) to others: how many exceed what `CHANCE` of the lists and of the blends reach."""
    if not len(similarity):
        return Record(top=0, true=0, held_out_true=0.0, p_value=1.0)
    top = min(TOP, len(similarity))
    bar = lists.quantile(1 - CHANCE, dim=0).clamp_min(by_blends)
    true = int((similarity > bar)[similarity.topk(top).indices].sum())
    first = lists.topk(top, dim=1).indices
    by_chance = (lists > bar).gather(1, first).sum(1)
    p_value = (int((by_chance >= true).sum()) + 1) / (len(by_chance) + 1)
    return Record(top=top, true=true, held_out_true=by_chance.double().mean().item(), p_value=p_value)


def shown_ranks(found: Ranking) -> Record:
    """What is said of the natural-looking ones that come first, and of Fig. 8's forty."""
    rows, true = found.shown, found.true
    count = int(true[rows].sum())
    by_chance = found.true_lists[:, rows].sum(1)
    return Record(
        reconstructions=len(found.rank),
        natural=int(found.natural.sum()),
        rank=found.rank[rows].tolist(),
        rank_ssim=found.rank_ssim[rows].tolist(),
        ncc=found.similarity[rows].tolist(),
        true=true[rows].tolist(),
        # nothing may look natural, and of nothing there is no quantile
        held_out_rank=[found.rank_lists[:, row].double().quantile(0.5).item() for row in rows],
        count=count,
        high=int((found.rank[rows] <= HIGH).sum()),
        held_out_count=by_chance.double().mean().item(),
        held_out_high=(found.rank_lists[:, rows] <= HIGH).sum(1).double().mean().item(),
        p_value=(int((by_chance >= count).sum()) + 1) / (len(by_chance) + 1),
        top40=min(TOP, len(true)),
        top40_true=int(true[:TOP].sum()),
        held_out_top40_true=found.true_lists[:, :TOP].sum(1).double().mean().item(),
        blends=found.bar.min().item(),
        similar=found.similar,
    )
