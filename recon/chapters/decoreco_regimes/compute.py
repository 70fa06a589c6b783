"""Chapter 9: two regimes of training, three ways in; and what the training images themselves leave unexplained."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import torch
from scipy.stats import spearmanr
from torch import Tensor

from recon.attacks.recover import Recovered, RecoverSettings, recover
from recon.attacks.scales import Scale, scale_for
from recon.attacks.separation import FirstLayer, Separated, separate
from recon.chapters.base import Context, Outcome, Tensors
from recon.chapters.common import match_table, nulls_of
from recon.chapters.decoreco_regimes.metrics import Cell, Metrics
from recon.chapters.decoreco_regimes.sizes import Net, Sizes
from recon.chapters.tables import flat
from recon.images.bundle import Bundle
from recon.nets.gram import layer_norms
from recon.nets.mlp import MLP
from recon.released import Weights
from recon.scoring.matching import padded
from recon.training import kkt
from recon.training.decayed import train_with_decay


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Every network, attacked in every way."""
    cells, arrays = [], Tensors()
    for k, net in enumerate(sizes.nets):
        images = context.images(net.n_train)
        trained = _trained(net, context, images, k)
        separated = None
        for way in sizes.ways:
            if way != "noise" and separated is None:
                separated = separate(FirstLayer.of(trained.weights), images.shape, sizes.separation)
            cell, x_hat = _cell(sizes, context, images, trained, way, separated, f"net-{k}-{way}")
            cells.append(cell)
            arrays[f"x_hat_{k}_{way}"] = x_hat
    metrics = Metrics(n_train=sizes.n_train, cells=cells, rank_correlation=_rank_correlation(cells))
    return Outcome(metrics, arrays)


@dataclass(frozen=True)
class _Trained:
    """A network, log of its loss, the seconds of its training, and what its images leave: ‖·‖² by layer, (L,)."""

    net: Net
    weights: Weights
    loss: float
    seconds: float
    left: Tensor


def _trained(net: Net, context: Context, images: Bundle, k: int) -> _Trained:
    start = time.perf_counter()
    network = MLP((images.dim, net.width, net.width, 1))
    theta = network.flatten(network.init(context.stream("kkt.weights", k), "small")).to(images.train)
    checkpoint = context.checkpoints.at(f"training-{k}")
    if net.weight_decay is None:
        found = kkt.train_to_kkt(network, images.train, images.y, theta, kkt.KKTSettings(net.steps), checkpoint)
        theta, loss = found.theta_star, found.log_loss
    else:
        decayed = train_with_decay(network, images.train, images.y, theta, net.decay(), checkpoint)
        theta, loss = decayed.theta_star, torch.tensor(decayed.loss).log().item()
    left = kkt.certificate(network, theta, images.train, images.y, alpha=100.0).energy_by_layer
    return _Trained(net, Weights(network, theta), loss, time.perf_counter() - start, left)


def _cell(
    sizes: Sizes,
    context: Context,
    images: Bundle,
    trained: _Trained,
    way: str,
    separated: Separated | None,
    name: str,
) -> tuple[Cell, Tensor]:
    """One way's row, and its candidates (m, d)."""
    weights, m = trained.weights, 2 * len(images)
    start = time.perf_counter()
    if way == "separated":
        assert separated is not None
        x_hat, basis, said = padded(both_signs(separated)[:m], m), separated.basis, {}
    else:
        settings, x_init = _settings(sizes, m, way, separated)
        scale = scale_for(weights, settings, context.seed, x_init)
        settings = replace(settings, multiplier_scales=(scale.value,))
        found = recover(weights, settings, context.stream("kkt.attack"), context.checkpoints.inside(name), x_init)
        assert found.basis is not None  # projected
        x_hat, basis, said = found.x_hat, found.basis, _said(found, trained, scale)
    seconds = time.perf_counter() - start
    nulls = nulls_of(context, images, weights.network, weights.theta_star, m, basis)
    norms = layer_norms(weights.network, weights.params).double()
    net = trained.net
    cell = Cell(
        **flat(match_table(x_hat, images, nulls)),
        regime="margin" if net.weight_decay is None else "decay",
        n_train=len(images),
        width=net.width,
        train_steps=net.steps,
        weight_decay=net.weight_decay or 0.0,
        loss=trained.loss,
        train_seconds=round(trained.seconds, 2),
        truth_share=(trained.left / norms).tolist(),
        truth_energy=trained.left.sum().item(),
        way=way,
        m=m,
        recon_seconds=round(seconds, 2),
        **said,
    )
    return cell, x_hat


def _settings(sizes: Sizes, m: int, way: str, separated: Separated | None) -> tuple[RecoverSettings, Tensor | None]:
    """Of the attack from noise; or begun at the sources, each with both signs and both labels, of which the m that
    contribute most are kept."""
    if way == "noise":
        return replace(sizes.attack, m=m), None
    assert separated is not None
    both = both_signs(separated)
    return replace(sizes.refine, m=m, candidates=2 * len(both), distinct=1.0), torch.cat([both, both])


def both_signs(found: Separated) -> Tensor:
    """Sources as s_1, −s_1, s_2, −s_2, …, most contributing first: (2r, d)."""
    return torch.stack([found.sources, -found.sources], dim=1).flatten(0, 1)


def _said(found: Recovered, trained: _Trained, scale: Scale) -> dict:
    """What the attack says of itself, beside what the truth leaves."""
    best = int(found.energy.argmin())
    by_layer, weights = found.by_layer[best].double(), trained.weights
    lower = found.history[:, best].double()
    return {
        "energy": by_layer.sum().item(),
        "energy_share": (by_layer / layer_norms(weights.network, weights.params).double()).tolist(),
        "below_truth": bool(by_layer.sum() < trained.left.sum()),
        "scale": scale.value,
        "scales_tried": list(scale.tried),
        "scale_inside": scale.inside,
        "fell": 1 - (lower[-1] / lower[int(0.9 * len(lower)) - 1]).item(),
    }


def _rank_correlation(cells: list[Cell]) -> float | None:
    rows = [cell for cell in cells if cell.way == "noise"]
    if len(rows) < 3:
        return None
    return float(spearmanr([predictor(cell) for cell in rows], [cell.excess_share for cell in rows]).statistic)


def predictor(cell: Cell) -> float:
    """What the truth leaves of the first layer, where images are: a share."""
    return cell.truth_share[0]
