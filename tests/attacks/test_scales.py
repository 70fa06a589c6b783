"""The scale of the multipliers: the walk ends where both neighbours are worse, wherever that is."""

from __future__ import annotations

import math

import pytest
import torch

from recon.attacks.recover import RecoverSettings
from recon.attacks.scales import scale_for, walk
from recon.nets.mlp import three_layer
from recon.released import Weights


@pytest.mark.parametrize("target", [1e-5, 1e-3, 1e-2, 0.3, 100.0])
def test_no_edge_binds(target):
    seen = []

    def energy_of(scale):
        seen.append(scale)
        return math.log(scale / target) ** 2

    found = walk(energy_of, 1e-2)
    assert found.inside and abs(math.log(found.value / target)) <= 0.5 * math.log(10**0.5) + 1e-9
    assert sorted(seen) == list(found.tried) and len(set(seen)) == len(seen)


def test_the_walk_ends_after_the_most_values_and_says_so():
    found = walk(lambda scale: -scale, 1.0, most=5)
    assert len(found.tried) == 5 and found.value == max(found.tried) and not found.inside


def test_a_run_away_is_not_taken():
    assert walk(lambda scale: math.nan if scale > 0.02 else -scale, 1e-2).value == pytest.approx(1e-2)


def test_it_is_the_scale_of_the_weights():
    """Weights k times as large in the last layer need multipliers k² smaller: gradients grow in the other layers."""
    network = three_layer(8, 12)
    generator = torch.Generator().manual_seed(0)
    params = network.init(generator)
    settings = RecoverSettings(m=6, restarts=1, scale_steps=15, layer_weights=(1.0, 0.0, 0.0))
    small = scale_for(Weights(network, network.flatten(params)), settings, 0)
    large = scale_for(Weights(network, network.flatten({**params, "w3": 1000 * params["w3"]})), settings, 0)
    assert small.inside and large.inside and large.value < small.value / 50
