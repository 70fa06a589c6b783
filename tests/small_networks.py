"""Networks small enough to be checked against dense algebra, and gradients of random images by
them.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from companion.chapters.leakage_common import SEED
from recon.attacks.batches import BatchSystem
from recon.nets.conv import Activation, Conv, ConvNet, Params
from recon.nets.network import LayerPass
from recon.released import Gradient

SHAPE = (2, 9, 8)
#: with and without stride, padding, and rows and columns that no tap reads
CONVS = [Conv(3, 4), Conv(4, 3, 2), Conv(3, 2, 2, 1), Conv(5, 3, 3, 2), Conv(2, 3, 4, 0)]
#: wide enough to be solved exactly, and not
SMALL = ConvNet((Conv(3, 6), Conv(3, 8)), shape=(2, 8, 8), classes=4)
LOSSY = ConvNet((Conv(3, 3, 2),), shape=(2, 9, 9), classes=4)
ONE = ConvNet((Conv(3, 6),), shape=(2, 6, 6), classes=5)
STRIDED = ConvNet((Conv(4, 6, 2), Conv(4, 5, 2, 1)), shape=(2, 13, 12), classes=3)


#: of the images that modules take
IMAGE = (2, 8, 8)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def fill(module: nn.Module, seed: int = 0) -> nn.Module:
    """Parameters N(0, 1 / inputs), float64, in evaluation mode."""
    for parameter in module.parameters():
        parameter.data = normal(*parameter.shape, seed=seed) / max(1, parameter[0].numel()) ** 0.5
    return module.eval()


def dense(*widths: int, seed: int = 0) -> nn.Module:
    layers: list[nn.Module] = [nn.Flatten()]
    for inputs, outputs in zip(widths, widths[1:], strict=False):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return fill(nn.Sequential(*layers[:-1]), seed)


def convolutional(activation=nn.Tanh, **options) -> nn.Module:
    first = nn.Conv2d(2, 6, 3, **{"bias": False, **options})
    features = first(torch.zeros(1, *IMAGE)).numel()
    return fill(nn.Sequential(first, activation(), nn.Flatten(), nn.Linear(features, 4)))


def with_activation(network: ConvNet, name: str) -> ConvNet:
    return replace(network, activation=Activation(name))


def theta_of(network: ConvNet) -> Params:
    return network.init(seeded(SEED), torch.float64)


def some_images(network: ConvNet, count: int = 2, seed: int = 0) -> torch.Tensor:
    return torch.rand(count, *network.shape, generator=seeded(seed), dtype=torch.float64) - 0.5


def some_gradient(network: ConvNet = SMALL, count: int = 2) -> tuple[Gradient, torch.Tensor]:
    x = some_images(network, count)
    return Gradient.each(network, theta_of(network), x, torch.arange(count) % network.classes), x


def a_batch(network=ONE, n=3, labels=None, seed=0):
    x = some_images(network, n, seed)
    labels = torch.arange(n) % network.classes if labels is None else torch.tensor(labels)
    mean = Gradient.averaged(network, theta_of(network), x, labels)
    return BatchSystem.of(mean, labels), x, mean


def layer_passes(network, theta, x, direction=torch.ones_like, alpha=None):
    """Input and gradient of every layer of an `MLP`, as `per_image_gradients` takes them."""
    p = network.passes(theta, x, direction, alpha=alpha)
    pairs = zip(network.names, p.h, p.delta[1:], strict=True)
    return [LayerPass(*names, h, delta) for names, h, delta in pairs]


def whole_jacobian(gradient: Gradient, x: Tensor) -> Tensor:
    """∂(all gradients)/∂x by autograd, (p, c·h·w)."""

    def flat(image: Tensor) -> Tensor:
        gradients = gradient.network.gradients(
            gradient.theta, image.view(1, *gradient.network.shape), gradient.labels
        )
        return torch.cat([value.flatten() for value in gradients.values()])

    return torch.func.jacrev(flat)(x)
