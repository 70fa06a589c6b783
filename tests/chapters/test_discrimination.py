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
    auc,
    estimate,
    guess,
    image_weights,
    precision,
    share_true,
    true_rate,
)


def scored(m=60, share=0.3, seed=0, strength=1.0, digits=1, images=20):
    """Ties by rounding."""
    generator = np.random.default_rng(seed)
    true = generator.random(m) < share
    score = np.round(generator.normal(size=m) + strength * true, digits)
    generator.random(m)  # so that what follows is drawn as ever
    return Scored(score, true, generator.integers(images, size=m))


def ones(found):
    return np.ones((1, len(found.score)))


def repeated(found, counts):
    rows = np.repeat(np.arange(len(counts)), counts)
    return Scored(found.score[rows], found.true[rows], found.image[rows])


@pytest.mark.parametrize("seed", range(3))
def test_measures_by_other_means(seed):
    found = scored(seed=seed)
    assert auc(found, ones(found))[0] == pytest.approx(roc_auc_score(found.true, found.score))
    order = np.argsort(-found.score, kind="stable")
    assert precision(found, ones(found))[0] == pytest.approx(found.true[order][:20].mean())
    assert share_true(found, ones(found))[0] == pytest.approx(found.true.mean())


@pytest.mark.parametrize("m", [40, 400])
def test_true_rate_by_a_loop_over_thresholds(m):
    for seed in range(5):
        found = scored(m=m, seed=seed, strength=2.0)
        rates = [0.0]
        for threshold in np.unique(found.score):
            accepted = found.score >= threshold
            if accepted[~found.true].mean() <= 0.01:
                rates.append(accepted[found.true].mean())
        assert true_rate(found, ones(found))[0] == pytest.approx(max(rates))


@pytest.mark.parametrize("measure", [*MEASURES.values(), share_true])
def test_a_weight_is_so_many_copies(measure):
    found = scored(digits=8)
    counts = np.random.default_rng(1).integers(4, size=(30, 60))
    by_copies = [measure(repeated(found, row), ones(repeated(found, row)))[0] for row in counts]
    assert measure(found, counts.astype(float)) == pytest.approx(by_copies)


def test_perfect_inverse_and_undefined():
    true = np.array([True, True, False, False])
    nobody = np.zeros(0)
    for score, area, rate in ((true, 1.0, 1.0), (~true, 0.0, 0.0), (np.ones(4), 0.5, 0.0)):
        found = Scored(score.astype(float), true, np.arange(4))
        assert auc(found, ones(found))[0] == area and true_rate(found, ones(found))[0] == rate
    only = Scored(np.arange(3.0), np.ones(3, dtype=bool), np.arange(3))
    assert np.isnan([auc(only, ones(only))[0], true_rate(only, ones(only))[0]]).all()
    assert precision(only, ones(only))[0] == 1.0
    empty = Scored(nobody, nobody.astype(bool), nobody.astype(int))
    for measure in (*MEASURES.values(), share_true):
        assert (
            np.isnan(measure(empty, np.ones((2, 0)))).all()
            and len(measure(empty, np.ones((2, 0)))) == 2
        )


def test_a_guess_is_what_random_scores_have():
    networks = [scored(m=50, share=0.4, seed=1), scored(m=300, share=0.2, seed=2)]
    generator = np.random.default_rng(0)
    draws = {name: [] for name in MEASURES}
    for _ in range(800):
        by_chance = [Scored(generator.random(len(n.true)), n.true, n.image) for n in networks]
        for name, measure in MEASURES.items():
            draws[name].append(np.mean([measure(each, ones(each))[0] for each in by_chance]))
    expected = {"auc": 0.5, **guess(networks)}
    for name in MEASURES:
        assert np.mean(draws[name]) == pytest.approx(expected[name], abs=0.012)
    assert guess([]) == {"tpr_at_1pct_fpr": None, "precision_at_20": None}


def test_images_are_drawn_with_all_that_belongs_to_them():
    image = np.array([7, 3, 7, 9, 3, 3])
    weights = image_weights(image, 500, np.random.default_rng(0))
    assert weights.shape == (500, 6)
    assert (weights[:, 0] == weights[:, 2]).all() and (weights[:, 1] == weights[:, 4]).all()
    # three images, drawn three times
    assert (weights[:, 0] + weights[:, 1] + weights[:, 3] == 3).all()
    assert weights.mean(0) == pytest.approx(1, abs=0.1)
    assert image_weights(image[:0], 4, np.random.default_rng(0)).shape == (4, 0)


def test_an_estimate_is_the_mean_over_networks_and_its_interval_covers():
    networks = [scored(seed=k, digits=8) for k in range(6)]
    found = estimate(auc, networks, 400, np.random.default_rng(0))
    assert found.mean == pytest.approx(np.mean([auc(each, ones(each))[0] for each in networks]))
    assert found.low < found.mean < found.high and len(found["values"]) == 6
    alone = [estimate(auc, [each], 400, np.random.default_rng(0)) for each in networks]
    assert found.high - found.low < 0.7 * np.mean([each.high - each.low for each in alone])
    truth = 0.7602  # P(N(1, 2) > 0)
    covered = 0
    for trial in range(60):
        every = [scored(m=80, seed=1000 * trial + k, digits=8) for k in range(5)]
        interval = estimate(auc, every, 200, np.random.default_rng(trial))
        covered += interval.low <= truth <= interval.high
    assert 48 <= covered <= 60


def test_dependent_candidates_widen_the_interval():
    """Ten copies of every candidate are no more evidence."""
    few = [scored(m=60, seed=k, digits=8, images=10**6) for k in range(3)]
    copies = [repeated(each, np.full(60, 10)) for each in few]
    once, often = (estimate(auc, each, 400, np.random.default_rng(0)) for each in (few, copies))
    assert often.high - often.low == pytest.approx(once.high - once.low, rel=0.15)


def test_networks_that_cannot_be_judged_are_left_out():
    one = Scored(np.arange(3.0), np.ones(3, dtype=bool), np.arange(3))
    found = estimate(auc, [scored(digits=8), one], 100, np.random.default_rng(0))
    assert [found.mean, None] == found["values"] and found.low <= found.mean <= found.high
    none = estimate(auc, [one], 100, np.random.default_rng(0))
    assert none.mean is none.low is none.high is None
