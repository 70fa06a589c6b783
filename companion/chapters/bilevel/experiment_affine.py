"""Chapter 3: bilevel reconstruction, eq. (2), of the affine net, eq. (8), from the starts (a)
random, (b) truth, (c) partition.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome
from companion.chapters.bilevel.common import (
    BOX,
    PAPER_AFFINE,
    STARTS,
    converged,
    held_out_distance,
    kept_arrays,
    measure,
    start_of,
)
from companion.store.record import Record
from recon.attacks.bilevel import BilevelAttack, outer_energy
from recon.attacks.reconstruct import reconstruct
from recon.images.bundle import Bundle
from recon.nets.mlp import affine
from recon.optim.descent import HeavyBall
from recon.released import Weights
from recon.training.inner_problem import Objective, solve_affine


class Metrics(Record):
    """The three starts, and what they are compared with.

    random: How one start ended, see `measure`; distance_sum: ‖θ* − θ(x)‖² · converged: its energy
    fell by less than a hundredth over the last quarter of the steps, or is within the tolerance, or
    below the paper's value. null: held_out_nn_l2: mean distance of held-out images to their nearest
    training image · other_data_sum: ‖θ* − θ‖² of a classifier trained on the held-out images.
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
    data = context.dataset(sizes.n_train, sizes.n_held_out)
    images = Bundle.of(data, context.device, torch.float64, centred=False)
    objective = Objective(affine(images.train.shape[1]), images.y, sizes.weight_decay)
    theta_star = solve_affine(objective, images.train[None]).theta[0]
    x_init = torch.stack(
        [start_of(images, name, context.stream("affine.start")) for name in STARTS]
    )
    released = Weights(objective.network, theta_star, y=images.y, weight_decay=sizes.weight_decay)
    descent = HeavyBall(sizes.step_size, sizes.momentum, tol=sizes.tol, box=BOX)
    attack = BilevelAttack(released, descent)
    result = reconstruct(attack, x_init, sizes.steps, sizes.tol, context.checkpoints.at("affine"))
    ends, arrays = Record(), kept_arrays(images)
    for row, name in enumerate(STARTS):
        energy, x_hat = result.energy[row].item(), result.x_hat[row]
        settled = converged(result.history[:, row], sizes.tol) or energy <= PAPER_AFFINE[name]
        ends[name] = Record(
            distance_sum=energy, **measure(x_hat, x_init[row], images), converged=settled
        )
        arrays[f"x_hat_{name}"] = x_hat.float()
    null = Record(
        held_out_nn_l2=held_out_distance(images),
        other_data_sum=_other_data(objective, theta_star, images),
    )
    return Outcome(Metrics(n_train=len(data.train), steps=result.steps, **ends, null=null), arrays)


def _other_data(objective: Objective, theta_star: Tensor, images: Bundle) -> float:
    """‖θ* − θ‖² to a classifier of as many held-out images, as many of each class."""
    rows = torch.cat(
        [(images.held_out_y == label).nonzero()[: len(images.y) // 2, 0] for label in (0, 1)]
    )
    elsewhere = Objective(objective.network, images.held_out_y[rows], objective.weight_decay)
    other = solve_affine(elsewhere, images.held_out[rows][None]).theta[0]
    return outer_energy(theta_star, other).item()
