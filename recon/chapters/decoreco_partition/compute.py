"""Chapter 10: start from the other partition, centred like the training images: the reference recipe, and ours in pixel
space and within the span."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from recon.attacks.reference import RecipeSettings, recover_by_recipe
from recon.chapters.base import Context, Outcome, Tensors
from recon.chapters.common import (
    ReleasedNet,
    by_reference,
    kept_arrays,
    match_table,
    nulls_of,
    timed_recover,
    train_released,
)
from recon.chapters.decoreco_partition.metrics import Ended, Metrics, ReferenceSearch, Search, Variants
from recon.chapters.decoreco_partition.sizes import Sizes
from recon.chapters.tables import flat
from recon.images.bundle import Bundle
from recon.scoring.matching import nearest
from recon.scoring.nulls import HELD_OUT


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Three searches on one network from the same photographs."""
    images = context.images(sizes.n_train)
    released = train_released(context, images, sizes.width, sizes.train_steps)
    order = images.init_y.argsort(stable=True)  # the attack's labels: −1 first
    x_init = images.init[order]
    reference, x_reference = _by_reference(sizes, context, images, released, x_init)
    pixels, in_pixels = _ours(sizes, context, images, released, x_init, "pixels")
    span, in_span = _ours(sizes, context, images, released, x_init, "span")
    metrics = Metrics(
        n_train=sizes.n_train,
        m=sizes.attack.m,
        **flat(released.metrics()),
        **flat(reference),
        variants=Variants(reference=reference, pixels=pixels, span=span),
    )
    starts = {"x_init": x_init, "partition_index": images.init_index[order.cpu()]}
    return Outcome(metrics, {"x_hat_reference": x_reference, **in_pixels, **in_span, **kept_arrays(images), **starts})


def _by_reference(
    sizes: Sizes, context: Context, images: Bundle, released: ReleasedNet, x_init: Tensor
) -> tuple[ReferenceSearch, Tensor]:
    """The reference recipe: its matches, and its candidates (m, d)."""
    recipe = RecipeSettings(sizes.attack.m, sizes.reference_steps, 0.0)
    found, step_size = recover_by_recipe(
        released.weights, recipe, context.stream("kkt.attack"), context.checkpoints.at("reference"), x_init
    )
    x_hat = found.x_hat[0]
    nulls = nulls_of(context, images, released.network, released.theta_star, sizes.attack.m)
    table, ended = match_table(x_hat, images, nulls), where_ended(x_hat, x_init, images, nulls)
    return ReferenceSearch(**flat(by_reference(found, step_size)), **flat(table), **flat(ended)), x_hat


def _ours(
    sizes: Sizes, context: Context, images: Bundle, released: ReleasedNet, x_init: Tensor, variant: str
) -> tuple[Search, Tensors]:
    """Our attack, in all "pixels" or in the "span": its matches and arrays."""
    settings = replace(sizes.attack, project=variant == "span", distinct=1.0)
    found, said = timed_recover(context, released, settings, variant, x_init)
    nulls = nulls_of(context, images, released.network, released.theta_star, sizes.attack.m, found.basis)
    start = x_init[found.row]
    table, ended = match_table(found.x_hat, images, nulls), where_ended(found.x_hat, start, images, nulls)
    arrays = {
        f"x_hat_{variant}": found.x_hat,
        f"contribution_{variant}": found.contribution,
        f"start_{variant}": start,
    }
    return Search(**flat(said), **flat(table), **flat(ended)), arrays


def where_ended(x_hat: Tensor, x_init: Tensor, images: Bundle, nulls: dict[str, Tensor]) -> Ended:
    """Of results x_hat (m, d), and row by row where each began, x_init (m, d)."""
    to_any = nearest(x_hat, torch.cat([x_init, images.train]), "ncc").index
    to_init, to_train = nearest(x_hat, x_init, "ncc"), nearest(x_hat, images.train, "ncc")
    to_held_out = nearest(x_hat, images.held_out, "ncc")

    def moved(x: Tensor) -> int:
        near, start = nearest(x, images.train, "ncc").score, nearest(x, x_init, "ncc").score
        return int(((near > start) & (near > 0.6)).sum())

    held_out = int(((to_held_out.score > to_init.score) & (to_held_out.score > 0.6)).sum())
    nulls_moved = {**{name: moved(x) for name, x in nulls.items()}, HELD_OUT: held_out}
    best = max(nulls_moved, key=lambda name: nulls_moved[name])
    return Ended(
        nearest_is_own_start=int((to_any == torch.arange(len(x_hat), device=to_any.device)).sum()),
        nearest_is_start_partition=int((to_init.score > to_train.score).sum()),
        moved_to_training=moved(x_hat),
        moved_to_held_out=held_out,
        nulls_moved=nulls_moved,
        best_null_moved=nulls_moved[best],
        best_null_moved_name=best,
        ncc_to_start_partition=to_init.score.mean().item(),
        ncc_to_training=to_train.score.mean().item(),
        ncc_to_held_out=to_held_out.score.mean().item(),
    )
