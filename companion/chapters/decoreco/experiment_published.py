"""§4.4, Figs. 6 to 8: the published recipe, from the tuned scale of its start; are the
reconstructions that are shown more like training images than chance explains?

Their null are images that nobody trained on, many times over in the place of the training images. A
blend of training images is nearer to them than to any others, too, and is no reconstruction of one;
so a reconstruction counts as a training image's only above what blends reach as well.
"""

from dataclasses import dataclass

import numpy as np
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.common import (
    kept_arrays,
    match_table,
    nulls_of,
    nulls_without_weights,
    rescored_table,
)
from companion.chapters.evidence import judged_plainly
from companion.chapters.reference_common import arm_of, train_reference
from companion.chapters.tables import flat
from companion.store.kept import RELEASED
from companion.store.record import Record
from recon.attacks import by_published_recipe
from recon.attacks.haim_recipe import ALPHA, STEPS, TUNED_SCALE, PublishedSettings
from recon.images.bundle import Bundle
from recon.images.features import backbone
from recon.images.pool import ImagePool
from recon.nets.gram import gram
from recon.released import Weights
from recon.scoring.matching import nearest, rescale
from recon.scoring.metrics import Shape, ssim
from recon.scoring.naturalness import Photographs


class Metrics(Record):
    """arm: the published recipe from the tuned scale of its start, a `ReferenceArm` without the
    fields of `Ended`.

    shown.similar: The paper's order: natural-looking reconstructions by
    SSIM with the nearest training image. true: of the first `top`, more like it than chance and
    blends explain · held_out_true: the same on average with images that nobody trained on ·
    p_value: share of the lists of such images with as many · false: after the first fifty, no more
    like it than that · as_realistic: of these, as `looks_realistic` has it · top_realistic: of
    the first `top`. The arrays `similar_rows` and `false_ranks` say which they are: their rows, and
    of the false ones the places from 0. judged: by an adversary who has no training image, see
    `companion.chapters.evidence.judged_plainly`.
    """


@dataclass(frozen=True, kw_only=True)
class PublishedSizes:
    """Fig. 8 by the published recipe, on a network trained along the flow; its `steps`."""

    n_train: int
    width: int
    steps: int


SIZES = {
    "smoke": PublishedSizes(n_train=20, width=64, steps=100),
    "laptop": PublishedSizes(n_train=50, width=500, steps=1000),
    "paper": PublishedSizes(n_train=500, width=1000, steps=STEPS),
}


def gallery(pool: ImagePool, without: Tensor, mean: Tensor) -> Tensor:
    """Every image of the pool but those with index in `without`, centred (g, d): nobody trained on
    them.
    """
    others = ~torch.isin(torch.from_numpy(pool.index), without)
    return pool.pixels(others).flatten(1).to(mean) - mean


# "within the top ten", and "not even in the top 50": Fig. 6
FIRST = 10
FIFTY = 50
LISTS = 500  # made with images that nobody trained on
CHANCE = 0.01  # of the lists, and of the blends
PHOTOGRAPHS = 500  # that say what looks natural, at most
FAIL = 0.05  # of the photographs look no more realistic than blends
START = "tuned"


def compute(sizes: PublishedSizes, context: Context) -> Outcome[Metrics]:
    """One network, one run of the recipe; its results in the order of what they explain of the
    weights.
    """
    images = context.images(sizes.n_train)
    weights, _ = train_reference(context, images, sizes.width)
    settings = PublishedSettings(2 * sizes.n_train, sizes.steps, TUNED_SCALE)
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
    share = contribution(weights, x_hat, attack.score)
    order = share.argsort(descending=True, stable=True)
    counts, ranked = ranking_of(x_hat[order], images, context, nulls)
    arm = arm_of(attack, weights, START, table)
    arrays = {"x_hat": x_hat[order], "contribution": share[order], **ranked}
    arrays |= kept_arrays(images) | {
        "x_null": nulls["mixtures"],
        RELEASED + "theta_star": weights.theta_star,
        RELEASED + "multipliers": attack.score[order],
    }
    judged = judged_plainly(x_hat[order], images, context)
    return Outcome(Metrics(n_train=sizes.n_train, arm=arm, shown=counts, judged=judged), arrays)


def rescored(sizes: PublishedSizes, context: Context, x_hat: Tensor) -> Record:
    """Matches of kept reconstructions x_hat (m, d), most contributing first, and of the nulls that
    need no weights; which of them are true; and what an adversary makes of them.
    """
    images = context.images(sizes.n_train)
    nulls = nulls_without_weights(context, images, sizes.width, len(x_hat))
    return Record(
        arm=rescored_table(x_hat, images, nulls),
        shown=ranking_of(x_hat, images, context, nulls)[0],
        judged=judged_plainly(x_hat, images, context),
    )


