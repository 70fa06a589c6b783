"""The spectrum's noise edge: planted directions are counted and spanned, nothing is found in noise
or in zeros.
"""

from __future__ import annotations

import pytest
import torch

from recon.optim.spectrum import right_singular, signal_rank, signal_span

F64 = torch.float64


def planted(rank, shape=(60, 300), noise=0.05, seed=0):
    """A matrix of this rank with singular values √(ad) and more, falling, its right directions, and
    noise on top.
    """
    generator = torch.Generator().manual_seed(seed)
    rows, columns = (
        torch.linalg.qr(torch.randn(side, rank, generator=generator, dtype=F64)).Q for side in shape
    )
    strength = torch.linspace(3, 1, rank, dtype=F64) * (shape[0] * shape[1]) ** 0.5
    return (rows * strength) @ columns.mT + noise * torch.randn(
        *shape, generator=generator, dtype=F64
    ), columns.mT


def rank_of(matrix):
    return signal_rank(torch.linalg.svdvals(matrix.double()), tuple(matrix.shape))


@pytest.mark.parametrize("noise", [0.0, 1e-4, 0.05, 0.5])
@pytest.mark.parametrize("rank", [1, 7, 25])
def test_planted_rank_is_found_with_and_without_noise(rank, noise):
    wide, tall = (planted(rank, shape, noise)[0] for shape in ((60, 300), (300, 60)))
    for matrix in (wide, tall, 1e-8 * wide, wide.float()):
        assert rank_of(matrix) == rank


def test_a_millionth_of_the_largest_value_is_rounding():
    values = torch.tensor([2.0, 2.2e-6, 1.8e-6, 0.0], dtype=F64)
    assert signal_rank(values, (4, 100)) == 2


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_found_in_noise_or_zeros(seed):
    noise = torch.randn(60, 300, generator=torch.Generator().manual_seed(seed))
    assert rank_of(noise) <= 3  # the largest ones sit within a few thousandths of the edge
    assert rank_of(torch.zeros(60, 300)) == 0
    assert len(signal_span(torch.zeros(60, 300))) == 0
    assert rank_of(noise[:1]) == 0  # one row: nothing to compare it with


@pytest.mark.parametrize("shape", [(4, 9), (9, 4)])
def test_edge_by_hand(shape):
    """a = 4, d = 9, smallest 1: the edge is (3+2)/(3−2) = 5, then with r = 1 (√8+√3)/(√8−√3) =
    4.16, at r = 2 3.30.
    """
    for values, expected in [
        ((5.0, 4, 3, 1), 0),
        ((5.1, 4.1, 3.5, 1), 1),
        ((6, 4.2, 3.2, 1), 2),
        ((6, 4.2, 3.4, 1), 3),
    ]:
        assert signal_rank(torch.tensor(values, dtype=F64), shape) == expected


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_span_holds_the_planted_directions_strongest_first(dtype):
    matrix, directions = planted(7, noise=0.01)
    span = signal_span(matrix.to(dtype))
    assert span.shape == (7, 300) and span.dtype == dtype
    assert torch.allclose(span @ span.mT, torch.eye(7, dtype=dtype), atol=1e-5)
    assert ((span.double() * directions).sum(1).abs() > 0.999).all()


@pytest.mark.parametrize("shape", [(20, 50), (50, 20), (30, 30)])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e8])
def test_right_singular_values_and_vectors_are_those_of_an_svd(shape, scale):
    w = scale * torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    values, directions = right_singular(w)
    _, expected, vectors = torch.linalg.svd(w, full_matrices=False)
    torch.testing.assert_close(values, expected, rtol=1e-9, atol=0)
    assert ((directions * vectors).sum(1).abs() - 1).abs().max() < 1e-9
    assert (directions @ directions.mT - torch.eye(20 if 20 in shape else 30)).abs().max() < 1e-9


@pytest.mark.parametrize("shape", [(6, 9), (9, 6)])
def test_right_singular_of_a_matrix_without_full_rank(shape):
    generator = torch.Generator().manual_seed(1)
    left, right = (torch.randn(side, 2, generator=generator, dtype=F64) for side in shape)
    w = left @ right.mT
    values, directions = right_singular(w)
    assert directions.isfinite().all() and (values[2:] < 1e-6 * values[0]).all()
    torch.testing.assert_close((w @ directions[:2].mT) @ directions[:2], w)
    values, directions = right_singular(torch.zeros(shape))
    assert not values.any() and directions.isfinite().all()
