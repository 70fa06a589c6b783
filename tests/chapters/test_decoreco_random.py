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


def test_the_recipe_runs_from_noise_and_from_its_tuned_scale(smoke):
    variants = smoke.metrics.variants
    random, tuned = variants.reference, variants.reference_tuned_scale
    assert (random.start, tuned.start) == ("random", "tuned") and random.m == len(smoke.array("x_hat_random")) == 40
    sizes = [smoke.array(f"x_init_{name}").std().item() for name in ("random", "tuned")]
    assert sizes == pytest.approx([1.0, 8.857e-4], rel=0.01)


def test_rows_of_the_recipe(table):
    metrics = table.metrics
    assert [(arm.start, arm.precision) for arm in metrics.arms] == [
        ("random", "float32"),
        ("partition", "float32"),
        ("tuned", "float32"),
        ("random", "bfloat16"),
    ]
    assert {arm.steps for arm in metrics.arms} == {60}
    assert metrics.arm("tuned").moved > metrics.arm("partition").moved
    assert metrics.net.log_loss <= -12.429
    with pytest.raises(KeyError, match="was not run"):
        metrics.arm("tuned", "bfloat16")
