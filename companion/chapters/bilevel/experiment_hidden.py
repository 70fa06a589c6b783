"""Chapter 3: bilevel reconstruction of the one-hidden-layer net, eq. (9), how far networks are
apart unattacked, and the way of short steps: how far the distance has fallen while the images still
look like their starts.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.bilevel.common import (
    DESCENT,
    STARTS,
    converged,
    held_out_distance,
    images_of,
    kept_arrays,
    measure,
    slopes,
    start_of,
)
from companion.store.record import Record
from recon.attacks.bilevel_span import SpanAttack, SpanWeights
from recon.attacks.reconstruct import Reconstruction, reconstruct
from recon.images.bundle import Bundle
from recon.nets.mlp import MLP, one_hidden
from recon.optim.descent import HeavyBall
from recon.optim.lbfgs import LBFGSSettings, lbfgs
from recon.optim.subspace import Subspace, reduced
from recon.optim.tree import State
from recon.scoring.metrics import l2, ncc
from recon.training.one_hidden_layer import HiddenObjective

PAPER_WIDTH = 6144
TOL = 1e-8  # of the energy, at which an attack is done
INNER_STARTS = ("uniform", "other_seed", "theta_star")
PATH_STARTS = ("truth", "partition")
PATH_INNER = ("uniform", "other_seed")
ALIKE = 0.9  # NCC with the start, mean over images, down to which they "resemble" it


class Metrics(Record):
    """Attacks by inner start and start of the images, and networks that nobody attacked.

    inner_start: Where the inner problem begins: θ⁰ ~ U(0, 1) as in the paper, at PyTorch's default
    initialisation from another seed (without the start truth), or at the released θ*.
    inner_start.uniform.random: How a start of the images ended. settled_sum: ‖θ* − θ‖² after the
    inner solver has gone on from there, the images fixed · nn_train_l2, own_start_is_nearest: see
    `measure` · converged: 1 where the energy fell by less than a hundredth over the last quarter of
    the steps or reached the tolerance, else 0. null: other_seed: ‖θ − θ'‖² of
    two networks that share their data only, as a sum, as a mean per parameter, and as a sum after
    the best renumbering of hidden units · zero_sum: ‖θ*‖² · held_out_nn_l2: of held-out images to
    their nearest training image. slope: of the images from noise, θ⁰ ~ U(0, 1), see `slopes`.
    """


class PathMetrics(Record):
    """`bilevel-hidden-path`. relative_step: longest step, of ‖x‖ · held_out_nn_l2: of held-out
    images to their nearest training image · paths: inner start -> start of the images.

    paths: first_sum: ‖θ* − θ(x)‖² at the start · alike: the last step at which the images' mean NCC
    with their start is at least 0.9 · end: the last one. paths.alike: An attack on its way. step:
    outer ones taken · distance_sum: ‖θ* − θ(x)‖² there · means over images: NCC with the start, L2
    to the nearest training image · settled_sum (alike only): the distance after the inner solver
    has gone on, the images fixed.
    """


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """
    Attributes:
        width: 6144 in the paper.
        steps: outer ones.
        inner_first, settle: L-BFGS iterations before and after the outer loop.
        train_iterations: likewise for θ*.
    """

    n_train: int
    width: int
    steps: int
    inner_first: int = 1000
    settle: int = 300
    train_iterations: int = 1000
    weight_decay: float = 1e-3
    n_held_out: int = 200


SIZES = {
    "smoke": Sizes(
        n_train=10,
        width=16,
        steps=10,
        inner_first=80,
        settle=30,
        train_iterations=150,
        n_held_out=50,
    ),
    "laptop": Sizes(n_train=40, width=64, steps=40),
    "paper": Sizes(n_train=40, width=PAPER_WIDTH, steps=100, n_held_out=1000),
}


@dataclass(frozen=True, kw_only=True)
class PathSizes(Sizes):
    """
    Attributes:
        relative_step: longest outer step, of the images' norm.
    """

    relative_step: float = 0.01


PATH_SIZES = {
    "smoke": PathSizes(
        n_train=6,
        width=8,
        steps=4,
        relative_step=0.1,
        weight_decay=0.1,
        train_iterations=150,
        n_held_out=50,
    ),
    "laptop": PathSizes(n_train=40, width=64, steps=100),
    "paper": PathSizes(n_train=40, width=PAPER_WIDTH, steps=150, n_held_out=1000),
}


@dataclass(frozen=True)
class OnTheWay:
    """An attack whose "accepted" also holds x_init (1, n, d), `alike`, the last x (1, n, d)
    accepted whose mean NCC with x_init is ≥ ALIKE, and a trace (steps, 2) of energy and that NCC;
    what an onlooker sees, not the attack.
    """

    attack: SpanAttack
    steps: int

    def init(self, x_init: Tensor) -> State:
        state = self.attack.init(x_init)
        trace = x_init.new_full((self.steps, 2), torch.nan)
        notes = {"x_init": x_init.clone(), "alike": x_init.clone(), "trace": trace}
        return {**state, "accepted": {**state["accepted"], **notes}}

    def step(self, state: State) -> State:
        before = state["accepted"]
        after = self.attack.step(state)
        x = after["accepted"]["x"]
        energy = after["accepted"]["energy"]
        likeness = ncc(x[0], before["x_init"][0]).diagonal().mean()
        trace = before["trace"].clone()
        trace[int((~torch.isnan(trace[:, 0])).sum())] = torch.stack([energy[0], likeness])
        alike = x.clone() if likeness >= ALIKE else before["alike"]
        notes = {"x_init": before["x_init"], "alike": alike, "trace": trace}
        return {**after, "accepted": {**after["accepted"], **notes}}


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Every row by itself and stored at once."""
    images = images_of(sizes, context, torch.float32)
    pairs = [*product(INNER_STARTS, STARTS)]
    pairs.remove(("other_seed", "truth"))
    rows = [f"{inner} {start} 0" for inner, start in pairs]
    first, second = networks(sizes, context, images.dim, 2)
    ends = context.sweep(partial(row_unit, sizes, context, first), rows, "rows")
    inner_start = {inner: Record() for inner in INNER_STARTS}
    arrays = kept_arrays(images)
    for (inner, start), run in zip(pairs, ends.values(), strict=True):
        inner_start[inner][start] = summary(run, images)
        arrays[f"x_hat_{start}" + ("" if inner == "uniform" else f"_from_{inner}")] = run["x_hat"]
    apart = first.distance(second)
    n_params = first.network.n_params
    null = Record(
        held_out_nn_l2=held_out_distance(images),
        other_seed_sum=apart,
        other_seed_mean=apart / n_params,
        other_seed_aligned_sum=aligned_distance(first.small, first.theta, second.theta),
        zero_sum=first.theta.square().sum().item(),
    )
    metrics = Metrics(
        n_train=len(images),
        n_params=n_params,
        inner_start=inner_start,
        null=null,
        slope=slopes(arrays["x_hat_random"], images.held_out, images.shape),
    )
    return Outcome(metrics, arrays)


