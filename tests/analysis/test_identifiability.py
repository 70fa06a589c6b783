"""Ranks against a dense SVD, the formula against ranks, and both against Table 1 of Chen &
Campbell.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import sparse
from small_networks import CONVS, LOSSY, SHAPE, some_gradient, some_images, theta_of, whole_jacobian

from companion.chapters.published import PUBLISHED_RANK
from recon.analysis.identifiability import (
    determined,
    posterior_variance,
    rank_deficiency,
    security_metric,
)
from recon.attacks.batches import BatchSystem
from recon.attacks.gradient_system import JointSystem
from recon.attacks.rgap import Stacked, generic_rank, systems, taps
from recon.nets.conv import Conv, ConvNet


@pytest.mark.parametrize("conv", CONVS, ids=str)
def test_rank_is_that_of_a_dense_svd_and_of_the_formula(conv):
    network = ConvNet((conv,), shape=SHAPE, classes=5)
    x = some_images(network, 1, seed=2)
    (system,) = systems(network, theta_of(network), x, torch.tensor([1]))
    values = np.linalg.svd(system.dense(), compute_uv=False)
    expected = int((values > 1e-9 * values[0]).sum())
    rank = rank_deficiency(system) + system.shape[1]
    assert rank == expected
    unused = math.prod(SHAPE) - len(np.unique(taps(conv, SHAPE)[taps(conv, SHAPE) >= 0]))
    # pixels that no tap reads are lost
    bound = min(generic_rank(conv, SHAPE), system.shape[1] - unused)
    assert rank <= bound if conv.stride == 3 else rank == bound


@pytest.mark.parametrize(("smallest", "rank"), [(1e-6, 6), (1e-9, 5), (0.0, 5)])
@pytest.mark.parametrize("rows", [6, 9])
def test_singular_values_count_down_to_the_root_of_the_trace_times_epsilon(smallest, rank, rows):
    """By hand: singular values 1, …, 1, `smallest`; τ = ε · trace counts σ above √τ ≈ 3.3e-8."""
    u, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((rows, 6)))
    dense = u * np.array([1.0, 1, 1, 1, 1, smallest])
    assert (
        rank_deficiency(Stacked(sparse.csr_array(dense[:3]), sparse.csr_array(dense[3:])))
        == rank - 6
    )


def test_security_metric_is_the_printed_integer():
    for deficiencies, c in PUBLISHED_RANK.values():
        assert security_metric(list(deficiencies)) == c
    # (d − i + 1)/d: the first layer counts in full
    assert security_metric([-4, -4, -4, -4]) == -4 - 3 - 2 - 1


#: reads all but the last row; its second layer alone loses the image
UNREAD = ConvNet((Conv(3, 8), Conv(4, 2, 2)), shape=(2, 9, 8), classes=4)


@pytest.mark.parametrize("peel", [True, False])
def test_pixels_that_no_layer_reads_are_all_that_is_missing(peel):
    gradient, x = some_gradient(UNREAD)
    fixed = determined(JointSystem.of(gradient.split()[0], peel), x[0].flatten())
    row = torch.zeros(UNREAD.shape, dtype=torch.bool)
    row[:, 8] = True
    assert torch.equal(fixed.unread, row.flatten())
    assert fixed.deficiency == -16 and fixed.rank == 128 and fixed.whole


def test_a_lossy_layer_lacks_what_the_whole_jacobian_lacks():
    gradient, x = some_gradient(LOSSY)
    gradient = gradient.split()[0]
    fixed = determined(JointSystem.of(gradient), x[0].flatten())
    assert fixed.rank == torch.linalg.matrix_rank(whole_jacobian(gradient, x[0].flatten()))
    assert fixed.deficiency < 0 and not fixed.whole and not fixed.unread.any()


def test_where_pixels_are_read_one_by_one_nothing_but_the_others_is_missing():
    """A kernel of one pixel with stride two: fewer equations than unknowns, and all that is read is
    fixed.
    """
    network = ConvNet((Conv(1, 3, 2),), shape=(2, 9, 9), classes=4)
    gradient, x = some_gradient(network)
    fixed = determined(JointSystem.of(gradient.split()[0]), x[0].flatten())
    read = torch.zeros(network.shape, dtype=torch.bool)
    read[:, ::2, ::2] = True
    assert torch.equal(fixed.unread, ~read.flatten()) and fixed.whole


@pytest.mark.parametrize("network", [LOSSY, UNREAD])
def test_the_gram_matrix_of_the_gradient_and_the_posterior(network):
    gradient, x = some_gradient(network)
    gradient, x = gradient.split()[0], x[0].flatten()
    jacobian = whole_jacobian(gradient, x)
    gram = jacobian.mT @ jacobian
    assert (BatchSystem.of(gradient, gradient.labels).gram(x) - gram).norm() < 1e-10 * gram.norm()
    precision = gram / 0.1**2 + 12 * torch.eye(len(x), dtype=x.dtype)
    variance = posterior_variance(gradient, x, 0.1, 1 / 12)
    assert torch.allclose(variance, torch.linalg.inv(precision).diagonal(), rtol=1e-6)
    unread = determined(JointSystem.of(gradient), x).unread
    assert torch.allclose(variance[unread], variance.new_tensor(1 / 12))
