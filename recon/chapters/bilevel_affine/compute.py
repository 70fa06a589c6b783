"""Chapter 3: bilevel reconstruction, eq. (2), of the affine net, eq. (8), from the starts (a) random, (b) truth,
(c) partition."""

from __future__ import annotations

import torch
from torch import Tensor

from recon.attacks.bilevel import AffineInner, BilevelAttack, Woodbury, outer_energy
from recon.attacks.reconstruct import reconstruct
from recon.chapters.base import Context, Outcome, Tensors
from recon.chapters.bilevel_affine.metrics import Metrics, Null
from recon.chapters.bilevel_affine.sizes import Sizes
from recon.chapters.bilevel_common import BOX, STARTS, image_null, measured, start_of
from recon.images.bundle import Bundle
from recon.nets.mlp import affine
from recon.optim.descent import HeavyBall
from recon.released import Weights
from recon.training.inner import Objective, solve_affine


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """All three starts as one batch, float64, exact inner solves and exact inverse Hessians."""
    data = context.dataset(sizes.n_train, sizes.n_held_out)
    images = Bundle.of(data, context.device, torch.float64, centred=False)
    objective = Objective(affine(images.train.shape[1]), images.y, sizes.weight_decay)
    theta_star = solve_affine(objective, images.train[None]).theta[0]
    x_init = torch.stack([start_of(images, name, context.stream("affine.start")) for name in STARTS])
    attack = BilevelAttack(
        Weights(objective.network, theta_star, y=images.y, weight_decay=sizes.weight_decay),
        AffineInner(),
        Woodbury(),
        HeavyBall(sizes.step_size, sizes.momentum, tol=sizes.tol, box=BOX),
    )
    found = reconstruct(attack, x_init, sizes.steps, sizes.tol, context.checkpoints.at("affine"))
    reached = {
        name: measured(found.x_hat[row], x_init[row], images, found.energy[row].item(), theta_star)
        for row, name in enumerate(STARTS)
    }
    metrics = Metrics(
        n_train=len(data.train),
        steps=found.steps,
        weight_decay=sizes.weight_decay,
        **reached,
        null=_null(objective, theta_star, images, context),
    )
    arrays: Tensors = {f"x_hat_{name}": found.x_hat[row].float() for row, name in enumerate(STARTS)}
    arrays |= {
        "x_init_random": x_init[0].float(),
        "x_train": images.train.float(),
        "x_partition": images.init.float(),
        "x_held_out": images.held_out[:40].float(),
        "energy": found.history,
        "train_index": data.train.index,
        "partition_index": data.init.index,
        "theta_star": theta_star,
    }
    return Outcome(metrics, arrays)


def _null(objective: Objective, theta_star: Tensor, images: Bundle, context: Context) -> Null:
    """The minimiser is unique: another seed for θ⁰ gives the same θ.  Measured, not assumed: the logits of a random
    θ⁰."""
    logits = torch.randn(1, len(images.y), generator=context.stream("affine.other_labels"), dtype=torch.float64)
    other_seed = solve_affine(objective, images.train[None], logits=logits.to(context.device)).theta[0]
    elsewhere = Objective(objective.network, images.held_out_y, objective.weight_decay)
    other_data = solve_affine(elsewhere, images.held_out[None]).theta[0]
    return Null(
        **vars(image_null(images)),
        other_seed_sum=outer_energy(theta_star, other_seed).item(),
        other_data_sum=outer_energy(theta_star, other_data).item(),
    )
