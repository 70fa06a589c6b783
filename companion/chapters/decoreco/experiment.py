"""§4.4: the published recipe on a network trained along the flow: from noise (Fig. 5), and from
other photographs (Fig. 9).
"""

from dataclasses import dataclass, field
from functools import partial

from companion.chapters.base import Context, Outcome
from companion.chapters.common import kept_arrays
from companion.chapters.reference_common import ReferenceSizes, run_arm, train_reference
from companion.store.record import Record


class Metrics(Record):
    """reference_net: the network that the recipe attacks, a `ReferenceNet` · variants.reference:
    its `ReferenceArm`.
    """


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The published recipe, with twice as many candidates as training images."""

    n_train: int
    width: int
    reference: ReferenceSizes = field(default_factory=ReferenceSizes)


SIZES = {
    "smoke": Sizes(n_train=20, width=64, reference=ReferenceSizes(steps=100)),
    "laptop": Sizes(n_train=50, width=500, reference=ReferenceSizes(steps=300)),
    "paper": Sizes(n_train=500, width=1000, reference=ReferenceSizes(precision="bfloat16")),
}


def compute_from(start: str, sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """One network, trained along the flow, and the recipe on it from N(0, 1) ("random") or
    from the other partition, centred like the training images, every candidate from another image.
    """
    images = context.images(sizes.n_train)
    weights, net = train_reference(context, images, sizes.width)
    arm, tensors = run_arm(context, images, weights, start, sizes.reference)
    arrays = {f"{name}_{start}": tensor for name, tensor in tensors.items()} | kept_arrays(images)
    metrics = Metrics(n_train=len(images), reference_net=net, variants=Record(reference=arm))
    return Outcome(metrics, arrays)


compute = partial(compute_from, "random")
compute_partition = partial(compute_from, "partition")
