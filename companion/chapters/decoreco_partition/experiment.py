"""§4.4, Fig. 9: the published recipe from the other partition, centred like the training images."""

from __future__ import annotations

from dataclasses import dataclass, field

from companion.chapters.base import Context, Outcome
from companion.chapters.common import kept_arrays
from companion.chapters.reference_common import ReferenceSizes, run_arm, train_reference
from companion.store.record import Record


class Metrics(Record):
    """reference_net: the network that the recipe attacks, a `ReferenceNet` · variants.reference: its `ReferenceArm`."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """§4.4, Fig. 9: the published recipe, with twice as many candidates as training images, all from different images
    of the start partition."""

    n_train: int
    width: int
    reference: ReferenceSizes = field(default_factory=ReferenceSizes)


SIZES = {
    "smoke": Sizes(n_train=20, width=64, reference=ReferenceSizes(steps=100)),
    "laptop": Sizes(n_train=50, width=500, reference=ReferenceSizes(steps=300)),
    "paper": Sizes(n_train=500, width=1000, reference=ReferenceSizes(precision="bfloat16")),
}


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """One network, trained as the reference did, and the recipe from twice as many images."""
    images = context.images(sizes.n_train)
    weights, net = train_reference(context, images, sizes.width)
    arm, arrays = run_arm(context, images, weights, sizes.reference, "partition")
    metrics = Metrics(n_train=sizes.n_train, reference_net=net, variants=Record(reference=arm))
    return Outcome(metrics, {f"{name}_partition": tensor for name, tensor in arrays.items()} | kept_arrays(images))
