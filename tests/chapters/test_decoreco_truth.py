"""Chapter 11: energies at equal footing, and each verdict in both directions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from recon.chapters import load
from recon.chapters.decoreco_truth import DECORECO_TRUTH
from recon.chapters.decoreco_truth.metrics import ByStart

PUBLISHED = Path(__file__).parents[2] / "book" / "executed" / "results" / "decoreco-truth"


@pytest.fixture(scope="module")
def smoke(runs):
    return runs("decoreco-truth")


@pytest.mark.parametrize(
    ("after", "found", "expected"),
    [(0.09, 0, "not reproduced"), (0.05, 0, "reproduced"), (0.05, 30, "partly"), (0.09, 30, "not reproduced")],
)
def test_other_images_are_as_good_only_after_against_after(after, found, expected):
    """Below the truth as it is, 0.1, is not enough: the attack from the truth reaches 0.05."""
    metrics = load(PUBLISHED, arrays=False).metrics
    partition = replace(metrics.matches_after_attack.partition, ncc_06=found)
    metrics = replace(
        metrics,
        energy_fitted=replace(metrics.energy_fitted, truth=0.1),
        energy_after_attack=replace(metrics.energy_after_attack, truth=0.05, partition=after),
        matches_after_attack=replace(metrics.matches_after_attack, partition=partition),
        converged=ByStart(truth=True, partition=True, random=False),
    )
    energy, as_good = DECORECO_TRUTH.claims(metrics, DECORECO_TRUTH.sizes["laptop"])
    assert (energy.verdict, as_good.verdict) == ("finding", expected)
    for unsettled in (None, replace(metrics.converged, truth=False), replace(metrics.converged, partition=False)):
        energy, without = DECORECO_TRUTH.claims(replace(metrics, converged=unsettled), DECORECO_TRUTH.sizes["laptop"])
        assert (energy.verdict, without.verdict) == ("finding", "no verdict")
        assert ("convergence not recorded" in without.ours) == (unsettled is None) != ("not converged" in without.ours)
    assert as_good.value == pytest.approx(after / 0.05)
    assert f"results: {found} " in as_good.null


def test_truth_is_not_the_minimum_but_no_other_images_come_near(smoke):
    before, after = smoke.metrics.energy_fitted, smoke.metrics.energy_after_attack
    assert before.truth < before.partition <= 1.0
    assert after.truth <= before.truth * 1.1  # steps of a fixed size: the end may lie a little higher
    assert after.truth < 0.5 * min(after.partition, after.random)
    assert before.named() == {"truth": before.truth, "partition": before.partition, "random": before.random}
    assert list(after.named().values()) == [after.truth, after.partition, after.random]


def test_columns_belong_to_their_start(smoke):
    metrics = smoke.metrics
    assert metrics.matches_after_attack.truth.ncc_06 == metrics.n_train  # it starts there
    for start, null in metrics.null_after_attack.named().items():
        assert metrics.nulls_after_attack.named()[start]["held_out"] == null
        best, found = metrics.best_null_after_attack.named()[start], metrics.matches_after_attack.named()[start]
        assert metrics.excess_after_attack.named()[start].ncc_06 == found.ncc_06 - best.ncc_06
        name = metrics.best_null_name_after_attack.named()[start].ncc_06
        assert metrics.nulls_after_attack.named()[start][name].ncc_06 == best.ncc_06


def test_figures_draw(smoke):
    for draw in DECORECO_TRUTH.figures.values():
        figure = draw(smoke)
        assert min(figure.get_facecolor()) > 0.99
        plt.close(figure)
