"""§4.4, Fig. 5: the published recipe from N(0, 1), as in the paper, and from its tuned scale."""

from __future__ import annotations

from dataclasses import dataclass, field

from companion.chapters.base import Context, Outcome
from companion.chapters.common import kept_arrays
from companion.chapters.reference_common import ReferenceSizes, run_arm, train_reference
from companion.store.record import Record


class Metrics(Record):
    """reference_net: the network that the recipe attacks, a `ReferenceNet` · variants: a `ReferenceArm` for each start,
    `reference` from N(0, 1), `reference_tuned_scale` None where it was not run.
    """


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """§4.4, Fig. 5: the published recipe · starts: from which it is run, "random" first."""

    n_train: int
    width: int
    reference: ReferenceSizes = field(default_factory=ReferenceSizes)
    starts: tuple[str, ...] = ("random", "tuned")


SIZES = {
    "smoke": Sizes(n_train=20, width=64, reference=ReferenceSizes(steps=100)),
    "laptop": Sizes(n_train=50, width=500, reference=ReferenceSizes(steps=300)),
    "paper": Sizes(n_train=500, width=1000, reference=ReferenceSizes(precision="bfloat16"), starts=("random",)),
}


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """One network, trained as the reference did, and the recipe from each start."""
    images = context.images(sizes.n_train)
    weights, net = train_reference(context, images, sizes.width)
    arms = {start: run_arm(context, images, weights, sizes.reference, start) for start in sizes.starts}
    variants = {"reference": arms["random"][0], "reference, tuned scale": arms["tuned"][0] if "tuned" in arms else None}
    arrays = {f"{name}_{start}": tensor for start, (_, own) in arms.items() for name, tensor in own.items()}
    metrics = Metrics(n_train=sizes.n_train, reference_net=net, variants=Record(**variants))
    return Outcome(metrics, arrays | kept_arrays(images))
