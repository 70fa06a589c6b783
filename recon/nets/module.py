"""Any `torch.nn.Module` as a function of its parameters, through torch.func."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad

from recon.errors import ReconError
from recon.nets.network import Flat, Params

#: outputs (n, K) and what is known of the images, such as labels (n,) -> mean loss ()
Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class ModuleNetwork(Flat):
    """A module in evaluation mode as a function of its parameters; its buffers, e.g. running means, stay as they are.
    Names in θ are those of `named_parameters`.  x (n, ...) is whatever the module takes; its outputs are (n, K).
    ReconError for a module in training mode, where batch norm couples images and dropout draws."""

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


def default_start(module: nn.Module, generator: torch.Generator) -> None:
    """PyTorch's default initialisation, from a generator instead of the global one."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_uniform_(layer.weight, a=math.sqrt(5), generator=generator)
            if layer.bias is not None:
                bound = 1 / math.sqrt(layer.weight[0].numel())
                nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
