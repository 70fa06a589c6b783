"""The recipe from noise: what a smoke run holds."""

from __future__ import annotations

import pytest


def test_the_recipe_runs_from_noise_and_is_not_judged_before_its_end(runs):
    smoke = runs("decoreco-random")
    arm = smoke.metrics.variants.reference
    assert arm.start == "random" and arm.m == len(smoke.array("x_hat_random")) == 40
    assert smoke.array("x_init_random").std().item() == pytest.approx(1.0, rel=0.01)
    assert "100 of 50,000 steps: undecided" in smoke.claims[0].ours
