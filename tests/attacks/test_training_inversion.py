"""Training, inverted: the Jacobian is that of unrolled training, the image comes out, and the
residual tells.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.func import grad, jacrev, vmap

from recon.attacks.from_weights import AllButOne, by_retraining
from recon.attacks.training_inversion import Retraining
from recon.nets.mlp import MLP
from recon.released import Weights

NET = MLP((9, 6, 4), smoothing=1.0)


@dataclass(frozen=True)
class Everybody:
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


def world() -> tuple[Everybody, Tensor]:
    generator = torch.Generator().manual_seed(0)
    theta = NET.flatten(NET.init(generator, dtype=torch.float64))
    x = torch.rand(8, 9, generator=generator, dtype=torch.float64)
    return Everybody(theta, x[:7], torch.arange(7) % 4), x[7]


def test_the_jacobian_is_that_of_unrolled_training():
    everybody, x = world()
    system = Retraining(everybody.train, everybody.theta_init, 2, x)
    exact = jacrev(lambda image: everybody.one(image, torch.tensor(2)))(x)
    assert torch.allclose(system.linear(x).jacobian, exact, atol=1e-6) and exact.abs().max() > 1e-3


def retrain(everybody, theta):
    """The image that training everybody's way would need to end at theta."""
    guesses = torch.full((4, 9), 0.5, dtype=torch.float64)
    released = Weights(NET, theta, everybody.theta_init)
    return by_retraining(released, AllButOne(everybody.train, guesses))


def test_the_image_and_its_label_come_out_and_the_residual_says_so():
    everybody, x = world()
    for label in range(4):
        theta = everybody.train(x[None], torch.tensor([label]))[0]
        candidates = retrain(everybody, theta)
        assert candidates.diagnostics["label"] == label and candidates.score.item() > -1e-12
        assert torch.allclose(candidates.images[0], x, atol=1e-9)
        history = candidates.diagnostics["history"]
        assert history[0] > 1e-3 and (history.diff() < 0).all()


def test_wrong_knowledge_leaves_a_residual():
    everybody, x = world()
    theta = everybody.train(x[None], torch.tensor([1]))[0]
    wrong = replace(everybody, x=torch.cat([1 - everybody.x[:1], everybody.x[1:]]))
    candidates = retrain(wrong, theta)
    assert candidates.score.item() < -1e-4
    assert (candidates.images >= 0).all() and (candidates.images <= 1).all()
