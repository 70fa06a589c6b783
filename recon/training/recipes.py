"""Training as people do it: plain PyTorch modules, torch.optim, and the habits that decide what a
layer remembers.

Everything random comes from generators that are passed in. Differentially private training is
Opacus'.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import skip_init

from recon.errors import ReconError
from recon.nets.network import Shape

STARTS = ("small", "default", "kaiming")
OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "gd": torch.optim.SGD,
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}
AUGMENTATIONS = ("flip", "shift")


@dataclass(frozen=True)
class Recipe:
    """How a fully connected ReLU classifier is trained.

    Attributes:
        width, depth: of hidden layers, number of linear layers.
        classes: 2 (one logit, logistic loss) or more (cross-entropy).
        bias: in every layer, or in the first only.
        start: of the first layer, 1e-4 · N(0, 1) ("small"), PyTorch's U(±1/√d) ("default") or N(0,
            2/d) ("kaiming"), times start_scale; the other layers are PyTorch's.
        optimiser: full-batch "gd", "sgd" with momentum, "adam" or "adamw"; batch None for all
            images.
        weight_decay: coupled (L2), but decoupled for adamw.
        cosine: step size falls to 0 · steps; stop_loss ends training early, once the mean loss of a
            full pass is below it.
        label_noise: share of labels drawn anew.
        augment: names of `AUGMENTATIONS`.
        dropout: of hidden units.
        epsilon: of differential privacy at δ = 1/(10 n), None for none, with gradients clipped to
            `clip`.
    """

    width: int = 400
    depth: int = 3
    classes: int = 2
    bias: bool = True
    start: str = "default"
    start_scale: float = 1.0
    optimiser: str = "sgd"
    lr: float = 0.1
    momentum: float = 0.9
    batch: int | None = 32
    weight_decay: float = 1e-2
    cosine: bool = True
    steps: int = 1000
    stop_loss: float | None = None
    label_noise: float = 0.0
    augment: tuple[str, ...] = ()
    dropout: float = 0.0
    epsilon: float | None = None
    clip: float = 1.0

    def __post_init__(self) -> None:
        unknown = set(self.augment) - set(AUGMENTATIONS)
        if self.start not in STARTS or self.optimiser not in OPTIMISERS or unknown:
            raise ReconError(f"unknown start, optimiser or augmentation in {self}")
        if min(self.width, self.depth - 1, self.classes - 1, self.steps) < 1:
            raise ReconError("width and steps must be positive, depth and classes at least 2")

    @property
    def erased(self) -> float:
        """Σ_t lr_t · weight_decay / (1 − momentum): the start is multiplied by about e to the minus
        this. For adamw without the momentum, which its decay does not pass through; not defined for
        adam, whose coupled decay is rescaled entry by entry (NaN).
        """
        if self.weight_decay == 0:
            return 0.0
        if self.optimiser == "adam":
            return math.nan
        total = self.lr * self.weight_decay * self.steps * (0.5 if self.cosine else 1.0)
        return total / (1 - self.momentum) if self.optimiser == "sgd" else total


@dataclass(frozen=True)
class Trained:
    """What a recipe ends with:

    Attributes:
        module.
        w1_init (h, d), w1 (h, d) of its first layer.
        loss: mean over the training images.
        accuracy on them.
        steps taken.
    """

    module: nn.Sequential
    w1_init: Tensor
    w1: Tensor
    loss: float
    accuracy: float
    steps: int


def build(recipe: Recipe, dim: int, generator: torch.Generator) -> nn.Sequential:
    """Linear, ReLU, …, Linear, started as the recipe says; modules 0, k, … are the linear
    layers.
    """
    outputs = 1 if recipe.classes == 2 else recipe.classes
    widths = [dim, *[recipe.width] * (recipe.depth - 1), outputs]
    layers: list[nn.Module] = []
    for layer, (fan_in, fan_out) in enumerate(zip(widths, widths[1:], strict=False)):
        # draws nothing itself
        linear = skip_init(nn.Linear, fan_in, fan_out, bias=recipe.bias or layer == 0)
        for parameter in linear.parameters():  # PyTorch's default, drawn from our generator
            nn.init.uniform_(parameter, -1 / fan_in**0.5, 1 / fan_in**0.5, generator=generator)
        layers.append(linear)
        if layer < recipe.depth - 1:
            layers += [nn.ReLU(), *([Dropout(recipe.dropout, generator)] if recipe.dropout else [])]
    first = layers[0]
    assert isinstance(first, nn.Linear)
    _start(first, recipe, generator)
    return nn.Sequential(*layers)


def _start(first: nn.Linear, recipe: Recipe, generator: torch.Generator) -> None:
    if recipe.start == "small":
        for parameter in first.parameters():
            nn.init.normal_(parameter, std=1e-4, generator=generator)
    if recipe.start == "kaiming":
        nn.init.kaiming_normal_(first.weight, nonlinearity="relu", generator=generator)
        nn.init.zeros_(first.bias)
    with torch.no_grad():
        first.weight.mul_(recipe.start_scale)


def first_weight(module: nn.Sequential) -> Tensor:
    """w1 (h, d) of the first linear or convolutional layer; a kernel is a row."""
    layer = next(layer for layer in module if isinstance(layer, nn.Linear | nn.Conv2d))
    return layer.weight.flatten(1)


class Dropout(nn.Module):
    """nn.Dropout with a generator of its own: hidden units are zeroed with probability p while
    training.
    """

    def __init__(self, p: float, generator: torch.Generator) -> None:
        super().__init__()
        self.p, self.generator = p, generator

    def forward(self, x: Tensor) -> Tensor:
        """x, masked and scaled by 1/(1 − p) in training mode."""
        if not self.training:
            return x
        return x * (torch.rand(x.shape, generator=self.generator) >= self.p).to(x) / (1 - self.p)


def loss_of(outputs: Tensor, y: Tensor, reduction: str = "mean") -> Tensor:
    """Mean logistic loss of one logit (n, 1) for y in {0, 1}, or cross-entropy of (n, K) for
    classes y (n,).

    Args:
        reduction: "none" for the loss of each image (n,).
    """
    if outputs.shape[1] == 1:
        return F.binary_cross_entropy_with_logits(outputs[:, 0], y.to(outputs), reduction=reduction)
    return F.cross_entropy(outputs, y.long(), reduction=reduction)


def accuracy(module: nn.Module, x: Tensor, y: Tensor) -> float:
    """Share of images x (n, d) whose class y (n,) the module, in evaluation mode, gives; in
    [0, 1].
    """
    module.eval()
    with torch.no_grad():
        outputs = module(x)
    classes = (outputs[:, 0] > 0) if outputs.shape[1] == 1 else outputs.argmax(1)
    return (classes.long() == y.to(classes.device).long()).float().mean().item()


def train(
    recipe: Recipe,
    x: Tensor,
    y: Tensor,
    generator: torch.Generator,
    shape: Shape | None = None,
    module: nn.Sequential | None = None,
) -> Trained:
    """Train on images x (n, d) with classes y (n,) in 0 … K−1. ReconError for labels that do not
    fit or an augmentation without a shape.

    Args:
        shape: (C, H, W) of an image, needed to augment.
        module: trained instead of the one that the recipe describes.
    """
    y = y.to(x.device)
    if x.dim() != 2 or y.shape != x.shape[:1]:
        raise ReconError(f"images {tuple(x.shape)} and labels {tuple(y.shape)} do not fit")
    if not ((y.long() >= 0) & (y.long() < recipe.classes)).all():
        raise ReconError(f"labels do not fit {recipe.classes} classes")
    if recipe.augment and (shape is None or len(shape) != 3):
        raise ReconError("images can only be shifted and flipped if their shape is (C, H, W)")
    module = (build(recipe, x.shape[1], generator) if module is None else module).to(x.device)
    w1_init = first_weight(module).detach().clone()
    y = _noisy(y, recipe, generator)
    update = _update(recipe, module, len(x), generator)
    for done in range(1, recipe.steps + 1):
        rows = _batch(recipe, len(x), generator, x.device)
        update(_augmented(x[rows], recipe, shape, generator), y[rows])
        if done % 25 or recipe.stop_loss is None:
            continue
        if _loss(module, x, y) < recipe.stop_loss:
            break
    loss, w1 = _loss(module, x, y), first_weight(module).detach().clone()
    return Trained(module, w1_init, w1, loss, accuracy(module, x, y), done)


def _loss(module: nn.Module, x: Tensor, y: Tensor) -> float:
    module.eval()  # no dropout, which would draw from the generator of the steps
    with torch.no_grad():
        return loss_of(module(x), y).item()


def _noisy(y: Tensor, recipe: Recipe, generator: torch.Generator) -> Tensor:
    if recipe.label_noise == 0:
        return y
    labels = torch.randint(recipe.classes, y.shape, generator=generator).to(y)
    anew = torch.rand(y.shape, generator=generator) < recipe.label_noise
    return torch.where(anew.to(y.device), labels, y)


def _batch(recipe: Recipe, n: int, generator: torch.Generator, device: torch.device) -> Tensor:
    if recipe.batch is None or recipe.batch >= n or recipe.optimiser == "gd":
        return torch.arange(n, device=device)
    return torch.randperm(n, generator=generator)[: recipe.batch].to(device)


def _augmented(
    x: Tensor, recipe: Recipe, shape: Shape | None, generator: torch.Generator
) -> Tensor:
    """Every image (n, d) flipped with probability ½, and shifted by up to four pixels, zeros moving
    in.
    """
    if not recipe.augment or shape is None:
        return x
    images = x.unflatten(1, shape)
    if "flip" in recipe.augment:
        flip = torch.rand(len(x), generator=generator) < 0.5
        images = torch.where(flip[:, None, None, None].to(x.device), images.flip(-1), images)
    if "shift" in recipe.augment:
        padded = F.pad(images, (4, 4, 4, 4))
        corners = torch.randint(9, (len(x), 2), generator=generator).tolist()
        h, w = shape[1:]
        crops = [im[:, i : i + h, j : j + w] for im, (i, j) in zip(padded, corners, strict=True)]
        images = torch.stack(crops)
    return images.flatten(1)


def _update(
    recipe: Recipe, module: nn.Sequential, n: int, generator: torch.Generator
) -> Callable[[Tensor, Tensor], None]:
    """One training step on a batch, and one of the step size's schedule."""
    momentum = {"momentum": recipe.momentum} if recipe.optimiser == "sgd" else {}
    private = recipe.epsilon is not None
    # fused: one pass over the weights instead of four, which are what takes time here
    optimiser: Any = OPTIMISERS[recipe.optimiser](
        module.parameters(),
        lr=recipe.lr,
        weight_decay=recipe.weight_decay,
        fused=not private,
        **momentum,
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, recipe.steps)
    backward: Any = Tensor.backward
    network = module
    if private:
        network, optimiser, backward = _private(recipe, module, optimiser, n, generator)

    def update(x: Tensor, y: Tensor) -> None:
        network.train()
        optimiser.zero_grad()
        backward(loss_of(network(x), y, "none" if private else "mean"))
        optimiser.step()
        if recipe.cosine:
            schedule.step()

    return update


