"""Appendix B's separation with a learned prior: what the adversary is given, and its null."""

from __future__ import annotations

import torch

from companion.chapters.base import Context
from companion.chapters.weights_leak.experiment_prior import denoised_mixtures, public_rows
from companion.chapters.weights_leak.separation_prior import Prior, Whitening
from recon.images.registry import load_pool
from tests.records import bundle_of


def test_the_prior_is_learned_on_photographs_that_are_in_no_partition():
    context = Context(load_pool("photos"), torch.device("cpu"), 0, None, None)
    images = context.images(20)
    rows = public_rows(images, context)
    used = torch.cat([images.train_index, images.init_index, images.held_out_index])
    public = torch.from_numpy(context.pool.index)[rows]
    assert len(rows) > 20 and not torch.isin(public, used).any()


def test_the_null_with_the_prior_lies_in_the_span():
    eye = torch.eye(3).expand(64, -1, -1)
    prior = Prior(Whitening(eye, torch.eye(8)), torch.nn.Tanh())
    draws = torch.Generator().manual_seed(9)
    basis = torch.linalg.qr(torch.randn(192, 5, generator=draws)).Q.T
    images = bundle_of(basis, basis, basis, (3, 8, 8))
    mixtures = denoised_mixtures(basis, images, prior, draws)
    assert mixtures.shape == (10, 192)
    torch.testing.assert_close(mixtures @ basis.T @ basis, mixtures, rtol=0, atol=1e-5)
