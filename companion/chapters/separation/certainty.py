"""How sure the adversary can be: calibrated on networks of their own, assessed on those that are attacked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from companion.chapters.base import Context
from companion.chapters.common import ReleasedNet, train_released
from companion.chapters.separation.sizes import Sizes
from companion.chapters.separation_common import is_true, others_of
from companion.chapters.tables import flat
from companion.store.record import Record
from recon.attacks.separation import FirstLayer, Separated, separate
from recon.images.bundle import Bundle
from recon.released import Weights
from recon.scoring.certainty import EVIDENCE, assessed, calibrated, evidence, gate_agreement, probability

SHADOW_OFFSET = 500  # of the adversary's networks: added to their number of images


@dataclass(frozen=True)
class Judged:
    """A network, what was separated from it, and which of that is true (r,)."""

    released: ReleasedNet
    n_train: int
    found: Separated
    true: Tensor


def first_layer(released: ReleasedNet) -> Tensor:
    """w1 (h, d) of a released network."""
    return released.network.unflatten(released.theta_star)["w1"]


def certainty(
    sizes: Sizes, context: Context, images: Bundle, released: ReleasedNet, found: Separated
) -> tuple[Record, Tensor, Tensor]:
    """Calibrated on shadow networks, trained on the other partition; assessed on this network and on one that holds
    more images, where separation begins to fail: metrics, then probability and truth of every candidate, this network's
    first.  Also the AUC of each kind of evidence alone."""
    shadows = [attacked(sizes, context, n, shadow=True) for n in sizes.shadow_n]
    model = calibrated([(shadow.found, shadow.true) for shadow in shadows])
    judged = [judge(context, images, released, found)]
    judged += [attacked(sizes, context, n) for n in sizes.harder_n]
    said = [probability(model, each.found) for each in judged]
    probabilities, truth = torch.cat(said), torch.cat([each.true for each in judged])
    networks = {f"n = {each.n_train}": assessment(p, each.true) for each, p in zip(judged, said, strict=True)}
    metrics = Record(
        **flat(assessment(probabilities, truth)),
        networks=networks,
        single=single_auc(judged, truth),
        shadows=list(sizes.shadow_n),
    )
    return metrics, probabilities, truth


def assessment(said: Tensor, true: Tensor) -> Record:
    """`recon.scoring.certainty.assessed` of probabilities (m,) and truth (m,)."""
    found = assessed(said, true)
    return Record(**{**found, "reliability": [(mean, share, number) for mean, share, number in found["reliability"]]})


def attacked(sizes: Sizes, context: Context, n: int, shadow: bool = False) -> Judged:
    """A network of n images, trained and separated; a shadow network is trained on the adversary's own."""
    images = context.images(n, swapped=shadow)
    offset = SHADOW_OFFSET + n if shadow else n
    released = train_released(context, images, sizes.width, sizes.steps(n), offset)
    w1 = first_layer(released)
    found = separate(FirstLayer(w1), images.shape, sizes.attack, context.stream("separation.attack"))
    return judge(context, images, released, found)


def judge(context: Context, images: Bundle, released: ReleasedNet, found: Separated) -> Judged:
    """Truth, by the images and others that nobody trained on."""
    true = is_true(found, images.train, others_of(context, images.train_index, images.mean))
    return Judged(released, len(images.train), found, true)


def single_auc(judged: list[Judged], truth: Tensor) -> Record:
    """AUC of sparsity, stability, share, and of the agreement with the network's own gates, each alone."""
    columns = np.concatenate([evidence(each.found) for each in judged])
    gates = torch.cat([gates_of(each) for each in judged])
    signals = {**dict(zip(EVIDENCE, columns.T, strict=True)), "gates": gates.cpu().numpy()}
    if truth.all() or not truth.any():
        return Record(**dict.fromkeys(signals))
    return Record(**{name: float(roc_auc_score(truth.cpu().numpy(), values)) for name, values in signals.items()})


def gates_of(judged: Judged) -> Tensor:
    """Agreement of each candidate (r,) with the network's own gates."""
    weights = Weights(judged.released.network, judged.released.theta_star)
    return gate_agreement(weights, judged.found.sources, judged.found.mixing).detach()
