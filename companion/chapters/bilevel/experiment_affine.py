"""Chapter 3: bilevel reconstruction, eq. (2), of the affine net, eq. (8), from the starts (a)
random, (b) truth, (c) partition.
"""

from dataclasses import dataclass

import torch

from companion.chapters.base import Context, Outcome
from companion.chapters.bilevel.common import (
    BOX,
    PAPER_AFFINE,
    STARTS,
    converged,
    held_out_distance,
    images_of,
    kept_arrays,
    measure,
    slopes,
    start_of,
)
from companion.chapters.common import affine_trained
from companion.store.record import Record
from recon.attacks.bilevel import BilevelAttack, outer_energy
from recon.attacks.reconstruct import reconstruct
from recon.optim.descent import HeavyBall


class Metrics(Record):
    """The three starts, and what they are compared with.

    random: How one start ended, see `measure`; distance_sum: ‖θ* − θ(x)‖² · converged: its energy
    fell by less than a hundredth over the last quarter of the steps, or is within the tolerance, or
    below the paper's value. null: held_out_nn_l2: mean distance of held-out images to their nearest
    training image · other_data_sum: ‖θ* − θ‖² of a classifier trained on the held-out ones. slope:
    see `slopes`.
    """


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """
    Attributes:
        steps: outer iterations at most.
        tol: outer energy at which a start is done.
        momentum: more is faster, and overshoots farther from the start before it settles.
    """

    n_train: int
    steps: int
    weight_decay: float = 1e-2
    step_size: float = 0.3
    momentum: float = 0.5
    tol: float = 1e-8
    n_held_out: int = 200


SIZES = {
    "smoke": Sizes(n_train=20, steps=150, n_held_out=50),
    "laptop": Sizes(n_train=40, steps=600),
    "paper": Sizes(n_train=500, steps=500, step_size=3.0, momentum=0.9, n_held_out=1000),
}


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """All three starts as one batch, float64, exact inner solves and exact inverse Hessians."""
    images = images_of(sizes, context, torch.float64)
    released = affine_trained(images.train, images.y, sizes.weight_decay)
    x_init = torch.stack(
        [start_of(images, name, context.stream("affine.start")) for name in STARTS]
    )
    descent = HeavyBall(sizes.step_size, sizes.momentum, tol=sizes.tol, box=BOX)
    attack = BilevelAttack(released, descent)
    result = reconstruct(attack, x_init, sizes.steps, sizes.tol, context.checkpoints.at("affine"))
    ends = Record()
    arrays = kept_arrays(images)
    for row, name in enumerate(STARTS):
        energy = result.energy[row].item()
        x_hat = result.x_hat[row]
        ends[name] = Record(
            distance_sum=energy,
            **measure(x_hat, x_init[row], images),
            converged=converged(result.history[:, row], sizes.tol) or energy <= PAPER_AFFINE[name],
        )
        arrays[f"x_hat_{name}"] = x_hat.float()
    half = min(len(images), len(images.held_out)) // 2  # of each class
    others = images.take(0, half)
    other = affine_trained(others.held_out, others.held_out_y, sizes.weight_decay)
    null = Record(
        held_out_nn_l2=held_out_distance(images),
        other_data_sum=outer_energy(released.theta_star, other.theta_star).item(),
    )
    slope = slopes(result.x_hat[STARTS.index("random")], images.held_out, images.shape)
    metrics = Metrics(n_train=len(images), steps=result.steps, **ends, null=null, slope=slope)
    return Outcome(metrics, arrays)
