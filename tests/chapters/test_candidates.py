"""Other sets with the same weights: what the smoke runs must show whatever the numbers are."""

from __future__ import annotations

import numpy as np
import pytest

from companion.chapters.candidates.experiment_sets import NOISE, NOT_BLIND, PHOTOGRAPH, TRUTH

APPENDIX = True  # its smoke runs are those of `make test-all`


@pytest.fixture
def sets(runs):
    return runs("counterfactual-sets")


def test_pairs_keep_every_condition_and_the_null_keeps_none(sets):
    rows = sets.metrics.sets
    truth, null = rows[TRUTH], rows[NOT_BLIND]
    for name in (NOISE, PHOTOGRAPH):
        assert rows[name].difference < 1e-12 and rows[name].margin_change < 1e-12
        assert rows[name].images == 2 * truth.images and rows[name].smallest_multiplier >= 0
    assert null.difference > 1e-3 and null.margin_change > 1e-3
    assert truth.difference == 0 and truth.ncc == pytest.approx(1)
    assert sets.metrics.freedom.blind == 3072 - 64 - truth.images


def test_all_pixels_of_the_pairs_are_between_black_and_white(sets):
    x, mean = sets.array("x_train"), sets.array("mean")
    for name in (NOISE, PHOTOGRAPH, NOT_BLIND):
        v = sets.array(f"move_{name}")
        for sign in (1, -1):
            pixels = x + mean + sign * v
            assert pixels.min() > -1e-6 and pixels.max() < 1 + 1e-6


def test_the_way_to_the_pairs(sets):
    for way in sets.metrics.slides.values():
        assert way.ncc[0] == pytest.approx(1)
        assert (np.diff(way.ncc) < 0).all() and way.edges[0] > way.edges[-1]
    x, v, target = (sets.array(name) for name in ("x_train", f"move_{PHOTOGRAPH}", "x_held_out"))
    assert ((x + v - target).norm(dim=1) <= (x - target).norm(dim=1)).all()
