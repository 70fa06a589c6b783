"""Chapter 3: bilevel reconstruction, eq. (2), of the affine net, eq. (8), from the starts (a) random, (b) truth,
(c) partition: by our descent, by the paper's, and with inner problems that are stopped early."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.bilevel_affine.inexact import descent_steps, inexact_solves
from companion.chapters.bilevel_common import (
    BOX,
    PAPER_AFFINE,
    STARTS,
    image_null,
    measured,
    start_of,
)
from companion.chapters.tables import flat
from companion.store.record import Record
from recon.attacks.bilevel import AffineInner, BilevelAttack, Woodbury, outer_energy
from recon.attacks.reconstruct import Reconstruction, reconstruct
from recon.images.bundle import Bundle
from recon.nets.mlp import affine
from recon.optim.descent import HeavyBall
from recon.optim.subspace import Subspace, reduced
from recon.released import Weights
from recon.training.inner_problem import Objective, solve_affine


class Metrics(Record):
    """At top level our descent (momentum, box). plain: the paper's, with a fixed step, neither momentum nor box ·
    stopped: unfinished inner solves, from coarse to fine · descent_steps: of plain gradient descent on the inner
    problem until what θ⁰ has outside the span of the training images is down to the paper's distance of the
    truth.

    The three starts; steps: outer iterations that were made.
    random: How one start ended; converged: its energy fell by less than a hundredth over the last quarter of the
    steps, or is within the tolerance, or below the paper's value · outside_box: share of pixels outside [0, 1].
    plain: The three starts; steps: outer iterations that were made.
    plain.random: How one start ended; converged: its energy fell by less than a hundredth over the last quarter of
    the steps, or is within the tolerance, or below the paper's value · outside_box: share of pixels outside [0, 1].
    stopped: The inner problem stopped at ‖∇E‖ ≤ tol, from θ⁰ ~ U(0, 1): iterations on the training images, and ‖θ*
    − θ‖² at the images where the attack ended from each start, summed over parameters.
    null: ‖θ* − θ‖² of a classifier that starts its training elsewhere, and of one trained on the held-out images.
    """


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """steps, plain_steps: outer iterations at most, of ours and of the paper's descent · tol: outer energy at which a
    start is done · momentum: more is faster, and overshoots farther from the start before it settles · stop_at:
    accuracies at which the inner problem is stopped."""

    n_train: int
    steps: int
    plain_steps: int
    weight_decay: float = 1e-2
    step_size: float = 0.3
    momentum: float = 0.5
    tol: float = 1e-8
    n_held_out: int = 200
    stop_at: tuple[float, ...] = (1e-1, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5)


SIZES = {
    "smoke": Sizes(n_train=20, steps=150, plain_steps=150, n_held_out=50),
    "laptop": Sizes(n_train=40, steps=600, plain_steps=1000),
    "paper": Sizes(n_train=500, steps=500, plain_steps=1000, step_size=3.0, momentum=0.9, n_held_out=1000),
}


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """All three starts as one batch, float64, exact inner solves and exact inverse Hessians."""
    data = context.dataset(sizes.n_train, sizes.n_held_out)
    images = Bundle.of(data, context.device, torch.float64, centred=False)
    objective = Objective(affine(images.train.shape[1]), images.y, sizes.weight_decay)
    theta_star = solve_affine(objective, images.train[None]).theta[0]
    x_init = torch.stack([start_of(images, name, context.stream("affine.start")) for name in STARTS])
    released = Weights(objective.network, theta_star, y=images.y, weight_decay=sizes.weight_decay)
    descent = HeavyBall(sizes.step_size, sizes.momentum, tol=sizes.tol, box=BOX)
    attack = BilevelAttack(released, AffineInner(), Woodbury(), descent)
    found = reconstruct(attack, x_init, sizes.steps, sizes.tol, context.checkpoints.at("affine"))
    plain = plain_descent(released, x_init, sizes, context)
    ends = Record(steps=found.steps, **_ended(found, found.x_hat, x_init, images, sizes, theta_star))
    plain_ends = Record(steps=plain[0].steps, **_ended(plain[0], plain[1], x_init, images, sizes, theta_star))
    theta_0 = _uniform(objective, context)
    metrics = Metrics(
        n_train=len(data.train),
        weight_decay=sizes.weight_decay,
        **flat(ends),
        plain=plain_ends,
        stopped=_stopped(objective, found.x_hat, theta_0, theta_star, sizes),
        descent_steps=descent_steps(objective, images.train, theta_0, PAPER_AFFINE["truth"]),
        null=_null(objective, theta_star, images, context),
    )
    arrays: Tensors = {f"x_hat_{name}": found.x_hat[row].float() for row, name in enumerate(STARTS)}
    arrays |= {f"x_hat_{name}_plain": plain[1][row].float() for row, name in enumerate(STARTS)}
    arrays |= {
        "x_init_random": x_init[0].float(),
        "x_init_random_plain": x_init[0].float(),
        "x_train": images.train.float(),
        "x_partition": images.init.float(),
        "x_held_out": images.held_out[:40].float(),
        "energy": found.history,
        "energy_plain": plain[0].history,
        "train_index": data.train.index,
        "partition_index": data.init.index,
        "theta_star": theta_star,
    }
    return Outcome(metrics, arrays)


def plain_descent(released: Weights, x_init: Tensor, sizes: Sizes, context: Context) -> tuple[Reconstruction, Tensor]:
    """Eq. (7) as printed: a fixed step (halved where it raised the energy), no momentum, no box; and x_hat in pixels.

    Every hypergradient is a combination of θ_w and p_w, hence of x and θ*_w: the iterates never leave the span of their
    start and of θ*, and the descent runs in coordinates of it, exactly.
    """
    dim = x_init.shape[-1]
    direction = released.theta_star[:dim].expand(len(x_init), 1, -1)
    space = Subspace.spanned_by(x_init, direction)
    network, theta_star = reduced(released.network, released.theta_star, space)
    small = Weights(network, theta_star, y=released.y, weight_decay=released.weight_decay)
    descent = HeavyBall(sizes.step_size, momentum=0.0, grow=1.0, tol=sizes.tol)
    attack = BilevelAttack(small, AffineInner(), Woodbury(), descent)
    checkpoint = context.checkpoints.at("affine-plain")
    found = reconstruct(attack, space.reduce(x_init), sizes.plain_steps, sizes.tol, checkpoint)
    return found, space.lift(found.x_hat)


def _ended(
    found: Reconstruction, x_hat: Tensor, x_init: Tensor, images: Bundle, sizes: Sizes, theta_star: Tensor
) -> dict[str, Record]:
    """What is measured of each start."""
    ends = {}
    for row, name in enumerate(STARTS):
        energy, history = found.energy[row].item(), found.history[:, row]
        settled = history[-1] <= sizes.tol or history[-1] >= 0.99 * history[-1 - len(history) // 4]
        ends[name] = Record(
            **flat(measured(x_hat[row], x_init[row], images, energy, theta_star)),
            converged=bool(settled) or energy <= PAPER_AFFINE[name],
            outside_box=((x_hat[row] < BOX[0]) | (x_hat[row] > BOX[1])).double().mean().item(),
        )
    return ends


def _uniform(objective: Objective, context: Context) -> Tensor:
    """The paper's θ⁰ ~ U(0, 1), (d + 1,), from the stream of the other chapter that has such a θ⁰."""
    network = objective.network
    drawn = network.init(context.stream("hidden.inner_start"), "uniform", torch.float64)
    return network.flatten(drawn).to(context.device)


