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

from companion.store.record import Record
from recon.scoring import roc
from recon.scoring.roc import ratio

Array = np.ndarray
FALSE_RATE = 0.01
TRUSTED = 20


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


def auc(found: Scored, weights: Array) -> Array:
    """Area under the ROC curve (B,) for weights (B, m) of the candidates, see
    `recon.scoring.roc`.
    """
    return np.asarray(roc.auc(found.score, found.true, weights))


def true_rate(found: Scored, weights: Array) -> Array:
    """Share of the true candidates that are accepted while at most `FALSE_RATE` of the false ones
    are, (B,).
    """
    return np.asarray(roc.true_rate(found.score, found.true, FALSE_RATE, weights))


def precision(found: Scored, weights: Array) -> Array:
    """Share of true ones among the `TRUSTED` with the highest scores (all of fewer), (B,). NaN for
    none.
    """
    order = np.argsort(-found.score, kind="stable")
    w = weights[:, order]
    before = w.cumsum(1) - w
    taken = np.clip(TRUSTED - before, 0, w)
    return ratio((taken * found.true[order]).sum(1), taken.sum(1))


def share_true(found: Scored, weights: Array) -> Array:
    """Share of the candidates that are true, (B,): what a guess is right about.  NaN for none."""
    return ratio((weights * found.true).sum(1), weights.sum(1))


Measure = Callable[[Scored, Array], Array]
MEASURES: dict[str, Measure] = {
    "auc": auc,
    "tpr_at_1pct_fpr": true_rate,
    "precision_at_20": precision,
}


def guess(networks: Sequence[Scored]) -> Record:
    """What scores drawn at random have on average, where an AUC has ½: the null of the other
    `MEASURES`. None for no networks.

    With F false candidates, k = ⌊F · FALSE_RATE⌋ may be accepted; a random order has (k + 1)/(F +
    1) of the true ones before the next. Only networks with true and false candidates count there.
    """
    false = [int((~each.true).sum()) for each in networks if each.both]
    rates = [(int(FALSE_RATE * number) + 1) / (number + 1) for number in false]
    shares = [float(each.true.mean()) for each in networks if len(each.true)]
    return Record(
        tpr_at_1pct_fpr=float(np.mean(rates)) if rates else None,
        precision_at_20=float(np.mean(shares)) if shares else None,
    )


def attainable(networks: Sequence[Scored]) -> float | None:
    """Mean share of true ones among the `TRUSTED` most trusted (all of fewer) if the score were the
    truth; None where there are no candidates.
    """
    best = [
        min(int(each.true.sum()), TRUSTED) / min(len(each.true), TRUSTED)
        for each in networks
        if len(each.true)
    ]
    return float(np.mean(best)) if best else None


def estimate(
    measure: Measure, networks: Sequence[Scored], draws: int, generator: np.random.Generator
) -> Record:
    """A measure of `MEASURES`: mean over the networks where it is defined · low, high: central 95 %
    of the bootstrap · values: of each network. None where it is not defined.

    Every draw takes as many networks as there are, with replacement, and of each as many of its
    images as it has, with replacement. The same generator state gives the same images for every
    measure: differences are paired.
    """
    values = np.array([measure(each, np.ones((1, len(each.score))))[0] for each in networks])
    resampled = np.stack(
        [measure(each, image_weights(each.image, draws, generator)) for each in networks]
    )
    network = generator.integers(len(networks), size=(len(networks), draws))
    draw = generator.integers(draws, size=(len(networks), draws))
    means = _nanmean(resampled[network, draw], axis=0)
    known = means[~np.isnan(means)]
    low, high = np.quantile(known, [0.025, 0.975]) if len(known) else (np.nan, np.nan)
    mean, low, high, *each = (
        float(v) if np.isfinite(v) else None for v in (_nanmean(values), low, high, *values)
    )
    return Record(mean=mean, low=low, high=high, values=each)


def image_weights(image: Array, draws: int, generator: np.random.Generator) -> Array:
    """How often each of m candidates is drawn (draws, m), when the images that they belong to are
    drawn with replacement, as many as there are.
    """
    _, member = np.unique(image, return_inverse=True)
    number = int(member.max(initial=-1)) + 1
    drawn = (
        generator.integers(number, size=(draws, number))
        if number
        else np.zeros((draws, 0), dtype=np.int64)
    )
    counts = np.zeros((draws, number))
    np.add.at(counts, (np.arange(draws)[:, None], drawn), 1.0)
    return counts[:, member]


def _nanmean(values: Array, axis: int | None = None) -> Array:
    """Mean of what is not NaN; NaN, without a warning, where all is."""
    known = ~np.isnan(values)
    return ratio(np.where(known, values, 0.0).sum(axis), known.sum(axis))
