"""Energies at equal footing, and each verdict in both directions."""

from __future__ import annotations

import sys

import matplotlib.pyplot as plt
import pytest

from companion.chapters.decoreco_truth import DECORECO_TRUTH
from companion.chapters.decoreco_truth.experiment import PARTS
from companion.chapters.run import run


@pytest.fixture(scope="module")
def smoke(runs):
    return runs("decoreco-truth")


def test_truth_is_not_the_minimum_but_no_other_images_come_near(smoke):
    before, after = smoke.metrics.energy_fitted, smoke.metrics.energy_after_attack
    assert before.truth < before.partition <= 1.0
    assert after.truth <= before.truth * 1.1  # steps of a fixed size: the end may lie a little higher
    assert after.truth < 0.5 * min(after.partition, after.random)
    assert before.only(*PARTS) == {"truth": before.truth, "partition": before.partition, "random": before.random}
    assert list(after.only(*PARTS).values()) == [after.truth, after.partition, after.random]


def test_energies_before_are_those_of_the_images_that_they_name(tmp_path, monkeypatch):
    """At sizes of nothing, with the sum of the pixels in the energy's place."""
    module = sys.modules["companion.chapters.decoreco_truth.experiment"]
    monkeypatch.setattr(module, "fitted_energy", lambda _net, x, _y, _alpha: x.double().sum().item())
    sizes = {"n_train": 6, "width": 8, "train_steps": 2, "attack.steps": 2, "attack.scale_steps": 1}
    found = run("decoreco-truth", profile="smoke", data="photos", device="cpu", out=tmp_path, **sizes)
    before = found.metrics.energy_fitted
    assert before.truth == pytest.approx(found.array("x_train").double().sum().item(), abs=1e-3)
    assert before.partition == pytest.approx(found.array("x_init").double().sum().item(), abs=1e-3)
    assert abs(before.partition) > 1 > abs(before.truth)  # the training mean is subtracted


def test_columns_belong_to_their_start(smoke):
    metrics = smoke.metrics
    assert metrics.matches_after_attack.truth.ncc_06 == metrics.n_train  # it starts there
    for start, null in metrics.null_after_attack.only(*PARTS).items():
        assert metrics.nulls_after_attack.only(*PARTS)[start]["held_out"] == null
        best, found = (
            metrics.best_null_after_attack.only(*PARTS)[start],
            metrics.matches_after_attack.only(*PARTS)[start],
        )
        assert metrics.excess_after_attack.only(*PARTS)[start].ncc_06 == found.ncc_06 - best.ncc_06
        name = metrics.best_null_name_after_attack.only(*PARTS)[start].ncc_06
        assert metrics.nulls_after_attack.only(*PARTS)[start][name].ncc_06 == best.ncc_06


def test_figures_draw(smoke):
    for draw in DECORECO_TRUTH.figures.values():
        figure = draw(smoke)
        assert min(figure.get_facecolor()) > 0.99
        plt.close(figure)
