"""Coordinates in a subspace, and networks on them: the same outputs, nothing lost, several at
once.
"""

from __future__ import annotations

import torch

from recon.nets.mlp import MLP
from recon.optim.subspace import Subspace, lifted, reduced

F64 = torch.float64


def normal(*shape, seed=0, dtype=F64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def test_the_span_holds_the_rows_and_nothing_else():
    rows, more = normal(3, 20), normal(2, 20, seed=1)
    space = Subspace.spanned_by(rows, more)
    assert len(space) == 5 and torch.allclose(space.basis @ space.basis.mT, torch.eye(5, dtype=F64))
    assert space.outside(torch.cat([rows, more])).abs().max() < 1e-12
    other = normal(4, 20, seed=2)
    projector = torch.linalg.pinv(torch.cat([rows, more])) @ torch.cat([rows, more])
    torch.testing.assert_close(space.lift(space.reduce(other)), other @ projector)
    torch.testing.assert_close(space.outside(other), other - other @ projector)
    assert len(Subspace.spanned_by(normal(30, 20))) == 20


def test_precision_of_the_span():
    rows = normal(2, 5, 20, dtype=torch.float32)
    fine, plain = Subspace.spanned_by(rows), Subspace.spanned_by(rows, dtype=torch.float32)
    assert fine.basis.dtype == plain.basis.dtype == torch.float32 and fine.basis.shape == (2, 5, 20)
    assert torch.equal(plain.basis, torch.linalg.qr(rows.mT).Q.mT)
    assert torch.equal(fine.basis, torch.linalg.qr(rows.double().mT).Q.mT.float())


def test_a_network_on_coordinates_is_the_network():
    """With θ (p,) or one per subspace, subspace (r, d) or several: Φ(lift(c); θ) = Φ'(c; θ')."""
    network = MLP((12, 5, 4, 1), bias=(True, False, True))
    for batch, spaces in (((), ()), ((3,), ()), ((), (3,)), ((3,), (3,))):
        theta, space = (
            normal(*batch, network.n_params),
            Subspace.spanned_by(normal(*spaces, 6, 12, seed=1)),
        )
        small, cut = reduced(network, theta, space)
        both = batch or spaces
        assert small.dim == 6 and cut.shape == (*both, small.n_params)
        coordinates = normal(*both, 7, 6, seed=2)
        full = network.unflatten(theta.expand(*both, -1))
        expected = network(full, space.lift(coordinates))
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
    torch.testing.assert_close(
        space.reduce(mixed["w1"]), space.reduce(network.unflatten(theta)["w1"])
    )
    inside = network.unflatten(lifted(network, cut, space))
    assert space.outside(inside["w1"]).abs().max() < 1e-12
    assert torch.equal(inside["b1"], network.unflatten(theta)["b1"])
