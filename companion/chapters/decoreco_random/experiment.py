"""§4.4, Fig. 5: start N(0, 1), by the published recipe, as the paper; by our optimiser; and within the span of w1."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from companion.chapters.base import Context, Outcome
from companion.chapters.common import kept_arrays, match_table, nulls_of, timed_recover, train_released
from companion.chapters.reference_common import (
    ReferenceSizes,
    matches_of,
    run_arm,
    train_reference,
)
from companion.chapters.tables import MatchTable, flat
from companion.store.record import Record
from recon.attacks.recover import WIDE, Recovered, RecoverSettings
from recon.images.bundle import Bundle
from recon.released import Weights


def arms_of(variants: Record) -> dict[str, MatchTable]:
    """All that were run, as the page calls them."""
    found: dict[str, MatchTable | None] = {
        "reference": variants.reference,
        "reference, tuned scale": variants.reference_tuned_scale,
        "span, reference net": variants.span_reference_net,
        "pixels": variants.pixels,
        "pixels then span": variants.pixels_then_span,
        "span": variants.span,
    }
    return {name: table for name, table in found.items() if table is not None}


class Metrics(Record):
    """Our network, the matches of the reference recipe (at top level), its network, every search. m: candidates. With
    the fields of `Trained` and `MatchTable`.

    variants: The searches. The reference recipe works on the reference's network; ours on one trained on to the KKT
    regime, and once (span_reference_net) on the reference's. pixels_then_span: the results in pixels, projected
    afterwards.
    variants.pixels: Matches of our attack, and what the adversary can say of it.
    """


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """§4.4, Fig. 5: a net trained for `train_steps` into the KKT regime, and our attack's settings, its start not tuned
    · reference: the published recipe, on a net of its own · starts: from which it is run, "random" first."""

    n_train: int
    width: int
    train_steps: int
    attack: RecoverSettings
    reference: ReferenceSizes = field(default_factory=ReferenceSizes)
    starts: tuple[str, ...] = ("random", "tuned")


SIZES = {
    "smoke": Sizes(
        n_train=20,
        width=64,
        train_steps=150,
        attack=RecoverSettings(m=40, restarts=1, steps=200, scale_steps=40, init_scale=1.0),
        reference=ReferenceSizes(steps=100),
    ),
    "laptop": Sizes(
        n_train=50,
        width=500,
        train_steps=300,
        attack=RecoverSettings(m=100, restarts=1, init_scale=1.0),
        reference=ReferenceSizes(steps=300),
    ),
    "paper": Sizes(
        n_train=500,
        width=1000,
        train_steps=3000,
        attack=RecoverSettings(m=1000, restarts=1, steps=1500, init_scale=1.0, multiplier_scales=WIDE),
        reference=ReferenceSizes(precision="bfloat16"),
        starts=("random",),
    ),
}


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
    variants = Record(
        reference=arms["random"][0],
        **{"reference, tuned scale": arms["tuned"][0] if "tuned" in arms else None},
        pixels=pixels,
        span=span,
        **{"pixels then span": match_table(cleaned, images, nulls)},
        **{"span, reference net": there},
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
        **matches_of(variants.reference),
        reference_net=reference_net,
        variants=variants,
    )
    return Outcome(metrics, arrays | kept_arrays(images))


def _ours(
    sizes: Sizes, context: Context, images: Bundle, weights: Weights, variant: str, name: str | None = None
) -> tuple[Record, Recovered]:
    """Our attack, in all "pixels" or in the "span"; name: of its checkpoints."""
    settings = replace(sizes.attack, project=variant == "span")
    found, said = timed_recover(context, weights, settings, name or variant)
    nulls = nulls_of(context, images, weights.network, weights.theta_star, sizes.attack.m, found.basis)
    return Record(**flat(said), **flat(match_table(found.x_hat, images, nulls))), found
