"""Chapter 8: the smoke run, and each verdict in both directions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import torch

from recon.chapters import load
from recon.chapters.decoreco_random import DECORECO_RANDOM
from recon.chapters.run import run

PUBLISHED = Path(__file__).parents[2] / "book" / "executed" / "results" / "decoreco-random"


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    return run("decoreco-random", "smoke", "photos", "cpu", out=tmp_path_factory.mktemp("random"))


def judged(metrics):
    return [claim.verdict for claim in DECORECO_RANDOM.claims(metrics, DECORECO_RANDOM.sizes["laptop"])]


def with_counts(found, count, null, best):
    return replace(
        found,
        matches=replace(found.matches, ncc_06=count),
        null=replace(found.null, ncc_06=null),
        best_null=replace(found.best_null, ncc_06=best),
        excess=replace(found.excess, ncc_06=count - best),
    )


@pytest.mark.parametrize(
    ("count", "null", "best", "fails", "finds"),
    [
        (3, 0, 0, "reproduced", "not reproduced"),
        (30, 0, 10, "not reproduced", "finding"),
        (30, 0, 29, "partly", "not reproduced"),
    ],
)
def test_untuned_start_is_judged_in_both_directions(count, null, best, fails, finds):
    metrics = load(PUBLISHED, arrays=False).metrics
    variants = metrics.variants
    changed = {name: with_counts(getattr(variants, name), count, null, best) for name in vars(variants)}
    metrics = replace(metrics, variants=replace(variants, **changed))
    assert judged(metrics) == [fails, finds]
    span = with_counts(metrics.variants.span, count, null, count)
    metrics = replace(metrics, variants=replace(metrics.variants, span=span))
    assert judged(metrics)[1] == ("partly" if finds == "finding" else finds)


def test_sentences_of_the_published_run_stand():
    result = load(PUBLISHED, arrays=False)
    assert [claim.id for claim in result.claims] == ["decoreco-random-fails", "decoreco-random-needs-no-tuning"]
    assert result.claims[0].ours.startswith(f"{result.metrics.variants.reference.matches.ncc_06} of 100 training")


def test_searches_at_smoke(smoke):
    metrics, variants = smoke.metrics, smoke.metrics.variants
    assert variants.pixels.searched_dimensions == 3072 and variants.span.searched_dimensions < 30
    assert (metrics.matches, metrics.energy) == (variants.reference.matches, variants.reference.energy)
    assert set(variants.named()) == {"reference", "reference, tuned scale", "pixels", "span", "pixels then span"}
    pixels, cleaned = smoke.array("x_hat_pixels"), smoke.array("x_hat_cleaned")
    rank = torch.linalg.matrix_rank(cleaned, rtol=1e-4)
    assert rank <= variants.span.searched_dimensions and cleaned.norm() < pixels.norm()
    torch.testing.assert_close((pixels * cleaned).sum(), cleaned.square().sum(), rtol=1e-4, atol=0)  # a projection


def test_figures_draw(smoke):
    for draw in DECORECO_RANDOM.figures.values():
        figure = draw(smoke)
        assert figure.get_facecolor() == (1, 1, 1, 1)
        plt.close(figure)
