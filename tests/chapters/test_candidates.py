"""Other sets with the same weights: their pixels are those of images."""

from __future__ import annotations

import pytest

from companion.chapters.candidates.experiment_sets import NOISE, NOT_BLIND, PHOTOGRAPH

APPENDIX = True  # its smoke runs are those of `make test-all`


@pytest.fixture
def sets(runs):
    return runs("counterfactual-sets")


def test_all_pixels_of_the_pairs_are_between_black_and_white(sets):
    x, mean = sets.array("x_train"), sets.array("mean")
    for name in (NOISE, PHOTOGRAPH, NOT_BLIND):
        v = sets.array(f"move_{name}")
        for sign in (1, -1):
            pixels = x + mean + sign * v
            assert pixels.min() > -1e-6 and pixels.max() < 1 + 1e-6
