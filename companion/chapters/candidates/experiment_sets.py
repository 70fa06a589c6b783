"""Other sets of images with the same weights: pairs along blind directions, what they cost and what
they look like.

All in float64, since the sets are to agree to rounding.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.candidates.kkt_sets import Points, apart, split, summed
from companion.chapters.candidates.null_directions import room, seen_rows, toward
from companion.chapters.common import LAYER_1, kept_arrays
from companion.chapters.separation_common import TRUE_NCC, others_of
from companion.store.record import Record
from recon.images.bundle import Bundle
from recon.nets.mlp import MLP, Params, three_layer
from recon.optim.rng import named
from recon.scoring.metrics import ncc
from recon.scoring.naturalness import Photographs, signs
from recon.training.kkt import KKTSettings, certificate, train_to_kkt

#: the training images, and what stands in their place
TRUTH, NOISE, PHOTOGRAPH, NOT_BLIND = (
    "training images",
    "pairs, noise",
    "pairs, photograph",
    "pairs, not blind",
)
STOPS = 10  # on the way from the images between to the pairs


class Metrics(Record):
    """sets: by name, the training images first · null_natural: share of other photographs that look
    natural.

    sets: A set of images in the place of the training set, with the multipliers that its
    construction gives it. images: how many · difference: of its Σ λ y ∇Φ from the training set's,
    relative · margin_change: the largest relative change of a margin · smallest_multiplier: ≥ 0 in
    a KKT point · ncc: median correlation of a member with the training image between · far:
    training images both of whose members correlate less with them than `TRUE_NCC` · natural: share
    of the members that look natural. slides: On the straight way from the training images to the
    pairs: mean NCC with the training image, share that looks natural, mean sparsity of the edges.
    freedom: blind: directions of an image that the network does not see.
    """


@dataclass(frozen=True, kw_only=True)
class SetSizes:
    """Other sets with the same weights:

    Attributes:
        n_train images, width, steps of training.
        iterations: of the projection that finds pairs.
    """

    n_train: int
    width: int
    train_steps: int
    iterations: int


SIZES = {
    "smoke": SetSizes(n_train=20, width=64, train_steps=100, iterations=100),
    "laptop": SetSizes(n_train=50, width=500, train_steps=300, iterations=300),
    "paper": SetSizes(n_train=500, width=1000, train_steps=3000, iterations=1000),
}


def compute(sizes: SetSizes, context: Context) -> Outcome[Metrics]:
    """Train; build the pairs; hold them against the conditions."""
    images = context.images(sizes.n_train)
    x, y = images.train.double(), images.y.double()
    network = three_layer(sizes.width, images.dim)
    theta_init = network.flatten(network.init(context.stream("kkt.weights"), "small")).double()
    theta_star = train_to_kkt(network, x, y, theta_init, KKTSettings(sizes.train_steps)).theta_star
    truth = Points(x, y, certificate(network, theta_star, x, y, layer_weights=LAYER_1).multipliers)
    seen = seen_rows(network.unflatten(theta_init)["w1"], x)
    moves = moves_of(images, seen, sizes.iterations, context)
    natural = Photographs.of(others_of(context, images.train_index, images.mean), images.shape)
    metrics = Metrics(
        n_train=len(images),
        sets={
            name: row(network, network.unflatten(theta_star), truth, v, natural)
            for name, v in moves.items()
        },
        null_natural=natural.look_like(images.init).double().mean().item(),
        slides={name: slide(truth.x, moves[name], natural) for name in (NOISE, PHOTOGRAPH)},
        freedom=Record(blind=network.dim - len(seen)),
    )
    arrays = {"multipliers": truth.multipliers, **kept_arrays(images)}
    return Outcome(
        metrics, arrays | {f"move_{name}": v.float() for name, v in moves.items() if name != TRUTH}
    )


def moves_of(images: Bundle, seen: Tensor, iterations: int, context: Context) -> Tensors:
    """What is added to and taken from every training image, (n, d) by name: nothing; blind and as
    far as black and white let noise go; blind and towards a held-out photograph; as far as the
    first, along directions that are seen.
    """
    x = images.train.double()
    reach = room((images.train + images.mean).double().clamp(0, 1))
    drawn = torch.randint(2, reach.shape, generator=named(context.seed, "candidates.noise"))
    corner = (2 * drawn - 1) * reach  # each pixel as far as it can go, to a side at random
    noise = toward(3 * corner, reach, seen, iterations)
    length = noise.norm(dim=1, keepdim=True) / reach.norm(dim=1, keepdim=True).clamp_min(1e-300)
    return {
        TRUTH: torch.zeros_like(noise),
        NOISE: noise,
        PHOTOGRAPH: toward(images.held_out.double() - x, reach, seen, iterations),
        NOT_BLIND: length * corner,
    }


def row(network: MLP, theta: Params, truth: Points, v: Tensor, natural: Photographs) -> Record:
    """The pairs x ± v, or the training set itself where v is 0, held against all conditions."""
    points = split(truth, v) if v.any() else truth
    before, after = network(theta, truth.x), network(theta, points.x)
    members = points.x.unflatten(0, (-1, len(truth)))
    likeness = torch.stack([ncc(part, truth.x).diagonal() for part in members])
    return Record(
        images=len(points),
        difference=apart(summed(network, theta, points), summed(network, theta, truth)),
        margin_change=(after.view(len(members), -1) / before - 1).abs().max().item(),
        smallest_multiplier=points.multipliers.min().item(),
        ncc=likeness.median().item(),
        far=int((likeness < TRUE_NCC).all(0).sum()),
        natural=natural.look_like(points.x).double().mean().item(),
    )


def slide(x: Tensor, v: Tensor, natural: Photographs) -> Record:
    """x + s v and x − s v for s = 0 … 1."""
    way = [torch.cat([x + k / STOPS * v, x - k / STOPS * v]) for k in range(STOPS + 1)]
    return Record(
        ncc=[ncc(images, x.repeat(2, 1)).diagonal().mean().item() for images in way],
        natural=[natural.look_like(images).double().mean().item() for images in way],
        edges=[signs(images, natural.shape)["edges"].mean().item() for images in way],
    )
