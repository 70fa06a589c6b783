"""Other sets of images with the same weights: pairs along blind directions, what they cost and what they look like.

All in float64, since the sets are to agree to rounding.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.candidates.compute_cells import cell_rows
from companion.chapters.candidates.kkt_sets import Points, apart, cells, conditions, gates, rank_of, split, summed
from companion.chapters.candidates.metrics import Energy, Freedom, SameRun, SetMetrics, SetRow, Slide, Twin
from companion.chapters.candidates.names import HELD_OUT, NOISE, NOT_BLIND, PHOTOGRAPH, TRUTH, UNIFORM
from companion.chapters.candidates.null_directions import room, seen_rows, toward
from companion.chapters.candidates.sizes import SetSizes
from companion.chapters.common import LAYER_1, ReleasedNet, kept_arrays, match_table, nulls_of
from companion.chapters.separation_common import TRUE_NCC, counts, others_of
from companion.chapters.tables import flat
from recon.attacks.multipliers import from_network, multipliers
from recon.attacks.separation import FirstLayer, separate
from recon.images.bundle import Bundle
from recon.nets.mlp import MLP, Params, three_layer
from recon.optim.rng import named
from recon.scoring.matching import nearest
from recon.scoring.metrics import ncc
from recon.scoring.naturalness import Photographs, signs
from recon.training.kkt import KKTSettings, Trained, certificate, train_to_kkt


def compute(sizes: SetSizes, context: Context) -> Outcome[SetMetrics]:
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
    metrics = SetMetrics(
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


def row(network: MLP, theta: Params, truth: Points, v: Tensor, natural: Photographs) -> SetRow:
    """The pairs x ± v, or the training set itself where v is 0, held against all conditions."""
    points = split(truth, v) if v.any() else truth
    found = conditions(network, theta, points)
    before, after = (network(theta, each.x) for each in (truth, points))
    members = points.x.unflatten(0, (-1, len(truth)))
    own = torch.stack([ncc(part, truth.x).diagonal() for part in members])
    return SetRow(
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


def slide(x: Tensor, v: Tensor, natural: Photographs, steps: int) -> Slide:
    """x + s v and x − s v for s = 0 … 1."""
    shares = [k / steps for k in range(steps + 1)]
    sets = [torch.cat([x + s * v, x - s * v]) for s in shares]
    twice = torch.cat([x, x])
    return Slide(
        shares,
        [ncc(each, twice).diagonal().mean().item() for each in sets],
        [natural.look_like(each).double().mean().item() for each in sets],
        [signs(each, natural.shape)["edges"].mean().item() for each in sets],
    )


def freedom(network: MLP, theta: Params, truth: Points, seen: int) -> Freedom:
    """What can be counted at the training set."""
    active = cells(network, theta, truth.x)
    apart_by = (active[:, None] != active[None]).sum(-1).fill_diagonal_(active.shape[1])
    carriers = truth.multipliers > 1e-9 * truth.multipliers.max()
    blind = network.dim - seen
    return Freedom(
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
) -> SameRun:
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
    return SameRun(sizes.run_steps, *(((end(each) - base).norm() / moved).item() for each in others))


def twin_of(
    pairs: Points, released: ReleasedNet, theta_init: Tensor, sizes: SetSizes, context: Context, images: Bundle
) -> tuple[Twin, Tensor]:
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
    result = Twin(
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
) -> dict[str, Energy]:
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
        found[name] = Energy(*(multipliers(each).residual ** 2 * each.norm.item() for each in problems))
    return found
