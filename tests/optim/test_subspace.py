"""Coordinates in a subspace, and networks on them: the same outputs, nothing lost, several at
once.
"""

from __future__ import annotations

import pytest
import torch
from small_networks import normal

from recon.nets.mlp import MLP
from recon.optim.subspace import Subspace, lifted, reduced

F64 = torch.float64


def test_the_span_holds_the_rows_and_nothing_else():
    rows, more, other = normal(3, 20), normal(2, 20, seed=1), normal(4, 20, seed=2)
    space, joint = Subspace.spanned_by(rows, more), torch.cat([rows, more])
    assert len(space) == 5
    projector = torch.linalg.pinv(joint) @ joint
    torch.testing.assert_close(space.lift(space.reduce(other)), other @ projector)
    torch.testing.assert_close(space.outside(other), other - other @ projector)
    torch.testing.assert_close(space.reduce(space.lift(normal(2, 5))), normal(2, 5))
    assert len(Subspace.spanned_by(normal(30, 20))) == 20


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("spaces", [(), (3,)])
def test_a_network_on_coordinates_is_the_network(batch, spaces):
    """With θ (p,) or one per subspace, subspace (r, d) or several: Φ(lift(c); θ) = Φ'(c; θ')."""
    network = MLP((12, 5, 4, 1), bias=(True, False, True))
    theta = normal(*batch, network.n_params)
    space = Subspace.spanned_by(normal(*spaces, 6, 12, seed=1))
    small, cut = reduced(network, theta, space)
    leading = batch or spaces
    coordinates = normal(*leading, 7, 6, seed=2)
    expected = network(network.unflatten(theta.expand(*leading, -1)), space.lift(coordinates))
    torch.testing.assert_close(small(small.unflatten(cut), coordinates), expected)
    torch.testing.assert_close(reduced(network, lifted(network, cut, space), space)[1], cut)


def test_what_lies_outside_is_that_of_the_given_weights():
    network = MLP((12, 5, 1))
    theta, other = normal(network.n_params), normal(network.n_params, seed=3)
    space = Subspace.spanned_by(normal(6, 12, seed=1))
    _, cut = reduced(network, theta, space)
    torch.testing.assert_close(lifted(network, cut, space, theta), theta)
    mixed = network.unflatten(lifted(network, cut, space, other))
    torch.testing.assert_close(
        space.outside(mixed["w1"]), space.outside(network.unflatten(other)["w1"])
    )
    inside = network.unflatten(lifted(network, cut, space))
    assert space.outside(inside["w1"]).abs().max() < 1e-12
    assert torch.equal(inside["b1"], network.unflatten(theta)["b1"])
