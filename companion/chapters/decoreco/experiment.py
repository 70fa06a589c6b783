"""§4.4: the published recipe on a network trained as the reference did: from noise (Fig. 5), from other photographs
(Fig. 9), and with its full budget from every start on fewer images than the paper's."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.common import kept_arrays
from companion.chapters.reference_common import ReferenceArm, ReferenceNet, ReferenceSizes, run_arm, train_reference
from companion.store.record import Record


class Metrics(Record):
    """reference_net: the network that the recipe attacks, a `ReferenceNet` · variants: a `ReferenceArm` for each start,
    `reference` from N(0, 1), `reference_tuned_scale` None where it was not run.
    """


class PartitionMetrics(Record):
    """reference_net: the network that the recipe attacks, a `ReferenceNet` · variants.reference: its `ReferenceArm`."""


class ReferenceMetrics(Record):
    """net: the network that the recipe attacks · arms: a row for each start (and precision)."""

    def arm(self, start: str, precision: str = "float32") -> ReferenceArm:
        """The row of this start; KeyError where it was not run."""
        found = [arm for arm in self.arms if (arm.start, arm.precision) == (start, precision)]
        if not found:
            raise KeyError(f"the recipe was not run from '{start}' with products in {precision}")
        return found[0]


@dataclass(frozen=True, kw_only=True)
class PartitionSizes:
    """The published recipe, with twice as many candidates as training images."""

    n_train: int
    width: int
    reference: ReferenceSizes = field(default_factory=ReferenceSizes)


@dataclass(frozen=True, kw_only=True)
class Sizes(PartitionSizes):
    """starts: from which the recipe is run, "random" first."""

    starts: tuple[str, ...] = ("random", "tuned")


@dataclass(frozen=True, kw_only=True)
class ReferenceTable:
    """The published recipe alone, from each start · arms: (start, precision of the products) of every row · steps."""

    n_train: int
    width: int
    steps: int
    arms: tuple[tuple[str, str], ...] = (("random", "float32"), ("partition", "float32"), ("tuned", "float32"))


PARTITION_SIZES = {
    "smoke": PartitionSizes(n_train=20, width=64, reference=ReferenceSizes(steps=100)),
    "laptop": PartitionSizes(n_train=50, width=500, reference=ReferenceSizes(steps=300)),
    "paper": PartitionSizes(n_train=500, width=1000, reference=ReferenceSizes(precision="bfloat16")),
}
SIZES = {profile: Sizes(**vars(each)) for profile, each in PARTITION_SIZES.items()}
SIZES["paper"] = replace(SIZES["paper"], starts=("random",))  # the paper's alone
ALSO_ROUNDED = (*ReferenceTable.arms, ("random", "bfloat16"))
EVERY_START = {
    "smoke": ReferenceTable(n_train=20, width=64, steps=60, arms=ALSO_ROUNDED),
    "laptop": ReferenceTable(n_train=20, width=200, steps=2000, arms=ALSO_ROUNDED),
    "paper": ReferenceTable(n_train=100, width=1000, steps=50_000),  # an hour of a core for each start
}


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """The recipe from N(0, 1), as in the paper, and from its tuned scale."""
    net, arms, arrays = _attacked(context, sizes, {start: (start, sizes.reference) for start in sizes.starts})
    variants = {"reference": arms["random"], "reference, tuned scale": arms.get("tuned")}
    return Outcome(Metrics(n_train=sizes.n_train, reference_net=net, variants=Record(variants)), arrays)


def compute_partition(sizes: PartitionSizes, context: Context) -> Outcome[PartitionMetrics]:
    """The recipe from the other partition, centred like the training images, every candidate from another image."""
    net, arms, arrays = _attacked(context, sizes, {"partition": ("partition", sizes.reference)})
    variants = Record(reference=arms["partition"])
    return Outcome(PartitionMetrics(n_train=sizes.n_train, reference_net=net, variants=variants), arrays)


def compute_every_start(sizes: ReferenceTable, context: Context) -> Outcome[ReferenceMetrics]:
    """One run of the recipe after the other."""
    recipe = partial(ReferenceSizes, steps=sizes.steps)
    rows = {f"{start}_{precision}": (start, recipe(precision=precision)) for start, precision in sizes.arms}
    net, arms, arrays = _attacked(context, sizes, rows)
    return Outcome(ReferenceMetrics(n_train=len(arrays["x_train"]), net=net, arms=list(arms.values())), arrays)


def _attacked(
    context: Context, sizes: PartitionSizes | ReferenceTable, rows: dict[str, tuple[str, ReferenceSizes]]
) -> tuple[ReferenceNet, dict[str, ReferenceArm], Tensors]:
    """One network, trained as the reference did, and the recipe on it from the start of each row; arrays of all."""
    images = context.images(sizes.n_train)
    weights, net = train_reference(context, images, sizes.width)
    found = {row: run_arm(context, images, weights, *recipe) for row, recipe in rows.items()}
    arrays = {f"{name}_{row}": tensor for row, (_, own) in found.items() for name, tensor in own.items()}
    return net, {row: arm for row, (arm, _) in found.items()}, arrays | kept_arrays(images)
