"""What the adversary of a gradient is given, and what is refused."""

from __future__ import annotations

import pytest
import torch
from small_networks import SMALL, some_gradient, some_images, theta_of

from recon.errors import ReconError
from recon.released import Gradient


def test_gradients_are_of_single_images_and_split():
    gradient, x = some_gradient(count=3)
    assert {name: tuple(g.shape[1:]) for name, g in gradient.gradients.items()} == SMALL.shapes()
    for b, alone in enumerate(gradient.split()):
        label = gradient.labels[b : b + 1]
        expected = Gradient.each(SMALL, gradient.theta, x[b : b + 1], label)
        assert torch.equal(alone.labels, label)
        torch.testing.assert_close(alone.gradients, expected.gradients, rtol=1e-9, atol=1e-14)


def test_an_averaged_gradient_is_that_of_the_mean_loss():
    theta, x, labels = theta_of(SMALL), some_images(SMALL, 3), torch.tensor([2, 0, 1])
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in theta.items()}
    loss = torch.nn.functional.cross_entropy(SMALL(leaves, x), labels)
    expected = torch.autograd.grad(loss, list(leaves.values()))
    averaged = Gradient.averaged(SMALL, theta, x, labels)
    assert averaged.labels.tolist() == [2]
    for ours, theirs in zip(averaged.gradients.values(), expected, strict=True):
        torch.testing.assert_close(ours[0], theirs, rtol=1e-9, atol=1e-14)


def test_another_precision():
    single = some_gradient()[0].to(torch.float32)
    tensors = [*single.theta.values(), *single.gradients.values()]
    assert {tensor.dtype for tensor in tensors} == {torch.float32}
    assert single.labels.dtype == torch.int64


@pytest.mark.parametrize(
    ("tensors", "name", "change", "message"),
    [
        ("gradients", "w1", lambda g: g * torch.nan, "finite"),
        ("theta", "b3", lambda w: w + torch.inf, "finite"),
        ("gradients", "b3", lambda g: g[:, :-1], r"gradient of b3 must have shape \(2, 4\)"),
        ("gradients", "w1", lambda g: g[:1], "the gradient of w1 must have shape"),
        ("theta", "w2", lambda w: w[:, :, :2], "w2 must have shape"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(tensors, name, change, message):
    gradient, _ = some_gradient()
    parts = {"theta": dict(gradient.theta), "gradients": dict(gradient.gradients)}
    parts[tensors][name] = change(parts[tensors][name])
    with pytest.raises(ReconError, match=message):
        Gradient(SMALL, labels=gradient.labels, **parts)
    del parts[tensors][name]
    with pytest.raises(ReconError, match="one tensor per parameter: w1, w2, w3, b3"):
        Gradient(SMALL, labels=gradient.labels, **parts)


@pytest.mark.parametrize("labels", [[0, 4], [-1, 0], [0.0, 1.0]])
def test_labels_that_are_no_classes_are_refused(labels):
    gradient, x = some_gradient()
    with pytest.raises(ReconError, match="whole numbers from 0 to 3"):
        Gradient(SMALL, gradient.theta, torch.tensor(labels), gradient.gradients)
    with pytest.raises(ReconError, match="whole numbers from 0 to 3"):
        Gradient.each(SMALL, gradient.theta, x, torch.tensor(labels))
