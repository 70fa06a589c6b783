"""§4.4, Fig. 5: start N(0, 1), by the published recipe, as the paper; by our optimiser; and within the span of w1."""

from __future__ import annotations

from dataclasses import replace

from companion.chapters.base import Context, Outcome
from companion.chapters.common import kept_arrays, match_table, nulls_of, timed_recover, train_released
from companion.chapters.decoreco_random.metrics import Metrics, Search, Variants
from companion.chapters.decoreco_random.sizes import Sizes
from companion.chapters.reference_common import part_of, run_arm, train_reference
from companion.chapters.tables import MatchTable, flat
from recon.attacks.recover import Recovered
from recon.images.bundle import Bundle
from recon.released import Weights


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """The recipe on a network trained as the reference did, ours on that one and on one in the KKT regime."""
    images = context.images(sizes.n_train)
    weights, reference_net = train_reference(context, images, sizes.width, sizes.reference.biases)
    arms = {start: run_arm(context, images, weights, sizes.reference, start) for start in sizes.starts}
    released = train_released(context, images, sizes.width, sizes.train_steps)
    pixels, in_pixels = _ours(sizes, context, images, released.weights, "pixels")
    span, in_span = _ours(sizes, context, images, released.weights, "span")
    there, in_there = _ours(sizes, context, images, weights, "span", "reference-net")
    basis = in_span.basis
    assert basis is not None  # projected
    cleaned = in_pixels.x_hat @ basis.mT @ basis
    nulls = nulls_of(context, images, released.network, released.theta_star, sizes.attack.m, basis)
    variants = Variants(
        reference=arms["random"][0],
        reference_tuned_scale=arms["tuned"][0] if "tuned" in arms else None,
        pixels=pixels,
        span=span,
        pixels_then_span=match_table(cleaned, images, nulls),
        span_reference_net=there,
    )
    arrays = {"x_hat_cleaned": cleaned, "x_hat_reference_net": in_there.x_hat}
    for start, (_, own) in arms.items():
        arrays |= {f"{name}_{start}": tensor for name, tensor in own.items()}
    for name, found in (("pixels", in_pixels), ("span", in_span)):
        arrays |= {f"x_hat_{name}": found.x_hat, f"contribution_{name}": found.contribution}
        arrays |= {f"history_{name}": found.history}
    metrics = Metrics(
        n_train=sizes.n_train,
        m=sizes.attack.m,
        **flat(released.metrics()),
        **part_of(MatchTable, variants.reference),
        reference_net=reference_net,
        variants=variants,
    )
    return Outcome(metrics, arrays | kept_arrays(images))


def _ours(
    sizes: Sizes, context: Context, images: Bundle, weights: Weights, variant: str, name: str | None = None
) -> tuple[Search, Recovered]:
    """Our attack, in all "pixels" or in the "span"; name: of its checkpoints."""
    settings = replace(sizes.attack, project=variant == "span")
    found, said = timed_recover(context, weights, settings, name or variant)
    nulls = nulls_of(context, images, weights.network, weights.theta_star, sizes.attack.m, found.basis)
    return Search(**flat(said), **flat(match_table(found.x_hat, images, nulls))), found
