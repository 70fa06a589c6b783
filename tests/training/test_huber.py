"""Output perturbation: the objective's derivatives, its minimiser, and the noise that its sensitivity asks for."""

from __future__ import annotations

import math

import pytest
import torch

from recon.errors import ReconError
from recon.training.huber import Perturbation, train_huber

N, D = 30, 8
SETTINGS = Perturbation(decay=0.3, clip=0.4, radius=math.sqrt(D))


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(N, D, generator=generator, dtype=torch.float64)
    y = torch.where(torch.rand(N, generator=generator) < 0.5, -1.0, 1.0).double()
    return torch.nn.functional.normalize(x, dim=1) * math.sqrt(D), y


def test_huber_is_the_usual_one(data):
    x, y = data
    theta = torch.linspace(-0.2, 0.3, D, dtype=torch.float64)
    usual = torch.nn.functional.huber_loss(x @ theta, y, reduction="sum", delta=SETTINGS.clip)
    assert torch.isclose(SETTINGS.objective(theta, x, y), usual + N * 0.3 / 2 * theta @ theta)


def test_derivatives_are_those_of_the_objective(data):
    x, y = data
    theta = torch.linspace(-0.2, 0.3, D, dtype=torch.float64, requires_grad=True)
    assert 0 < ((x @ theta - y).abs() <= SETTINGS.clip).sum() < N
    gradient = torch.autograd.grad(SETTINGS.objective(theta, x, y), theta)[0]
    hessian = torch.autograd.functional.hessian(lambda t: SETTINGS.objective(t, x, y), theta.detach())
    assert torch.allclose(SETTINGS.gradient(theta.detach(), x, y, N), gradient)
    assert torch.allclose(SETTINGS.curvature(theta.detach(), x, y, N), hessian)


def test_training_ends_at_the_minimum(data):
    x, y = data
    theta = train_huber(x, y, SETTINGS)
    assert SETTINGS.gradient(theta, x, y, N).norm() < 1e-8
    best = SETTINGS.objective(theta, x, y)
    for step in 1e-3 * torch.randn(20, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64):
        assert SETTINGS.objective(theta + step, x, y) > best
    tight = Perturbation(decay=1e-3, clip=1e-3, radius=math.sqrt(D))  # a full step of Newton's method overshoots here
    assert tight.gradient(train_huber(x, y, tight), x, y, N).norm() < 1e-8


def test_noise_is_what_the_sensitivity_asks_for(data):
    """Eq. (8) is Δ²/(2ρ) with Δ = 2RC/(λn), and no exchange of one image moves θ* by more than Δ."""
    x, y = data
    most = 2 * SETTINGS.radius * SETTINGS.clip / (SETTINGS.decay * N)
    assert SETTINGS.noise(N, rho=3.0) == pytest.approx(most / math.sqrt(2 * 3.0))
    theta, moved = train_huber(x, y, SETTINGS), []
    for t in range(N):
        other, labels = x.clone(), y.clone()
        other[t], labels[t] = -x[t], y[t]
        moved.append((train_huber(other, labels, SETTINGS) - theta).norm().item())
    assert 0.1 * most < max(moved) <= most


def test_bad_input_is_one_sentence(data):
    x, y = data
    with pytest.raises(ReconError, match="must be positive"):
        Perturbation(decay=0.0, clip=1.0, radius=1.0)
    with pytest.raises(ReconError, match="longer than the radius"):
        train_huber(2 * x, y, SETTINGS)
    with pytest.raises(ReconError, match="positive budget"):
        SETTINGS.noise(N, rho=0.0)
    with pytest.raises(ReconError, match="not converged in 1 steps"):
        train_huber(x, y, SETTINGS, steps=1)
