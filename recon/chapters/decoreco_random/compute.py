"""Chapter 8: start N(0, 1), by the reference recipe, as the paper; by our optimiser; and within the span of w1."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from recon.attacks.recover import Recovered
from recon.attacks.reference import TUNED_SCALE, RecipeSettings, recover_by_recipe
from recon.chapters.base import Context, Outcome
from recon.chapters.common import (
    ReleasedNet,
    by_reference,
    kept_arrays,
    match_table,
    nulls_of,
    timed_recover,
    train_released,
)
from recon.chapters.decoreco_random.metrics import Metrics, ReferenceSearch, Search, Variants
from recon.chapters.decoreco_random.sizes import Sizes
from recon.chapters.tables import flat
from recon.images.bundle import Bundle


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """All searches on one network.  The reference recipe also from its tuned scale, with the same budget, so that one
    sees what the scale does there."""
    images = context.images(sizes.n_train)
    released = train_released(context, images, sizes.width, sizes.train_steps)
    reference, x_reference = _by_reference(sizes, context, images, released, sizes.attack.init_scale)
    from_tuned, x_from_tuned = _by_reference(sizes, context, images, released, TUNED_SCALE)
    pixels, in_pixels = _ours(sizes, context, images, released, "pixels")
    span, in_span = _ours(sizes, context, images, released, "span")
    basis = in_span.basis
    assert basis is not None  # projected
    cleaned = in_pixels.x_hat @ basis.mT @ basis
    nulls = nulls_of(context, images, released.network, released.theta_star, sizes.attack.m, basis)
    variants = Variants(
        reference=reference,
        reference_tuned_scale=from_tuned,
        pixels=pixels,
        span=span,
        pixels_then_span=match_table(cleaned, images, nulls),
    )
    arrays = {"x_hat_reference": x_reference, "x_hat_reference, tuned scale": x_from_tuned, "x_hat_cleaned": cleaned}
    for name, found in (("pixels", in_pixels), ("span", in_span)):
        arrays |= {f"x_hat_{name}": found.x_hat, f"contribution_{name}": found.contribution}
        arrays |= {f"history_{name}": found.history}
    metrics = Metrics(
        n_train=sizes.n_train, m=sizes.attack.m, **flat(released.metrics()), **flat(reference), variants=variants
    )
    return Outcome(metrics, arrays | kept_arrays(images))


def _by_reference(
    sizes: Sizes, context: Context, images: Bundle, released: ReleasedNet, scale: float
) -> tuple[ReferenceSearch, Tensor]:
    """The reference recipe from scale · N(0, 1): its matches, and its candidates (m, d)."""
    recipe = RecipeSettings(sizes.attack.m, sizes.reference_steps, scale)
    found, step_size = recover_by_recipe(
        released.weights, recipe, context.stream("kkt.attack"), context.checkpoints.at(f"reference-{scale}")
    )
    x_hat = found.x_hat[0]
    nulls = nulls_of(context, images, released.network, released.theta_star, sizes.attack.m)
    table = match_table(x_hat, images, nulls)
    return ReferenceSearch(**flat(by_reference(found, step_size)), **flat(table)), x_hat


def _ours(
    sizes: Sizes, context: Context, images: Bundle, released: ReleasedNet, variant: str
) -> tuple[Search, Recovered]:
    """Our attack, in all "pixels" or in the "span"."""
    settings = replace(sizes.attack, project=variant == "span")
    found, said = timed_recover(context, released, settings, variant)
    nulls = nulls_of(context, images, released.network, released.theta_star, sizes.attack.m, found.basis)
    return Search(**flat(said), **flat(match_table(found.x_hat, images, nulls))), found
