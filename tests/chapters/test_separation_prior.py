"""Appendix B's separation with a learned prior: what the adversary is given, what is counted, and
how it is drawn.
"""

from __future__ import annotations

import pytest
import torch

from companion.chapters.base import Context
from companion.chapters.weights_leak.experiment_prior import BLENDS, denoised_mixtures, public_rows
from companion.chapters.weights_leak.separation_prior import Prior, Whitening
from recon.images.registry import load_pool
from recon.scoring.metrics import ncc
from tests.records import bundle_of

APPENDIX = True  # its smoke runs are those of `make test-all`


@pytest.fixture(scope="module")
def smoke(runs):
    return runs("separation-prior")


def test_the_prior_is_learned_on_photographs_that_are_in_no_partition():
    context = Context(load_pool("photos"), torch.device("cpu"), 0, None, None)
    images = context.images(20)
    rows = public_rows(images, context)
    used = torch.cat([images.train_index, images.init_index, images.held_out_index])
    public = torch.from_numpy(context.pool.index)[rows]
    assert len(rows) > 20 and not torch.isin(public, used).any()


def test_every_attack_is_held_against_other_photographs(smoke):
    for table in (smoke.metrics.components, smoke.metrics.found):
        counts = [table.nulls[name].ncc_06 for name in ("others", "projected", "denoised")]
        assert table.best_null.ncc_06 >= max(counts)
    assert set(smoke.metrics.blends) == set(BLENDS)


def test_counts_are_of_the_arrays(smoke):
    metrics = smoke.metrics
    sources = smoke.array("x_hat")
    paired = ncc(
        smoke.array("x_train"), torch.cat([sources, -sources])[smoke.array("matched")]
    ).diagonal()
    torch.testing.assert_close(paired, smoke.array("ncc"), rtol=0, atol=1e-5)
    assert int((paired > 0.6).sum()) == metrics.found.matches.ncc_06
    assert (smoke.array("ncc").diff() <= 0).all() and len(paired) == metrics.n_train
    assert metrics.rank == len(sources)


def test_the_null_with_the_prior_lies_in_the_span():
    eye = torch.eye(3).expand(64, -1, -1)
    prior = Prior(Whitening(eye, torch.eye(8)), torch.nn.Tanh())
    draws = torch.Generator().manual_seed(9)
    basis = torch.linalg.qr(torch.randn(192, 5, generator=draws)).Q.T
    images = bundle_of(basis, basis, basis, (3, 8, 8))
    mixtures = denoised_mixtures(basis, images, prior, draws)
    assert mixtures.shape == (10, 192)
    torch.testing.assert_close(mixtures @ basis.T @ basis, mixtures, rtol=0, atol=1e-5)
