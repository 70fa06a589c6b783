"""Weights with noise: what is left is the image and that noise, and the posterior is the one of dense matrices."""

from __future__ import annotations

import math

import pytest
import torch
from torch.distributions import MultivariateNormal
from torch.nn.functional import cosine_similarity, normalize

from recon.attacks import perturbed
from recon.attacks.perturbed import ImagePrior, Leftover, Release, direction, leftover, with_prior
from recon.errors import ReconError
from recon.training.huber import Perturbation, train_huber

N, D = 60, 10
SETTINGS = Perturbation(decay=1.0, clip=0.125, radius=math.sqrt(D))


def drawn(seed: int = 0, common: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Images of norm √d around a mean of their class; common: what both means have in common."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.where(torch.arange(N) % 2 == 0, -1.0, 1.0).double()
    x = torch.randn(N, D, generator=generator, dtype=torch.float64) + y[:, None]
    x[:, : D // 2] += common
    return normalize(x, dim=1) * math.sqrt(D), y


def released(x, y, rho: float, seed: int = 1) -> Release:
    noise = SETTINGS.noise(N, rho)
    drawn = torch.randn(D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return Release(train_huber(x, y, SETTINGS) + noise * drawn, SETTINGS, N, noise)


def test_without_noise_the_missing_images_gradient_is_left():
    """Eq. (13): −F₋(θ*) = ψ(xᵀθ* − y) x, the sign of which is that of −y where the residual is clipped."""
    x, y = drawn()
    theta = train_huber(x, y, SETTINGS)
    for t in (0, 7, N - 1):
        kept = torch.arange(N) != t
        left = leftover(Release(theta, SETTINGS, N, 0.0), x[kept], y[kept])
        slope = (x[t] @ theta - y[t]).clamp(-SETTINGS.clip, SETTINGS.clip)
        assert torch.allclose(left.toward, slope * x[t], atol=1e-8) and slope * y[t] < 0
        read = direction(Release(theta, SETTINGS, N, 0.0), left)
        assert 1 - cosine_similarity(read.x_hat, x[t], dim=0) ** 2 < 1e-12 and read.error == 0
        assert read.x_hat.norm().item() == pytest.approx(SETTINGS.radius)


def test_the_curvature_is_how_noise_comes_back():
    """F₋(θ* + b) − F₋(θ*) = H b for a small b."""
    x, y = drawn()
    theta = train_huber(x, y, SETTINGS)
    b = 1e-7 * torch.arange(1.0, D + 1, dtype=torch.float64)
    there, here = (leftover(Release(t, SETTINGS, N, 1.0), x[1:], y[1:]) for t in (theta + b, theta))
    assert torch.allclose(here.toward - there.toward, here.curvature @ b, rtol=1e-5)


def test_the_posterior_is_that_of_dense_matrices(monkeypatch):
    monkeypatch.setattr(perturbed, "SHARES", (1.0, 0.5))
    x, y = drawn()
    release = released(x, y, rho=40.0)
    left, prior = leftover(release, x[1:], y[1:]), ImagePrior.of(*drawn(seed=5))
    noise = release.noise**2 * left.curvature @ left.curvature
    logs, means, traces, labels = [], [], [], []
    for label in (-1, 1):
        for share, chance in ((1.0, left.clipped), (0.5, 1 - left.clipped)):
            a, mean = -label * share * SETTINGS.clip, prior.means[int(label > 0)]
            spread = a**2 * prior.covariance + noise
            gain = a * prior.covariance @ torch.linalg.inv(spread)
            logs.append(math.log(chance) + MultivariateNormal(a * mean, spread).log_prob(left.toward))
            means.append(mean + gain @ (left.toward - a * mean))
            traces.append((prior.covariance - a * gain @ prior.covariance).trace())
            labels.append(label)
    chance = torch.stack(logs).softmax(0)
    read = with_prior(release, left, prior)
    assert torch.allclose(read.x_hat, means[int(chance.argmax())], atol=1e-9)
    assert read.label == pytest.approx(chance[2:].sum().item())
    expected = sum(c * s / (s + m.square().sum()) for c, s, m in zip(chance, traces, means, strict=True))
    assert read.error == pytest.approx(expected.item())


def attacked(rho: float, common: float = 0.0):
    """Means over all targets: errors of the direction and with the prior, expected ones, chance of the true label."""
    x, y = drawn(common=common)
    prior = ImagePrior.of(*drawn(seed=5, common=common))
    rows = []
    for t in range(N):
        kept = torch.arange(N) != t
        release = released(x, y, rho, seed=t)
        left = leftover(release, x[kept], y[kept])
        plain, better = direction(release, left), with_prior(release, left, prior)
        errors = [1 - cosine_similarity(read.x_hat, x[t], dim=0).item() ** 2 for read in (plain, better)]
        rows.append([*errors, plain.error, better.error, better.label if y[t] > 0 else 1 - better.label])
    return torch.tensor(rows, dtype=torch.float64).mean(0).tolist()


@pytest.mark.parametrize(("rho", "low", "high"), [(30.0, 0.02, 0.9), (3e4, 1e-5, 2e-3)])
def test_the_expected_error_is_the_error_on_average(rho, low, high):
    plain, better, plain_said, better_said, _ = attacked(rho)
    assert low < plain < high and 0.5 < plain / plain_said < 2 and 0.5 < better / better_said < 2
    assert better < plain or rho > 1e4


def test_an_image_and_its_negative_with_the_other_label_are_the_same_to_the_weights():
    """(x, y) and (−x, −y) have one loss, so the label is open, unless the prior tells images from negatives."""
    x, y = drawn()
    theta = train_huber(x, y, SETTINGS)
    turned, labels = x.clone(), y.clone()
    turned[3], labels[3] = -x[3], -y[3]
    assert torch.allclose(train_huber(turned, labels, SETTINGS), theta)
    assert attacked(3e4)[4] == pytest.approx(0.5, abs=0.1) and attacked(3e4, common=3.0)[4] > 0.95


def test_little_is_expected_of_weights_that_never_saw_the_image():
    """Their leftover is noise, as long as expected; a decay for one image more stays, and is small beside it."""
    x, y = drawn()
    theta, noise = train_huber(x[1:], y[1:], SETTINGS), SETTINGS.noise(N, 10.0)
    said = []
    for b in torch.randn(20, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64):
        release = Release(theta + noise * b, SETTINGS, N, noise)
        said.append(direction(release, leftover(release, x[1:], y[1:])).error)
    assert torch.tensor(said).median() > 0.7


def test_a_prior_has_the_mean_of_each_class_and_a_covariance_that_can_be_inverted():
    x, y = drawn()
    prior = ImagePrior.of(x[:4], y[:4], shrinkage=0.1)
    assert torch.allclose(prior.means[1], x[:4][y[:4] > 0].mean(0))
    rest = x[:4] - prior.means[(y[:4] > 0).long()]
    assert prior.covariance.trace().item() == pytest.approx((rest.square().sum() / 4).item())
    assert torch.linalg.eigvalsh(prior.covariance).min() > 0


def test_bad_input_is_one_sentence():
    x, y = drawn()
    release = released(x, y, 1.0)
    with pytest.raises(ReconError, match="59 images must be known, not 60"):
        leftover(release, x, y)
    with pytest.raises(ReconError, match="both labels"):
        ImagePrior.of(x, torch.ones(N, dtype=torch.float64))
    with pytest.raises(ReconError, match="without noise"):
        left = Leftover(x[0], torch.eye(D, dtype=torch.float64), 0.5)
        with_prior(Release(x[0], SETTINGS, N, 0.0), left, ImagePrior.of(x, y))
