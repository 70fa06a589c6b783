"""§4.4, Figs. 6 to 8: the published recipe, from the tuned scale of its start."""

from __future__ import annotations

import time
from contextlib import nullcontext

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome
from companion.chapters.common import kept_arrays, match_table, nulls_of
from companion.chapters.decoreco_tuned.compute import gallery, null_arrays
from companion.chapters.decoreco_tuned.metrics import PublishedMetrics
from companion.chapters.decoreco_tuned.ranking import ranking, shown_ranks
from companion.chapters.decoreco_tuned.sizes import PublishedSizes
from companion.chapters.reference_common import STARTS, ReferenceSizes, arm_of, train_reference, where_ended
from companion.chapters.rounded import RoundedProducts, product_error
from companion.chapters.tables import flat
from recon.attacks.haim_recipe import ALPHA, PublishedSettings, recover_as_published
from recon.errors import ReconError
from recon.nets.gram import gram
from recon.released import Weights

START = "tuned"
EXACT = 1e-5  # a relative error of a product above which its operands were rounded
ROUNDED = "bfloat16 operands"  # unlike "bfloat16", which is a wish: see `recon.attacks.haim_recipe.products_in`


def compute_published(sizes: PublishedSizes, context: Context) -> Outcome[PublishedMetrics]:
    """One network, one run of the recipe; its results in the order of what they explain of the weights."""
    images = context.images(sizes.n_train)
    said = ReferenceSizes(steps=sizes.steps, precision=ROUNDED if sizes.rounded else "float32")
    if not sizes.rounded and context.device.type == "cpu" and (error := product_error()) > EXACT:
        raise ReconError(f"products are to be float32, and this processor rounds them: a relative error of {error:.0e}")
    weights, net = train_reference(context, images, sizes.width, said.biases)
    began, m = time.perf_counter(), 2 * sizes.n_train
    checkpoint = context.checkpoints.at(f"published-{START}")
    with RoundedProducts() if sizes.rounded else nullcontext():
        settings = PublishedSettings(m, sizes.steps, STARTS[START])
        found = recover_as_published(weights, settings, context.stream("kkt.attack"), checkpoint)
    seconds = time.perf_counter() - began
    x_hat, x_init, multipliers = found.x_hat[0], found.accepted["x_init"][0], found.accepted["multipliers"][0]
    nulls = nulls_of(context, images, weights.network, weights.theta_star, m)
    table = flat(match_table(x_hat, images, nulls)) | flat(where_ended(x_hat, x_init, images, nulls))
    share = contribution(weights, x_hat, multipliers)
    order = share.argsort(descending=True, stable=True)
    blends, stream = torch.cat([nulls["span"], nulls["mixtures"]]), context.stream("separation.others")
    others = gallery(context.pool, images.train_index, images.mean)
    listed = ranking(x_hat[order], images.train, others, blends, images.mean, images.shape, stream)
    arm = arm_of(found, weights, said, START, table, seconds)
    metrics = PublishedMetrics(n_train=sizes.n_train, m=m, net=net, arm=arm, shown=shown_ranks(listed))
    arrays = {"x_hat": x_hat[order], "contribution": share[order], "trace": found.accepted["trace"]}
    return Outcome(metrics, {**arrays, **kept_arrays(images), **null_arrays(nulls, images)})


def contribution(weights: Weights, x: Tensor, multipliers: Tensor) -> Tensor:
    """‖(λ_i/m) ∇_θ Φ(x_i)‖ over all layers, (m,), of candidates x (m, d) with multipliers λ (m,)."""
    matrices, _ = gram(weights.network, weights.params, x, alpha=ALPHA)
    return multipliers / len(x) * matrices.sum(0).diagonal().clamp_min(0).sqrt()
