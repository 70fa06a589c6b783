"""The fully connected network's names, its initial weights and its derivative."""

from __future__ import annotations

import pytest
import torch

from recon.errors import ReconError
from recon.nets.mlp import MLP, three_layer

F64 = torch.float64


def test_names_and_shapes_leave_missing_biases_out():
    network = MLP((4, 3, 2), bias=(False, True))
    assert network.names == [("w1", None), ("w2", "b2")]
    assert list(network.shapes().items()) == [("w1", (3, 4)), ("w2", (2, 3)), ("b2", (2,))]
    assert network.n_params == 12 + 6 + 2


@pytest.mark.parametrize("network", [MLP((50, 40, 30, 1)), three_layer(40, 50)], ids=str)
def test_initial_weights_have_their_scheme_s_scale(network):
    fan_in = {name: width for pair, width in zip(network.names, network.widths[:-1], strict=True) for name in pair}
    draws = {
        scheme: network.init(torch.Generator().manual_seed(0), scheme) for scheme in ("default", "uniform", "small")
    }
    for name, value in draws["default"].items():
        if value.numel() < 10:
            continue
        bound = fan_in[name] ** -0.5
        assert 0.8 * bound < value.abs().max() <= bound and value.min() < 0
        assert draws["uniform"][name].min() >= 0 and 0.8 < draws["uniform"][name].max() <= 1
        small = draws["small"][name]
        if name in ("w1", "b1"):
            assert small.std().item() == pytest.approx(1e-4, rel=0.3)
        else:
            assert 0.8 * bound < small.abs().max() <= bound
    with pytest.raises(ReconError, match="unknown weight initialisation"):
        network.init(torch.Generator(), "large")


def test_slope_of_every_kind():
    z = torch.tensor([-1.0, 0.0, 2.0], dtype=F64)
    assert MLP((1, 1)).slope(z).tolist() == [0.0, 0.0, 1.0]
    assert torch.allclose(MLP((1, 1)).slope(z, 3.0), 1 / (1 + torch.exp(-3 * z)))
    assert torch.allclose(MLP((1, 1), smoothing=2.0).slope(z, 3.0), 1 / (1 + torch.exp(-2 * z)))
