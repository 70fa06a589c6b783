"""§4.4, Fig. 9: start from the other partition, centred like the training images: the published recipe, and ours in
pixel space and within the span."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.common import kept_arrays, match_table, nulls_of, timed_recover, train_released
from companion.chapters.decoreco_partition.metrics import Metrics, Search, Variants
from companion.chapters.decoreco_partition.sizes import Sizes
from companion.chapters.reference_common import Ended, part_of, run_arm, train_reference, where_ended
from companion.chapters.tables import MatchTable, flat
from recon.images.bundle import Bundle
from recon.released import Weights


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
        **part_of(MatchTable, arm),
        **part_of(Ended, arm),
        reference_net=reference_net,
        variants=Variants(reference=arm, pixels=pixels, span=span),
    )
    own = {f"{name}_partition": tensor for name, tensor in arrays.items()}
    return Outcome(metrics, {**own, **in_pixels, **in_span, **kept_arrays(images), "x_init": x_init})


def _ours(
    sizes: Sizes, context: Context, images: Bundle, weights: Weights, x_init: Tensor, variant: str
) -> tuple[Search, Tensors]:
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
    return Search(**flat(said), **flat(table), **flat(ended)), arrays
