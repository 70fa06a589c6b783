"""Appendix A: the smoke run, its residuals and its identity."""

from __future__ import annotations

import pytest
import torch

from companion.chapters.base import stream
from companion.chapters.kkt_training.experiment import SIZES, observation_steps
from recon.nets.mlp import three_layer
from recon.training.kkt import KKTSettings, certificate, train_to_kkt

APPENDIX = True  # its smoke runs are those of `make test-all`
NETWORK = three_layer(64, 3072)


@pytest.fixture(scope="module")
def smoke(runs):
    return runs("kkt-training")


@pytest.fixture(scope="module")
def trained(smoke):
    """Trained again, since the run keeps no weights: labels, the start and the end."""
    y = torch.tensor([0.0, 1.0]).repeat_interleave(smoke.metrics.n_train // 2)
    start = NETWORK.flatten(NETWORK.init(stream(0, "kkt.weights"), "small"))
    end = train_to_kkt(NETWORK, smoke.array("x_train"), y, start, KKTSettings(150)).theta_star
    return y, start, end


@pytest.mark.parametrize("steps", [1, 5, 150, 6000])
def test_observed_steps_grow_to_the_last(steps):
    at = observation_steps(steps)
    assert at[0] == 1 and at[-1] == steps and len(at) <= 14
    assert list(at) == sorted(set(at))


@pytest.mark.parametrize("method", ["loss-scaled", "gradient-descent"])
def test_both_methods_are_observed_on_the_way(smoke, method):
    end, history = smoke.metrics[method], smoke.array(f"history_{method}")
    steps = len(history)  # at the goal, where that is reached before
    expected = {k for k in observation_steps(150) if k <= steps} | {steps}
    assert [row.step for row in end.observed] == sorted(expected)
    assert all(row.log_loss == history[row.step - 1].item() for row in end.observed)
    assert end.only("step", "kkt_residual") == end.observed[-1].only("step", "kkt_residual")
    for row in end.observed:
        assert 0 < row.kkt_residual <= 1 and 0 < row.kkt_residual_smoothed <= 1


def test_the_reference_loss_is_first_reached_where_it_says(smoke):
    history, reached = smoke.array("history_loss-scaled"), smoke.metrics.at_reference_loss
    assert reached.step == smoke.metrics.steps_to_reference_loss
    assert history[reached.step - 1].item() == reached.log_loss <= -12.43
    assert history[: reached.step - 1].min() > -12.43


def test_the_smoothed_residual_is_the_certificates(smoke, trained):
    y, _, theta = trained
    alpha, layer_1 = SIZES["smoke"].alpha, (1.0, 0.0, 0.0)
    final = certificate(
        NETWORK, theta, smoke.array("x_train"), y, alpha=alpha, layer_weights=layer_1
    )
    end = smoke.metrics.loss_scaled
    assert end.kkt_residual_smoothed == pytest.approx(final.residual_by_layer[0].item(), rel=1e-4)
    assert end.kkt_residual != end.kkt_residual_smoothed


def test_the_second_layer_has_to_outgrow_its_start(smoke, trained):
    begun, ended = (NETWORK.unflatten(theta)["w2"] for theta in trained[1:])
    factor = (begun * ended).sum() / begun.square().sum()
    share = (factor**2 * begun.square().sum() / ended.square().sum()).item()
    assert smoke.metrics.second_layer.start_share == pytest.approx(share, rel=1e-4)
    assert smoke.metrics.first_layer.start_share < 0.01 < share < 1
