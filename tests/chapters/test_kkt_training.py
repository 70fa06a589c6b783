"""Appendix A: the steps that are observed, and the residual."""

from __future__ import annotations

import pytest
import torch

from companion.chapters.base import stream
from companion.chapters.kkt_training.experiment import SIZES, observation_steps
from recon.nets.mlp import three_layer
from recon.training.kkt import KKTSettings, certificate, train_to_kkt

APPENDIX = True  # its smoke runs are those of `make test-all`


@pytest.mark.parametrize("steps", [1, 5, 150, 6000])
def test_observed_steps_grow_to_the_last(steps):
    at = observation_steps(steps)
    assert at[0] == 1 and at[-1] == steps and len(at) <= 14
    assert list(at) == sorted(set(at))


def test_the_smoothed_residual_is_the_certificates_and_what_is_left_of_the_second_layer(runs):
    """Trained again, since the run keeps no weights."""
    network, smoke = three_layer(64, 3072), runs("kkt-training")
    x, y = smoke.array("x_train"), torch.tensor([0.0, 1.0]).repeat_interleave(10)
    start = network.flatten(network.init(stream(0, "kkt.weights"), "small"))
    theta = train_to_kkt(network, x, y, start, KKTSettings(150)).theta_star
    alpha, layer_1 = SIZES["smoke"].alpha, (1.0, 0.0, 0.0)
    final = certificate(network, theta, x, y, alpha=alpha, layer_weights=layer_1)
    end = smoke.metrics.loss_scaled
    assert end.kkt_residual_smoothed == pytest.approx(final.residual_by_layer[0].item(), rel=1e-4)
    assert end.kkt_residual != end.kkt_residual_smoothed
    begun, ended = (network.unflatten(weights)["w2"] for weights in (start, theta))
    factor = (begun * ended).sum() / begun.square().sum()
    share = (factor**2 * begun.square().sum() / ended.square().sum()).item()
    assert smoke.metrics.second_layer.start_share == pytest.approx(share, rel=1e-4)
