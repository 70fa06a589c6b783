"""Chapter 3: bilevel reconstruction of the one-hidden-layer net, eq. (9), and how far networks are apart unattacked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.bilevel_common import BOX, STARTS, image_null, measured, start_of
from companion.chapters.tables import flat
from companion.store.record import Record
from recon.attacks.bilevel_span import SpanAttack, SpanWeights
from recon.attacks.reconstruct import reconstruct
from recon.images.bundle import Bundle
from recon.nets.mlp import MLP, one_hidden
from recon.optim.descent import HeavyBall
from recon.optim.lbfgs import LBFGSSettings, lbfgs, one_row
from recon.optim.subspace import Subspace, reduced
from recon.training.one_hidden_layer import HiddenObjective

WITH_SPREAD = ("distance_sum", "settled_sum", "moved_l2", "nn_train_l2")  # over seeds
INNER_STARTS = ("uniform", "other_seed", "theta_star")


class Metrics(Record):
    """At top level the first weight decay, with the inner start of the paper (uniform).

    The three starts of the images.
    random: Means over seeds of the weights, and standard deviations (0 for one seed).
    random: How one run ended, beside its images. settled_sum: ‖θ* − θ‖² after the inner solver has gone on from
    there, the images fixed · inner_grad_norm: ‖∇E‖ then · first_sum: ‖θ* − θ(x)‖² at the start of the images,
    before any outer step · steps: outer ones · converged: 1 where the energy fell by less than a hundredth over the
    last quarter of the steps or reached the tolerance, else 0.
    null_by_width: ‖θ − θ'‖² of two networks of one width that share their data only: the sum, and the mean per
    parameter.
    inner_start: Where the inner problem begins: θ⁰ ~ U(0, 1) as in the paper, at PyTorch's default initialisation
    from another seed, or at the released θ*.
    inner_start.uniform: The three starts of the images.
    inner_start.uniform.random: Means over seeds of the weights, and standard deviations (0 for one seed).
    inner_start.uniform.random: How one run ended, beside its images. settled_sum: ‖θ* − θ‖² after the inner solver
    has gone on from there, the images fixed · inner_grad_norm: ‖∇E‖ then · first_sum: ‖θ* − θ(x)‖² at the start of
    the images, before any outer step · steps: outer ones · converged: 1 where the energy fell by less than a
    hundredth over the last quarter of the steps or reached the tolerance, else 0.
    null: ‖θ − θ'‖² of networks that nobody attacked. other_seed: of two networks that share their data only, as a
    sum, as a mean per parameter, and as a sum after the best renumbering of hidden units (first weight decay only)
    · other_data_sum: to a network from the same seed, trained on as many held-out images · zero_sum: ‖θ*‖².
    weight_decays: All runs at one weight decay; train_grad_norm: ‖∇E‖ at θ*, the largest of all seeds ·
    train_energy: E there.
    weight_decays: Where the inner problem begins: θ⁰ ~ U(0, 1) as in the paper, at PyTorch's default initialisation
    from another seed, or at the released θ*.
    weight_decays.uniform: The three starts of the images.
    weight_decays.uniform.random: Means over seeds of the weights, and standard deviations (0 for one seed).
    weight_decays.uniform.random: How one run ended, beside its images. settled_sum: ‖θ* − θ‖² after the inner
    solver has gone on from there, the images fixed · inner_grad_norm: ‖∇E‖ then · first_sum: ‖θ* − θ(x)‖² at the
    start of the images, before any outer step · steps: outer ones · converged: 1 where the energy fell by less than
    a hundredth over the last quarter of the steps or reached the tolerance, else 0.
    """


PAPER_WIDTH = 6144


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """width: 6144 in the paper · steps: outer ones · seeds: of starts and weights, all on one set of images ·
    inner_first, inner_next, settle: L-BFGS iterations before, during and after the outer loop · train_iterations:
    likewise for θ* · max_relative_step: of the images, in one outer step · weight_decays: the first is reported at top
    level · null_widths: at which two seeds are compared."""

    n_train: int
    width: int
    steps: int
    seeds: int
    inner_first: int = 1000
    inner_next: int = 10
    settle: int = 300
    train_iterations: int = 1000
    step_size: float = 10.0
    momentum: float = 0.5
    max_relative_step: float = 0.1
    weight_decays: tuple[float, ...] = (1e-3, 1e-2)
    tol: float = 1e-8
    n_held_out: int = 200
    null_widths: tuple[int, ...] = (64, 256, 1024)


SIZES = {
    "smoke": Sizes(
        n_train=10,
        width=16,
        steps=10,
        seeds=1,
        inner_first=80,
        settle=30,
        train_iterations=150,
        weight_decays=(1e-3,),
        n_held_out=50,
        null_widths=(16,),
    ),
    "laptop": Sizes(n_train=40, width=64, steps=60, seeds=2, weight_decays=(1e-3,), null_widths=(64, 256)),
    "paper": Sizes(
        n_train=40, width=PAPER_WIDTH, steps=100, seeds=1, n_held_out=1000, null_widths=(64, 1024, PAPER_WIDTH)
    ),
}


INNER_STARTS = ("uniform", "other_seed", "theta_star")


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Every row by itself and stored at once; the first weight decay, with the inner start of the paper (uniform), is
    reported at top level."""
    images = _images(sizes, context)
    nets = _networks(sizes)
    rows = [
        _name(decay, inner, start, seed)
        for decay in sizes.weight_decays
        for inner in INNER_STARTS
        for start in STARTS
        for seed in range(sizes.seeds)
    ]
    trained = context.sweep(partial(train_unit, sizes, context), list(nets), "networks")
    found = context.sweep(partial(row_unit, sizes, context, trained), rows, "rows")
    null = _nulls(sizes, context, images, trained)
    by_decay = {decay: _at_decay(sizes, images, decay, trained, found, null[decay]) for decay in sizes.weight_decays}
    main = by_decay[sizes.weight_decays[0]]
    network = one_hidden(sizes.width, images.train.shape[1])
    metrics = Metrics(
        n_train=len(images.train),
        width=sizes.width,
        n_params=network.n_params,
        seeds=sizes.seeds,
        null_by_width={width: _null_at_width(sizes, images, trained, width) for width in sizes.null_widths},
        weight_decay=main.weight_decay,
        **main.uniform.only(*STARTS),
        inner_start=Record(**main.only(*INNER_STARTS)),
        null=main.null,
        weight_decays=by_decay,
    )
    return Outcome(metrics, _arrays(sizes, images, found))


