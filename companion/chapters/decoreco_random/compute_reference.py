"""The published recipe with its full budget from every start, on fewer images than the paper's."""

from __future__ import annotations

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.common import kept_arrays
from companion.chapters.decoreco_random.metrics import ReferenceMetrics
from companion.chapters.decoreco_random.sizes import ReferenceTable
from companion.chapters.reference_common import ReferenceSizes, run_arm, train_reference


def compute_reference(sizes: ReferenceTable, context: Context) -> Outcome[ReferenceMetrics]:
    """One network, one run of the recipe after the other."""
    images = context.images(sizes.n_train)
    weights, net = train_reference(context, images, sizes.width, sizes.biases)
    arms, arrays = [], Tensors()
    for start, precision in sizes.arms:
        recipe = ReferenceSizes(biases=sizes.biases, steps=sizes.steps, precision=precision)
        arm, own = run_arm(context, images, weights, recipe, start)
        arms.append(arm)
        arrays |= {f"{name}_{start}_{precision}": tensor for name, tensor in own.items()}
    return Outcome(ReferenceMetrics(n_train=len(images), net=net, arms=arms), arrays | kept_arrays(images))
