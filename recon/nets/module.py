"""Any `torch.nn.Module` as a `Network`, through torch.func: slow, general, and the oracle of every closed form."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from recon.errors import ReconError
from recon.nets.network import Direction, Flat, LayerPass, Params

Layer = nn.Linear | nn.Conv2d
#: outputs (n, K) and what is known of the images, such as labels (n,) -> mean loss ()
Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class ModuleNetwork(Flat):
    """A module in evaluation mode as a function of its parameters; its buffers, e.g. running means, stay as they are.

    Names in θ are those of `named_parameters`.  x (n, ...) is whatever the module takes; its outputs are (n, K).
    ReconError for a module in training mode, where batch norm couples images and dropout draws.
    """

    module: nn.Module

    def __post_init__(self) -> None:
        if any(part.training for part in self.module.modules()):
            raise ReconError("the module must be in evaluation mode: call its eval() first")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name -> shape of every parameter tensor, in order."""
        return {name: tuple(value.shape) for name, value in self.module.named_parameters()}

    def parameters(self) -> Params:
        """θ as the module holds it, copied."""
        return {name: value.detach().clone() for name, value in self.module.named_parameters()}

    def __call__(self, theta: Params, x: Tensor) -> Tensor:
        """Outputs (n, K) of images x (n, ...); (n,) for K = 1."""
        outputs = self._outputs(theta, x)
        return outputs.squeeze(-1) if outputs.shape[-1] == 1 else outputs

    def _outputs(self, theta: Params, x: Tensor) -> Tensor:
        return functional_call(self.module, theta, (x,))

    def gradient(self, theta: Params, loss: Loss, x: Tensor, y: Tensor) -> Params:
        """∇_θ loss(outputs, y) of images x (n, ...), by name; can be differentiated again."""
        return grad(lambda theta: loss(self._outputs(theta, x), y))(theta)

    def per_image_gradients(self, theta: Params, x: Tensor, direction: Direction) -> Params:
        """∇_θ Φ(x_i) by name, (n, *shape): of every parameter, also of those in no linear layer."""

        def phi(theta: Params, image: Tensor, along: Tensor) -> Tensor:
            return (self._outputs(theta, image[None])[0] * along).sum()

        theta = {name: value.detach() for name, value in theta.items()}
        along = direction(self._outputs(theta, x)).detach()
        return vmap(grad(phi), in_dims=(None, 0, 0))(theta, x, along)

    def layers(self, theta: Params, x: Tensor, direction: Direction) -> list[LayerPass]:
        """Every `nn.Linear` and `nn.Conv2d` in the order of the forward pass, observed by hooks.

        A linear layer that is applied at every position of (n, positions, in) shares its weights between them.

        ReconError for a layer that is used twice, and for a convolution with groups or with padding other than zeros.
        """
        named = self._named_layers()
        found: list[tuple[Layer, Tensor, Tensor]] = []

        def observe(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
            assert isinstance(layer, Layer)
            found.append((layer, inputs[0].detach().clone(), output))
            return output.clone()  # what follows may work in place

        hooks = [layer.register_forward_hook(observe) for layer in named]
        try:
            outputs = self._outputs({name: value.detach().requires_grad_() for name, value in theta.items()}, x)
        finally:
            for hook in hooks:
                hook.remove()
        if len({layer for layer, _, _ in found}) < len(found):
            raise ReconError("a layer that is used more than once has no pass of its own")
        deltas = torch.autograd.grad(outputs, [z for _, _, z in found], direction(outputs.detach()))
        return [_layer_pass(layer, *named[layer], h, delta) for (layer, h, _), delta in zip(found, deltas, strict=True)]

    def _named_layers(self) -> dict[Layer, tuple[str, str | None]]:
        """Linear layer -> names of its weight and bias in θ."""
        names = {id(value): name for name, value in self.module.named_parameters()}
        layers = [layer for layer in self.module.modules() if isinstance(layer, Layer)]
        return {
            layer: (names[id(layer.weight)], None if layer.bias is None else names[id(layer.bias)]) for layer in layers
        }


def _layer_pass(layer: Layer, weight: str, bias: str | None, h: Tensor, delta: Tensor) -> LayerPass:
    if isinstance(layer, nn.Linear):
        if h.dim() == 2:
            return LayerPass(weight, bias, h, delta)
        return LayerPass(weight, bias, h.flatten(1, -2).mT, delta.flatten(1, -2).mT, shared=True)
    if layer.groups != 1 or layer.padding_mode != "zeros" or isinstance(layer.padding, str):
        raise ReconError("a convolution's patches need one group and a number of zeros as padding")
    patches = F.unfold(h, layer.kernel_size, layer.dilation, layer.padding, layer.stride)
    return LayerPass(weight, bias, patches, delta.flatten(2), shared=True)


def default_start(module: nn.Module, generator: torch.Generator) -> None:
    """PyTorch's default initialisation, from a generator instead of the global one."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_uniform_(layer.weight, a=math.sqrt(5), generator=generator)
            if layer.bias is not None:
                bound = 1 / math.sqrt(layer.weight[0].numel())
                nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