def _images(sizes: Sizes, context: Context) -> Bundle:
    data = context.dataset(sizes.n_train, sizes.n_held_out)
    return Bundle.of(data, context.device, torch.float32, centred=False)


def _name(decay: float, inner: str, start: str, seed: int) -> str:
    return f"{decay} {inner} {start} {seed}"


def _arrays(sizes: Sizes, images: Bundle, found: dict[str, Tensors]) -> Tensors:
    """Images of the first weight decay, of the seed with the lowest energy: the attack's own choice."""
    arrays: Tensors = {
        "x_train": images.train,
        "x_partition": images.init,
        "x_held_out": images.held_out[:40],
        "train_index": images.train_index,
        "partition_index": images.init_index,
        "energy": torch.stack([_padded(each["history"], sizes.steps) for each in found.values()], dim=1),
    }
    for inner in INNER_STARTS:
        for start in STARTS:
            names = [_name(sizes.weight_decays[0], inner, start, seed) for seed in range(sizes.seeds)]
            best = found[min(names, key=lambda name: found[name]["energy"].item())]
            suffix = start if inner == "uniform" else f"{start}_from_{inner}"
            arrays[f"x_hat_{suffix}"], arrays[f"x_init_{suffix}"] = best["x_hat"], best["x_init"]
    return arrays


def _padded(history: Tensor, steps: int) -> Tensor:
    return torch.cat([history, history[-1:].expand(steps - len(history))])


# ------------------------------------------------------------------------------------------------- networks
def _networks(sizes: Sizes) -> dict[str, tuple[float, int, int, bool]]:
    """Name -> weight decay, width, seed, and whether it is trained on held-out images instead."""
    plan = [(decay, sizes.width, seed, False) for decay in sizes.weight_decays for seed in range(max(sizes.seeds, 2))]
    plan += [(decay, sizes.width, 0, True) for decay in sizes.weight_decays]
    plan += [(sizes.weight_decays[0], width, seed, False) for width in sizes.null_widths for seed in (0, 1)]
    return {_network_name(*each): each for each in plan}


