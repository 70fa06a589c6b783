"""Chapter 3: bilevel reconstruction, eq. (2), of the affine net, eq. (8), from the starts (a) random, (b) truth,
(c) partition: by our descent, by the paper's, and with inner problems that are stopped early."""

from __future__ import annotations

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.bilevel_affine.inexact import descent_steps, inexact_solves
from companion.chapters.bilevel_affine.metrics import Ended, Metrics, Null, Starts, Stopped
from companion.chapters.bilevel_affine.sizes import Sizes
from companion.chapters.bilevel_common import BOX, PAPER_AFFINE, STARTS, image_null, measured, start_of
from recon.attacks.bilevel import AffineInner, BilevelAttack, Woodbury, outer_energy
from recon.attacks.reconstruct import Reconstruction, reconstruct
from recon.images.bundle import Bundle
from recon.nets.mlp import affine
from recon.optim.descent import HeavyBall
from recon.optim.subspace import Subspace, reduced
from recon.released import Weights
from recon.training.inner_problem import Objective, solve_affine


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
    ends = Starts(steps=found.steps, **_ended(found, found.x_hat, x_init, images, sizes, theta_star))
    plain_ends = Starts(steps=plain[0].steps, **_ended(plain[0], plain[1], x_init, images, sizes, theta_star))
    theta_0 = _uniform(objective, context)
    metrics = Metrics(
        n_train=len(data.train),
        weight_decay=sizes.weight_decay,
        **vars(ends),
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
) -> dict[str, Ended]:
    """What is measured of each start."""
    ends = {}
    for row, name in enumerate(STARTS):
        energy, history = found.energy[row].item(), found.history[:, row]
        settled = history[-1] <= sizes.tol or history[-1] >= 0.99 * history[-1 - len(history) // 4]
        ends[name] = Ended(
            **vars(measured(x_hat[row], x_init[row], images, energy, theta_star)),
            converged=bool(settled) or energy <= PAPER_AFFINE[name],
            outside_box=((x_hat[row] < BOX[0]) | (x_hat[row] > BOX[1])).double().mean().item(),
        )
    return ends


def _uniform(objective: Objective, context: Context) -> Tensor:
    """The paper's θ⁰ ~ U(0, 1), (d + 1,), from the stream of the other chapter that has such a θ⁰."""
    network = objective.network
    drawn = network.init(context.stream("hidden.inner_start"), "uniform", torch.float64)
    return network.flatten(drawn).to(context.device)


def _stopped(objective: Objective, x_hat: Tensor, theta_0: Tensor, theta_star: Tensor, sizes: Sizes) -> list[Stopped]:
    """The same accuracies at all three."""
    by_start = [inexact_solves(objective, x_hat[row], theta_0, theta_star, sizes.stop_at) for row in range(len(STARTS))]
    truth = by_start[STARTS.index("truth")]
    return [
        Stopped(
            tol=tol,
            iterations=truth[k].iterations,
            **{name: by_start[row][k].distance for row, name in enumerate(STARTS)},
        )
        for k, tol in enumerate(sizes.stop_at)
    ]


def _null(objective: Objective, theta_star: Tensor, images: Bundle, context: Context) -> Null:
    """The minimiser is unique: another seed for θ⁰ gives the same θ.  Measured, not assumed: the logits of a random
    θ⁰.  Other data: as many held-out images, as many of each class."""
    logits = torch.randn(1, len(images.y), generator=context.stream("affine.other_labels"), dtype=torch.float64)
    other_seed = solve_affine(objective, images.train[None], logits=logits.to(context.device)).theta[0]
    rows = torch.cat([(images.held_out_y == label).nonzero()[: len(images.y) // 2, 0] for label in (0, 1)])
    elsewhere = Objective(objective.network, images.held_out_y[rows], objective.weight_decay)
    other_data = solve_affine(elsewhere, images.held_out[rows][None]).theta[0]
    return Null(
        **vars(image_null(images)),
        other_seed_sum=outer_energy(theta_star, other_seed).item(),
        other_data_sum=outer_energy(theta_star, other_data).item(),
    )
