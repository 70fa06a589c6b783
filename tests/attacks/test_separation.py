"""Blind separation of a first layer: oracles for each step, known sources, what must not be found,
photographs.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from sklearn.decomposition import FastICA
from small_networks import seeded

from recon.attacks.separation import (
    PIXEL_STD,
    FirstLayer,
    SeparationSettings,
    derivatives,
    extend,
    orthogonalise,
    rotate,
    separate,
    stability,
    stages,
    start_left,
    unmix,
    whiten,
)
from recon.errors import ReconError
from recon.images.registry import load_pool
from recon.optim.spectrum import signal_span
from recon.scoring.metrics import ncc

F64 = torch.float64


def normal(*size, seed=0, dtype=torch.float32):
    return torch.randn(*size, generator=seeded(seed), dtype=dtype)


def laplacian(*size, seed=0):
    uniform = torch.rand(*size, generator=seeded(seed), dtype=F64) - 0.5
    return (-uniform.sign() * torch.log1p(-2 * uniform.abs())).float()


def likeness(a, b):
    """|correlation| of every row of a with every row of b."""
    return ncc(a, b).abs()


def paired(a, b):
    """|correlation| of the rows of a with theirs in b, each row of b used once."""
    scores = likeness(a, b)
    rows, columns = linear_sum_assignment(scores.numpy(), maximize=True)
    return scores[rows, columns]


def same_mixing(x, a, y, b):
    """Whether the columns of b belong to the rows of y as those of a to the rows of x, sign and
    order aside.
    """
    match = likeness(x, y).argmax(1)
    expected = a * (x * y[match]).sum(1).sign()
    return bool(((b[:, match] - expected).norm(dim=0) < 0.05 * expected.norm(dim=0)).all())


@cache
def mixed(n=8, d=2000, h=40):
    """Sources (n, d) with sparse entries, a mixing (h, n)."""
    return laplacian(n, d, seed=1), normal(h, n, seed=2)


@cache
def photographs(seed=0, n=20):
    """Training images (n, 3072) of the bundled pool, minus the pool's mean, and a mixing (60,
    n).
    """
    pool = load_pool("photos")
    train = torch.tensor(pool.images[pool.part == "train"]).flatten(1) / 255
    order = torch.randperm(len(train), generator=seeded(seed))[:n]
    return train[order] - train.mean(0), normal(60, n, seed=seed + 100)


# -------------------------------------------------------------------------------- what is recovered


def test_laplacian_sources_are_recovered():
    x, a = mixed()
    found = separate(FirstLayer(a @ x), (2000,))
    assert found.sources.shape == x.shape
    assert (paired(x, found.sources) > 0.99).all()


def test_gaussian_sources_are_not():
    """The attack does not invent: no source is found, no answer repeats itself, none is sparser
    than noise.
    """
    x, a = normal(8, 2000, seed=1), mixed()[1]
    found = separate(FirstLayer(a @ x), (2000,), SeparationSettings(restarts=4))
    scores = likeness(x, found.sources).amax(1)
    assert scores.max() < 0.95 and scores.median() < 0.8
    assert found.stability.median() < 0.95
    sparse = separate(FirstLayer(a @ mixed()[0]), (2000,), SeparationSettings(restarts=4))
    assert sparse.sparsity.min() > found.sparsity.max() and sparse.stability.min() > 0.99


@pytest.mark.parametrize("seed", range(3))
def test_photographs_are_unmixed(seed):
    """20 of 60 mixtures of photographs: nearly all come back, and no random mixture in their span
    looks like one.
    """
    x, a = photographs(seed)
    found = separate(FirstLayer(a @ x), (3, 32, 32))
    assert len(found.sources) == 20
    assert (paired(x, found.sources) > 0.8).sum() >= 17  # 19 or 20 when this was written
    guesses = normal(20, 20, seed=seed) @ found.basis
    assert likeness(x, guesses).max() < 0.8


def test_agrees_with_fast_ica_of_scikit_learn():
    x, a = mixed(5, 3000, 12)
    found = separate(FirstLayer(a @ x), (3000,))
    reference = FastICA(5, whiten="unit-variance", fun="logcosh", random_state=0, max_iter=1000)
    theirs = torch.tensor(
        reference.fit_transform((a @ x).T.double().numpy()).T, dtype=torch.float32
    )
    assert (paired(theirs, found.sources) > 0.99).all()


def test_a_known_start_is_subtracted():
    """A start that drowns the images: with it they are found, without it they are not."""
    x, a = mixed(6, 2000, 60)
    start = 1000 * normal(60, 2000, seed=5)
    known = separate(FirstLayer(start + a @ x, start), (2000,))
    unknown = separate(FirstLayer(start + a @ x), (2000,))
    assert (paired(x, known.sources) > 0.99).all()
    assert not len(unknown.sources) or (likeness(x, unknown.sources) < 0.5).all()
    assert FirstLayer(start).update is start


@pytest.mark.parametrize("scale", [1e-25, 1.0, 1e25])
@pytest.mark.parametrize("left", [1.0, 0.7, 0.02])
def test_what_weight_decay_has_left_of_the_start(left, scale):
    x, a = mixed(6, 2000, 60)
    start, signal = scale * normal(60, 2000, seed=5), scale * (a @ x) / 10
    assert start_left(left * start + signal, start) == pytest.approx(left, abs=2e-4)
    update = FirstLayer(left * start + signal, start).update
    assert (update / scale - signal / scale).norm() < 2e-4 * (start / scale).norm()


def test_a_start_within_the_span_of_the_images():
    """Then no part of it is beside them, and the plain projection has to do."""
    x, a = mixed()
    start = normal(40, 8, seed=8) @ x
    w = a @ x + 0.5 * start
    expected = ((w * start).sum() / start.square().sum()).item()
    assert start_left(w, start) == pytest.approx(expected, abs=1e-5)
    assert start_left(start, start) == 1


# ------------------------------------------------------------------------------------- equivariance


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_scale_of_the_weights_does_not_matter(scale):
    x, a = mixed()
    found, other = (separate(FirstLayer(c * (a @ x)), (2000,)) for c in (1.0, scale))
    assert (paired(found.sources, other.sources) > 0.999).all()
    assert torch.allclose(found.share, other.share, rtol=1e-3)
    assert same_mixing(found.sources, found.mixing, other.sources, other.mixing / scale)


# --------------------------------------------------------------------------------- what is reported


def test_the_answer_is_described():
    x, a = mixed()
    x = x * torch.linspace(1, 3, 8)[:, None]
    update = a @ x + 1e-3 * normal(40, 2000, seed=7)
    found = separate(FirstLayer(update), (2000,), SeparationSettings(restarts=3))
    r = len(found.basis)
    assert (
        found.x_hat.shape == (2 * r, 2000)
        and found.mixing.shape == (40, r)
        and found.contrast.shape == (3,)
    )
    assert torch.equal(found.x_hat[r:], -found.sources)
    assert torch.allclose(found.x_hat.square().mean(1).sqrt(), torch.full((2 * r,), PIXEL_STD))
    assert torch.allclose(found.basis @ found.basis.mT, torch.eye(r), atol=1e-5)
    inside = update @ found.basis.mT @ found.basis
    assert torch.allclose(
        found.mixing @ found.sources, inside, atol=1e-4 * inside.abs().max().item()
    )
    parts = torch.stack(
        [torch.outer(found.mixing[:, k], found.sources[k]).norm() for k in range(r)]
    )
    assert torch.allclose(found.share, parts / update.norm(), rtol=1e-4)
    assert (found.share.diff() <= 0).all() and found.share.dtype == torch.float32
    assert (paired(x, found.sources) > 0.99).all() and found.stability.min() > 0.999
    # sparsity of each row, recomputed: at mean square one, which is what whitening makes of
    # independent sources
    contrast = (
        ((found.sources / PIXEL_STD).square() + SeparationSettings().floor)
        .pow(SeparationSettings().exponent)
        .mean(1)
    )
    assert torch.allclose(found.sparsity, -contrast, atol=1e-4)
    assert -found.sparsity.mean() == pytest.approx(found.contrast.min().item(), abs=1e-6)


def test_stability():
    x = laplacian(1, 4, 50)
    assert stability(x, 0).isnan().all() and stability(x, 0).shape == (4,)
    turned = -3 * x.flip(1)  # the same sources in another order, with another sign and scale
    assert torch.allclose(stability(torch.cat([x, turned, x]), 1), torch.ones(4))
    other = torch.cat([x, x, laplacian(1, 4, 50, seed=9)])
    a, b = (torch.nn.functional.normalize(side, dim=1) for side in (x[0], other[2]))
    assert torch.allclose(stability(other, 0), (1 + (a @ b.mT).abs().amax(1)) / 2)
    assert torch.allclose(stability(other, 2), (b @ a.mT).abs().amax(1))


# ---------------------------------------------------------------------------------------- the steps


@pytest.mark.parametrize("size", [(5, 7), (2, 4), (3, 2), (2, 2)])
def test_derivatives_equal_numpy(size):
    images = normal(4, 3, *size, dtype=F64).numpy()
    ours = derivatives(torch.tensor(images).flatten(1), (3, *size))
    horizontal, vertical = np.diff(images, axis=-1)[:, :, :-1], np.diff(images, axis=-2)[..., :-1]
    assert ours.shape == (4, 6, (size[0] - 1) * (size[1] - 1))
    assert np.allclose(ours, np.concatenate([horizontal, vertical], axis=1).reshape(ours.shape))


@pytest.mark.parametrize("shape", [(12,), (3, 1, 4), (3, 4, 1), (3, 4)])
def test_without_neighbours_the_numbers_themselves(shape):
    x = normal(2, 12)
    assert torch.equal(derivatives(x, shape), x[:, None])


@pytest.mark.parametrize("shape", [(3, 8, 8), (192,)])
def test_whitened_derivatives_have_identity_second_moment(shape):
    basis = signal_span(normal(20, 9) @ normal(9, 192, seed=1))
    whitening, z = whiten(basis, shape)
    flat = z.flatten(1)
    assert torch.allclose(flat @ flat.mT / flat.shape[1], torch.eye(9), atol=1e-5)
    assert torch.allclose(z, derivatives(whitening @ basis, shape), atol=1e-4)
    assert torch.allclose(whitening, whitening.mT, atol=1e-5)  # of all whitenings the symmetric one


def test_stages_by_hand():
    assert stages(30, SeparationSettings(first_rank=20, growth=1.1)) == [20, 22, 24, 26, 29, 30]
    assert stages(5, SeparationSettings(first_rank=2, growth=1.001)) == [2, 3, 4, 5]
    assert (
        stages(5, SeparationSettings(first_rank=None))
        == stages(5, SeparationSettings(first_rank=9))
        == [5]
    )


def test_orthogonalised_is_the_nearest_orthogonal_matrix():
    w = normal(3, 6, 6, dtype=F64)
    u, _, v = torch.linalg.svd(w)
    assert torch.allclose(orthogonalise(w), u @ v)
    assert torch.isfinite(orthogonalise(torch.zeros(4, 4) + torch.eye(4)[0])).all()  # of rank one


def white(r=4, group=2, pixels=30, seed=0):
    """Numbers z (r, group, pixels) with identity second moment, and a rotation (r, r)."""
    z = laplacian(r, group * pixels, seed=seed).double()
    z = torch.linalg.svd(z, full_matrices=False).Vh * (group * pixels) ** 0.5
    return z.unflatten(1, (group, pixels)), orthogonalise(normal(r, r, seed=seed + 1, dtype=F64))


@pytest.mark.parametrize("exponent", [0.1, 0.5])
def test_one_step_equals_loops(exponent):
    """FastICA's fixed point, entry by entry: E[g s z] − E[∂(g s)/∂s] w, over every number s of
    every pixel.
    """
    z, w = white()
    settings = SeparationSettings(exponent=exponent, floor=0.2, tol=0)
    expected = torch.zeros_like(w)
    for k in range(4):
        for p in range(30):
            s = [sum(w[k, j] * z[j, c, p] for j in range(4)) for c in range(2)]
            e = s[0] ** 2 + s[1] ** 2
            g = exponent * (e + 0.2) ** (exponent - 1)
            slope = exponent * (exponent - 1) * (e + 0.2) ** (exponent - 2)
            for c in range(2):
                expected[k] += (g * s[c] * z[:, c, p] - (g + 2 * slope * s[c] ** 2) * w[k]) / 60
    u, _, v = torch.linalg.svd(expected)
    moved, contrast = rotate(w[None], z, settings, 1)
    assert torch.allclose(moved[0], u @ v, atol=1e-5)
    energy = (torch.einsum("kj,jcp->kcp", moved[0], z) ** 2).sum(1)
    assert torch.allclose(contrast[0], ((energy + 0.2) ** exponent).mean(1), atol=1e-10)


def test_a_batch_of_restarts_is_runs_of_their_own():
    z, _ = white(6, 2, 100)
    starts = orthogonalise(normal(3, 6, 6, dtype=F64))
    both, contrast = rotate(starts, z, SeparationSettings(tol=0), 12)
    for k in range(3):
        alone, single = rotate(starts[k : k + 1], z, SeparationSettings(tol=0), 12)
        assert torch.allclose(alone[0], both[k], atol=1e-8) and torch.allclose(
            single[0], contrast[k]
        )


def test_unmix_is_one_stage_after_the_other():
    """Two stages by hand: the second begins at the sources of the first, seen in its own whitened
    coordinates.
    """
    x, a = photographs()
    basis, shape = signal_span(a @ x)[:6], (3, 32, 32)
    settings = SeparationSettings(first_rank=4, growth=1.5, iterations=5, tol=0.0, restarts=2)
    assert stages(6, settings) == [4, 6]
    generator = seeded(8)
    w = orthogonalise(torch.randn(2, 4, 4, generator=generator))
    whitening, z = whiten(basis[:4], shape)
    w, _ = rotate(w, z, settings, 10)  # twice as many at first
    before = torch.cat([w @ whitening, torch.zeros(2, 4, 2)], dim=2)  # of the six directions
    whitening, z = whiten(basis, shape)
    w = extend(before @ torch.linalg.inv(whitening), generator)
    w, contrast = rotate(w, z, settings, 5)
    sources, values = unmix(basis, shape, settings, seeded(8))
    assert torch.allclose(sources, w @ whitening @ basis, atol=1e-3 * sources.abs().max().item())
    assert torch.allclose(values, contrast, atol=1e-4)
    moments = torch.einsum(
        "skcp,sjcp->skj", *2 * [derivatives(sources.flatten(0, 1), shape).unflatten(0, (2, 6))]
    )
    assert torch.allclose(moments / (6 * 31 * 31), torch.eye(6).expand(2, 6, 6), atol=1e-4)


# ------------------------------------------------------------------------------- bad and poor input


def test_a_constant_image_among_others_does_no_harm():
    """A direction without derivatives, left in, would make every source a copy of it."""
    x, a = photographs(n=6)
    flat = torch.stack(
        [torch.full((3, 1024), 0.4), torch.tensor([0.9, 0.2, -0.3])[:, None].expand(3, 1024)]
    ).flatten(1)
    update = a @ x + normal(60, 2, seed=9) @ flat
    found = separate(FirstLayer(update), (3, 32, 32))
    assert found.sources.shape == (6, 3072)
    without = x - x @ torch.linalg.pinv(flat) @ flat
    assert (
        paired(separate(FirstLayer(a @ without), (3, 32, 32)).sources, found.sources) > 0.99
    ).all()
    assert found.share.max() < 1.01
    assert torch.allclose(found.basis @ found.basis.mT, torch.eye(6), atol=1e-5)
    assert found.basis.sum(1).abs().max() < 1e-3 * 3072**0.5
    strength = (update @ found.basis.mT).norm(dim=0)
    assert (strength.diff() <= 0).all()  # strongest first


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: FirstLayer(torch.full((2, 3), torch.nan)), "not finite"),
        (lambda: FirstLayer(torch.ones(2, 3), torch.full((2, 3), torch.inf)), "not finite"),
        (lambda: FirstLayer(torch.full((2, 3), 1e100, dtype=F64)), "not finite"),  # in float32
        (lambda: FirstLayer(torch.ones(2, 3), torch.ones(2, 4)), "matrices of one shape"),
        (lambda: FirstLayer(torch.ones(3)), "matrices of one shape"),
        (lambda: FirstLayer(torch.ones(0, 3)), "empty"),
        (lambda: FirstLayer(torch.ones(2, 3), torch.zeros(2, 3)).update, "is zero"),
        (lambda: separate(FirstLayer(normal(10, 27)), (3, 3, 4)), "do not make 27 inputs"),
        (lambda: separate(FirstLayer(normal(10, 27)), (3, -3, -3)), "do not make 27 inputs"),
        (lambda: SeparationSettings(growth=1.0), "positive"),
        (lambda: SeparationSettings(floor=torch.nan), "positive"),
        (lambda: SeparationSettings(first_rank=0), "positive"),
    ],
)
def test_what_makes_no_sense_is_refused(call, sentence):
    with pytest.raises(ReconError, match=sentence):
        call()


@pytest.mark.parametrize(
    ("w", "shape"),
    [
        (torch.zeros(10, 27), (3, 3, 3)),
        (normal(1, 27), (3, 3, 3)),
        (normal(10, 1) @ torch.ones(1, 27), (3, 3, 3)),  # an image without an edge
        (normal(30, 30) / 30, (30,)),  # noise alone in a square
    ],
)
def test_an_honest_nothing(w, shape):
    nothing = separate(FirstLayer(w), shape, SeparationSettings(restarts=3))
    height, dim = w.shape
    assert nothing.x_hat.shape == nothing.basis.shape == (0, dim)
    assert nothing.mixing.shape == (height, 0)
    assert nothing.sparsity.shape == nothing.stability.shape == nothing.share.shape == (0,)
    assert nothing.contrast.isnan().all() and nothing.contrast.shape == (3,)


def test_one_image():
    x, a = laplacian(1, 27), normal(10, 1)
    answer = separate(FirstLayer(torch.nn.Parameter(a @ x)), (3, 3, 3))
    assert likeness(x, answer.sources) > 0.9999 and not answer.x_hat.requires_grad
    assert answer.share.item() == pytest.approx(1, abs=1e-5)
    torch.testing.assert_close(answer.mixing @ answer.sources, a @ x, atol=1e-5, rtol=0)


def test_rank_is_a_bound_on_what_is_searched():
    x, a = photographs()
    answer = separate(FirstLayer(a @ x), (3, 32, 32), SeparationSettings(rank=7))
    assert torch.equal(answer.basis, signal_span(a @ x)[:7]) and len(answer.sources) == 7


def test_the_same_generator_gives_the_same_answer():
    layer = FirstLayer(mixed()[1] @ normal(8, 500, seed=1))
    default, zero, one = (separate(layer, (500,), None, g) for g in (None, seeded(0), seeded(1)))
    assert torch.equal(default.x_hat, zero.x_hat)
    assert not torch.allclose(zero.x_hat, one.x_hat, atol=1e-2)


def test_the_restart_with_the_lowest_contrast_is_the_answer():
    layer = FirstLayer(mixed()[1] @ normal(8, 300, seed=1))
    settings = SeparationSettings(restarts=5)
    bests = set()
    for seed in range(4):
        answer = separate(layer, (300,), settings, seeded(seed))
        sources, contrast = unmix(answer.basis, (300,), settings, seeded(seed))
        best = int(contrast.mean(1).argmin())
        bests.add(best)
        assert (paired(sources[best], answer.sources) > 0.999).all()
        matches = likeness(sources[best], answer.sources).argmax(0)
        torch.testing.assert_close(answer.sparsity, -contrast[best][matches], atol=1e-5, rtol=0)
        expected = stability(sources, best)[matches]
        torch.testing.assert_close(answer.stability, expected, atol=1e-4, rtol=0)
    assert bests != {0}


def test_extended_keeps_orthonormal_rows():
    rows = orthogonalise(normal(2, 9, 9))[:, :5]
    full = extend(3 * rows, seeded())
    assert torch.allclose(full[:, :5], rows, atol=1e-5)
    assert torch.allclose(full @ full.mT, torch.eye(9).expand(2, 9, 9), atol=1e-5)
    first, second = rows[0, 0], rows[0, 1]
    # lengths do not count: the bisector is kept
    slanted = torch.stack([first, 4 * (0.6 * first + 0.8 * second)])
    nearest = extend(slanted[None], seeded())[0, :2]
    products = nearest @ (1.6 * first + 0.8 * second)
    assert products[0].item() == pytest.approx(products[1].item(), abs=1e-5)
