"""The way of short steps: how far the distance has fallen while the images still look like their starts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.bilevel_common import BOX, held_out_distance, start_of
from companion.chapters.bilevel_hidden.experiment import (
    PAPER_WIDTH,
    AttackSizes,
    attack_on,
    images_of,
    networks,
    settled_distance,
)
from companion.store.record import Record
from recon.attacks.bilevel_span import SpanAttack, SpanWeights
from recon.attacks.reconstruct import reconstruct
from recon.images.bundle import Bundle
from recon.optim.descent import HeavyBall
from recon.optim.tree import State
from recon.scoring.matching import nearest
from recon.scoring.metrics import ncc

PATH_STARTS, PATH_INNER = ("truth", "partition"), ("uniform", "other_seed")
ALIKE = 0.9  # NCC with the start, mean over images, down to which they "resemble" it


class Metrics(Record):
    """`bilevel-hidden-path`. relative_step: longest step, of ‖x‖ · held_out_nn_l2: of held-out images to their nearest
    training image · paths: inner start -> start of the images.

    paths: first_sum: ‖θ* − θ(x)‖² at the start · alike: the last step at which the images' mean NCC with their
    start is at least 0.9 · end: the last one.
    paths.alike: An attack on its way. step: outer ones taken · distance_sum: ‖θ* − θ(x)‖² there · means over images:
    NCC with the start, L2 to the nearest training image · settled_sum (alike only): the distance after the inner solver
    has gone on, the images fixed.
    """


@dataclass(frozen=True, kw_only=True)
class PathSizes(AttackSizes):
    """relative_step: longest outer step, of the images' norm."""

    n_train: int = 40
    width: int = 64
    steps: int = 150
    relative_step: float = 0.01


SIZES = {
    "smoke": PathSizes(
        n_train=6, width=8, steps=4, relative_step=0.1, weight_decay=0.1, train_iterations=150, n_held_out=50
    ),
    "laptop": PathSizes(),
    "paper": PathSizes(width=PAPER_WIDTH, n_held_out=1000),
}


@dataclass(frozen=True)
class OnTheWay:
    """An attack whose "accepted" also holds x_init (1, n, d), `alike`, the last x (1, n, d) accepted whose mean NCC
    with x_init is ≥ ALIKE, and a trace (steps, 2) of energy and that NCC; what an onlooker sees, not the attack."""

    attack: SpanAttack
    steps: int

    def init(self, x_init: Tensor) -> State:
        state = self.attack.init(x_init)
        trace = x_init.new_full((self.steps, 2), torch.nan)
        seen = {"x_init": x_init.clone(), "alike": x_init.clone(), "trace": trace}
        return {**state, "accepted": {**state["accepted"], **seen}}

    def step(self, state: State) -> State:
        seen = {name: state["accepted"][name] for name in ("x_init", "alike", "trace")}
        own = {name: value for name, value in state["accepted"].items() if name not in seen}
        after = self.attack.step({**state, "accepted": own})
        x, energy = after["accepted"]["x"], after["accepted"]["energy"]
        likeness = ncc(x[0], seen["x_init"][0]).diagonal().mean()
        trace = seen["trace"].clone()
        trace[int((~torch.isnan(trace[:, 0])).sum())] = torch.stack([energy[0], likeness])
        alike = x.clone() if likeness >= ALIKE else seen["alike"]
        return {**after, "accepted": {**after["accepted"], **seen, "alike": alike, "trace": trace}}


def compute(sizes: PathSizes, context: Context) -> Outcome[Metrics]:
    """Every start of the images and of the inner problem; every way stored when it has ended."""
    images = images_of(sizes, context)
    [star] = networks(sizes, context, images.train.shape[1], 1)
    rows = [f"{inner} {start}" for inner in PATH_INNER for start in PATH_STARTS]
    found = context.sweep(partial(path_unit, sizes, star, context), rows, "rows")
    metrics = Metrics(
        n_train=len(images.train),
        relative_step=sizes.relative_step,
        held_out_nn_l2=held_out_distance(images),
        paths={
            inner: {start: _path(found[f"{inner} {start}"], images) for start in PATH_STARTS} for inner in PATH_INNER
        },
    )
    arrays: Tensors = {"x_train": images.train, "x_partition": images.init, "x_held_out": images.held_out[:40]}
    for name, row in found.items():
        inner, start = name.split(" ")
        arrays[f"alike_{start}_from_{inner}"], arrays[f"x_hat_{start}_from_{inner}"] = row["alike"], row["x_hat"]
        arrays[f"trace_{start}_from_{inner}"] = row["trace"]
    return Outcome(metrics, arrays)


def path_unit(sizes: PathSizes, star: SpanWeights, context: Context, name: str) -> Tensors:
    """One way: an inner start, a start of the images.  No momentum, no step longer than `relative_step` of ‖x‖."""
    inner, start = name.split(" ")
    images = images_of(sizes, context)
    descent = HeavyBall(sizes.step_size, momentum=0.0, box=BOX, max_relative_step=sizes.relative_step)
    attack = attack_on(star, inner, 0, images.y, descent, sizes, context)
    x_init = start_of(images, start, context.stream("hidden.start"))
    checkpoint = context.checkpoints.inside("outer").at(name)
    found = reconstruct(OnTheWay(attack, sizes.steps), x_init[None], sizes.steps, checkpoint=checkpoint)
    alike = found.accepted["alike"][0]
    theta, basis = (found.accepted[each][0] for each in ("theta", "basis"))
    at = attack.basis_of(alike)
    now = SpanWeights(star.network, SpanWeights(star.network, theta, basis).onto(at), at)
    return {
        "x_hat": found.x_hat[0].clone(),
        "alike": alike.clone(),
        "trace": found.accepted["trace"],
        "settled": settled_distance(attack, alike, now, sizes),
    }


def _path(row: Tensors, images: Bundle) -> Record:
    trace = row["trace"]
    last = int((trace[:, 1] >= ALIKE).nonzero().max())  # there is one: the first step evaluates the start itself

    def at(step: int, x: Tensor) -> Record:
        return Record(
            step=step + 1,
            distance_sum=trace[step, 0].item(),
            ncc_with_start=trace[step, 1].item(),
            nn_train_l2=nearest(x, images.train, "l2").score.mean().item(),
        )

    return Record(
        first_sum=trace[0, 0].item(),
        alike=at(last, row["alike"]).but(settled_sum=row["settled"].item()),
        end=at(len(trace) - 1, row["x_hat"]),
    )
