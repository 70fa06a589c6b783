"""Every measure against a loop over candidates or scikit-learn, ties included; the null by chance;
intervals that cover.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from companion.chapters.decoreco_adversary.discrimination import (
    MEASURES,
    Scored,
    attainable,
    auc,
    estimate,
    guess,
    image_weights,
    precision,
    share_true,
)


def scored(m=60, share=0.3, seed=0, strength=1.0, digits=1, images=20):
    """Ties by rounding."""
    generator = np.random.default_rng(seed)
    true = generator.random(m) < share
    score = np.round(generator.normal(size=m) + strength * true, digits)
    generator.random(m)  # so that what follows is drawn as ever
    return Scored(score, true, generator.integers(images, size=m))


def plain(measure, network):
    """With every candidate once."""
    return measure(network, np.ones((1, len(network.score))))[0]


@pytest.mark.parametrize("seed", range(3))
def test_measures_by_other_means(seed):
    network = scored(seed=seed)
    order = np.argsort(-network.score, kind="stable")
    assert plain(auc, network) == pytest.approx(roc_auc_score(network.true, network.score))
    assert plain(precision, network) == pytest.approx(network.true[order][:20].mean())
    assert plain(share_true, network) == pytest.approx(network.true.mean())


@pytest.mark.parametrize("measure", [*MEASURES.values(), share_true])
def test_a_weight_is_so_many_copies(measure):
    network = scored(digits=8)
    counts = np.random.default_rng(1).integers(4, size=(30, 60))
    copies = [network.take(np.repeat(np.arange(60), row)) for row in counts]
    expected = [plain(measure, copy) for copy in copies]
    assert measure(network, counts.astype(float)) == pytest.approx(expected)


def test_perfect_inverse_and_undefined():
    true = np.array([True, True, False, False])
    for score, area in ((true, 1.0), (~true, 0.0), (np.ones(4), 0.5)):
        assert plain(auc, Scored(score.astype(float), true, np.arange(4))) == area
    only = Scored(np.arange(3.0), np.ones(3, dtype=bool), np.arange(3))
    assert np.isnan(plain(auc, only))
    assert plain(precision, only) == 1.0
    empty = only.take(np.zeros(0, dtype=int))
    for measure in (*MEASURES.values(), share_true):
        assert np.isnan(measure(empty, np.ones((2, 0)))).tolist() == [True, True]


def test_a_guess_is_what_random_scores_have():
    networks = [scored(m=50, share=0.4, seed=1), scored(m=300, share=0.2, seed=2)]
    generator = np.random.default_rng(0)
    for name, measure in MEASURES.items():
        means = [
            np.mean(
                [
                    plain(measure, Scored(generator.random(len(n.true)), n.true, n.image))
                    for n in networks
                ]
            )
            for _ in range(800)
        ]
        expected = {"auc": 0.5, **guess(networks)}[name]
        assert np.mean(means) == pytest.approx(expected, abs=0.012)
    assert guess([]) == {"precision_at_20": None}


def test_what_is_attainable():
    def network(true, m):
        return Scored(np.zeros(m), np.arange(m) < true, np.arange(m))

    assert attainable([network(15, 50)]) == 0.75
    assert attainable([network(30, 50), network(5, 10)]) == 0.75
    assert attainable([network(0, 0)]) is None


def test_images_are_drawn_with_all_that_belongs_to_them():
    image = np.array([7, 3, 7, 9, 3, 3])
    weights = image_weights(image, 500, np.random.default_rng(0))
    assert weights.shape == (500, 6)
    assert (weights[:, 0] == weights[:, 2]).all() and (weights[:, 1] == weights[:, 4]).all()
    # three images, drawn three times
    assert (weights[:, 0] + weights[:, 1] + weights[:, 3] == 3).all()
    assert weights.mean(0) == pytest.approx(1, abs=0.1)
    assert image_weights(image[:0], 4, np.random.default_rng(0)).shape == (4, 0)


def interval(networks, draws=400, seed=0):
    return estimate(auc, networks, draws, np.random.default_rng(seed))


def width(networks):
    number = interval(networks)
    return number.high - number.low


def test_an_estimate_is_the_mean_over_networks_and_its_interval_covers():
    networks = [scored(seed=k, digits=8) for k in range(6)]
    number = interval(networks)
    assert number.mean == pytest.approx(np.mean([plain(auc, network) for network in networks]))
    assert number.low < number.mean < number.high and len(number["values"]) == 6
    assert width(networks) < 0.7 * np.mean([width([network]) for network in networks])
    truth = 0.7602  # P(N(1, 2) > 0)
    covered = 0
    for trial in range(60):
        every = [scored(m=80, seed=1000 * trial + k, digits=8) for k in range(5)]
        number = interval(every, 200, trial)
        covered += number.low <= truth <= number.high
    assert 48 <= covered <= 60


def test_dependent_candidates_widen_the_interval():
    """Ten copies of every candidate are no more evidence."""
    few = [scored(m=60, seed=k, digits=8, images=10**6) for k in range(3)]
    copies = [network.take(np.repeat(np.arange(60), 10)) for network in few]
    assert width(copies) == pytest.approx(width(few), rel=0.15)


def test_networks_that_cannot_be_judged_are_left_out():
    only = Scored(np.arange(3.0), np.ones(3, dtype=bool), np.arange(3))
    number = interval([scored(digits=8), only], 100)
    assert [number.mean, None] == number["values"] and number.low <= number.mean <= number.high
    none = interval([only], 100)
    assert none.mean is none.low is none.high is None
