"""Energies at equal footing, and each verdict in both directions."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pytest

from recon.chapters.decoreco_truth import DECORECO_TRUTH


@pytest.fixture(scope="module")
def smoke(runs):
    return runs("decoreco-truth")


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
