"""Chapter 3: a reading of Table 1's second column, in which the released and the inner training
share θ⁰ ~ U(0, 1), and nothing decays.

What training adds to such a start is small beside it, so that an inner problem with a decay towards
θ⁰ that is hardly there has the solution to which descent from θ⁰ without any decay comes near.
"""

from dataclasses import dataclass
from functools import partial

import torch

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.bilevel.common import (
    DESCENT,
    STARTS,
    converged,
    held_out_distance,
    images_of,
    kept_arrays,
    measure,
    start_of,
)
from companion.chapters.bilevel.experiment_hidden import PAPER_WIDTH
from companion.store.record import Record
from recon.attacks.bilevel_span import SpanAttack, SpanWeights
from recon.attacks.reconstruct import reconstruct
from recon.nets.mlp import one_hidden
from recon.optim.lbfgs import LBFGSSettings


class Metrics(Record):
    """accuracy: of the released network on its training images · added_sum: ‖θ* − θ⁰‖² · drawn_sum:
    ‖θ⁰ − θ⁰'‖² of two draws · held_out_nn_l2: of held-out images to their nearest training image ·
    starts: by start of the images.

    starts.random: first_sum: ‖θ* − θ(x)‖² before any step on the images, last_sum after the last ·
    converged: see `companion.chapters.bilevel.common.converged` · the rest: see `measure`
    there.
    """


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """
    Attributes:
        width: 6144 in the paper.
        steps: outer ones.
        inner_first: L-BFGS iterations before the outer loop.
        decay: towards θ⁰, so small that it stands for none.
    """

    n_train: int = 40
    width: int = PAPER_WIDTH
    steps: int = 100
    inner_first: int = 1000
    decay: float = 1e-6
    n_held_out: int = 1000


SIZES = {
    "smoke": Sizes(n_train=6, width=16, steps=5, inner_first=200, decay=1e-2, n_held_out=20),
    "laptop": Sizes(width=512, steps=60, n_held_out=200),
    "paper": Sizes(),
}


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """The released network, and an attack from each start, stored at once."""
    images = images_of(sizes, context, torch.float64)
    star = _attack(sizes, context)
    added = context.sweep(partial(_released, sizes, context), ["network"], "network")["network"]
    ends = context.sweep(partial(_attack_from, sizes, context, added), list(STARTS), "starts")
    network = star.star.network
    generator = context.stream("hidden.inner_start", 1)
    other = network.flatten(network.init(generator, "uniform", torch.float64))
    starts = Record()
    x_hat = Tensors()
    for name, run in ends.items():
        starts[name] = Record(
            first_sum=run["history"][0].item(),
            last_sum=run["energy"].item(),
            converged=converged(run["history"], 0.0),
            **measure(run["x_hat"], run["x_init"], images),
        )
        x_hat[f"x_hat_{name}"] = run["x_hat"].float()
    metrics = Metrics(
        n_train=len(images),
        accuracy=added["accuracy"].item(),
        added_sum=added["theta"].square().sum().item(),
        drawn_sum=(network.flatten(star.start or {}).cpu() - other).square().sum().item(),
        held_out_nn_l2=held_out_distance(images),
        starts=starts,
    )
    return Outcome(metrics, {**kept_arrays(images), **x_hat})


def _attack(sizes: Sizes, context: Context, added: Tensors | None = None) -> SpanAttack:
    """On what training added; on nothing, which serves to train."""
    images = images_of(sizes, context, torch.float64)
    network = one_hidden(sizes.width, images.dim)
    basis = SpanAttack.basis_of(images.train)
    theta_0 = network.init(context.stream("hidden.inner_start"), "uniform", torch.float64)
    nothing = images.train.new_zeros(network.with_inputs(len(basis)).n_params)
    return SpanAttack(
        SpanWeights(network, nothing if added is None else added["theta"], basis),
        *(images.y, sizes.decay, lambda _: nothing),
        first=LBFGSSettings(max_iter=sizes.inner_first, history=20),
        descent=DESCENT,
        start={name: weights.to(images.train) for name, weights in theta_0.items()},
    )


def _released(sizes: Sizes, context: Context, _: str) -> Tensors:
    """What training adds to θ⁰, in the span of the training images."""
    images = images_of(sizes, context, torch.float64)
    attack = _attack(sizes, context)
    basis = attack.star.basis
    theta = attack.solve(images.train, basis, attack.theta_0(basis), attack.first).theta
    right = (attack.objective(images.train, basis).at(theta).logits > 0) == (images.y > 0)
    return {"theta": theta, "accuracy": right.double().mean()}


def _attack_from(sizes: Sizes, context: Context, added: Tensors, start: str) -> Tensors:
    x_init = start_of(
        images_of(sizes, context, torch.float64), start, context.stream("hidden.start")
    )
    checkpoint = context.checkpoints.inside("outer").at(start)
    result = reconstruct(
        _attack(sizes, context, added), x_init[None], sizes.steps, checkpoint=checkpoint
    )
    return {
        "x_init": x_init,
        "x_hat": result.x_hat[0],
        "energy": result.energy,
        "history": result.history[:, 0],
    }
