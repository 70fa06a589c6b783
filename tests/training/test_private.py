"""DP-SGD in batches: clipping against automatic differentiation image by image, the noise, and the descent."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from recon.errors import ReconError
from recon.nets.mlp import MLP, three_layer
from recon.training.private import PrivateDescent, clipped_each, clipped_sum, private_descent

NET = MLP((6, 5, 3))
CLIP = 1.5


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    theta = torch.stack([NET.flatten(NET.init(generator, dtype=torch.float64)) for _ in range(2)])
    x = 3 * torch.randn(4, 6, generator=generator, dtype=torch.float64)
    x[0] *= 0.05
    return theta, x, torch.tensor([0, 2, 1, 2])


def one_by_one(theta, x, labels):
    """(S, n, p) by autograd, each clipped by itself."""
    rows = []
    for t in theta:
        for image, label in zip(x, labels, strict=True):
            t_ = t.clone().requires_grad_()
            loss = F.cross_entropy(NET(NET.unflatten(t_), image[None]), label[None])
            g = torch.autograd.grad(loss, t_)[0]
            rows.append(g * min(1.0, CLIP / g.norm().item()))
    return torch.stack(rows).view(len(theta), len(x), -1)


def test_clipping_is_that_of_every_image_by_itself(data):
    theta, x, labels = data
    expected = one_by_one(theta, x, labels)
    norms = expected.norm(dim=-1)
    assert (norms < 0.99 * CLIP).any() and torch.isclose(norms, torch.tensor(CLIP).double()).any()
    assert torch.allclose(clipped_each(NET, theta, x, labels, CLIP), expected)
    assert torch.allclose(clipped_sum(NET, theta, x, labels, CLIP), expected.sum(1))
    own = x[1:3].unsqueeze(1), labels[1:3].unsqueeze(1)  # one image a run
    assert torch.allclose(clipped_sum(NET, theta, *own, CLIP), expected[[0, 1], [1, 2]])


def test_a_step_goes_down_the_noisy_sum(data):
    theta, x, labels = data
    settings = PrivateDescent(steps=3, lr=0.5, clip=CLIP, noise=0.2)
    seen = []
    known, own = (x[:3], labels[:3]), (x[[3, 0]], labels[[3, 0]])
    last = private_descent(
        NET, theta, known, own, settings, torch.Generator().manual_seed(1), lambda *both: seen.append(both)
    )
    assert len(seen) == 3 and torch.equal(seen[0][0], theta)
    noise = torch.Generator().manual_seed(1)
    for k, (before, released) in enumerate(seen):
        exact = one_by_one(before, x[:3], labels[:3]).sum(1)
        exact[0] += one_by_one(before[:1], x[3:], labels[3:])[0, 0]
        exact[1] += one_by_one(before[1:], x[:1], labels[:1])[0, 0]
        drawn = torch.randn(theta.shape, generator=noise, dtype=torch.float64)
        assert torch.allclose(released, exact + 0.2 * CLIP * drawn)
        after = seen[k + 1][0] if k < 2 else last
        assert torch.allclose(after, before - 0.5 / 4 * released)


def test_bad_input_is_one_sentence(data):
    _, x, labels = data
    with pytest.raises(ReconError, match="must be positive"):
        PrivateDescent(noise=0.0)
    net = three_layer(4, 6, outputs=3)
    theta = net.flatten(net.init(torch.Generator().manual_seed(0), dtype=torch.float64))
    with pytest.raises(ReconError, match="a bias in every layer"):
        clipped_sum(net, theta[None], x, labels, CLIP)
