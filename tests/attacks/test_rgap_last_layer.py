"""Eq. (4): what a fully connected layer gives away, of one image and of a batch."""

from __future__ import annotations

import pytest
import torch
from small_networks import SMALL, some_gradient

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
    gradient, x = some_gradient(count=3)
    mixed = Gradient.averaged(SMALL, gradient.theta, x, gradient.labels)
    with pytest.raises(ReconError, match="more than one image"):
        rgap(mixed)
    each, features = gradient.gradients["b3"], features_from_fully_connected(gradient)
    row = int(mixed.gradients["b3"][0].abs().argmax())
    shares = each[:, row] / each[:, row].sum()
    torch.testing.assert_close(
        features_from_fully_connected(mixed, check=False)[0], shares @ features
    )


def test_a_bias_without_gradient_is_refused():
    gradient, _ = some_gradient()
    gradient.gradients["b3"].zero_()
    with pytest.raises(ReconError, match="no gradient"):
        features_from_fully_connected(gradient)


def test_noise_above_a_thousandth_is_noticed_and_below_not():
    gradient, _ = some_gradient(count=1)
    matrix = gradient.gradients["w3"]
    row = int(gradient.gradients["b3"][0].abs().argmax())
    other = (row + 1) % SMALL.classes
    for share, noticed in ((0.9e-3, False), (1.1e-3, True)):
        extra = torch.zeros_like(matrix)
        extra[0, other, 0] = share * matrix.norm()
        noisy = Gradient(
            SMALL, gradient.theta, gradient.labels, {**gradient.gradients, "w3": matrix + extra}
        )
        if noticed:
            with pytest.raises(ReconError, match="noisy"):
                features_from_fully_connected(noisy)
        else:
            features_from_fully_connected(noisy)


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_without_a_bias_the_softmax_gives_what_the_bias_would_have(scale):
    """Eq. (5), also where the network is all but certain."""
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(4, 7, generator=generator).double()
    for label in range(4):
        x = scale * torch.randn(7, generator=generator).double()
        delta = (weight @ x).softmax(0) - torch.nn.functional.one_hot(torch.tensor(label), 4)
        found = logit_gradients(weight, torch.outer(delta, x), label)
        torch.testing.assert_close(found, delta, rtol=1e-8, atol=1e-12)


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


@pytest.mark.parametrize(
    ("gradient", "message"), [(0.0, "zero or not finite"), (float("nan"), "zero or not finite")]
)
def test_eq_5_refuses_what_says_nothing(gradient, message):
    with pytest.raises(ReconError, match=message):
        logit_gradients(torch.ones(3, 2).double(), torch.full((3, 2), gradient).double(), 0)


def test_eq_5_refuses_two_classes():
    x = torch.tensor([1.0, 2.0]).double()
    with pytest.raises(ReconError, match="three classes"):
        logit_gradients(
            torch.eye(2).double(), torch.outer(torch.tensor([0.5, -0.5]).double(), x), 1
        )


def test_eq_5_refuses_a_batch():
    gradient, x = some_gradient(count=3)
    mixed = Gradient.averaged(SMALL, gradient.theta, x, gradient.labels)
    with pytest.raises(ReconError, match="batch of one"):
        logit_gradients(gradient.theta["w3"], mixed.gradients["w3"][0], 0)
