"""The published recipe with its full budget from every start, on fewer images than the paper's."""

from __future__ import annotations

from dataclasses import dataclass

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.common import kept_arrays
from companion.chapters.reference_common import ReferenceArm, ReferenceSizes, run_arm, train_reference
from companion.store.record import Record


class Metrics(Record):
    """The network that the recipe attacks, and a row for each start (and precision)."""

    def arm(self, start: str, precision: str = "float32") -> ReferenceArm:
        """The row of this start; KeyError where it was not run."""
        found = [arm for arm in self.arms if (arm.start, arm.precision) == (start, precision)]
        if not found:
            raise KeyError(f"the recipe was not run from '{start}' with products in {precision}")
        return found[0]


@dataclass(frozen=True, kw_only=True)
class ReferenceTable:
    """The published recipe alone, from each start · arms: (start, precision of the products) of every row · steps."""

    n_train: int
    width: int
    steps: int
    arms: tuple[tuple[str, str], ...] = (
        ("random", "float32"),
        ("partition", "float32"),
        ("tuned", "float32"),
        ("random", "bfloat16"),
    )


SIZES = {
    "smoke": ReferenceTable(n_train=20, width=64, steps=60),
    "laptop": ReferenceTable(n_train=20, width=200, steps=2000),
    "paper": ReferenceTable(
        n_train=100,
        width=1000,
        steps=50_000,
        arms=(("random", "float32"), ("partition", "float32"), ("tuned", "float32")),  # an hour of a core each
    ),
}


def compute(sizes: ReferenceTable, context: Context) -> Outcome[Metrics]:
    """One network, one run of the recipe after the other."""
    images = context.images(sizes.n_train)
    weights, net = train_reference(context, images, sizes.width)
    arms, arrays = [], Tensors()
    for start, precision in sizes.arms:
        recipe = ReferenceSizes(steps=sizes.steps, precision=precision)
        arm, own = run_arm(context, images, weights, recipe, start)
        arms.append(arm)
        arrays |= {f"{name}_{start}_{precision}": tensor for name, tensor in own.items()}
    return Outcome(Metrics(n_train=len(images), net=net, arms=arms), arrays | kept_arrays(images))
