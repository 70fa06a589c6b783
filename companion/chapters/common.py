"""What the chapters on weights share: centred images, the released network, the attack, the table
of its matches.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from companion.chapters.base import Context, Tensors
from companion.chapters.separation_common import other_photographs
from companion.chapters.tables import MatchTable, flat
from companion.store.record import Record, record
from recon.images.bundle import Bundle
from recon.nets.mlp import MLP, affine, three_layer
from recon.optim.loop import Checkpoint
from recon.released import Weights
from recon.scoring.matching import target_decoy
from recon.scoring.nulls import HELD_OUT, null_candidates, null_table
from recon.training import kkt
from recon.training.inner_problem import Objective, solve_affine

WITHOUT_WEIGHTS = ("mixtures", "means", "photographs", "photographs_2")
# converged: the energy fell by less than this share of itself over the last tenth of the steps
FALL = 0.01


def kept_arrays(images: Bundle) -> Tensors:
    """All that is needed to match reconstructions again."""
    return {
        "train_index": images.train_index,
        "heldout_index": images.held_out_index,
        "x_train": images.train,
        "x_held_out": images.held_out,
        "mean": images.mean,
    }


def kkt_network(
    images: Bundle,
    width: int,
    steps: int,
    generator: torch.Generator,
    checkpoint: Checkpoint | None = None,
) -> tuple[MLP, kkt.Trained]:
    """Haim et al.'s three-layer net of this width, trained on `images.train` without weight decay
    into the KKT regime.
    """
    network = three_layer(width, images.dim)
    start = network.flatten(network.init(generator, "small")).to(images.train)
    settings = kkt.KKTSettings(steps)
    return network, kkt.train_to_kkt(network, images.train, images.y, start, settings, checkpoint)


def train_released(
    context: Context, images: Bundle, width: int, steps: int, offset: int = 0
) -> Weights:
    """The `kkt_network` that an adversary is given.

    Args:
        offset: which of a chapter's networks this is; each has weights and a checkpoint of its own.
    """
    generator = context.stream("kkt.weights", offset)
    checkpoint = context.checkpoints.at(f"training-{offset}")
    network, trained = kkt_network(images, width, steps, generator, checkpoint)
    return Weights(network, trained.theta_star)


def affine_trained(x: Tensor, y: Tensor, weight_decay: float) -> Weights:
    """The affine classifier of images x (n, d) with labels y (n,), exactly."""
    objective = Objective(affine(x.shape[1]), y, weight_decay)
    theta_star = solve_affine(objective, x[None]).theta[0]
    return Weights(objective.network, theta_star, y=y, weight_decay=weight_decay)


def nulls_of(
    context: Context,
    images: Bundle,
    network: MLP,
    theta: Tensor,
    m: int,
    basis: Tensor | None = None,
) -> dict[str, Tensor]:
    """`null_candidates` of a network's first layer: m images a set, in the span that was searched,
    if one was.
    """
    return null_candidates(
        network.unflatten(theta)["w1"],
        images.train,
        images.init,
        other_photographs(images, context, m),
        m,
        context.stream("kkt.nulls"),
        basis,
        images.init_y,
    )


def nulls_without_weights(
    context: Context, images: Bundle, width: int, m: int
) -> dict[str, Tensor]:
    """Those of `nulls_of` that are made of images alone, drawn as beside the others of a first
    layer of this width.
    """
    network = MLP((images.dim, width, 1), None)
    drawn = nulls_of(context, images, network, images.train.new_zeros(network.n_params), m)
    return {name: drawn[name] for name in WITHOUT_WEIGHTS}


def n_photographs(nulls: Mapping[str, Tensor]) -> int:
    """Other photographs among `null_candidates`: fewer than candidates where the pool has no more,
    whose places are zeros.
    """
    return int(nulls["photographs"].any(1).sum())


def rescored_table(x_hat: Tensor, images: Bundle, nulls: Tensors) -> Record:
    """Of kept reconstructions x_hat (m, d): what is counted of them and of `nulls_without_weights`,
    which are not all nulls, so that the best is left out.
    """
    table = match_table(x_hat, images, nulls)
    return Record(table.only("matches", "null", "nulls", "competition", "n_photographs"))


def match_table(x_hat: Tensor, images: Bundle, nulls: dict[str, Tensor]) -> MatchTable:
    """Matches of x_hat (m, d), held-out images in their place, both in competition, the excess over
    the best null.

    Args:
        nulls: candidates that cost nothing, see `recon.scoring.nulls.null_table`.
    """
    table = null_table(nulls, images.train, images.held_out, images.mean, x_hat, images.shape)
    preferred = {
        f"ncc_{t}": target_decoy(x_hat, images.train, images.held_out, t) for t in (0.5, 0.6, 0.7)
    }
    return MatchTable(
        **flat(table),
        null=record(table.nulls[HELD_OUT]),
        competition=record(preferred),
        n_photographs=n_photographs(nulls),
    )
