"""Rank correlations of designs with their bootstrap."""

from __future__ import annotations

import numpy as np
import pytest

from companion.chapters.leakage_rank.story_designs import FEW, correlation


def test_an_interval_holds_its_correlation_and_excludes_zero_where_all_agree():
    rho, low, high = correlation([float(k) for k in range(20)], [k**3 for k in range(20)])
    assert (rho, low, high) == pytest.approx((1, 1, 1))
    draw = np.random.default_rng(0)
    rho, low, high = correlation(list(draw.normal(size=40)), list(draw.normal(size=40)))
    assert low < rho < high and low < 0 < high
    assert correlation([1.0] * FEW, [float(k) for k in range(FEW)]) is None
    assert correlation([1.0, 2.0], [1.0, 2.0]) is None
