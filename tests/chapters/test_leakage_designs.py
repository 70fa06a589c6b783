"""Rank correlations of designs with their bootstrap, against SciPy's own."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from companion.chapters.leakage_common import spearman
from companion.chapters.leakage_rank.story_designs import FEW, correlation


@pytest.mark.parametrize("seed", range(5))
def test_ranks_with_ties_correlate_as_scipys_do(seed):
    draw = np.random.default_rng(seed)
    x, y = draw.integers(0, 6, (4, 30)), draw.normal(size=(4, 30))
    assert spearman(x, y) == pytest.approx(
        [spearmanr(a, b).statistic for a, b in zip(x, y, strict=True)]
    )
    assert spearman(x, -y) == pytest.approx(-spearman(x, y))


def test_an_interval_holds_its_correlation_and_excludes_zero_where_all_agree():
    rho, low, high = correlation([float(k) for k in range(20)], [k**3 for k in range(20)])
    assert (rho, low, high) == pytest.approx((1, 1, 1))
    draw = np.random.default_rng(0)
    rho, low, high = correlation(list(draw.normal(size=40)), list(draw.normal(size=40)))
    assert low < rho < high and low < 0 < high
    assert correlation([1.0] * FEW, [float(k) for k in range(FEW)]) is None
    assert correlation([1.0, 2.0], [1.0, 2.0]) is None