def _network_name(decay: float, width: int, seed: int, elsewhere: bool = False) -> str:
    return f"{decay} width {width} seed {seed}" + (" held out" if elsewhere else "")


def train_unit(sizes: Sizes, context: Context, name: str) -> Tensors:
    """One network, from PyTorch's default start, in the span of its images: where the minimiser lies."""
    decay, width, seed, elsewhere = _networks(sizes)[name]
    images = _images(sizes, context)
    x, y = _other_data(images) if elsewhere else (images.train, images.y)
    network, basis = one_hidden(width, x.shape[1]), Subspace.spanned_by(x).basis
    theta_0 = reduced(network, _drawn(network, "default", context, "hidden.weights", seed), Subspace(basis))[1]
    objective = HiddenObjective(network.with_inputs(len(basis)), x @ basis.mT, y, decay)
    settings = LBFGSSettings(tol=1e-6, max_iter=sizes.train_iterations, history=20)
    found = lbfgs(one_row(objective.value_and_grad), theta_0[None], settings)
    return {
        "theta": found.theta[0],
        "basis": basis,
        "energy": found.energy[0],
        "grad_norm": found.grad_norm[0],
    }


def _other_data(images: Bundle) -> tuple[Tensor, Tensor]:
    """As many held-out images, with as many of each class."""
    rows = torch.cat([(images.held_out_y == label).nonzero()[: len(images.y) // 2, 0] for label in (0, 1)])
    return images.held_out[rows], images.held_out_y[rows]


def _drawn(network: MLP, scheme: str, context: Context, stream: str, seed: int) -> Tensor:
    """Initial weights (p,)."""
    return network.flatten(network.init(context.stream(stream, seed), scheme)).to(context.device)


def _weights(trained: dict[str, Tensors], name: str, width: int, dim: int) -> SpanWeights:
    return SpanWeights(one_hidden(width, dim), trained[name]["theta"], trained[name]["basis"])


# ----------------------------------------------------------------------------------------------------- rows
def row_unit(sizes: Sizes, context: Context, trained: dict[str, Tensors], name: str) -> Tensors:
    """One attack: a weight decay, an inner start, a start of the images, a seed."""
    decay, inner, start, seed = name.split(" ")
    images = _images(sizes, context)
    star = _weights(trained, _network_name(float(decay), sizes.width, int(seed)), sizes.width, images.train.shape[1])

    def theta_0(basis: Tensor) -> Tensor:
        if inner == "theta_star":
            return star.onto(basis)
        drawn = (
            _drawn(star.network, "uniform", context, "hidden.inner_start", int(seed))
            if inner == "uniform"
            else _drawn(star.network, "default", context, "hidden.weights", int(seed) + 1)
        )
        return reduced(star.network, drawn, Subspace(basis))[1]

    attack = SpanAttack(
        star,
        images.y,
        float(decay),
        theta_0,
        first=LBFGSSettings(max_iter=sizes.inner_first, history=20),
        next=LBFGSSettings(max_iter=sizes.inner_next, halvings=20),
        descent=HeavyBall(
            sizes.step_size, sizes.momentum, tol=sizes.tol, box=BOX, max_relative_step=sizes.max_relative_step
        ),
    )
    x_init = start_of(images, start, context.stream("hidden.start", int(seed)))
    checkpoint = context.checkpoints.inside("outer").at(name)
    found = reconstruct(attack, x_init[None], sizes.steps, sizes.tol, checkpoint)
    theta, basis = (found.accepted[each][0] for each in ("theta", "basis"))
    settings = LBFGSSettings(tol=1e-6, max_iter=sizes.settle, history=20)
    settled = attack.solved(found.x_hat[0], basis, theta, settings)
    return {
        "x_init": x_init,
        "x_hat": found.x_hat[0],
        "energy": found.energy,
        "history": found.history[:, 0],
        "settled": torch.tensor(SpanWeights(star.network, settled.theta[0], basis).distance(star)),
        "grad_norm": settled.grad_norm[0],
    }


def ended(row: Tensors, images: Bundle, tol: float, theta_star: Tensor, n_params: int) -> Record:
    """What a row of `row_unit` says."""
    history, energy = row["history"], row["energy"].item()
    reached = measured(row["x_hat"], row["x_init"], images, energy, theta_star)
    return Record(
        **{**flat(reached), "distance_mean": energy / n_params},
        settled_sum=row["settled"].item(),
        inner_grad_norm=row["grad_norm"].item(),
        first_sum=history[0].item(),
        steps=float(len(history)),
        converged=float(converged(history, tol)),
    )


def converged(history: Tensor, tol: float) -> bool:
    """Whether an energy (steps,) has stopped falling: by less than 1 % over the last quarter, or it is ≤ tol."""
    return bool(history[-1] <= tol or history[-1] >= 0.99 * history[-1 - len(history) // 4])


def mean_and_sd(rows: list[Record]) -> Record:
    """Of every field over seeds; the standard deviation of one seed is 0."""
    table = {name: torch.tensor([row[name] for row in rows], dtype=torch.float64) for name in rows[0]}
    spread = {f"{name}_sd": table[name].std().item() if len(rows) > 1 else 0.0 for name in WITH_SPREAD}
    return Record(**{name: values.mean().item() for name, values in table.items()}, **spread)


def _at_decay(
    sizes: Sizes, images: Bundle, decay: float, trained: dict[str, Tensors], found: dict[str, Tensors], null: Record
) -> Record:
    nets = [trained[_network_name(decay, sizes.width, seed)] for seed in range(sizes.seeds)]
    n_params = one_hidden(sizes.width, images.train.shape[1]).n_params

    def of(inner: str, start: str) -> Record:
        return mean_and_sd(
            [
                ended(found[_name(decay, inner, start, seed)], images, sizes.tol, net["theta"], n_params)
                for seed, net in enumerate(nets)
            ]
        )

    inner_starts = {inner: Record(**{start: of(inner, start) for start in STARTS}) for inner in INNER_STARTS}
    return Record(
        **inner_starts,
        weight_decay=decay,
        train_grad_norm=max(net["grad_norm"].item() for net in nets),
        train_energy=_mean([net["energy"].item() for net in nets]),
        null=null,
    )


# ---------------------------------------------------------------------------------------------------- nulls
def _nulls(sizes: Sizes, context: Context, images: Bundle, trained: dict[str, Tensors]) -> dict[float, Record]:
    """How far networks are apart that nobody attacked, at each weight decay."""
    by_image = flat(image_null(images))
    nulls: dict[float, Record] = {}
    for decay in sizes.weight_decays:
        first, second, elsewhere = (
            _weights(trained, _network_name(decay, sizes.width, *which), sizes.width, images.train.shape[1])
            for which in ((0,), (1,), (0, True))
        )
        apart = first.distance(second)
        aligned = aligned_distance(first.small, first.theta, second.theta) if not nulls else None
        nulls[decay] = Record(
            **by_image,
            other_seed_sum=apart,
            other_seed_mean=apart / first.network.n_params,
            other_seed_aligned_sum=aligned,
            other_data_sum=first.distance(elsewhere),
            zero_sum=first.theta.square().sum().item(),
        )
    return nulls


def _null_at_width(sizes: Sizes, images: Bundle, trained: dict[str, Tensors], width: int) -> Record:
    """Two seeds, the first weight decay."""
    first, second = (
        _weights(trained, _network_name(sizes.weight_decays[0], width, seed), width, images.train.shape[1])
        for seed in (0, 1)
    )
    apart = first.distance(second)
    return Record(other_seed_sum=apart, other_seed_mean=apart / first.network.n_params)


def aligned_distance(network: MLP, theta: Tensor, theta_star: Tensor) -> float:
    """‖θ* − Pθ‖² minimised over permutations P of the hidden units: the same function has width! parameter vectors."""

    def units(vector: Tensor) -> Tensor:
        params = network.unflatten(vector)
        return torch.cat([params["w1"], params["b1"][:, None], params["w2"].mT], dim=1).double()

    a, b = units(theta), units(theta_star)
    cost = (a.square().sum(1)[:, None] + b.square().sum(1) - 2 * a @ b.mT).cpu()
    rows, columns = linear_sum_assignment(cost.numpy())
    rest = (theta[-1] - theta_star[-1]).square()
    return (cost[rows, columns].sum() + rest.cpu()).item()


def _mean(values: list[float]) -> float:
    return float(torch.tensor(values, dtype=torch.float64).mean())