def _private(
    recipe: Recipe, module: nn.Sequential, optimiser: Any, n: int, generator: torch.Generator
) -> tuple[Any, Any, Callable[[Tensor], None]]:
    """Opacus' clipping and noise, full batch, so that (ε, 1/(10 n)) holds after all steps by its
    RDP accountant. Ghost clipping (Li et al. 2022): each image's gradient norm from what enters and
    leaves every layer, then one backward pass of the weighted losses. n gradients, each as large as
    the network, are never made. The module, its optimiser, and the backward pass from losses (n,).
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Opacus warns of its own hooks
        from opacus.accountants.utils import get_noise_multiplier
        from opacus.grad_sample import GradSampleModuleFastGradientClipping
        from opacus.optimizers import DPOptimizerFastGradientClipping
        from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping

        noise = get_noise_multiplier(
            target_epsilon=recipe.epsilon,
            target_delta=1 / (10 * n),
            sample_rate=1.0,
            steps=recipe.steps,
            accountant="rdp",
        )
        wrapped = GradSampleModuleFastGradientClipping(module, max_grad_norm=recipe.clip)
    private = DPOptimizerFastGradientClipping(
        optimiser,
        noise_multiplier=noise,
        max_grad_norm=recipe.clip,
        expected_batch_size=n,
        generator=_on(first_weight(module).device, generator),
    )
    return wrapped, private, lambda x: DPTensorFastGradientClipping(wrapped, private, x).backward()


def _on(device: torch.device, generator: torch.Generator) -> torch.Generator:
    """The generator itself, or for another device one there, which it seeds."""
    if generator.device.type == device.type:
        return generator
    return torch.Generator(device).manual_seed(int(torch.randint(2**62, (), generator=generator)))
