"""§4.4, Figs. 6 to 8: the published recipe, from the tuned scale of its start; are the
reconstructions that are shown more like training images than chance explains?

Their null are images that nobody trained on, many times over in the place of the training images. A
blend of training images is nearer to them than to any others, too, and is no reconstruction of one;
so a reconstruction counts as a training image's only above what blends reach as well.
"""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.common import kept_arrays, match_table, nulls_of, nulls_without_weights
from companion.chapters.reference_common import arm_of, train_reference
from companion.chapters.tables import flat
from companion.store.record import Record
from recon.attacks import by_published_recipe
from recon.attacks.haim_recipe import ALPHA, RUNS, STEPS, PublishedSettings
from recon.images.bundle import Bundle
from recon.images.pool import ImagePool
from recon.nets.gram import gram
from recon.nets.mlp import MLP
from recon.released import Weights
from recon.scoring.matching import nearest, one_to_one, padded, rescale
from recon.scoring.metrics import Shape, ncc, ssim
from recon.scoring.naturalness import Photographs


class Metrics(Record):
    """arm: the published recipe from the tuned scale of its start, a `ReferenceArm` without the
    fields of `Ended`.

    shown: Of the `top40` of its m results that contribute most, top40_true are more like a training
    image than chance explains. shown.similar: The paper's order: natural-looking reconstructions by
    SSIM with the nearest training image. true: of the first `top`, more like it than chance and
    blends explain · held_out_true: the same on average with images that nobody trained on ·
    p_value: share of the lists of such images with as many · false: after the first fifty, no more
    like it than that · as_realistic: of these, in `signs` like the first `top`. The arrays
    `similar_rows` and `realistic_ranks` say which they are: their rows, and of the last ones the
    places from 0.
    """


@dataclass(frozen=True, kw_only=True)
class PublishedSizes:
    """Fig. 8 by the published recipe, on a network trained along the flow · steps: of the recipe ·
    run: of `recon.attacks.haim_recipe.RUNS`.
    """

    n_train: int
    width: int
    steps: int
    run: Literal[1, 2] = 1


SIZES = {
    "smoke": PublishedSizes(n_train=20, width=64, steps=100),
    "laptop": PublishedSizes(n_train=50, width=500, steps=1000),
    "paper": PublishedSizes(n_train=500, width=1000, steps=STEPS),
}
SECOND = {profile: replace(sizes, run=2) for profile, sizes in SIZES.items()}


def gallery(pool: ImagePool, without: Tensor, mean: Tensor) -> Tensor:
    """Every image of the pool but those with index in `without`, centred (g, d): nobody trained on
    them.
    """
    others = ~torch.isin(torch.from_numpy(pool.index), without)
    return torch.from_numpy(pool.images)[others].flatten(1).to(mean) / 255 - mean


def null_arrays(nulls: Tensors, images: Bundle, most: int = 10) -> Tensors:
    """Per null its best candidates (≤ most, d), the rows of the training images they match, and
    their NCC.
    """
    arrays = Tensors()
    for name, x in nulls.items():
        candidates = padded(x, len(images))
        match = one_to_one(images.train, candidates)
        best = match.score.argsort(descending=True)[:most]
        arrays[f"null_best_{name}"] = candidates[match.index[best]]
        arrays[f"null_best_row_{name}"] = best
        arrays[f"null_ncc_{name}"] = match.score[best]
    return arrays


TOP = 40  # as many as Fig. 8 shows
FIRST, FIFTY = 10, 50  # "within the top ten", and "not even in the top 50": Fig. 6
LISTS = 500  # made with images that nobody trained on
CHANCE = 0.01  # of the lists, and of the blends
PHOTOGRAPHS = 500  # that say what looks natural, at most
START = "tuned"


def compute(sizes: PublishedSizes, context: Context) -> Outcome[Metrics]:
    """One network, one run of the recipe; its results in the order of what they explain of the
    weights.
    """
    images = context.images(sizes.n_train)
    weights = released(context, images, sizes.width)
    scale, *_, alpha = RUNS[sizes.run]
    settings = PublishedSettings(2 * sizes.n_train, sizes.steps, scale, run=sizes.run)
    attack = by_published_recipe(
        weights,
        images.shape,
        settings,
        context.stream("kkt.attack"),
        checkpoint=context.checkpoints.at(f"published-{START}"),
    )
    x_hat = attack.images.flatten(1)
    nulls = nulls_of(context, images, weights.network, weights.theta_star, len(x_hat))
    table = flat(match_table(x_hat, images, nulls))
    share = contribution(weights, x_hat, attack.score, alpha)
    order = share.argsort(descending=True, stable=True)
    counts, ranked = ranking(
        x_hat[order],
        images.train,
        gallery(context.pool, images.train_index, images.mean),
        torch.cat([nulls["span"], nulls["mixtures"]]),
        images.mean,
        images.shape,
        context.stream("separation.others"),
    )
    arm = arm_of(attack, weights, START, table, alpha=alpha)
    arrays = {"x_hat": x_hat[order], "contribution": share[order], **ranked}
    arrays |= kept_arrays(images) | null_arrays(nulls, images)
    return Outcome(Metrics(n_train=sizes.n_train, arm=arm, shown=counts), arrays)


