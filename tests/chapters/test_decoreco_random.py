"""The recipe from noise: what a smoke run holds."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def smoke(runs):
    return runs("decoreco-random")


def test_a_run_that_was_stopped_has_no_verdict(smoke):
    claim = smoke.claims[0]
    assert claim.verdict == "undecided" and "100 of 50,000 steps: undecided" in claim.ours
    assert [claim.id for claim in smoke.claims] == ["decoreco-random-fails"]


def test_the_recipe_runs_from_noise(smoke):
    random = smoke.metrics.variants.reference
    assert random.start == "random" and random.m == len(smoke.array("x_hat_random")) == 40
    assert smoke.array("x_init_random").std().item() == pytest.approx(1.0, rel=0.01)
