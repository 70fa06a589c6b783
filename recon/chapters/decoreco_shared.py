"""What the DecoReco chapters share: the centred data, the released network, the table of matches and its null."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from recon.chapters.base import Context
from recon.images.pools import Dataset, centre
from recon.nets.mlp import MLP, three_layer
from recon.scoring.matching import nearest, one_to_one, padded, target_decoy
from recon.scoring.metrics import ncc
from recon.scoring.nulls import null_candidates, null_table
from recon.training.kkt import Certificate, Trained, certificate, train_to_kkt

LAYER_1 = (1.0, 0.0, 0.0)
NULL_STREAM = 7000  # offset of the nulls' generator: none of the other draws moves


@dataclass(frozen=True)
class Centred:
    """Flat images minus the training mean (n, d): training, start partition, held out; y (n,) in {0, 1}; indices."""

    train: Tensor
    init: Tensor
    held_out: Tensor
    y: Tensor
    init_y: Tensor
    mean: Tensor
    train_index: Tensor
    init_index: Tensor
    held_out_index: Tensor

    @staticmethod
    def of(context: Context, n_train: int, released: str = "train") -> Centred:
        """As many held-out as training images.  released="init": the two partitions change places (the shadow net)."""
        return Centred.from_data(context.dataset(n_train, n_train), context.device, released)

    @staticmethod
    def from_data(data: Dataset, device: torch.device, released: str = "train") -> Centred:
        """The same of partitions that are drawn already."""
        train, init = (data.train, data.init) if released == "train" else (data.init, data.train)
        mean = train.flat.mean(0)
        parts = {
            name: centre(part.flat, mean).to(device)
            for name, part in (("train", train), ("init", init), ("held_out", data.held_out))
        }
        return Centred(
            **parts,
            y=train.y.to(device),
            init_y=init.y.to(device),
            mean=mean.to(device),
            train_index=train.index,
            init_index=init.index,
            held_out_index=data.held_out.index,
        )


@dataclass(frozen=True)
class ReleasedNet:
    """A network trained to the KKT regime, with its certificate and the seconds that took."""

    network: MLP
    trained: Trained
    certificate: Certificate
    seconds: float

    @property
    def theta_star(self) -> Tensor:
        """θ* (p,)."""
        return self.trained.theta_star

    def metrics(self) -> dict:
        """What every DecoReco result says of the training."""
        certified = self.certificate
        return {
            "train_seconds": self.seconds,
            "log_loss": self.trained.log_loss,
            "min_normalised_margin": certified.normalised_margins.min().item(),
            "kkt_residual": certified.residual_by_layer[0].item(),
            "kkt_residual_by_layer": certified.residual_by_layer.tolist(),
            "theta_norm": self.theta_star.norm().item(),
        }


def train_released(context: Context, images: Centred, width: int, steps: int, offset: int = 0) -> ReleasedNet:
    """Train Haim et al.'s three-layer net on `images.train` without weight decay.

    The certificate's multipliers are fitted on layer 1, where the attack looks: the second layer's random start does
    not fade at these sizes and would drown it.
    """
    start = time.perf_counter()
    network = three_layer(width, images.train.shape[1])
    theta_init = network.flatten(network.init(context.generator(1 + 10 * offset), "small")).to(images.train.device)
    checkpoint = context.checkpoints / f"training-{offset}.safetensors"
    trained = train_to_kkt(network, images.train, images.y, theta_init, steps, checkpoint=checkpoint)
    seconds = time.perf_counter() - start
    certified = certificate(network, trained.theta_star, images.train, images.y, layer_weights=LAYER_1)
    return ReleasedNet(network, trained, certified, round(seconds, 2))


def nulls_of(
    context: Context, images: Centred, network: MLP, theta: Tensor, m: int, basis: Tensor | None = None
) -> dict[str, Tensor]:
    """`null_candidates` of a network's first layer: m images a set, in the span that was searched, if one was."""
    return null_candidates(
        network.unflatten(theta)["w1"],
        images.train,
        images.init,
        m,
        context.generator(NULL_STREAM),
        basis,
        images.init_y,
    )


def match_table(x_hat: Tensor, images: Centred, nulls: dict[str, Tensor]) -> dict:
    """Matches of x_hat, held-out images in their place ("null"), both in competition, the excess over the best null.

    nulls: candidates that cost nothing, see `null_table` for the keys nulls, best_null, best_null_name and excess ·
    top10_ncc: mean of the ten best one-to-one correlations · per_image: training images whose best candidate, shared or
    not, is above 0.6 (the reference's direction), per_candidate: candidates whose best training image is.
    """
    ten = min(10, len(images.train))
    table: dict = null_table(nulls, images.train, images.held_out, images.mean, x_hat)
    table["null"] = table["nulls"]["held_out"]
    for prefix, part in (("", images.train), ("null_", images.held_out)):
        filled = padded(x_hat, len(part))
        scores = one_to_one(part, filled).score
        table[f"{prefix}top10_ncc"] = scores.topk(ten).values.mean().item()
        table[f"{prefix}per_image_ncc_0.6"] = int((nearest(part, filled, "ncc").score > 0.6).sum())
        table[f"{prefix}per_candidate_ncc_0.6"] = int((nearest(x_hat, part, "ncc").score > 0.6).sum())
    competition = {t: target_decoy(x_hat, images.train, images.held_out, t) for t in (0.5, 0.6, 0.7)}
    table["competition"] = {f"ncc_{t}": vars(found) for t, found in competition.items()}
    return table


NULL_NAMES = {
    "span": "mixtures of the searched span",
    "mixtures": "mixtures of the training images",
    "rows": "rows of ±W1",
    "directions": "singular directions",
    "means": "mean images",
    "held_out": "held-out images",
}


def best_text(table: dict, key: str = "ncc_0.6") -> str:
    """The best null of a `null_table` in words: "14 (mixtures of the training images)"."""
    return f"{table['best_null'][key]} ({NULL_NAMES[table['best_null_name'][key]]})"


def ranks(x_hat: Tensor, targets: Tensor, others: Tensor, chunk: int = 1000) -> Tensor:
    """Position, from 1, of the first of `targets` among targets and `others`, sorted by NCC to each of x_hat; (m,)."""
    best = nearest(x_hat, targets, "ncc").score[:, None]
    return 1 + torch.stack([(ncc(x_hat, part) > best).sum(1) for part in others.split(chunk)]).sum(0)
