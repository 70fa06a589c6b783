"""Splitting: sums of gradients against autograd, what stays exact, and what does not where it may
not.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from companion.chapters.candidates.kkt_sets import Points, apart, split, summed
from recon.errors import ReconError
from recon.nets.mlp import MLP, three_layer

F64 = torch.float64


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


@pytest.fixture
def case():
    """A net of width 5 on 12 inputs: seven directions are blind to the first layer."""
    network = three_layer(5, 12)
    theta = network.init(torch.Generator().manual_seed(1), dtype=F64)
    points = Points(
        drawn(6, 12), torch.tensor([1.0, 0, 1, 0, 1, 0], dtype=F64), drawn(6, seed=2).abs()
    )
    blind = torch.linalg.svd(theta["w1"]).Vh[5:]
    return network, theta, points, drawn(6, 7, seed=3) @ blind


def by_autograd(network, theta, points):
    theta = {name: value.clone().requires_grad_() for name, value in theta.items()}
    total = (points.multipliers * (2 * points.y - 1) * network(theta, points.x)).sum()
    return dict(zip(theta, torch.autograd.grad(total, list(theta.values())), strict=True))


def test_the_sum_is_that_of_autograd(case):
    network, theta, points, _ = case
    found, expected = summed(network, theta, points), by_autograd(network, theta, points)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value)
    flipped = replace(points, y=1 - points.y)
    assert apart(summed(network, theta, flipped), found) == pytest.approx(2)
    with pytest.raises(ReconError, match="one logit"):
        summed(MLP((12, 5, 3)), theta, points)


def test_a_split_along_blind_directions_changes_nothing(case):
    network, theta, points, v = case
    pairs = split(points, v)
    assert apart(summed(network, theta, pairs), summed(network, theta, points)) < 1e-14
    torch.testing.assert_close(pairs.x[:6], points.x + v)
    torch.testing.assert_close(network(theta, pairs.x), network(theta, points.x).repeat(2))
    # moves the mean
    wrong = replace(pairs, x=torch.cat([points.x + v + drawn(6, 12, seed=4), pairs.x[6:]]))
    assert apart(summed(network, theta, wrong), summed(network, theta, points)) > 1e-3
