"""Which network is audited: a module, or a file from which one is built."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from recon.auditing.anatomy import CONVOLUTIONS
from recon.auditing.built import built
from recon.auditing.files import load_state
from recon.auditing.graph import from_graph
from recon.auditing.images import printable
from recon.errors import ReconError

LARGEST = 1e15  # of a weight: squares and their sums must stay within float32
WRAPPING = ("DataParallel", "DistributedDataParallel", "GradSampleModule", "OptimizedModule", "AveragedModel")
WRAPPERS = ("module", "_module", "_orig_mod")  # attributes of DataParallel, GradSampleModule, torch.compile


@dataclass(frozen=True)
class Subject:
    """module: in evaluation mode, float32, on the CPU · file: its name, or the module's class · sha256: of the file,
    or of the tensors · arch: in words · tensors: which of the file was taken for which, ["w1 = 0.weight", …] ·
    assumed: whether a file of matrices was taken for dense layers with ReLU, which it does not say."""

    module: nn.Module
    file: str
    sha256: str
    arch: str
    tensors: list[str]
    assumed: bool = False

    @property
    def dim(self) -> int | None:
        """Number of inputs, where the first layer is dense and tells."""
        first = next((part for part in self.module.modules() if isinstance(part, (nn.Linear, *CONVOLUTIONS))), None)
        return first.in_features if isinstance(first, nn.Linear) else None

    @property
    def channels(self) -> int | None:
        """Colours of the images, where the first layer is a convolution and tells."""
        first = next((part for part in self.module.modules() if isinstance(part, (nn.Linear, *CONVOLUTIONS))), None)
        return first.in_channels if isinstance(first, CONVOLUTIONS) else None


def subject_of(model: nn.Module | str | Path, arch: str | None = None) -> Subject:
    """The network to audit.

    model: a module, which is copied, or a file of weights (see `load_state`) · arch: of a file, "auto" or None to read
    it off the tensors, widths like 3072-1000-1000-1 of dense layers with ReLU between them, or a name of torchvision.
    ReconError for a file, a name, a shape or a number that does not fit.
    """
    if isinstance(model, torch.jit.ScriptModule):
        raise ReconError(
            "a TorchScript module is a compiled program whose layers cannot be watched: pass the nn.Module"
        )
    if isinstance(model, nn.Module):
        if any(isinstance(p, nn.parameter.UninitializedParameter) for p in model.parameters()):
            raise ReconError("the network has lazy layers without weights: call it once on an image first")
        module = _copied(model)
        state = module.state_dict()
        digest = hashlib.sha256()
        for name in sorted(name for name, value in state.items() if isinstance(value, Tensor)):
            digest.update(name.encode() + state[name].detach().cpu().contiguous().view(-1).numpy().tobytes())
        arch = arch or ", ".join(
            dict.fromkeys(type(part).__name__ for part in module.modules() if not list(part.children()))
        )
        subject = Subject(module, type(model).__name__, digest.hexdigest(), arch, [])
    elif isinstance(model, str | Path):
        path = Path(model)
        assumed = False
        named = None if arch in (None, "auto") else arch
        if path.suffix.lower() == ".onnx" and path.is_file() and named is None:
            module, found, tensors = from_graph(path)  # the graph says what a state dict does not
        else:
            module, found, tensors = built(load_state(path), path, named)
            assumed = any(isinstance(part, nn.ReLU) for part in module) if isinstance(module, nn.Sequential) else False
        own = hashlib.sha256(path.read_bytes()).hexdigest()
        subject = Subject(module, printable(path), own, found, tensors, assumed)
    else:
        raise ReconError(f"the network must be an nn.Module or the path of its weights, not a {type(model).__name__}")
    _check_numbers(subject.module)
    if not any(p.requires_grad for p in subject.module.parameters()):  # frozen after training, and not for it
        subject.module.requires_grad_(True)
    return subject


def _copied(model: nn.Module) -> nn.Module:
    """Without wrappers, in float32, on the CPU, in evaluation mode; ReconError where it cannot be copied."""
    # weight norm and spectral norm keep what they compute as a tensor that is no leaf, which deepcopy refuses
    kept = [value for part in model.modules() for value in vars(part).values() if isinstance(value, Tensor)]
    kept += [p.grad for p in model.parameters() if p.grad is not None]
    memo: dict[int, Any] = {id(each): each.detach().clone() for each in kept}
    try:
        for part in model.modules():
            for hooks in (part._forward_hooks, part._backward_hooks, part._forward_pre_hooks):
                # of Opacus, whose hooks are methods of the wrapper and would copy it
                memo |= {id(hook): _nothing for hook in hooks.values() if _of_opacus(hook)}
        return _unwrapped(copy.deepcopy(_unwrapped(model), memo)).cpu().float().eval()
    except Exception as error:  # whatever a stranger's module says to being copied
        raise ReconError(f"the network cannot be copied: {' '.join(str(error).split())[:150]}") from error


def _of_opacus(hook: Any) -> bool:
    return str(getattr(getattr(hook, "func", hook), "__module__", "")).startswith("opacus")


def _nothing(*_: Any) -> None:
    """A hook that does nothing."""


def _unwrapped(model: nn.Module) -> nn.Module:
    """The module itself, where it is wrapped; wrapped parts of a copy are unwrapped in their places."""
    while type(model).__name__ in WRAPPING:
        model = next(getattr(model, name) for name in WRAPPERS if isinstance(getattr(model, name, None), nn.Module))
    for part in list(model.modules()):
        for name, child in list(part.named_children()):
            if type(child).__name__ in WRAPPING:
                setattr(part, name, _unwrapped(child))
    return model


def _check_numbers(module: nn.Module) -> None:
    parameters = dict(module.named_parameters())
    if not parameters:
        raise ReconError("the network has no weights: there is nothing to attack")
    for name, value in parameters.items():
        if not torch.isfinite(value).all():
            raise ReconError(f"tensor '{name}' holds numbers that are not finite floats")
        if value.numel() and value.detach().abs().max() > LARGEST:
            raise ReconError(
                f"tensor '{name}' holds numbers up to {value.detach().abs().max():.0e}, too large to square"
            )
    if not any(value.any() for value in parameters.values()):
        raise ReconError("the weights are all zero: there is nothing to attack")
