"""What all attacks have in common from outside: one signature, one result, and what each of them
needs.

    attack(released, shape_or_prior, settings=None, generator=None) -> Candidates

`released` is `Weights` or `Gradient`: of any `nn.Module`, which is converted to the network of the
attack's closed form or refused in one sentence, or of this package's own networks.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce, wraps
from operator import index
from typing import Any, TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from recon.attacks.separation import FirstLayer
from recon.errors import ReconError, one_reason
from recon.nets.conv import ConvNet
from recon.nets.converted import as_convnet, as_mlp, first_dense
from recon.nets.mlp import MLP, Params
from recon.nets.module import ModuleNetwork
from recon.nets.network import Shape
from recon.released import Gradient, Weights, check_labels

MaybeGenerator = torch.Generator | None
AnyWeights = Weights | Weights[ModuleNetwork]
AnyGradient = Gradient | Gradient[ModuleNetwork]


@dataclass(frozen=True)
class Candidates:
    """What an attack brings home.

    Attributes:
        images (m, *shape).
        score (m,): of each, larger is better, by what the adversary sees.
        knows: what they used, in words.
        diagnostics: what the attack says of itself, by name; never a measure against the truth.
    """

    images: Tensor
    score: Tensor
    knows: str
    diagnostics: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True)
class Needs:
    """What an attack asks for, in words.

    Attributes:
        title.
        released: the type.
        start, labels: whether θ⁰ and the labels are used.
        prior: what stands beside the release.
        layers: of the network.
    """

    title: str
    released: type
    start: str
    labels: str
    prior: str
    layers: str


#: name of the function -> what it needs, in the order of the table
NEEDS: dict[str, Needs] = {}
Attack = TypeVar("Attack", bound=Callable[..., Candidates])


def register(needs: Needs) -> Callable[[Attack], Attack]:
    """Registers an attack with what it needs, and has it refuse another kind of release, and images
    that do not fit a gradient: ReconError. An attack on a gradient returns finite images, or
    ReconError.
    """

    def decorate(attack: Attack) -> Attack:
        NEEDS[attack.__name__] = needs

        @wraps(attack)
        def check(released: Any, shape_or_prior: Any, *args: Any, **kwargs: Any) -> Candidates:
            if not isinstance(released, needs.released):
                wanted = needs.released.__name__
                raise ReconError(
                    f"{attack.__name__} takes {wanted}, such as {wanted}.of(module, …), not a"
                    f" {type(released).__name__}"
                )
            # flash attention has no second derivative
            with sdpa_kernel(SDPBackend.MATH):
                if isinstance(released, Gradient):
                    shape_or_prior = _image_shape(released, shape_or_prior)
                candidates = attack(released, shape_or_prior, *args, **kwargs)
            if isinstance(released, Gradient):
                numbers = candidates.images.sum() + candidates.score.sum()
                if not numbers.isfinite():
                    raise ReconError(f"{needs.title} diverged: its numbers are not finite")
            return candidates

        return check  # type: ignore[return-value]

    return decorate


def _image_shape(gradient: AnyGradient, shape: Any) -> Shape:
    """Of one image, once such images with these labels have gradients that can be matched."""
    network, labels = gradient.network, gradient.labels
    with one_reason(
        f"the network and its loss take no images of shape {shape} with {len(labels)} such labels"
    ):
        sides = tuple(map(index, shape))
        x = torch.rand(len(labels), *sides, generator=default_generator(None))
        x = x.to(next(iter(gradient.theta.values()))).requires_grad_()
        answers = network(gradient.theta, x)
        if answers.dim() == 2 and labels.dtype == torch.int64:
            check_labels(labels, answers.shape[1])
        squares = [g.square().sum() for g in gradient.at(x).values()]
        torch.autograd.grad(torch.stack(squares).sum(), x)
    return sides


def default_generator(generator: MaybeGenerator) -> torch.Generator:
    """The generator, or one with seed 0."""
    return generator or torch.Generator().manual_seed(0)


def first_layer_of(weights: AnyWeights, shape: Shape) -> FirstLayer:
    """The dense layer that is given the whole image, and its start where that is known."""
    network = weights.network
    return FirstLayer.of(
        weights, network.names[0][0] if isinstance(network, MLP) else first_dense(network, shape)
    )


def dense_weights(weights: AnyWeights, shape: Shape) -> Weights:
    """Of dense layers with ReLU between them, in the package's own order."""
    network = weights.network
    if isinstance(network, MLP):
        return cast(Weights, weights)
    dense, names = as_mlp(network, shape)
    return _convert(
        weights, dense, lambda theta: {ours: theta[name] for ours, name in names.items()}
    )


def binary_weights(weights: AnyWeights, shape: Shape) -> Weights:
    """`dense_weights` of a binary classifier; of two outputs the second minus the first. ReconError
    for more.
    """
    dense = dense_weights(weights, shape)
    widths, last = dense.network.widths, [name for name in dense.network.names[-1] if name]
    if widths[-1] > 2:
        raise ReconError(
            f"the attack inverts binary classifiers, and this network has {widths[-1]} outputs"
        )
    if widths[-1] == 1:
        return dense
    network = MLP((*widths[:-1], 1), dense.network.bias)
    return _convert(
        dense,
        network,
        lambda theta: theta | {name: theta[name][1:] - theta[name][:1] for name in last},
    )


def _convert(weights: AnyWeights, network: MLP, change: Callable[[Params], Params]) -> Weights:
    """The weights of another network, whose θ* and θ⁰ are those of this one after a `change`."""
    start = weights.params_init
    theta_star = network.flatten(change(weights.params))
    theta_init = None if start is None else network.flatten(change(start))
    return Weights(
        network, theta_star, theta_init, weights.y, weights.weight_decay, weights.n_train
    )


def convolutional_gradient(gradient: AnyGradient, shape: Shape) -> Gradient:
    """Of convolutions and a dense layer, under cross-entropy, one image: what linear systems are
    for.
    """
    network = gradient.network
    if isinstance(network, ConvNet):
        return cast(Gradient, gradient)
    if len(gradient.labels) != 1:
        raise ReconError(f"layer by layer goes one image at a time, not {len(gradient.labels)}")
    convnet, names = as_convnet(network, shape)
    _check_loss(gradient, convnet.classes)
    theta = {ours: gradient.theta[name] for ours, name in names.items()}
    gradients = {ours: gradient.gradients[name] for ours, name in names.items()}
    formats = (tensor.dtype for tensor in (*theta.values(), *gradients.values()))
    converted = Gradient(convnet, theta, gradient.labels, gradients)
    return converted.to(reduce(torch.promote_types, formats))


def _check_loss(gradient: AnyGradient, classes: int) -> None:
    logits = torch.randn(
        len(gradient.labels),
        classes,
        generator=torch.Generator().manual_seed(0),
        dtype=torch.float64,
    ).to(gradient.labels.device)
    with one_reason("layer by layer, the loss must be the cross-entropy of whole labels"):
        loss = gradient.loss(logits, gradient.labels)
        torch.testing.assert_close(loss, F.cross_entropy(logits, gradient.labels))