def compute_path(sizes: PathSizes, context: Context) -> Outcome[PathMetrics]:
    """Every start of the images and of the inner problem; every way stored when it has ended."""
    images = images_of(sizes, context, torch.float32)
    [star] = networks(sizes, context, images.dim, 1)
    rows = [f"{inner} {start} 0" for inner, start in product(PATH_INNER, PATH_STARTS)]
    ends = context.sweep(partial(path_unit, sizes, context, star), rows, "rows")
    paths = {inner: Record() for inner in PATH_INNER}
    arrays = kept_arrays(images)
    for name, row in ends.items():
        inner, start, _ = name.split(" ")
        paths[inner][start] = _path(row, images)
        arrays |= {f"{key}_{start}_from_{inner}": row[key] for key in ("alike", "x_hat", "trace")}
    metrics = PathMetrics(
        n_train=len(images),
        relative_step=sizes.relative_step,
        held_out_nn_l2=held_out_distance(images),
        paths=paths,
    )
    return Outcome(metrics, arrays)


def networks(sizes: Sizes, context: Context, dim: int, seeds: int) -> list[SpanWeights]:
    """On `dim` inputs, trained on the same images from this many seeds."""
    network = one_hidden(sizes.width, dim)
    names = [*map(str, range(seeds))]
    trained = context.sweep(partial(train_unit, sizes, context), names, "networks")
    return [SpanWeights(network, net["theta"], net["basis"]) for net in trained.values()]


def train_unit(sizes: Sizes, context: Context, seed: str) -> Tensors:
    """One network, from PyTorch's default start, in the span of its images: where the minimiser
    lies.
    """
    images = images_of(sizes, context, torch.float32)
    network = one_hidden(sizes.width, images.dim)
    space = Subspace.spanned_by(images.train)
    theta_0 = _start_in(space, network, context, "hidden.weights", int(seed))
    coordinates = images.train @ space.basis.mT
    objective = HiddenObjective(
        network.with_inputs(len(space.basis)), coordinates, images.y, sizes.weight_decay
    )
    settings = LBFGSSettings(1e-6, sizes.train_iterations, history=20, label="training")
    return {"theta": lbfgs(objective.value_and_grad, theta_0, settings).theta, "basis": space.basis}


def _start_in(
    space: Subspace, network: MLP, context: Context, stream: str, seed: int, scheme: str = "default"
) -> Tensor:
    """Initial weights in coordinates of the span, (p',)."""
    theta = network.flatten(network.init(context.stream(stream, seed), scheme))
    return reduced(network, theta.to(context.device), space)[1]