def rescored(sizes: PublishedSizes, context: Context, x_hat: Tensor) -> Record:
    """Matches of kept reconstructions x_hat (m, d), and of the nulls that need no weights."""
    images = context.images(sizes.n_train)
    table = match_table(
        x_hat, images, nulls_without_weights(context, images, sizes.width, len(x_hat))
    )
    nulls = table.nulls.only("mixtures", "means", "held_out")
    return Record(arm=Record(**table.only("matches", "null", "competition"), nulls=nulls))


def released(context: Context, images: Bundle, width: int) -> Weights:
    """The trained network; kept with the checkpoints, since a run that goes on elsewhere has to
    attack the same one.
    """
    checkpoint = context.checkpoints.at("released")
    theta = (checkpoint.load() or {}).get("theta")
    if theta is None:
        theta = train_reference(context, images, width)[0].theta_star
        checkpoint.save({"theta": theta})
    return Weights(MLP((images.dim, width, width, 1)), theta.to(images.train.device))


def contribution(weights: Weights, x: Tensor, multipliers: Tensor, alpha: float = ALPHA) -> Tensor:
    """‖(λ_i/m) ∇_θ Φ(x_i)‖ over all layers, (m,), of candidates x (m, d) with multipliers λ
    (m,).
    """
    matrices, _ = gram(weights.network, weights.params, x, alpha=alpha)
    return multipliers / len(x) * matrices.sum(0).diagonal().clamp_min(0).sqrt()


def ranking(
    x_hat: Tensor,
    train: Tensor,
    others: Tensor,
    blends: Tensor,
    mean: Tensor,
    shape: Shape,
    generator: torch.Generator,
) -> tuple[Record, Tensors]:
    """Reconstructions x_hat (m, d), most contributing first, against training images (n, d) and
    blends of them (b, d).

    Some of them, at most a third, say what looks natural; of the rest every list takes n at random
    (at most half). All are centred by `mean` (d,). A reconstruction has to exceed the similarity
    that `CHANCE` of the lists give it, and the one that `CHANCE` of the blends have.

    top40_true: of the `top40` that contribute most, by NCC · similar: `most_similar`, by SSIM.

    Args:
        others (g, d): images that nobody trained on.
    """
    order = torch.randperm(len(others), generator=generator)
    few = min(PHOTOGRAPHS, len(others) // 3)
    photographs, pool = others[order[:few]], others[order[few:]]
    size = min(len(train), len(pool) // 2)
    lists = [
        torch.randperm(len(pool), generator=generator)[:size].to(x_hat.device) for _ in range(LISTS)
    ]
    first = x_hat[:TOP]
    by_lists = _nearest_in(lists, ncc(first, pool)).quantile(1 - CHANCE, dim=0)
    by_blends = nearest(blends, train, "ncc").score.quantile(1 - CHANCE)
    true = nearest(first, train, "ncc").score > by_lists.clamp_min(by_blends)
    natural = Photographs.of(photographs, shape).look_like(x_hat).nonzero().flatten()
    x_hat = x_hat[natural]
    pictures = rescale(x_hat + mean)
    similar, order, realistic = most_similar(
        x_hat,
        shape,
        nearest(pictures, train + mean, "ssim", shape).score,
        _nearest_in(lists, ssim(pictures, pool + mean, shape)),
        nearest(rescale(blends + mean), train + mean, "ssim", shape).score.quantile(1 - CHANCE),
    )
    counts = Record(top40=len(first), top40_true=int(true.sum()), similar=similar)
    return counts, Tensors(similar_rows=natural[order], realistic_ranks=realistic)


def _nearest_in(lists: list[Tensor], similarity: Tensor) -> Tensor:
    """To the nearest image of each list, (lists, k), of similarities (k, r) to r images."""
    return torch.stack([similarity[:, rows].amax(1) for rows in lists])


def most_similar(
    x: Tensor, shape: Shape, similarity: Tensor, lists: Tensor, by_blends: Tensor
) -> tuple[Record, Tensor, Tensor]:
    """Natural-looking reconstructions x (k, d), similarity (k,) to the training images and lists
    (LISTS, k) to others: how many of the `FIRST` exceed what `CHANCE` of the lists and of the
    blends reach, and how many after the first `FIFTY` do not, and are within the range of the
    `FIRST` by every sign of a photograph; their order, and the places in it, from 0, of the latter.
    """
    natural = len(similarity)
    order, top = similarity.argsort(descending=True, stable=True), min(FIRST, natural)
    true, held_out_true, p_value = 0, 0.0, 1.0
    false = realistic = order[:0]
    if natural:
        bar = lists.quantile(1 - CHANCE, dim=0).clamp_min(by_blends)
        above = (similarity > bar)[order]
        true, false = int(above[:top].sum()), FIFTY + (~above[FIFTY:]).nonzero().flatten()
        by_chance = (lists > bar).gather(1, lists.topk(top, dim=1).indices).sum(1)
        held_out_true = by_chance.double().mean().item()
        p_value = (int((by_chance >= true).sum()) + 1) / (len(by_chance) + 1)
    if len(false):
        looks = Photographs.of(x[order[:top]], shape, 1.0).look_like(x[order[false]])
        realistic = false[looks]
    counts = Record(
        natural=natural,
        top=top,
        true=true,
        false=len(false),
        as_realistic=len(realistic),
        held_out_true=held_out_true,
        p_value=p_value,
    )
    return counts, order, realistic