def _stopped(objective: Objective, x_hat: Tensor, theta_0: Tensor, theta_star: Tensor, sizes: Sizes) -> list[Record]:
    """The same accuracies at all three."""
    by_start = [inexact_solves(objective, x_hat[row], theta_0, theta_star, sizes.stop_at) for row in range(len(STARTS))]
    truth = by_start[STARTS.index("truth")]
    return [
        Record(
            tol=tol,
            iterations=truth[k].iterations,
            **{name: by_start[row][k].distance for row, name in enumerate(STARTS)},
        )
        for k, tol in enumerate(sizes.stop_at)
    ]


def _null(objective: Objective, theta_star: Tensor, images: Bundle, context: Context) -> Record:
    """The minimiser is unique: another seed for θ⁰ gives the same θ.  Measured, not assumed: the logits of a random
    θ⁰.  Other data: as many held-out images, as many of each class."""
    logits = torch.randn(1, len(images.y), generator=context.stream("affine.other_labels"), dtype=torch.float64)
    other_seed = solve_affine(objective, images.train[None], logits=logits.to(context.device)).theta[0]
    rows = torch.cat([(images.held_out_y == label).nonzero()[: len(images.y) // 2, 0] for label in (0, 1)])
    elsewhere = Objective(objective.network, images.held_out_y[rows], objective.weight_decay)
    other_data = solve_affine(elsewhere, images.held_out[rows][None]).theta[0]
    return Record(
        **flat(image_null(images)),
        other_seed_sum=outer_energy(theta_star, other_seed).item(),
        other_data_sum=outer_energy(theta_star, other_data).item(),
    )
