"""Ranks against a dense SVD, the formula against ranks, and both against Table 1 of Chen & Campbell."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import sparse
from small_networks import CONVS, SHAPE, some_images, theta_of

from recon.analysis.identifiability import generic_rank, numerical_rank, security_metric
from recon.attacks.operators import System, systems, taps
from recon.chapters.published import PUBLISHED_RANK
from recon.nets.conv import TABLE_1, ConvNet


@pytest.mark.parametrize("conv", CONVS, ids=str)
def test_rank_is_that_of_a_dense_svd_and_of_the_formula(conv):
    network = ConvNet((conv,), shape=SHAPE, classes=5)
    x = some_images(network, 1, seed=2)
    (system,) = systems(network, theta_of(network), x, torch.tensor([1]))
    values = np.linalg.svd(system.dense(), compute_uv=False)
    expected = int((values > 1e-9 * values[0]).sum())
    found = numerical_rank(system)
    assert found.rank == expected and found.deficiency == expected - system.shape[1]
    unused = math.prod(SHAPE) - len(np.unique(taps(conv, SHAPE)[taps(conv, SHAPE) >= 0]))
    bound = min(generic_rank(conv, SHAPE), system.shape[1] - unused)  # pixels that no tap reads are lost
    assert found.rank <= bound if conv.stride == 3 else found.rank == bound
    assert found.condition == pytest.approx(values[0] / values[expected - 1], rel=1e-2)


@pytest.mark.parametrize(("smallest", "rank"), [(1e-6, 6), (1e-9, 5), (0.0, 5)])
@pytest.mark.parametrize("rows", [6, 9])
def test_singular_values_count_down_to_the_root_of_the_trace_times_epsilon(smallest, rank, rows):
    """By hand: singular values 1, …, 1, `smallest`; τ = ε · trace counts σ above √τ ≈ 3.3e-8."""
    u, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((rows, 6)))
    dense = u * np.array([1.0, 1, 1, 1, 1, smallest])
    found = numerical_rank(System(sparse.csr_array(dense[:3]), sparse.csr_array(dense[3:])))
    assert (found.rank, found.deficiency) == (rank, rank - 6)
    assert found.condition == pytest.approx(1e6 if rank == 6 else 1.0, rel=1e-2)


def test_security_metric_is_the_printed_integer():
    for deficiencies, c in PUBLISHED_RANK.values():
        assert security_metric(list(deficiencies)) == c
    assert security_metric([-4, -4, -4, -4]) == -4 - 3 - 2 - 1  # (d − i + 1)/d: the first layer counts in full
    for name in ("CNN3 V2", "CNN3 V4", "CNN4 V1"):  # the whole table is in the book's result
        network = TABLE_1[name]
        each = zip(network.convs, network.image_shapes(), strict=False)
        generic = [generic_rank(conv, shape) - math.prod(shape) for conv, shape in each]
        assert tuple(generic) == PUBLISHED_RANK[name][0]
