"""The start from noise, and three starts with few images: what a smoke run holds."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pytest
import torch

from companion.chapters.decoreco_random import DECORECO_RANDOM, DECORECO_REFERENCE
from companion.chapters.decoreco_random.experiment import arms_of
from tests.records import replace


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


def test_searches_at_smoke(smoke):
    metrics, variants = smoke.metrics, smoke.metrics.variants
    assert variants.pixels.searched_dimensions == 3072 and variants.span.searched_dimensions < 30
    assert (metrics.matches, metrics.excess) == (variants.reference.matches, variants.reference.excess)
    named = {"reference", "reference, tuned scale", "span, reference net", "pixels", "pixels then span", "span"}
    assert set(arms_of(variants)) == named
    assert set(arms_of(replace(variants, reference_tuned_scale=None))) == named - {"reference, tuned scale"}
    pixels, cleaned = smoke.array("x_hat_pixels"), smoke.array("x_hat_cleaned")
    rank = torch.linalg.matrix_rank(cleaned, rtol=1e-4)
    assert rank <= variants.span.searched_dimensions and cleaned.norm() < pixels.norm()
    torch.testing.assert_close((pixels * cleaned).sum(), cleaned.square().sum(), rtol=1e-4, atol=0)  # a projection


def test_rows_of_the_recipe(table):
    metrics = table.metrics
    assert [(arm.start, arm.precision) for arm in metrics.arms] == [
        ("random", "float32"),
        ("partition", "float32"),
        ("tuned", "float32"),
        ("random", "bfloat16"),
    ]
    assert metrics.arm("tuned").moved > metrics.arm("partition").moved
    assert metrics.net.log_loss <= -12.429 and metrics.net.biases == "all"
    with pytest.raises(KeyError, match="was not run"):
        metrics.arm("tuned", "bfloat16")


def test_figures_draw(smoke, table):
    figures = [draw(smoke) for draw in DECORECO_RANDOM.figures.values()]
    figures += [draw(table) for draw in DECORECO_REFERENCE.figures.values()]
    for figure in figures:
        assert min(figure.get_facecolor()) > 0.99
        plt.close(figure)
