"""§4.4, Fig. 9: start from the other partition, centred like the training images: the published recipe, and ours in
pixel space and within the span."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.common import kept_arrays, match_table, nulls_of, timed_recover, train_released
from companion.chapters.reference_common import (
    ReferenceSizes,
    ended_of,
    matches_of,
    run_arm,
    train_reference,
    where_ended,
)
from companion.chapters.tables import flat
from companion.store.record import Record
from recon.attacks.recover import WIDE, RecoverSettings
from recon.images.bundle import Bundle
from recon.released import Weights


class Metrics(Record):
    """Our network, the matches of the reference recipe (at top level), its network, and every search. m: candidates of
    the reference recipe · ours: of our searches. With the fields of `Trained` and `MatchTable` and `Ended`.

    variants: The three searches: the reference recipe on the reference's network, ours on one in the KKT regime.
    variants.pixels: Our attack from the other partition.
    """


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """§4.4, Fig. 9: a net trained for `train_steps` into the KKT regime, and our attack's settings, with as many
    candidates as the start partition has images · reference: the published recipe, on a net of its own, with twice as
    many candidates, all from different images."""

    n_train: int
    width: int
    train_steps: int
    attack: RecoverSettings
    reference: ReferenceSizes = field(default_factory=ReferenceSizes)


SIZES = {
    "smoke": Sizes(
        n_train=20,
        width=64,
        train_steps=150,
        attack=RecoverSettings(m=20, restarts=1, steps=200, scale_steps=40),
        reference=ReferenceSizes(steps=100),
    ),
    "laptop": Sizes(
        n_train=50,
        width=500,
        train_steps=300,
        attack=RecoverSettings(m=50, restarts=1),
        reference=ReferenceSizes(steps=300),
    ),
    "paper": Sizes(
        n_train=500,
        width=1000,
        train_steps=3000,
        attack=RecoverSettings(m=500, restarts=1, steps=1500, multiplier_scales=WIDE),
        reference=ReferenceSizes(precision="bfloat16"),
    ),
}


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """The recipe on a network trained as the reference did, from twice as many images; ours in the KKT regime."""
    images = context.images(sizes.n_train)
    weights, reference_net = train_reference(context, images, sizes.width, sizes.reference.biases)
    arm, arrays = run_arm(context, images, weights, sizes.reference, "partition")
    released = train_released(context, images, sizes.width, sizes.train_steps)
    x_init = images.init[images.init_y.argsort(stable=True)]  # the attack's labels: −1 first
    pixels, in_pixels = _ours(sizes, context, images, released.weights, x_init, "pixels")
    span, in_span = _ours(sizes, context, images, released.weights, x_init, "span")
    metrics = Metrics(
        n_train=sizes.n_train,
        m=arm.m,
        ours=sizes.attack.m,
        **flat(released.metrics()),
        **matches_of(arm),
        **ended_of(arm),
        reference_net=reference_net,
        variants=Record(reference=arm, pixels=pixels, span=span),
    )
    own = {f"{name}_partition": tensor for name, tensor in arrays.items()}
    return Outcome(metrics, {**own, **in_pixels, **in_span, **kept_arrays(images), "x_init": x_init})


def _ours(
    sizes: Sizes, context: Context, images: Bundle, weights: Weights, x_init: Tensor, variant: str
) -> tuple[Record, Tensors]:
    """Our attack, in all "pixels" or in the "span": its matches and arrays."""
    settings = replace(sizes.attack, project=variant == "span", distinct=1.0)
    found, said = timed_recover(context, weights, settings, variant, x_init)
    nulls = nulls_of(context, images, weights.network, weights.theta_star, sizes.attack.m, found.basis)
    start = x_init[found.row]
    table, ended = match_table(found.x_hat, images, nulls), where_ended(found.x_hat, start, images, nulls)
    arrays = {
        f"x_hat_{variant}": found.x_hat,
        f"contribution_{variant}": found.contribution,
        f"start_{variant}": start,
    }
    return Record(**flat(said), **flat(table), **flat(ended)), arrays