def settled_distance(attack: SpanAttack, x: Tensor, now: SpanWeights, sizes: Sizes) -> Tensor:
    """‖θ* − θ‖² after the inner solver has gone on from θ `now`, the images x (n, d) fixed."""
    settings = LBFGSSettings(tol=1e-6, max_iter=sizes.settle, history=20)
    settled = attack.solve(x, now.basis, now.theta, settings)
    return torch.tensor(SpanWeights(now.network, settled.theta, now.basis).distance(attack.star))


def row_unit(sizes: Sizes, context: Context, star: SpanWeights, name: str) -> Tensors:
    """One attack: an inner start, a start of the images."""
    attack, x_init, result, now = _attack(sizes, context, star, name, replace(DESCENT, tol=TOL))
    return {
        "x_init": x_init,
        "x_hat": result.x_hat[0],
        "history": result.history[:, 0],
        "settled": settled_distance(attack, result.x_hat[0], now, sizes),
    }


def path_unit(sizes: PathSizes, context: Context, star: SpanWeights, name: str) -> Tensors:
    """The same with an onlooker, without momentum, no step longer than `relative_step` of ‖x‖."""
    descent = replace(DESCENT, momentum=0.0, max_relative_step=sizes.relative_step)
    attack, _, result, now = _attack(
        sizes, context, star, name, descent, partial(OnTheWay, steps=sizes.steps)
    )
    alike = result.accepted["alike"][0]
    at = attack.basis_of(alike)
    there = SpanWeights(now.network, now.project(at), at)
    return {
        "x_hat": result.x_hat[0].clone(),
        "alike": alike.clone(),
        "trace": result.accepted["trace"],
        "settled": settled_distance(attack, alike, there, sizes),
    }


def _attack(
    sizes: Sizes,
    context: Context,
    star: SpanWeights,
    name: str,
    descent: HeavyBall,
    observe: Callable[[SpanAttack], SpanAttack | OnTheWay] = lambda attack: attack,
) -> tuple[SpanAttack, Tensor, Reconstruction, SpanWeights]:
    """The attack "INNER START 0", with the inner problem started at one of `INNER_STARTS`, where
    its images start, what it found, and the network that it ended with.
    """
    inner, start, _ = name.split(" ")
    images = images_of(sizes, context, torch.float32)
    x_init = start_of(images, start, context.stream("hidden.start"))

    def theta_0(basis: Tensor) -> Tensor:
        if inner == "theta_star":
            return star.project(basis)
        here = partial(_start_in, Subspace(basis), star.network, context)
        if inner == "uniform":
            return here("hidden.inner_start", 0, "uniform")
        return here("hidden.weights", 1)

    first = LBFGSSettings(max_iter=sizes.inner_first, history=20)
    attack = SpanAttack(star, images.y, sizes.weight_decay, theta_0, first=first, descent=descent)
    checkpoint = context.checkpoints.inside("outer").at(name)
    result = reconstruct(observe(attack), x_init[None], sizes.steps, descent.tol, checkpoint)
    theta, basis = (result.accepted[part][0] for part in ("theta", "basis"))
    return attack, x_init, result, SpanWeights(star.network, theta, basis)


def summary(row: Tensors, images: Bundle) -> Record:
    """What a row of `row_unit` says."""
    end = measure(row["x_hat"], row["x_init"], images)
    return Record(
        end.only("nn_train_l2", "own_start_is_nearest"),
        settled_sum=row["settled"].item(),
        converged=float(converged(row["history"], TOL)),
    )


def aligned_distance(network: MLP, theta: Tensor, theta_star: Tensor) -> float:
    """‖θ* − Pθ‖² minimised over permutations P of the hidden units: the same function has width!
    parameter vectors.
    """

    def units(vector: Tensor) -> Tensor:
        params = network.unflatten(vector)
        return torch.cat([params["w1"], params["b1"][:, None], params["w2"].mT], dim=1).double()

    a = units(theta)
    b = units(theta_star)
    cost = torch.cdist(a, b).square().cpu()
    rows, columns = linear_sum_assignment(cost.numpy())
    bias = (theta[-1] - theta_star[-1]).square()
    return (cost[rows, columns].sum() + bias.cpu()).item()


def _path(row: Tensors, images: Bundle) -> Record:
    trace = row["trace"]
    # there is one: the first step evaluates the start itself
    last = int((trace[:, 1] >= ALIKE).nonzero().max())

    def at(step: int, x: Tensor) -> Record:
        return Record(
            step=step + 1,
            distance_sum=trace[step, 0].item(),
            ncc_with_start=trace[step, 1].item(),
            nn_train_l2=l2(x, images.train).amin(1).mean().item(),
        )

    return Record(
        first_sum=trace[0, 0].item(),
        alike=at(last, row["alike"]) | {"settled_sum": row["settled"].item()},
        end=at(len(trace) - 1, row["x_hat"]),
    )
