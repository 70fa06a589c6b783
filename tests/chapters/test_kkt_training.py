"""Chapter 5: the smoke run, its identity, and what the page says of the published one."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from recon.chapters import load
from recon.chapters.kkt_training import KKT_TRAINING
from recon.chapters.kkt_training.compute import observation_steps
from recon.chapters.run import run

PUBLISHED = Path(__file__).parents[2] / "book" / "executed" / "results"


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    return run("kkt-training", "smoke", "photos", "cpu", out=tmp_path_factory.mktemp("kkt"))


@pytest.mark.parametrize("steps", [1, 5, 150, 6000])
def test_observed_steps_grow_to_the_last(steps):
    found = observation_steps(steps)
    assert found[0] == 1 and found[-1] == steps and list(found) == sorted(set(found)) and len(found) <= 14


def test_both_methods_are_observed_on_the_way(smoke):
    for method, found in (
        ("loss-scaled", smoke.metrics.loss_scaled),
        ("gradient-descent", smoke.metrics.gradient_descent),
    ):
        history = smoke.array(f"history_{method}")
        assert [row.step for row in found.observed] == list(observation_steps(150))
        assert all(row.log_loss == history[row.step - 1].item() for row in found.observed)
        assert (found.step, found.kkt_residual) == (150, found.observed[-1].kkt_residual)
    assert smoke.metrics.loss_scaled.log_loss < smoke.metrics.gradient_descent.log_loss
    reached = smoke.metrics.steps_to_reference_loss
    history = smoke.array("history_loss-scaled")
    assert history[reached - 1] <= -12.43 < history[: reached - 1].min()


def test_what_training_implies_leaves_the_gradient(smoke):
    """residual(implied λ) = ‖∇E‖ / (ω‖θ‖), an identity; fitted multipliers leave no more."""
    found = smoke.metrics.weight_decay
    assert found.implied_residual == pytest.approx(found.gradient_over_decay, rel=1e-6)
    assert found.kkt_residual <= found.implied_residual


def test_sentences_follow_the_numbers():
    result = load(PUBLISHED / "kkt-training", arrays=False)
    first, second = KKT_TRAINING.claims(result.metrics, KKT_TRAINING.sizes["laptop"])
    assert [first, second] == result.claims
    assert f"{result.metrics.steps_to_reference_loss} steps" in first.ours and first.paper == "1 000 000 epochs"
    assert f"{result.metrics.weight_decay.implied_residual:.2g}" in second.ours


def test_figures_draw(smoke):
    for draw in KKT_TRAINING.figures.values():
        figure = draw(smoke)
        assert figure.get_facecolor() == (1, 1, 1, 1)
        plt.close(figure)
