"""The start from noise, and three starts with few images: what a smoke run holds."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def table(runs):
    return runs("decoreco-reference")


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


def test_rows_of_the_recipe(table):
    metrics = table.metrics
    assert [arm.start for arm in metrics.arms] == ["random", "partition", "tuned"]
    assert {(arm.steps, arm.precision) for arm in metrics.arms} == {(60, "float32")}
    assert table.array("x_init_tuned").std().item() == pytest.approx(8.857e-4, rel=0.01)
    assert metrics.arm("tuned").moved > metrics.arm("partition").moved
    assert metrics.net.log_loss <= -12.429
