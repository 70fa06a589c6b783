"""Eq. (4): what a fully connected layer gives away, of one image and of a batch."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch
from small_networks import SMALL, normal, some_gradient

from recon.attacks.rgap import features_from_fully_connected, logit_gradients, rgap
from recon.errors import ReconError
from recon.released import Gradient


def test_fully_connected_layers_give_their_input_away():
    gradient, x = some_gradient()
    inputs = SMALL.activation(SMALL.convs[0].apply(x, gradient.theta["w1"]))
    inputs = SMALL.activation(SMALL.convs[1].apply(inputs, gradient.theta["w2"]))
    torch.testing.assert_close(
        features_from_fully_connected(gradient), inputs.flatten(1), rtol=1e-9, atol=1e-12
    )
    # ∂ℓ/∂b = p − e_y: no secret
    assert torch.equal(gradient.gradients["b3"].argmin(-1), gradient.labels)


def test_the_row_of_the_largest_bias_gradient_is_taken():
    """Rows of tiny ∂ℓ/∂b_k are mostly noise."""
    gradient, _ = some_gradient(count=1)
    clean = features_from_fully_connected(gradient)
    row = int(gradient.gradients["b3"][0].abs().argmax())
    others = [k for k in range(SMALL.classes) if k != row]
    gradient.gradients["w3"][0, others] += 1.0
    assert torch.equal(features_from_fully_connected(gradient, check=False), clean)


def test_batches_leak_a_mixture_and_are_noticed():
    """Also in units in which the gradient is tiny."""
    gradient, x = some_gradient(count=3)
    mixed = Gradient.averaged(SMALL, gradient.theta, x, gradient.labels)
    tiny = {name: 1e-6 * value for name, value in mixed.gradients.items()}
    for solve, batch in product(
        (rgap, features_from_fully_connected), (mixed, replace(mixed, gradients=tiny))
    ):
        with pytest.raises(ReconError, match="more than one image"):
            solve(batch)
    each, features = gradient.gradients["b3"], features_from_fully_connected(gradient)
    row = int(mixed.gradients["b3"][0].abs().argmax())
    shares = each[:, row] / each[:, row].sum()
    torch.testing.assert_close(
        features_from_fully_connected(mixed, check=False)[0], shares @ features
    )


def test_eq_5_where_the_label_s_own_equation_has_two_solutions():
    """s (1 − p_y) is not monotone: a larger input with a surer network has the same gradient in the
    label's row.
    """
    generator = torch.Generator().manual_seed(5)
    weight = torch.randn(4, 7, generator=generator).double()
    x = torch.linalg.pinv(weight) @ torch.tensor([2.0, 0.3, -0.2, 0.1]).double()
    for scale in (0.3, 0.6, 1.0, 1.7, 3.0):
        delta = (weight @ (scale * x)).softmax(0) - torch.nn.functional.one_hot(torch.tensor(0), 4)
        found = logit_gradients(weight, torch.outer(delta, scale * x), 0)
        torch.testing.assert_close(found, delta, rtol=1e-8, atol=1e-12)


def test_a_bias_without_gradient_is_refused():
    gradient, _ = some_gradient()
    gradient.gradients["b3"].zero_()
    with pytest.raises(ReconError, match="no gradient"):
        features_from_fully_connected(gradient)


@pytest.mark.parametrize("label", range(4))
@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_without_a_bias_the_softmax_gives_what_the_bias_would_have(scale, label):
    """Eq. (5), also where the network is all but certain."""
    weight, x = normal(4, 7), scale * normal(7, seed=label)
    delta = (weight @ x).softmax(0) - torch.eye(4)[label]
    found = logit_gradients(weight, torch.outer(delta, x), label)
    torch.testing.assert_close(found, delta, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(
    ("weight", "gradient", "message"),
    [
        (torch.ones(3, 2), torch.zeros(3, 2), "three classes"),
        (torch.eye(2), torch.tensor([[0.5, 1.0], [-0.5, -1.0]]), "three classes"),
        (torch.eye(3), torch.eye(3), "batch of one"),
    ],
)
def test_eq_5_refuses_what_says_nothing(weight, gradient, message):
    with pytest.raises(ReconError, match=message):
        logit_gradients(weight.double(), gradient.double(), 1)
