"""What the adversary of a gradient is given, and what is refused."""

from __future__ import annotations

import pytest
import torch
from small_networks import SMALL, some_gradient, some_images, theta_of

from recon.errors import ReconError
from recon.released import Gradient


def test_gradients_are_each_images_own_and_split():
    gradient, x = some_gradient(count=3)
    assert {name: tuple(g.shape[1:]) for name, g in gradient.gradients.items()} == SMALL.shapes()
    for b, alone in enumerate(gradient.split()):
        own = Gradient.each(SMALL, gradient.theta, x[b : b + 1], gradient.labels[b : b + 1])
        assert torch.equal(alone.labels, gradient.labels[b : b + 1])
        for name, g in own.gradients.items():
            torch.testing.assert_close(alone.gradients[name], g, rtol=1e-9, atol=1e-14)


def test_an_averaged_gradient_is_that_of_the_mean_loss():
    theta, x, labels = theta_of(SMALL), some_images(SMALL, 3), torch.tensor([2, 0, 1])
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in theta.items()}
    loss = torch.nn.functional.cross_entropy(SMALL(leaves, x), labels)
    expected = torch.autograd.grad(loss, list(leaves.values()))
    found = Gradient.averaged(SMALL, theta, x, labels)
    assert found.labels.tolist() == [2]
    for ours, theirs in zip(found.gradients.values(), expected, strict=True):
        torch.testing.assert_close(ours[0], theirs, rtol=1e-9, atol=1e-14)


def test_another_precision():
    single = some_gradient()[0].to(torch.float32)
    assert {t.dtype for t in (*single.theta.values(), *single.gradients.values())} == {
        torch.float32
    }
    assert single.labels.dtype == torch.int64


def broken(change: str):
    gradient, x = some_gradient()
    gradients, theta, labels = dict(gradient.gradients), dict(gradient.theta), gradient.labels
    if change == "label":
        return lambda: Gradient(SMALL, theta, torch.tensor([0, 4]), gradients)
    if change == "label of":
        return lambda: Gradient.each(SMALL, theta, x, torch.tensor([-1, 0]))
    if change == "float label":
        return lambda: Gradient(SMALL, theta, labels.double(), gradients)
    if change == "nan":
        gradients["w1"] = torch.full_like(gradients["w1"], float("nan"))
    if change == "infinite":
        theta["b3"] = torch.full_like(theta["b3"], float("inf"))
    if change == "shape":
        gradients["b3"] = gradients["b3"][:, :-1]
    if change == "count":
        gradients["w1"] = gradients["w1"][:1]
    if change == "theta":
        theta["w2"] = theta["w2"].mT[:, :, :2]
    if change == "missing":
        del gradients["b3"]
    return lambda: Gradient(SMALL, theta, labels, gradients)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("label", "from 0 to 3"),
        ("label of", "from 0 to 3"),
        ("float label", "whole numbers"),
        ("nan", "finite"),
        ("infinite", "finite"),
        ("shape", r"the gradient of b3 must have shape \(2, 4\)"),
        ("count", "the gradient of w1 must have shape"),
        ("theta", "w2 must have shape"),
        ("missing", "one tensor per parameter: w1, w2, w3, b3"),
    ],
)
def test_bad_input_is_one_sentence(change, sentence):
    with pytest.raises(ReconError, match=sentence) as caught:
        broken(change)()
    assert "\n" not in str(caught.value)
