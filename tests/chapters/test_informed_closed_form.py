"""The closed form against automatic differentiation, and what it says where the knowledge is wrong."""

from __future__ import annotations

import pytest
import torch

from companion.chapters.all_but_one.informed_closed_form import LOSSES, missing_image
from recon.errors import ReconError
from recon.nets.mlp import MLP, affine
from recon.released import Weights
from recon.training.inner_problem import Objective

N, D, DECAY = 12, 20, 0.05


def trained(loss: str, n: int = N) -> tuple[Objective, torch.Tensor, torch.Tensor]:
    """Objective, images, and its minimiser by SciPy-free Newton with automatic second derivatives."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(n, D, generator=generator, dtype=torch.float64)
    objective = Objective(affine(D), (torch.arange(n) % 2).double(), DECAY, loss)
    theta = torch.zeros(D + 1, dtype=torch.float64)
    for _ in range(30):
        hessian = torch.autograd.functional.hessian(lambda t: objective.value(t[None], x[None])[0], theta)
        theta = theta - torch.linalg.solve(hessian, objective.grad(theta[None], x[None])[0])
    return objective, x, theta


@pytest.mark.parametrize("loss", LOSSES)
def test_what_is_left_is_the_missing_images_gradient(loss):
    """v by the formula is minus the gradient of the known images' losses and of the whole decay, by autograd."""
    objective, x, theta = trained(loss)
    for t in (0, 5, N - 1):
        kept = torch.arange(N) != t
        theta_ = theta.clone().requires_grad_()
        known = Objective(affine(D), objective.y[kept], 0.0, loss)
        energy = (N - 1) * known.loss(theta_[None], x[None, kept])[0] + N * DECAY / 2 * theta_.square().sum()
        left = -torch.autograd.grad(energy, theta_)[0]
        found = missing_image(Weights(affine(D), theta, weight_decay=DECAY), x[kept], objective.y[kept], loss)
        assert torch.allclose(left, found.slope * torch.cat([found.x, torch.ones(1)]), atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_missing_image_and_its_label_come_out(loss):
    objective, x, theta = trained(loss)
    for t in range(N):
        kept = torch.arange(N) != t
        found = missing_image(Weights(affine(D), theta, weight_decay=DECAY), x[kept], objective.y[kept], loss)
        assert torch.allclose(found.x, x[t], atol=1e-9)
        assert abs(found.label - objective.y[t]) < 1e-9 and found.doubt < 1e-9


@pytest.mark.parametrize("loss", LOSSES)
def test_the_label_tells_whether_the_knowledge_is_true(loss):
    objective, x, theta = trained(loss)
    weights, y = Weights(affine(D), theta, weight_decay=DECAY), objective.y
    wrong = x[1:].clone()
    wrong[0] += 0.1
    flipped = y[1:].clone()
    flipped[0] = 1 - flipped[0]
    cases = {
        "another image": missing_image(weights, wrong, y[1:], loss),
        "another label": missing_image(weights, x[1:], flipped, loss),
        "two missing": missing_image(weights, x[2:], y[2:], loss),
        "another weight decay": missing_image(Weights(affine(D), theta, weight_decay=1.1 * DECAY), x[1:], y[1:], loss),
    }
    assert {name: found.doubt > 1e-5 for name, found in cases.items()} == dict.fromkeys(cases, True)


def test_it_computes_in_the_dtype_of_the_images():
    objective, x, theta = trained("logistic")
    weights = Weights(affine(D), theta.float(), weight_decay=DECAY)
    found = missing_image(weights, x[1:], objective.y[1:])
    assert found.x.dtype == torch.float64 and 1e-9 < (found.x - x[0]).abs().max() < 1e-3
    assert missing_image(weights, x[1:].float(), objective.y[1:].float()).x.dtype == torch.float32


def test_bad_input_is_one_sentence():
    x, y = torch.zeros(3, D), torch.zeros(3)
    good = Weights(affine(D), torch.ones(D + 1), weight_decay=DECAY)
    with pytest.raises(ReconError, match="affine network"):
        missing_image(Weights(MLP((D, 2, 1)), torch.ones(MLP((D, 2, 1)).n_params)), x, y)
    with pytest.raises(ReconError, match="affine network"):
        missing_image(Weights(affine(D), torch.ones(2, D + 1)), x, y)
    with pytest.raises(ReconError, match="unknown loss 'hinge'"):
        missing_image(good, x, y, "hinge")
    with pytest.raises(ReconError, match="do not fit"):
        missing_image(good, x[:, 1:], y)
    with pytest.raises(ReconError, match="nothing is left over"):
        missing_image(Weights(affine(D), torch.zeros(D + 1), weight_decay=DECAY), x[:0], y[:0])
