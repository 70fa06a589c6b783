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

from recon.scoring.membership import guessed, intervals, lira, permutation_p, probability, rmia
from recon.scoring.roc import auc, true_rate


def test_lira_is_a_ratio_of_normal_densities():
    generator = torch.Generator().manual_seed(0)
    half = torch.rand(2, 30, generator=generator) < 0.5
    inside = torch.stack([half[0], ~half[0], half[1], ~half[1]])
    phi, observed = (
        torch.randn(4, 30, generator=generator).double() + 2 * inside,
        torch.randn(30, generator=generator).double(),
    )
    found = lira(observed, phi, inside)
    deviations = {}
    for name, members in (("in", inside), ("out", ~inside)):
        parts = [phi[members[:, i], i] for i in range(30)]
        deviations[name] = np.sqrt(
            sum(((p - p.mean()) ** 2).sum().item() for p in parts) / sum(len(p) - 1 for p in parts)
        )
    for i in range(30):
        expected = [
            norm.logpdf(observed[i], phi[m[:, i], i].mean(), deviations[name])
            for name, m in (("in", inside), ("out", ~inside))
        ]
        assert found[i].item() == pytest.approx(expected[0] - expected[1])


def test_rmia_counts_the_images_that_are_dominated():
    generator = torch.Generator().manual_seed(1)
    phi, others = (
        torch.randn(12, generator=generator).double(),
        torch.randn(4, 12, generator=generator).double(),
    )
    ratio = torch.sigmoid(phi) / torch.sigmoid(others).mean(0)
    for gamma in (1.0, 1.3):
        expected = [sum(bool(r / s >= gamma) for s in ratio) / 11 for r in ratio]
        torch.testing.assert_close(rmia(phi, others, gamma), torch.tensor(expected).double())


def test_statistics_against_their_definitions():
    random = np.random.default_rng(0)
    score, member = random.normal(size=300).round(1), np.arange(300) < 120
    score[member] += 0.5
    assert auc(score, member) == pytest.approx(roc_auc_score(member, score))
    for rate in (0.01, 0.1):
        passing = [t for t in np.unique(score) if (score[~member] > t).mean() <= rate]
        assert true_rate(score, member, rate) == max((score[member] > t).mean() for t in passing)
    spread = intervals(score, member, 0, 200)
    assert spread["auc"][0] < auc(score, member) < spread["auc"][1]
    sure = probability(score, member)
    assert ((sure >= 0) & (sure <= 1)).all()
    order = np.argsort(score[member])
    assert (np.diff(sure[order]) >= -1e-12).all()


def test_the_probability_by_hand():
    """Members at 5, 4 and 1, others at 3, 2, 0 and −1: chance 1/5 · 3/1, 1/5 · 3/2 and 3/5 · 3/3,
    never rising.
    """
    score, member = np.array([5.0, 4, 1, 3, 2, 0, -1]), np.arange(7) < 3
    np.testing.assert_allclose(probability(score, member), [0.7, 0.7, 0.4])


def test_the_permutation_p_value_is_uniform_under_the_null_and_small_otherwise():
    random = np.random.default_rng(0)
    member = np.arange(40) < 20
    p = np.array([permutation_p(random.normal(size=40), member, seed, 199) for seed in range(200)])
    assert 0.02 < (p < 0.1).mean() < 0.19 and p.min() >= 1 / 200
    assert permutation_p(member + 0.1 * random.normal(size=40), member, 0, 999) == 1 / 1000


def test_the_permutation_p_value_is_the_share_of_all_relabellings_that_rank_as_high():
    """Of the twenty choices of three in six, one ranks as high as the best three, and two as the
    next best.
    """
    score, best = np.arange(6.0), np.arange(6) >= 3
    next_best = np.isin(np.arange(6), (2, 4, 5))
    assert permutation_p(score, best, 0, 1999) == pytest.approx(1 / 20, abs=0.02)
    assert permutation_p(score, next_best, 0, 1999) == pytest.approx(2 / 20, abs=0.025)


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
