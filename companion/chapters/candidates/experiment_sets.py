"""Other sets of images with the same weights: pairs along blind directions, what they cost and what they look like.

All in float64, since the sets are to agree to rounding.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.candidates.kkt_sets import Points, apart, cells, conditions, gates, rank_of, split, summed
from companion.chapters.candidates.names import HELD_OUT, NOISE, NOT_BLIND, PHOTOGRAPH, STARTS, TRUTH, UNIFORM
from companion.chapters.candidates.null_directions import farthest_in_cell, room, seen_rows, toward
from companion.chapters.common import LAYER_1, ReleasedNet, kept_arrays, match_table, nulls_of
from companion.chapters.separation_common import TRUE_NCC, counts, others_of
from companion.chapters.tables import flat
from companion.store.record import Record
from recon.attacks.multipliers import from_network, multipliers
from recon.attacks.separation import FirstLayer, SeparationSettings, separate
from recon.images.bundle import Bundle
from recon.nets.mlp import MLP, Params, three_layer
from recon.optim.rng import named
from recon.scoring.matching import nearest
from recon.scoring.metrics import ncc
from recon.scoring.naturalness import Photographs, signs
from recon.training.kkt import KKTSettings, Trained, certificate, train_to_kkt
from recon.training.weight_decay import DecaySettings, train_with_decay


class Metrics(Record):
    """sets: by name, the training images first · floor: ‖θ⁰‖² · null_natural: share of other photographs that look
    natural. With the fields of `Trained`.

    sets: A set of images in the place of the training set, with the multipliers that its construction gives it.
    images: how many · difference: of its Σ λ y ∇Φ from the training set's, relative · margin_change: the largest
    relative change of a margin · smallest_multiplier, slack, kkt_residual (of layer 1): see `kkt_sets.Conditions`;
    slack None where an image is misclassified · moved: median ‖v‖ / ‖x‖ of what was added to an image, both minus
    the mean image · ncc: median correlation of a member with the training image between · far: training images both
    of whose members correlate less with them than `TRUE_NCC` · natural: share of the members that look natural.
    slides: On the straight way from the training images to the pairs, at shares of it: mean NCC with the training
    image, share that looks natural, mean sparsity of the edges.
    freedom: Numbers that can be counted: n_params p, unknowns n·d, blind directions of an image and of all ·
    carriers: images with λ > 0, gates_rank: rank of their gates · cells: distinct ones that the images lie in,
    nearest: units in which the two most alike cells differ, of `units`.
    same_run: Plain gradient descent from the same θ⁰ on other sets: ‖θ − θ'‖ / ‖θ' − θ⁰‖ after `steps`, θ' of the
    training images: on the pairs, on the training images in another order, on pairs along directions that are not
    blind.
    twin: Separation of a network trained on the pairs, held against the images between the pairs, which nobody
    trained on. members: what of the pairs themselves is found · nearer: of the images found above 0.7, how many
    results are nearer to the image between than to both members · log_loss: of the training · original: the same of
    the network trained on the images themselves.
    cells: How far pairs go within one cell: start, width of the layers, inputs d, n images; reach: median of ‖v‖
    over that of what black and white allow; ncc: median with the image between.
    energies: ‖θ − Σ λ y ∇Φ‖² over all layers, with fitted multipliers: of θ = θ* (`with_floor`) and of θ* − θ⁰
    (`without`).
    """


@dataclass(frozen=True, kw_only=True)
class SetSizes:
    """Other sets with the same weights: n_train images, width, steps of training · iterations: of the projection that
    finds pairs · run_steps, run_step_size: of plain descent, for the same run · attack: separation of the twin ·
    cell_*: networks on images averaged down to cell_side, one a width and a start, cell_images tried in each ·
    steps_back: shares of the way from the pairs to the images between."""

    n_train: int
    width: int
    train_steps: int
    iterations: int
    run_steps: int
    attack: SeparationSettings
    cell_widths: tuple[int, ...]
    cell_n: int
    cell_images: int
    cell_steps: int
    cell_side: int = 8
    run_step_size: float = 0.1
    steps_back: int = 10


SIZES = {
    "smoke": SetSizes(
        n_train=20,
        width=64,
        train_steps=100,
        iterations=100,
        run_steps=20,
        attack=SeparationSettings(first_rank=8, iterations=40),
        cell_widths=(50, 400),
        cell_n=20,
        cell_images=2,
        cell_steps=100,
    ),
    "laptop": SetSizes(
        n_train=50,
        width=500,
        train_steps=300,
        iterations=300,
        run_steps=100,
        attack=SeparationSettings(),
        cell_widths=(50, 100, 200, 400),
        cell_n=60,
        cell_images=6,
        cell_steps=300,
    ),
    "paper": SetSizes(
        n_train=500,
        width=1000,
        train_steps=3000,
        iterations=1000,
        run_steps=300,
        attack=SeparationSettings(),
        cell_widths=(50, 100, 200, 400, 800, 1600),
        cell_n=60,
        cell_images=20,
        cell_steps=600,
    ),
}


def cell_rows(sizes: SetSizes, context: Context) -> list[Record]:
    """One network a width and a start."""
    images = context.images(sizes.cell_n).at_side(sizes.cell_side)
    return [_cell_row(start, width, images, sizes, context) for start in STARTS for width in sizes.cell_widths]


def _cell_row(start: str, width: int, images: Bundle, sizes: SetSizes, context: Context) -> Record:
    network = three_layer(width, images.dim)
    theta = network.unflatten(_trained(network, start, images, sizes.cell_steps, context).double())
    x = images.train.double()
    reach = room((x + images.mean.double()).clamp(0, 1))
    drawn = 2 * torch.randint(2, x.shape, generator=named(context.seed, "candidates.cell")) - 1
    tried = range(0, len(x), max(len(x) // sizes.cell_images, 1))
    found = [farthest_in_cell(network, theta, x[i], reach[i], drawn[i] * reach[i]) for i in tried]
    shares = [(v.norm() / reach[i].norm()).item() for i, v in zip(tried, found, strict=True)]
    alike = [ncc((x[i] + v)[None], x[i][None]).item() for i, v in zip(tried, found, strict=True)]
    share, near = (torch.tensor(values).median().item() for values in (shares, alike))
    return Record(start=start, width=width, inputs=images.dim, n_train=len(x), reach=share, ncc=near)


def _trained(network: MLP, start: str, images: Bundle, steps: int, context: Context) -> Tensor:
    scheme = "small" if start == "small" else "default"
    theta_init = network.flatten(network.init(context.stream("kkt.weights", 1), scheme))
    if start.endswith("decay"):
        return train_with_decay(network, images.train, images.y, theta_init, DecaySettings(steps=steps)).theta_star
    return train_to_kkt(network, images.train, images.y, theta_init, KKTSettings(steps)).theta_star


def compute(sizes: SetSizes, context: Context) -> Outcome[Metrics]:
    """Train; build the pairs; hold them against the conditions; train on them; and look how far a cell reaches."""
    images = context.images(sizes.n_train)
    network, theta_init = started(sizes, context, images)
    released = trained_on(images.train.double(), images.y.double(), network, theta_init, sizes.train_steps)
    theta = network.unflatten(released.theta_star)
    truth = Points(images.train.double(), images.y.double(), released.certificate.multipliers)
    seen = seen_rows(network.unflatten(theta_init)["w1"], truth.x)
    moves = moves_of(images, seen, sizes.iterations, context)
    natural = Photographs.of(others_of(context, images.train_index, images.mean), images.shape)
    rows = {name: row(network, theta, truth, v, natural) for name, v in moves.items()}
    pairs = split(truth, moves[NOISE])
    twin, separated = twin_of(pairs, released, theta_init, sizes, context, images)
    metrics = Metrics(
        **flat(released.metrics()),
        n_train=len(images),
        width=sizes.width,
        sets=rows,
        null_natural=natural.look_like(images.init).double().mean().item(),
        slides={name: slide(truth.x, moves[name], natural, sizes.steps_back) for name in (NOISE, PHOTOGRAPH)},
        freedom=freedom(network, theta, truth, len(seen)),
        same_run=same_run(truth, moves, network, theta_init, sizes, context),
        twin=twin,
        cells=cell_rows(sizes, context),
        energies=energies(network, released.theta_star, theta_init, truth, pairs, images, context),
        floor=theta_init.square().sum().item(),
    )
    arrays = {"multipliers": truth.multipliers, "x_twin": separated, **kept_arrays(images)}
    return Outcome(metrics, arrays | {f"move_{name}": v.float() for name, v in moves.items() if name != TRUTH})


def started(sizes: SetSizes, context: Context, images: Bundle) -> tuple[MLP, Tensor]:
    """The network of chapter 6, and the very start that it draws."""
    network = three_layer(sizes.width, images.dim)
    return network, network.flatten(network.init(context.stream("kkt.weights"), "small")).double()


def trained_on(x: Tensor, y: Tensor, network: MLP, theta_init: Tensor, steps: int) -> ReleasedNet:
    """Into the KKT regime, with the certificate on layer 1."""
    start = time.perf_counter()
    trained: Trained = train_to_kkt(network, x, y, theta_init, KKTSettings(steps))
    seconds = round(time.perf_counter() - start, 2)
    certified = certificate(network, trained.theta_star, x, y, layer_weights=LAYER_1)
    return ReleasedNet(network, trained, certified, seconds)


def moves_of(images: Bundle, seen: Tensor, iterations: int, context: Context) -> Tensors:
    """What is added to and taken from every training image, (n, d) by name: nothing; blind and as far as black and
    white let noise go; blind and towards a held-out photograph; as far as the first, along directions that are seen."""
    pixels = (images.train + images.mean).double().clamp(0, 1)
    reach = room(pixels)
    signs_drawn = 2 * torch.randint(2, reach.shape, generator=named(context.seed, "candidates.noise")) - 1
    noise = toward(3 * signs_drawn * reach, reach, seen, iterations)
    length = noise.norm(dim=1, keepdim=True) / reach.norm(dim=1, keepdim=True).clamp_min(1e-300)
    return {
        TRUTH: torch.zeros_like(noise),
        NOISE: noise,
        PHOTOGRAPH: toward(images.held_out.double() - images.train.double(), reach, seen, iterations),
        NOT_BLIND: length * signs_drawn * reach,
    }


def row(network: MLP, theta: Params, truth: Points, v: Tensor, natural: Photographs) -> Record:
    """The pairs x ± v, or the training set itself where v is 0, held against all conditions."""
    points = split(truth, v) if v.any() else truth
    found = conditions(network, theta, points)
    before, after = (network(theta, each.x) for each in (truth, points))
    members = points.x.unflatten(0, (-1, len(truth)))
    own = torch.stack([ncc(part, truth.x).diagonal() for part in members])
    return Record(
        images=len(points),
        difference=apart(summed(network, theta, points), summed(network, theta, truth)),
        margin_change=(after.view(len(members), -1) / before - 1).abs().max().item(),
        smallest_multiplier=found.smallest_multiplier,
        slack=None if found.slack != found.slack else found.slack,
        kkt_residual=found.stationarity[0],
        moved=(v.norm(dim=1) / truth.x.norm(dim=1)).median().item(),
        ncc=own.median().item(),
        far=int((own < TRUE_NCC).all(0).sum()),
        natural=natural.look_like(points.x).double().mean().item(),
    )


def slide(x: Tensor, v: Tensor, natural: Photographs, steps: int) -> Record:
    """x + s v and x − s v for s = 0 … 1."""
    shares = [k / steps for k in range(steps + 1)]
    sets = [torch.cat([x + s * v, x - s * v]) for s in shares]
    twice = torch.cat([x, x])
    return Record(
        share=shares,
        ncc=[ncc(each, twice).diagonal().mean().item() for each in sets],
        natural=[natural.look_like(each).double().mean().item() for each in sets],
        edges=[signs(each, natural.shape)["edges"].mean().item() for each in sets],
    )


def freedom(network: MLP, theta: Params, truth: Points, seen: int) -> Record:
    """What can be counted at the training set."""
    active = cells(network, theta, truth.x)
    apart_by = (active[:, None] != active[None]).sum(-1).fill_diagonal_(active.shape[1])
    carriers = truth.multipliers > 1e-9 * truth.multipliers.max()
    blind = network.dim - seen
    return Record(
        n_params=network.n_params,
        unknowns=truth.x.numel(),
        blind=blind,
        blind_of_all=blind * len(truth),
        carriers=int(carriers.sum()),
        gates_rank=rank_of(gates(network, theta, truth.x[carriers])),
        cells=len(active.unique(dim=0)),
        nearest=int(apart_by.min()),
        units=active.shape[1],
    )


def same_run(
    truth: Points, moves: Tensors, network: MLP, theta_init: Tensor, sizes: SetSizes, context: Context
) -> Record:
    """Plain descent on four sets from one start."""
    settings = KKTSettings(sizes.run_steps, method="gradient-descent", step_size=sizes.run_step_size)
    order = torch.randperm(len(truth), generator=named(context.seed, "candidates.order"))

    def end(points: Points) -> Tensor:
        return train_to_kkt(network, points.x, points.y, theta_init, settings).theta_star

    base = end(truth)
    moved = (base - theta_init).norm()
    others = (
        split(truth, moves[NOISE]),
        Points(truth.x[order], truth.y[order], truth.multipliers[order]),
        split(truth, moves[NOT_BLIND]),
    )
    ends = (((end(each) - base).norm() / moved).item() for each in others)
    return Record(steps=sizes.run_steps, **dict(zip(("pairs", "reordered", "not_blind"), ends, strict=True)))


def twin_of(
    pairs: Points, released: ReleasedNet, theta_init: Tensor, sizes: SetSizes, context: Context, images: Bundle
) -> tuple[Record, Tensor]:
    """A network trained on the pairs from the same start, and what separation finds in it and in the released one."""
    network = released.network
    twin = trained_on(pairs.x, pairs.y, network, theta_init, sizes.train_steps)
    stars = [each.theta_star.float() for each in (released, twin)]
    original, found = (
        separate(
            FirstLayer(network.unflatten(theta)["w1"]), images.shape, sizes.attack, context.stream("separation.attack")
        )
        for theta in stars
    )
    nulls = nulls_of(context, images, network, stars[1], max(len(found.x_hat), 1), found.basis)
    table = match_table(found.x_hat, images, nulls)
    members = pairs.x.float()
    assigned = nearest(images.train, found.x_hat, "ncc")
    to_members = ncc(found.x_hat[assigned.index], members)
    own = torch.stack([part.diagonal() for part in to_members.split(len(images), dim=1)]).amax(0)
    result = Record(
        **flat(table),
        members=counts(found.x_hat, members),
        nearer=int(((assigned.score > TRUE_NCC) & (assigned.score > own)).sum()),
        log_loss=twin.trained.log_loss,
        original=counts(original.x_hat, images.train),
    )
    return result, found.x_hat


def energies(
    network: MLP,
    theta_star: Tensor,
    theta_init: Tensor,
    truth: Points,
    pairs: Points,
    images: Bundle,
    context: Context,
) -> dict[str, Record]:
    """Of several sets with their best multipliers, with the floor of the random start and without it."""
    noise = torch.rand(truth.x.shape, generator=named(context.seed, "candidates.uniform"), dtype=torch.float64)
    sets = {
        TRUTH: (truth.x, truth.y),
        NOISE: (pairs.x, pairs.y),
        HELD_OUT: (images.held_out.double(), images.held_out_y.double()),
        UNIFORM: (noise - images.mean.double(), truth.y),
    }
    theta, start = network.unflatten(theta_star), network.unflatten(theta_init)
    found = {}
    for name, (x, y) in sets.items():
        problems = [from_network(network, theta, x, y.long(), known) for known in (None, start)]
        energies = (multipliers(each).residual ** 2 * each.norm.item() for each in problems)
        found[name] = Record(zip(("with_floor", "without"), energies, strict=True))
    return found
