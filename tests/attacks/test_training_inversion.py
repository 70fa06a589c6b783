"""Training, inverted: the Jacobian is that of unrolled training, the image comes out, and the
residual tells.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.func import grad, jacrev, vmap

from recon.attacks.training_inversion import Retraining, invert_training
from recon.nets.mlp import MLP

NET = MLP((9, 6, 4), smoothing=1.0)


@dataclass(frozen=True)
class AllButOne:
    """What everybody knows but the last image: the start, and the other images with their
    labels.
    """

    theta_init: Tensor
    x: Tensor
    labels: Tensor

    def one(self, x: Tensor, label: Tensor) -> Tensor:
        theta, speed = self.theta_init, torch.zeros_like(self.theta_init)
        images, labels = torch.cat([self.x, x[None]]), torch.cat([self.labels, label[None]])
        for _ in range(15):
            speed = 0.9 * speed + grad(
                lambda t: torch.nn.functional.cross_entropy(NET(NET.unflatten(t), images), labels)
            )(theta)
            theta = theta - 0.1 * speed
        return theta

    def train(self, x: Tensor, labels: Tensor) -> Tensor:
        return vmap(self.one)(x, labels)


def world() -> tuple[AllButOne, Tensor]:
    generator = torch.Generator().manual_seed(0)
    theta = NET.flatten(NET.init(generator, dtype=torch.float64))
    x = torch.rand(8, 9, generator=generator, dtype=torch.float64)
    return AllButOne(theta, x[:7], torch.arange(7) % 4), x[7]


def test_the_jacobian_is_that_of_unrolled_training():
    everybody, x = world()
    system = Retraining(everybody.train, everybody.theta_init, 2, x)
    exact = jacrev(lambda image: everybody.one(image, torch.tensor(2)))(x)
    assert torch.allclose(system.linear(x).jacobian, exact, atol=1e-6) and exact.abs().max() > 1e-3


def test_the_image_and_its_label_come_out_and_the_residual_says_so():
    everybody, x = world()
    guesses = torch.full((4, 9), 0.5, dtype=torch.float64)
    for label in range(4):
        theta = everybody.train(x[None], torch.tensor([label]))[0]
        found = invert_training(everybody.train, theta, guesses)
        assert (
            found.label == label
            and found.residual < 1e-12
            and torch.allclose(found.x_hat, x, atol=1e-9)
        )
        assert found.history[0] > 1e-3 and (found.history.diff() < 0).all()


def test_wrong_knowledge_leaves_a_residual():
    everybody, x = world()
    theta = everybody.train(x[None], torch.tensor([1]))[0]
    wrong = replace(everybody, x=torch.cat([1 - everybody.x[:1], everybody.x[1:]]))
    found = invert_training(wrong.train, theta, torch.full((4, 9), 0.5, dtype=torch.float64))
    assert found.residual > 1e-4 and (found.x_hat >= 0).all() and (found.x_hat <= 1).all()


def test_weights_in_float32_give_the_image_to_their_precision():
    everybody, x = world()
    theta = everybody.train(x[None], torch.tensor([3]))[0].float().double()
    found = invert_training(everybody.train, theta, torch.full((4, 9), 0.5, dtype=torch.float64))
    assert (
        found.label == 3 and 1e-10 < found.residual < 1e-6 and (found.x_hat - x).abs().max() < 1e-3
    )
