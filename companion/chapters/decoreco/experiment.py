"""§4.4: the published recipe on a network trained as the reference did: from noise (Fig. 5), from other photographs
(Fig. 9), and with its full budget from every start on fewer images than the paper's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.common import kept_arrays
from companion.chapters.reference_common import ReferenceArm, ReferenceNet, ReferenceSizes, run_arm, train_reference
from companion.store.record import Record


class Metrics(Record):
    """reference_net: the network that the recipe attacks, a `ReferenceNet` · variants.reference: its `ReferenceArm`."""


class PartitionMetrics(Metrics):
    """The same from the start partition."""


M = TypeVar("M", bound=Metrics)


class ReferenceMetrics(Record):
    """net: the network that the recipe attacks · arms: a row for each start."""

    def arm(self, start: str) -> ReferenceArm:
        """The row of this start; KeyError where the recipe was not run from it."""
        return {arm.start: arm for arm in self.arms}[start]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The published recipe, with twice as many candidates as training images."""

    n_train: int
    width: int
    reference: ReferenceSizes = field(default_factory=ReferenceSizes)


@dataclass(frozen=True, kw_only=True)
class ReferenceTable:
    """The published recipe from each start · steps: of it."""

    n_train: int
    width: int
    steps: int


SIZES = {
    "smoke": Sizes(n_train=20, width=64, reference=ReferenceSizes(steps=100)),
    "laptop": Sizes(n_train=50, width=500, reference=ReferenceSizes(steps=300)),
    "paper": Sizes(n_train=500, width=1000, reference=ReferenceSizes(precision="bfloat16")),
}
EVERY_START = {
    "smoke": ReferenceTable(n_train=20, width=64, steps=60),
    "laptop": ReferenceTable(n_train=20, width=200, steps=2000),
    "paper": ReferenceTable(n_train=100, width=1000, steps=50_000),  # an hour of a core for each start
}


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """The recipe from N(0, 1)."""
    return _from_one_start("random", Metrics, sizes, context)


def compute_partition(sizes: Sizes, context: Context) -> Outcome[PartitionMetrics]:
    """The recipe from the other partition, centred like the training images, every candidate from another image."""
    return _from_one_start("partition", PartitionMetrics, sizes, context)


def _from_one_start(start: str, metrics: type[M], sizes: Sizes, context: Context) -> Outcome[M]:
    net, (arm,), arrays = _attacked(context, sizes, (start,), sizes.reference)
    return Outcome(metrics(n_train=sizes.n_train, reference_net=net, variants=Record(reference=arm)), arrays)


def compute_every_start(sizes: ReferenceTable, context: Context) -> Outcome[ReferenceMetrics]:
    """One run of the recipe after the other."""
    recipe = ReferenceSizes(steps=sizes.steps)
    net, arms, arrays = _attacked(context, sizes, ("random", "partition", "tuned"), recipe)
    return Outcome(ReferenceMetrics(n_train=len(arrays["x_train"]), net=net, arms=arms), arrays)


def _attacked(
    context: Context, sizes: Sizes | ReferenceTable, starts: tuple[str, ...], recipe: ReferenceSizes
) -> tuple[ReferenceNet, list[ReferenceArm], Tensors]:
    """One network, trained as the reference did, and the recipe on it from each start; arrays of all."""
    images = context.images(sizes.n_train)
    weights, net = train_reference(context, images, sizes.width)
    found = {start: run_arm(context, images, weights, start, recipe) for start in starts}
    arrays = {f"{name}_{start}": tensor for start, (_, own) in found.items() for name, tensor in own.items()}
    return net, [arm for arm, _ in found.values()], arrays | kept_arrays(images)