def ranking_of(
    x_hat: Tensor, images: Bundle, context: Context, nulls: Tensors
) -> tuple[Record, Tensors]:
    """The `ranking` against all other images of the pool, and mixtures of the training images."""
    others = gallery(context.pool, images.train_index, images.mean)
    draws = context.stream("separation.others")
    mixtures = nulls["mixtures"]
    return ranking(x_hat, images.train, others, mixtures, images.mean, images.shape, draws)


def contribution(weights: Weights, x: Tensor, multipliers: Tensor) -> Tensor:
    """‖(λ_i/m) ∇_θ Φ(x_i)‖ over all layers, (m,), of candidates x (m, d) with multipliers λ
    (m,).
    """
    matrices, _ = gram(weights.network, weights.params, x, alpha=ALPHA)
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
    """Reconstructions x_hat (m, d) by SSIM, against training images (n, d) and blends of them
    (b, d): `most_similar` of those that look natural.

    Some of them, at most a third, say what looks natural; of the rest every list takes n at random
    (at most half). All are centred by `mean` (d,). A reconstruction has to exceed the similarity
    that `CHANCE` of the lists give it, and the one that `CHANCE` of the blends have.

    Args:
        others (g, d): images that nobody trained on.
    """
    order = torch.randperm(len(others), generator=generator)
    few = min(PHOTOGRAPHS, len(others) // 3)
    photographs = others[order[:few]]
    pool = others[order[few:]]
    size = min(len(train), len(pool) // 2)
    lists = [
        torch.randperm(len(pool), generator=generator)[:size].to(x_hat.device) for _ in range(LISTS)
    ]
    natural = Photographs.of(photographs, shape).look_like(x_hat).nonzero().flatten()
    pictures = rescale(x_hat[natural] + mean)
    to_pool = ssim(pictures, pool + mean, shape)
    similar, order, false = most_similar(
        looks_realistic(x_hat[natural], photographs, mean, shape, generator),
        nearest(pictures, train + mean, "ssim", shape).score,
        torch.stack([to_pool[:, rows].amax(1) for rows in lists]),
        nearest(rescale(blends + mean), train + mean, "ssim", shape).score.quantile(1 - CHANCE),
    )
    return Record(similar=similar), Tensors(similar_rows=natural[order], false_ranks=false)


def looks_realistic(
    x: Tensor, photographs: Tensor, mean: Tensor, shape: Shape, generator: torch.Generator
) -> Tensor:
    """Which of x (m, d) look like photographs (k, d), (m,) bool: above `FAIL` of half of them in
    what tells the other half from blends of it best, linear in the features of a network that knows
    ImageNet. So nearly all real photographs do. All are centred by `mean` (d,).
    """
    known = photographs[::2]
    others = photographs[1::2]
    blends = torch.randn(len(known), len(known), generator=generator).to(known) @ known
    of = backbone(side=2 * shape[-1])

    def features(x: Tensor) -> np.ndarray:
        return of(rescale(x + mean).cpu().unflatten(1, shape)).numpy()

    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    model.fit(features(torch.cat([known, blends])), np.arange(2 * len(known)) < len(known))
    score = torch.from_numpy(model.decision_function(features(torch.cat([x, others]))))
    return (score[: len(x)] > score[len(x) :].quantile(FAIL)).to(x.device)


def most_similar(
    looks: Tensor, similarity: Tensor, lists: Tensor, by_blends: Tensor
) -> tuple[Record, Tensor, Tensor]:
    """Natural-looking reconstructions, which of them are realistic, looks (k,), similarity (k,) to
    the training images and lists (LISTS, k) to others: how many of the `FIRST` exceed what `CHANCE`
    of the lists and of the blends reach, and how many after the first `FIFTY` do not, and look
    realistic; their order, and the places in it, from 0, of those that do not.
    """
    natural = len(similarity)
    order = similarity.argsort(descending=True, stable=True)
    top = min(FIRST, natural)
    true = 0
    held_out_true = 0.0
    p_value = 1.0
    false = order[:0]
    if natural:
        bar = lists.quantile(1 - CHANCE, dim=0).clamp_min(by_blends)
        above = (similarity > bar)[order]
        true = int(above[:top].sum())
        false = FIFTY + (~above[FIFTY:]).nonzero().flatten()
        by_chance = (lists > bar).gather(1, lists.topk(top, dim=1).indices).sum(1)
        held_out_true = by_chance.double().mean().item()
        p_value = (int((by_chance >= true).sum()) + 1) / (len(by_chance) + 1)
    counts = Record(
        natural=natural,
        top=top,
        true=true,
        false=len(false),
        as_realistic=int(looks[order[false]].sum()),
        top_realistic=int(looks[order[:top]].sum()),
        held_out_true=held_out_true,
        p_value=p_value,
    )
    return counts, order, false
