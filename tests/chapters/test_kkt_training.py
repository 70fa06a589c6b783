"""Appendix A: the smoke run, its residuals and its identity."""

from __future__ import annotations

import pytest
import torch

from companion.chapters.base import stream
from companion.chapters.kkt_training.experiment import SIZES, observation_steps
from recon.nets.mlp import three_layer
from recon.training.kkt import KKTSettings, certificate, train_to_kkt

APPENDIX = True  # its smoke runs are those of `make test-all`


@pytest.fixture(scope="module")
def smoke(runs):
    return runs("kkt-training")


@pytest.mark.parametrize("steps", [1, 5, 150, 6000])
def test_observed_steps_grow_to_the_last(steps):
    found = observation_steps(steps)
    assert (
        found[0] == 1
        and found[-1] == steps
        and list(found) == sorted(set(found))
        and len(found) <= 14
    )


def test_both_methods_are_observed_on_the_way(smoke):
    for method, found in (
        ("loss-scaled", smoke.metrics.loss_scaled),
        ("gradient-descent", smoke.metrics.gradient_descent),
    ):
        history = smoke.array(f"history_{method}")
        ended = len(history)  # at the goal, where that is reached before
        assert [row.step for row in found.observed] == sorted(
            {*filter(ended.__ge__, observation_steps(150)), ended}
        )
        assert all(row.log_loss == history[row.step - 1].item() for row in found.observed)
        assert (found.step, found.kkt_residual) == (ended, found.observed[-1].kkt_residual)
        assert ended == 150 or history[-1] <= -1e4
    assert smoke.metrics.loss_scaled.log_loss < smoke.metrics.gradient_descent.log_loss
    reached = smoke.metrics.steps_to_reference_loss
    history = smoke.array("history_loss-scaled")
    assert history[reached - 1] <= -12.43 < history[: reached - 1].min()


def test_residuals_say_which_derivative_they_use(smoke):
    """Hard and smoothed at the same step; the first loss below the reference's has a certificate of
    its own.
    """
    metrics = smoke.metrics
    reached = metrics.at_reference_loss
    assert reached.step == metrics.steps_to_reference_loss
    assert reached.log_loss == smoke.array("history_loss-scaled")[reached.step - 1].item() <= -12.43
    for row in (reached, *metrics.loss_scaled.observed, *metrics.gradient_descent.observed):
        assert 0 < row.kkt_residual <= 1 and 0 < row.kkt_residual_smoothed <= 1
    assert any(
        row.kkt_residual != row.kkt_residual_smoothed for row in metrics.loss_scaled.observed
    )
    final = certificate(
        three_layer(64, 3072),
        _theta(smoke),
        smoke.array("x_train"),
        _labels(smoke),
        alpha=SIZES["smoke"].alpha,
        layer_weights=(1.0, 0.0, 0.0),
    )
    assert final.residual_by_layer[0].item() == pytest.approx(
        metrics.loss_scaled.kkt_residual_smoothed, rel=1e-4
    )


def _labels(smoke):
    n = smoke.metrics.n_train
    return torch.tensor([0.0, 1.0]).repeat_interleave(n // 2)


def _start():
    network = three_layer(64, 3072)
    return network.flatten(network.init(stream(0, "kkt.weights"), "small"))


def _theta(smoke):
    """Trained again: the run keeps no weights."""
    settings = KKTSettings(150)
    return train_to_kkt(
        three_layer(64, 3072), smoke.array("x_train"), _labels(smoke), _start(), settings
    ).theta_star


def test_the_second_layer_has_to_outgrow_its_start(smoke):
    first, second = smoke.metrics.first_layer, smoke.metrics.second_layer
    w2 = [three_layer(64, 3072).unflatten(theta)["w2"] for theta in (_start(), _theta(smoke))]
    factor = (w2[0] * w2[1]).sum() / w2[0].square().sum()
    assert second.start_share == pytest.approx(
        (factor**2 * w2[0].square().sum() / w2[1].square().sum()).item(), rel=1e-4
    )
    assert first.start_share < 0.01 < second.start_share < 1
