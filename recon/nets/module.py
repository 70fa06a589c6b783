"""Any `torch.nn.Module` as a function of its parameters, through torch.func; and its layers at
work.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad
from torch.nn.utils.parametrize import is_parametrized

from recon.errors import ReconError
from recon.nets.network import Flat, Params, Shapes

#: outputs (n, K) and what is known of the images, such as labels (n,) -> mean loss ()
Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class ModuleNetwork(Flat):
    """A module in evaluation mode as a function of its parameters; its buffers, e.g. running means,
    stay as they are. Names in θ are those of `named_parameters`. x (n, ...) is whatever the module
    takes; its outputs are (n, K). ReconError for a module in training mode, where batch norm
    couples images and dropout draws.
    """

    module: nn.Module

    def __post_init__(self) -> None:
        if any(part.training for part in self.module.modules()):
            raise ReconError("the module must be in evaluation mode: call its eval() first")

    def shapes(self) -> Shapes:
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


@dataclass(frozen=True)
class Call:
    """One layer at work: its name and module, what it was given and what came out."""

    name: str
    module: nn.Module
    inputs: Tensor
    outputs: Tensor


def answers_of(module: nn.Module, x: Tensor) -> Tensor:
    """(n, K) or (n,), also of modules that return a tuple or an object with `logits`."""
    outputs = module(x)
    if isinstance(outputs, Mapping):
        outputs = outputs.get("logits", outputs.get("out"))
    outputs = getattr(outputs, "logits", outputs)
    return outputs[0] if isinstance(outputs, tuple | list) else outputs


def watch_layers(module: nn.Module, x: Tensor) -> tuple[bool, Tensor, list[Call]]:
    """On x (n, C, H, W): whether images are taken flat, answers (n, K) or (n,), layers in the order
    in which they work. ReconError where the module classifies no such images.
    """
    calls: list[Call] = []

    def watch(name: str, layer: nn.Module, inputs: tuple[Any, ...], outputs: Any) -> None:
        if inputs and isinstance(inputs[0], Tensor) and isinstance(outputs, Tensor):
            calls.append(Call(name, layer, inputs[0].detach().clone(), outputs.detach().clone()))

    parts = [
        (name, part)
        for name, part in module.named_modules()
        if not list(part.children()) or is_layer(part)
    ]
    hooks = [part.register_forward_hook(partial(watch, name)) for name, part in parts]
    tried = []
    try:
        for flat in (False, True):
            calls.clear()
            try:
                with torch.no_grad():
                    answers = answers_of(module, x.flatten(1) if flat else x)
            except Exception as error:  # whatever a stranger's forward says to a wrong shape
                tried.append(" ".join(str(error).split())[:150])
                continue
            if isinstance(answers, Tensor) and answers.dim() in (1, 2) and len(answers) == len(x):
                return flat, answers, calls
            tried.append(
                f"answers of shape {tuple(answers.shape)}"
                if isinstance(answers, Tensor)
                else "no tensor"
            )
    finally:
        for hook in hooks:
            hook.remove()
    size = " × ".join(map(str, x.shape[1:]))
    raise ReconError(
        f"the network does not classify images of {size} (colours × height × width): {tried[0]}"
    )


def is_layer(part: nn.Module) -> bool:
    """Whether it has weights of its own, also where those are computed from others (weight
    norm).
    """
    return next(part.parameters(recurse=False), None) is not None or is_parametrized(part)
