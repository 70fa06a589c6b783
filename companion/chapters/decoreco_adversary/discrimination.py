"""How well a score tells true candidates from false ones, on several networks, with intervals over
images and networks.

A candidate belongs to the image that it resembles most. Candidates that resemble one image are no
independent evidence, and networks differ more than their candidates do. So the intervals come from
a bootstrap in two stages: networks are drawn with replacement, and within each its images are, with
all the candidates that belong to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from companion.chapters.evidence import TRUSTED
from companion.store.record import Record
from recon.scoring import roc
from recon.scoring.roc import ratio

Array = np.ndarray


@dataclass(frozen=True)
class Scored:
    """One network's m candidates:

    Attributes:
        score (m,), larger meaning "rather true".
        true (m,) bool.
        image (m,) int: the training image that each resembles most.
    """

    score: Array
    true: Array
    image: Array

    @property
    def both(self) -> bool:
        """Whether there are true and false candidates."""
        return bool(self.true.any() and not self.true.all())

    def take(self, rows: Array) -> Scored:
        """Some of the candidates."""
        return Scored(self.score[rows], self.true[rows], self.image[rows])


def auc(network: Scored, weights: Array) -> Array:
    """Area under the ROC curve (B,) for weights (B, m) of the candidates, see
    `recon.scoring.roc`.
    """
    return np.asarray(roc.auc(network.score, network.true, weights))


def precision(network: Scored, weights: Array) -> Array:
    """Share of true ones among the `TRUSTED` with the highest scores (all of fewer), (B,). NaN for
    none.
    """
    order = np.argsort(-network.score, kind="stable")
    w = weights[:, order]
    before = w.cumsum(1) - w
    taken = np.clip(TRUSTED - before, 0, w)
    return ratio((taken * network.true[order]).sum(1), taken.sum(1))


def share_true(network: Scored, weights: Array) -> Array:
    """Share of the candidates that are true, (B,): what a guess is right about.  NaN for none."""
    return ratio((weights * network.true).sum(1), weights.sum(1))


Measure = Callable[[Scored, Array], Array]
MEASURES: dict[str, Measure] = {
    "auc": auc,
    "precision_at_20": precision,
}


def guess(networks: Sequence[Scored]) -> Record:
    """What scores drawn at random have on average, where an AUC has ½: the share of true ones. None
    for no networks.
    """
    shares = [float(network.true.mean()) for network in networks if len(network.true)]
    return Record(precision_at_20=_mean(shares))


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def attainable(networks: Sequence[Scored]) -> float | None:
    """Mean share of true ones among the `TRUSTED` most trusted (all of fewer) if the score were the
    truth; None where there are no candidates.
    """
    true = [network.true for network in networks if len(network.true)]
    return _mean([min(int(t.sum()), TRUSTED) / min(len(t), TRUSTED) for t in true])


def estimate(
    measure: Measure, networks: Sequence[Scored], draws: int, generator: np.random.Generator
) -> Record:
    """A measure of `MEASURES`: mean over the networks where it is defined · low, high: central 95 %
    of the bootstrap · values: of each network. None where it is not defined.

    Every draw takes as many networks as there are, with replacement, and of each as many of its
    images as it has, with replacement. The same generator state gives the same images for every
    measure: differences are paired.
    """
    values = np.array([measure(n, np.ones((1, len(n.score))))[0] for n in networks])
    weights = [image_weights(n.image, draws, generator) for n in networks]
    resampled = np.stack([measure(n, w) for n, w in zip(networks, weights, strict=True)])
    network = generator.integers(len(networks), size=(len(networks), draws))
    draw = generator.integers(draws, size=(len(networks), draws))
    means = _nanmean(resampled[network, draw], axis=0)
    known = means[~np.isnan(means)]
    low, high = np.quantile(known, [0.025, 0.975]) if len(known) else (np.nan, np.nan)
    mean, low, high, *by_network = (
        float(v) if np.isfinite(v) else None for v in (_nanmean(values), low, high, *values)
    )
    return Record(mean=mean, low=low, high=high, values=by_network)


def image_weights(image: Array, draws: int, generator: np.random.Generator) -> Array:
    """How often each of m candidates is drawn (draws, m), when the images that they belong to are
    drawn with replacement, as many as there are.
    """
    images, member = np.unique(image, return_inverse=True)
    number = len(images)
    sample = generator.integers(max(number, 1), size=(draws, number))
    counts = np.zeros((draws, number))
    np.add.at(counts, (np.arange(draws)[:, None], sample), 1.0)
    return counts[:, member]


def _nanmean(values: Array, axis: int | None = None) -> Array:
    """Mean of what is not NaN; NaN, without a warning, where all is."""
    known = ~np.isnan(values)
    return ratio(np.where(known, values, 0.0).sum(axis), known.sum(axis))
