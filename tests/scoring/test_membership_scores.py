"""Membership: scores against loops, statistics against definitions, and what holds under the
null.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from recon.scoring.membership import (
    FALSE_RATES,
    guessed,
    intervals,
    lira,
    named,
    permutation_p,
    probability,
    rmia,
)
from recon.scoring.roc import auc, true_rate


def test_lira_is_a_ratio_of_normal_densities():
    generator = torch.Generator().manual_seed(0)
    half = torch.rand(2, 30, generator=generator) < 0.5
    inside = torch.stack([half[0], ~half[0], half[1], ~half[1]])
    shadows = torch.randn(4, 30, generator=generator).double() + 2 * inside
    phi = torch.randn(30, generator=generator).double()

    def log_density(members):
        means, squares, freedom = [], 0.0, 0
        for column, chosen in zip(shadows.T.numpy(), members.T.numpy(), strict=True):
            values = column[chosen]
            means.append(values.mean())
            squares += ((values - values.mean()) ** 2).sum()
            freedom += len(values) - 1
        return norm.logpdf(phi, means, np.sqrt(squares / freedom))

    expected = log_density(inside) - log_density(~inside)
    np.testing.assert_allclose(lira(phi, shadows, inside), expected)


@pytest.mark.parametrize("gamma", [1.0, 1.3])
def test_rmia_counts_the_images_that_are_dominated(gamma):
    generator = torch.Generator().manual_seed(1)
    phi = torch.randn(12, generator=generator).double()
    shadows = torch.randn(4, 12, generator=generator).double()
    ratio = torch.sigmoid(phi) / torch.sigmoid(shadows).mean(0)
    dominated = ratio[:, None] / ratio >= gamma
    torch.testing.assert_close(rmia(phi, shadows, gamma), dominated.double().sum(1) / 11)


def test_statistics_against_their_definitions():
    random = np.random.default_rng(0)
    score, member = random.normal(size=300).round(1), np.arange(300) < 120
    score[member] += 0.5
    assert auc(score, member) == pytest.approx(roc_auc_score(member, score))
    for rate in (0.01, 0.1):
        passing = [t for t in np.unique(score) if (score[~member] > t).mean() <= rate]
        assert true_rate(score, member, rate) == max((score[member] > t).mean() for t in passing)
    low, high = intervals(score, member, 0, 200)["auc"]
    assert low < auc(score, member) < high


def test_the_probability_by_hand():
    """Members at 5, 4 and 1, others at 3, 2, 0 and −1: chance 1/5 · 3/1, 1/5 · 3/2 and 3/5 · 3/3,
    never rising.
    """
    score, member = np.array([5.0, 4, 1, 3, 2, 0, -1]), np.arange(7) < 3
    np.testing.assert_allclose(probability(score, member), [0.7, 0.7, 0.4])


def test_the_permutation_p_value_is_the_share_of_all_relabellings_that_rank_as_high():
    """Of the twenty choices of three in six, one ranks as high as the best three, and two as the
    next best.
    """
    for members, share in (((3, 4, 5), 1 / 20), ((2, 4, 5), 2 / 20)):
        p = permutation_p(np.arange(6.0), np.isin(np.arange(6), members), 0, 1999)
        assert p == pytest.approx(share, abs=0.025)


@pytest.mark.parametrize(("n", "others", "allowed"), [(4, 3, 0), (4, 3, 1), (3, 6, 2), (6, 2, 1)])
def test_a_guess_is_counted_over_all_orders_of_members_and_others(n, others, allowed):
    """Members above all but `allowed` of the others: their mean, and the least count that at most a
    share exceeds.
    """
    counts = []
    for members in combinations(range(n + others), n):  # places from the top
        barrier = sorted(set(range(n + others)) - set(members))[allowed]
        counts.append(sum(place < barrier for place in members))
    for rare in (0.041, 0.203, 0.551):  # none is a share that occurs
        mean, most = guessed(n, others, allowed, rare)
        assert mean == pytest.approx(np.mean(counts))
        assert most == min(c for c in range(n + 1) if np.mean(np.array(counts) > c) <= rare)


def test_weights_count_scores_as_often_as_they_say():
    random = np.random.default_rng(1)
    score, true = random.normal(size=40).round(1), np.arange(40) < 15
    times = random.integers(0, 4, size=(3, 40))
    areas, rates = auc(score, true, times), true_rate(score, true, 0.1, times)
    for row, area, rate in zip(times, areas, rates, strict=True):
        repeated = np.repeat(np.arange(40), row)
        assert area == pytest.approx(auc(score[repeated], true[repeated]))
        assert rate == pytest.approx(true_rate(score[repeated], true[repeated], 0.1))


def test_the_permutation_p_value_is_uniform_under_the_null():
    random = np.random.default_rng(0)
    member = np.arange(40) < 20
    p = np.array([permutation_p(random.normal(size=40), member, seed, 199) for seed in range(200)])
    assert 0.02 < (p < 0.1).mean() < 0.19 and p.min() >= 1 / 200


def test_rates_are_named_as_counts_of_members():
    names = [f"tpr_{rate:g}" for rate in FALSE_RATES]
    row = {**dict.fromkeys(names, 0.3), "intervals": dict.fromkeys(names, (0.2, 0.42))}
    found, rare = named(row, 50, 200).values()
    assert (found["count"], found["low"], found["high"], found["false_alarms"]) == (15, 10, 21, 2)
    assert (found["guess"], found["guess_most"]) == guessed(50, 200, 2) and found["resolved"]
    # one of a thousand, of two hundred others
    assert rare["false_alarms"] == 0 and not rare["resolved"]
