"""Separation with a prior: whitening against SciPy, one step against autograd, sources that come
out, and resuming.
"""

from __future__ import annotations

import pytest
import torch
from interruptions import killed_after
from scipy.fft import dctn
from torch.nn.functional import normalize

from companion.chapters.weights_leak import separation_prior as module
from companion.chapters.weights_leak.separation_prior import (
    Prior,
    PriorSettings,
    Span,
    Whitening,
    distinct,
    pulled,
)
from companion.store.checkpoints import Checkpoints
from recon.attacks.separation import PIXEL_STD

SHAPE = (2, 8, 8)
DIM = 128


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def identity():
    """A whitening that leaves images as they are."""
    eye = torch.eye(SHAPE[0]).expand(64, -1, -1)
    return Whitening(eye, torch.eye(8))


def sparse(count, seed=0):
    """Images whose pixels are mostly near zero, of mean square one and nearly uncorrelated."""
    x = torch.randn(count, DIM, generator=seeded(seed)) ** 5
    return DIM**0.5 * normalize(x, dim=1)


@pytest.fixture
def public():
    smooth = torch.randn(400, *SHAPE, generator=seeded(1)).cumsum(2).cumsum(3)
    smooth[:, 1] += 0.5 * smooth[:, 0]
    return smooth - smooth.mean(0)


def test_white_images_have_the_same_power_everywhere_and_no_colour(public):
    whitening = Whitening.of(public, floor=1e-9)
    both = torch.cat([public, public.flip(-1)]).double()
    white = whitening.white(both.float()).double()
    # SciPy's transform is the oracle
    waves = torch.from_numpy(dctn(white.numpy(), axes=(2, 3), norm="ortho"))
    products = torch.einsum("nauv,nbuv->uvab", waves, waves) / len(both)
    products = (products + products.transpose(0, 1)) / 2
    torch.testing.assert_close(
        products, torch.eye(2).double().expand(8, 8, 2, 2), rtol=0, atol=2e-2
    )


def test_the_span_is_white_and_its_rows_are_the_same_images(public):
    prior = Prior(Whitening.of(public), torch.tanh)
    basis = torch.linalg.qr(public[:5].flatten(1).T).Q.T
    span = Span.of(basis, SHAPE, prior)
    torch.testing.assert_close(span.white @ span.white.T / DIM, torch.eye(5), rtol=0, atol=1e-4)
    torch.testing.assert_close(
        prior.whitening.white(span.raw.unflatten(1, SHAPE)).flatten(1),
        span.white,
        rtol=1e-3,
        atol=1e-3,
    )
    w = normalize(torch.randn(4, 5, generator=seeded(2)), dim=1)
    torch.testing.assert_close(span.directions(3.0 * span.pixels(w)), w, rtol=0, atol=1e-4)
    torch.testing.assert_close(span.pixels(w).square().mean(1).sqrt(), torch.full((4,), PIXEL_STD))


def test_one_step_is_the_denoised_image_without_what_was_handed_on(monkeypatch):
    """One candidate, so that nothing is smoothed; the derivative along the probe by autograd."""
    monkeypatch.setattr(module, "PROBE", 1e-3)
    prior = Prior(identity(), lambda z: z**3 + z.roll(1, -1))
    span = Span.of(torch.linalg.qr(sparse(6).T).Q.T, SHAPE, prior)
    w = normalize(torch.randn(1, 6, generator=seeded(3)), dim=1)
    probe = normalize(torch.randn(1, 6, generator=seeded(4)), dim=1)
    _, slope = torch.func.jvp(lambda v: prior.denoiser(span.images(v)).flatten(1), (w,), (probe,))
    trace = (slope * (probe @ span.white)).sum() / DIM
    pull = prior.denoised(span.images(w)).flatten(1) @ span.white.T / DIM
    expected = normalize(pull - trace * w, dim=1)
    torch.testing.assert_close(pulled(w, span, prior, seeded(4)), expected, rtol=0, atol=5e-3)
    assert (expected * normalize(pull, dim=1)).sum() < 0.99  # the term matters


def test_the_denoiser_is_made_odd():
    prior = Prior(identity(), lambda z: z.relu() + 1)
    z = torch.randn(3, *SHAPE, generator=seeded(5))
    torch.testing.assert_close(prior.denoised(z), z / 2)


def shrink(z):
    """Soft threshold: the denoiser of sparse images."""
    return z.sign() * (z.abs() - 1.5).clamp_min(0)


@pytest.mark.parametrize("settings", [PriorSettings(30, 0), PriorSettings(15, 15)])
def test_sparse_images_come_out_of_a_mixture(settings):
    x = sparse(12, seed=6)
    mixed = torch.randn(30, 12, generator=seeded(7)) @ x
    basis = torch.linalg.svd(mixed, full_matrices=False).Vh[:12]
    start = torch.randn(12, 12, generator=seeded(8)) @ basis
    found = module.separate_with_prior(
        basis, start, SHAPE, Prior(identity(), shrink), settings, seeded(9)
    )
    assert found.shape == (12, DIM)
    likeness = (normalize(found, dim=1) @ normalize(x, dim=1).T).abs()
    assert (likeness.amax(0) > 0.9).sum() >= 6  # of twelve; roundings that were tried give 7 to 12
    before = (normalize(start, dim=1) @ normalize(x, dim=1).T).abs()
    assert (before.amax(0) > 0.9).sum() <= 2


def test_of_two_alike_the_one_that_moves_more_begins_anew():
    w = torch.eye(4)[[0, 0, 1, 2]] + 0.01 * torch.randn(4, 4, generator=seeded(10))
    w = normalize(w, dim=1)
    found = distinct(w, torch.tensor([0.5, 0.1, 0.2, 0.3]), seeded(11))
    assert torch.equal(found[1:], w[1:])
    torch.testing.assert_close(found[0] @ w[1:].T, torch.zeros(3), rtol=0, atol=1e-5)
    assert found[0].norm() == pytest.approx(1.0)
    assert torch.equal(distinct(torch.eye(4), torch.zeros(4), seeded()), torch.eye(4))


def test_a_resumed_attack_equals_an_uninterrupted_one(tmp_path):
    x = sparse(6, seed=12)
    basis = torch.linalg.qr(x.T).Q.T
    given = (basis, basis, SHAPE, Prior(identity(), shrink), PriorSettings(4, 8))
    whole = module.separate_with_prior(*given, seeded(13))
    checkpoint = Checkpoints(tmp_path).at("attack")
    with killed_after(6):
        module.separate_with_prior(*given, seeded(13), checkpoint)
    resumed = module.separate_with_prior(*given, seeded(13), checkpoint)
    assert torch.equal(whole, resumed)
