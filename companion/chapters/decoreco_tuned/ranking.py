"""Figs. 6 to 8 of the paper: are the reconstructions that are shown more like training images than chance explains?

Their null are images that nobody trained on, many times over in the place of the training images.  A blend of training
images is nearer to them than to any others, too, and is no reconstruction of one; so a reconstruction counts as a
training image's only above what blends reach as well.
"""

from __future__ import annotations

import torch
from torch import Tensor

from companion.store.record import Record
from recon.scoring.matching import nearest, rescale
from recon.scoring.metrics import Shape, ncc, ssim
from recon.scoring.naturalness import Photographs

TOP = 40  # as many as Fig. 8 shows
LISTS = 500  # made with images that nobody trained on
CHANCE = 0.01  # of the lists, and of the blends
PHOTOGRAPHS = 500  # that say what looks natural, at most


def ranking(
    x_hat: Tensor,
    train: Tensor,
    others: Tensor,
    blends: Tensor,
    mean: Tensor,
    shape: Shape,
    generator: torch.Generator,
) -> Record:
    """Reconstructions x_hat (m, d), most contributing first, against training images (n, d) and blends of them (b, d).

    others (g, d): images that nobody trained on.  Some of them, at most a third, say what looks natural; of the rest
    every list takes n at random (at most half).  All are centred by `mean` (d,).  A reconstruction has to exceed the
    similarity that `CHANCE` of the lists give it, and the one that `CHANCE` of the blends have.

    top40_true: of the `top40` that contribute most, by NCC · similar: `most_similar`, by SSIM.
    """
    order = torch.randperm(len(others), generator=generator)
    few = min(PHOTOGRAPHS, len(others) // 3)
    photographs, rest = others[order[:few]], others[order[few:]]
    size = min(len(train), len(rest) // 2)
    draws = [torch.randperm(len(rest), generator=generator)[:size].to(x_hat.device) for _ in range(LISTS)]
    first = x_hat[:TOP]
    lists = _lists(ncc(first, rest), draws)
    by_blends = nearest(blends, train, "ncc").score.quantile(1 - CHANCE)
    true = nearest(first, train, "ncc").score > lists.quantile(1 - CHANCE, dim=0).clamp_min(by_blends)
    shown = rescale(x_hat[Photographs.of(photographs, shape).look_like(x_hat)] + mean)
    similarity = nearest(shown, train + mean, "ssim", shape).score
    by_blends = nearest(rescale(blends + mean), train + mean, "ssim", shape).score.quantile(1 - CHANCE)
    similar = most_similar(similarity, _lists(ssim(shown, rest + mean, shape), draws), by_blends)
    return Record(top40=len(first), top40_true=int(true.sum()), similar=similar)


def _lists(similarity: Tensor, draws: list[Tensor]) -> Tensor:
    """To the nearest image of each list, (lists, k), of similarities (k, r) to r images."""
    return torch.stack([similarity[:, drawn].amax(1) for drawn in draws])


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
