"""The way of short steps: how far the distance has fallen while the images still look like their starts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.bilevel_common import BOX, image_null, start_of
from companion.chapters.bilevel_hidden.experiment import (
    PAPER_WIDTH,
    Sizes,
    _drawn,
    _images,
    _network_name,
    _weights,
    train_unit,
)
from companion.store.record import Record
from recon.attacks.bilevel_span import SpanAttack, SpanWeights
from recon.attacks.reconstruct import reconstruct
from recon.images.bundle import Bundle
from recon.nets.mlp import one_hidden
from recon.optim.descent import HeavyBall
from recon.optim.lbfgs import LBFGSSettings
from recon.optim.subspace import Subspace, reduced
from recon.optim.tree import State
from recon.scoring.matching import nearest
from recon.scoring.metrics import ncc


class Metrics(Record):
    """`bilevel-hidden-path`. relative_step: longest step, of ‖x‖ · nulls: ‖θ* − θ‖² of another seed, of θ = 0; the
    nearest training image of held-out ones · paths: inner start -> start of the images.

    paths: first_sum: ‖θ* − θ(x)‖² at the start · alike: the last step at which the images' mean NCC with their
    start is at least 0.9 · end: the last one.
    paths.alike: An attack on its way. step: outer ones taken · distance_sum: ‖θ* − θ(x)‖² there; settled_sum: after
    the inner solver has gone on, the images fixed · means over images: NCC with the start, L2 to the nearest
    training image · moved_relative: ‖x − x_init‖ / ‖x_init‖ of all together.
    """


@dataclass(frozen=True, kw_only=True)
class PathSizes:
    """relative_step: longest outer step, of the images' norm."""

    n_train: int = 40
    width: int = 64
    steps: int = 150
    relative_step: float = 0.01
    weight_decay: float = 1e-3
    train_iterations: int = 1000
    n_held_out: int = 200


SIZES = {
    "smoke": PathSizes(
        n_train=6, width=8, steps=4, relative_step=0.1, weight_decay=0.1, train_iterations=150, n_held_out=50
    ),
    "laptop": PathSizes(),
    "paper": PathSizes(width=PAPER_WIDTH, n_held_out=1000),
}


PATH_STARTS, PATH_INNER = ("truth", "partition"), ("uniform", "other_seed")


ALIKE = 0.9  # NCC with the start, mean over images, down to which they "resemble" it


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
    whole = Sizes(
        n_train=sizes.n_train,
        width=sizes.width,
        steps=sizes.steps,
        seeds=1,
        weight_decays=(sizes.weight_decay,),
        null_widths=(),
        n_held_out=sizes.n_held_out,
        train_iterations=sizes.train_iterations,
    )
    images = _images(whole, context)
    names = [_network_name(sizes.weight_decay, sizes.width, seed) for seed in (0, 1)]
    trained = context.sweep(partial(train_unit, whole, context), names, "networks")
    star, other = (_weights(trained, name, sizes.width, images.train.shape[1]) for name in names)
    rows = [f"{inner} {start}" for inner in PATH_INNER for start in PATH_STARTS]
    found = context.sweep(partial(path_unit, sizes, whole, star, context), rows, "rows")
    by_inner = {
        inner: {start: _path(found[f"{inner} {start}"], images) for start in PATH_STARTS} for inner in PATH_INNER
    }
    metrics = Metrics(
        n_train=len(images.train),
        width=sizes.width,
        n_params=one_hidden(sizes.width, images.train.shape[1]).n_params,
        weight_decay=sizes.weight_decay,
        relative_step=sizes.relative_step,
        other_seed_sum=star.distance(other),
        zero_sum=star.theta.square().sum().item(),
        held_out_nn_l2=image_null(images).held_out_nn_l2,
        paths=by_inner,
    )
    arrays: Tensors = {"x_train": images.train, "x_partition": images.init, "x_held_out": images.held_out[:40]}
    for name, row in found.items():
        inner, start = name.split(" ")
        arrays[f"alike_{start}_from_{inner}"], arrays[f"x_hat_{start}_from_{inner}"] = row["alike"], row["x_hat"]
        arrays[f"trace_{start}_from_{inner}"] = row["trace"]
    return Outcome(metrics, arrays)


def path_unit(sizes: PathSizes, whole: Sizes, star: SpanWeights, context: Context, name: str) -> Tensors:
    """One way: an inner start, a start of the images.  No momentum, no step longer than `relative_step` of ‖x‖."""
    inner, start = name.split(" ")
    images = _images(whole, context)
    scheme, stream, seed = ("uniform", "hidden.inner_start", 0)
    if inner == "other_seed":
        scheme, stream, seed = ("default", "hidden.weights", 1)
    drawn = _drawn(star.network, scheme, context, stream, seed)
    attack = SpanAttack(
        star,
        images.y,
        sizes.weight_decay,
        lambda basis: reduced(star.network, drawn, Subspace(basis))[1],
        first=LBFGSSettings(max_iter=whole.inner_first, history=20),
        next=LBFGSSettings(max_iter=whole.inner_next, halvings=20),
        descent=HeavyBall(whole.step_size, momentum=0.0, box=BOX, max_relative_step=sizes.relative_step),
    )
    x_init = start_of(images, start, context.stream("hidden.start"))
    checkpoint = context.checkpoints.inside("outer").at(name)
    found = reconstruct(OnTheWay(attack, sizes.steps), x_init[None], sizes.steps, checkpoint=checkpoint)
    alike = found.accepted["alike"][0]
    theta, basis = (found.accepted[each][0] for each in ("theta", "basis"))
    ends = {"x_init": x_init, "x_hat": found.x_hat[0].clone(), "alike": alike.clone(), "trace": found.accepted["trace"]}
    for where, x in (("alike", alike), ("x_hat", found.x_hat[0])):
        at = attack.basis_of(x)
        settled = attack.solved(
            x,
            at,
            SpanWeights(star.network, theta, basis).onto(at),
            LBFGSSettings(tol=1e-6, max_iter=whole.settle, history=20),
        )
        ends[f"settled_{where}"] = torch.tensor(SpanWeights(star.network, settled.theta[0], at).distance(star))
    return ends


def _path(row: Tensors, images: Bundle) -> Record:
    trace = row["trace"]
    last = int((trace[:, 1] >= ALIKE).nonzero().max())  # there is one: the first step evaluates the start itself

    def at(step: int, x: Tensor, settled: Tensor) -> Record:
        return Record(
            step=step + 1,
            distance_sum=trace[step, 0].item(),
            settled_sum=settled.item(),
            ncc_with_start=trace[step, 1].item(),
            moved_relative=((x - row["x_init"]).norm() / row["x_init"].norm()).item(),
            nn_train_l2=nearest(x, images.train, "l2").score.mean().item(),
        )

    return Record(
        first_sum=trace[0, 0].item(),
        alike=at(last, row["alike"], row["settled_alike"]),
        end=at(len(trace) - 1, row["x_hat"], row["settled_x_hat"]),
    )
