"""Products of rounded operands: rounded for certain, by no more than stated, and only where they should be."""

from __future__ import annotations

import pytest
import torch

from companion.chapters.reference_common import RoundedProducts, product_error
from recon.attacks.haim_recipe import PublishedSettings, recover_as_published
from recon.nets.mlp import MLP
from recon.released import Weights


def drawn(*shape: int, dtype: torch.dtype = torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=dtype)


@pytest.mark.parametrize("multiply", [torch.matmul, torch.Tensor.matmul, lambda a, b: a @ b])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_products_are_those_of_rounded_operands(multiply, batch):
    a, b = drawn(*batch, 7, 40), drawn(*batch, 40, 5)
    with RoundedProducts():
        found = multiply(a, b)
    rounded = a.bfloat16().double() @ b.bfloat16().double()
    assert found.dtype == torch.float32 and not torch.equal(found, a @ b)
    torch.testing.assert_close(found.double(), rounded, rtol=2**-8, atol=1e-5)
    exact, scale = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    assert ((found.double() - exact).abs() <= (2**-8 + 2**-8) * scale).all()
    torch.testing.assert_close(multiply(a, b).double(), exact, rtol=1e-5, atol=1e-5)  # outside, as ever


def test_vectors_and_other_precisions_keep_their_bits():
    a, column, row = drawn(7, 40), drawn(40, 1), drawn(40)
    double = drawn(7, 40, dtype=torch.float64)
    with RoundedProducts():
        found = a @ column, a @ row, row @ a.mT, column.mT @ a.mT, double @ double.mT
    expected = a @ column, a @ row, row @ a.mT, column.mT @ a.mT, double @ double.mT
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(found, expected, strict=True))


def test_the_published_recipe_goes_the_same_way():
    network = MLP((48, 20, 20, 1), None)
    weights = Weights(network, network.flatten(network.init(torch.Generator().manual_seed(0), "small")))
    settings = PublishedSettings(10, 60, 1e-3)
    exact = recover_as_published(weights, settings, torch.Generator().manual_seed(1))
    with RoundedProducts():
        rounded = recover_as_published(weights, settings, torch.Generator().manual_seed(1))
    torch.testing.assert_close(rounded.history, exact.history, rtol=1e-2, atol=0)
    assert not torch.equal(rounded.x_hat, exact.x_hat)
    assert (rounded.x_hat - exact.x_hat).norm() < 0.05 * exact.x_hat.norm()


def test_a_processor_that_rounds_is_noticed():
    assert product_error() < 1e-5
    with RoundedProducts():
        assert 1e-4 < product_error() < 1e-2
