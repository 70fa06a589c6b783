"""Chapter 8: the smoke run, and each verdict in both directions."""

from __future__ import annotations

from dataclasses import replace

import matplotlib.pyplot as plt
import pytest
import torch

from recon.chapters.decoreco_random import DECORECO_RANDOM, DECORECO_REFERENCE


@pytest.fixture(scope="module")
def table(runs):
    return runs("decoreco-reference")


@pytest.fixture(scope="module")
def smoke(runs):
    return runs("decoreco-random")


def judged(metrics):
    return [claim.verdict for claim in DECORECO_RANDOM.claims(metrics, DECORECO_RANDOM.sizes["laptop"])]


def with_counts(found, count, null, best, **more):
    return replace(
        found,
        matches=replace(found.matches, ncc_06=count),
        null=replace(found.null, ncc_06=null),
        best_null=replace(found.best_null, ncc_06=best),
        excess=replace(found.excess, ncc_06=count - best),
        **more,
    )


@pytest.mark.parametrize(
    ("count", "null", "best", "fails", "finds"),
    [
        (3, 0, 0, "reproduced", "not reproduced"),
        (30, 0, 10, "not reproduced", "finding"),
        (30, 0, 29, "partly", "not reproduced"),
    ],
)
def test_untuned_start_is_judged_in_both_directions(smoke, count, null, best, fails, finds):
    metrics, variants = smoke.metrics, smoke.metrics.variants
    changed = {name: with_counts(getattr(variants, name), count, null, best) for name in vars(variants)}
    for name in ("reference", "pixels", "span", "span_reference_net"):
        changed[name] = replace(changed[name], converged=name != "reference")
    changed["reference"] = replace(changed["reference"], steps=50_000)
    metrics = replace(metrics, variants=replace(variants, **changed))
    assert judged(metrics) == [fails, finds]
    span = with_counts(metrics.variants.span, count, null, count)
    metrics = replace(metrics, variants=replace(metrics.variants, span=span))
    assert judged(metrics)[1] == ("partly" if finds == "finding" else finds)
    restless = replace(metrics.variants.pixels, converged=False)
    assert judged(replace(metrics, variants=replace(metrics.variants, pixels=restless)))[1] == "no verdict"


def test_a_run_that_was_stopped_has_no_verdict(smoke):
    claim = smoke.claims[0]
    assert claim.verdict == "no verdict" and "100 of 50,000 steps: no verdict" in claim.ours
    assert [claim.id for claim in smoke.claims] == ["decoreco-random-fails", "decoreco-random-needs-no-tuning"]


def test_searches_at_smoke(smoke):
    metrics, variants = smoke.metrics, smoke.metrics.variants
    assert variants.pixels.searched_dimensions == 3072 and variants.span.searched_dimensions < 30
    assert (metrics.matches, metrics.excess) == (variants.reference.matches, variants.reference.excess)
    named = {"reference", "reference, tuned scale", "span, reference net", "pixels", "pixels then span", "span"}
    assert set(variants.named()) == named
    assert set(replace(variants, reference_tuned_scale=None).named()) == named - {"reference, tuned scale"}
    pixels, cleaned = smoke.array("x_hat_pixels"), smoke.array("x_hat_cleaned")
    rank = torch.linalg.matrix_rank(cleaned, rtol=1e-4)
    assert rank <= variants.span.searched_dimensions and cleaned.norm() < pixels.norm()
    torch.testing.assert_close((pixels * cleaned).sum(), cleaned.square().sum(), rtol=1e-4, atol=0)  # a projection


@pytest.mark.parametrize(
    ("tuned", "random", "steps", "expected"),
    [
        (30, 2, 50_000, "finding"),
        (30, 2, 49_999, "no verdict"),
        (9, 2, 50_000, "not reproduced"),
        (30, 30, 50_000, "not reproduced"),
    ],
)
def test_the_scale_decides_or_not(table, tuned, random, steps, expected):
    counts = {"tuned": tuned, "random": random, "partition": 0}
    arms = [with_counts(arm, counts[arm.start], 0, 8, steps=steps) for arm in table.metrics.arms]
    claims = DECORECO_REFERENCE.claims(replace(table.metrics, arms=arms), DECORECO_REFERENCE.sizes["paper"])
    assert [claim.verdict for claim in claims] == [expected]
    one = [replace(arm, steps=100 if arm.start == "partition" else steps) for arm in arms]
    claims = DECORECO_REFERENCE.claims(replace(table.metrics, arms=one), DECORECO_REFERENCE.sizes["paper"])
    assert claims[0].verdict == "no verdict"


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
