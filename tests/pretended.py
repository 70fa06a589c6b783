"""A GPU without a GPU: tensors that are elsewhere, compute on the CPU, and mix as little as CUDA's.

The device is called "meta", the one name beside "cpu" that takes no hardware, no registration and
no threads of autograd's.  A `Pretended` tensor holds a real one; inside `with PretendedDevice()`
whatever is made on that device is one, so that `torch.zeros(n)` differs from
`torch.zeros(n, device=x.device)` as on a GPU.  What CUDA refuses is a `DeviceError`.
"""

from __future__ import annotations

import copy
import sys
from contextlib import ExitStack, nullcontext
from dataclasses import fields, is_dataclass, replace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = torch.device("meta")
OPTIMISERS = sys.modules[torch.optim.Optimizer.__module__]
#: between devices
COPIES = {"_to_copy", "copy_"}
#: CUDA takes the indices of these from the CPU, and sends them
INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_"}
#: beside pointwise operations: a tensor () of the CPU counts as a number
NUMBERS = {"fill_", "masked_fill", "masked_fill_"} | INDEXED


class DeviceError(AssertionError):
    """What CUDA would refuse; no RuntimeError, which code may catch."""


class Pretended(Tensor):
    """A tensor of the pretended device.  inner: what it holds, on the CPU."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> Pretended:
        like = (inner.shape, inner.stride(), inner.storage_offset())
        made = Tensor._make_wrapper_subclass(cls, *like, dtype=inner.dtype, device=DEVICE)
        made.inner = inner
        return made

    def tolist(self) -> Any:
        """PyTorch has none for subclasses."""
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise DeviceError("a pretended tensor is of no use outside `with PretendedDevice()`")


class _Above(TorchFunctionMode):
    """What `__torch_dispatch__` does not see.  PyTorch puts no numbers into a meta tensor: they are
    sent from the CPU.  With another's data a tensor gets what that holds."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func == Tensor.data.__set__ and isinstance(args[0], Pretended):
            args[0].inner = args[1].inner
        if func is Tensor.new_tensor:
            kwargs = {"dtype": args[0].dtype, "device": args[0].device} | kwargs
            func, args = torch.tensor, args[1:]
        if func not in (torch.tensor, torch.as_tensor) or kwargs.get("device") is None:
            return func(*args, **kwargs)
        device = kwargs.pop("device")
        return func(*args, **kwargs).to(device)


class PretendedDevice(TorchDispatchMode):
    """Inside it the device is there."""

    def __enter__(self) -> PretendedDevice:
        self.around = ExitStack()
        fused = "_get_fused_kernels_supported_devices"
        self.around.enter_context(patch.object(OPTIMISERS, fused, lambda: [DEVICE.type]))
        self.around.enter_context(patch("torch.autocast", lambda *_, **__: nullcontext()))
        self.around.enter_context(_Above())
        return super().__enter__()

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        self.around.close()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = dict(kwargs or {}), func.overloadpacket.__name__
        leaves = tree_leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        held = {id(tensor.inner): tensor for tensor in tensors if isinstance(tensor, Pretended)}
        device = kwargs.get("device")
        there = bool(held) if device is None else torch.device(device) == DEVICE
        if name in COPIES:
            there = isinstance(args[0], Pretended) if name == "copy_" else there
        elif held:
            _check(func, name, args, tensors)
        if there and any(isinstance(leaf, torch.Generator) for leaf in leaves):
            raise DeviceError("a generator of the CPU draws on the device")
        if there and device is not None:
            kwargs["device"] = "cpu"
        if name == "_efficientzerotensor":  # of forward mode; it holds nothing
            func = torch.ops.aten.zeros.default
        result = func(*tree_map(_held, args), **tree_map(_held, kwargs))
        if held and torch.Tag.inplace_view in func.tags:
            with torch._C._DisableTorchDispatch():  # what holds it changes its shape, too
                func(*args, **kwargs)
        return tree_map(lambda leaf: _holding(leaf, held), result) if there else result


def _check(func: Any, name: str, args: Any, tensors: list[Tensor]) -> None:
    """DeviceError for tensors that CUDA does not take together."""
    plain = [tensor for tensor in tensors if not isinstance(tensor, Pretended)]
    if name in INDEXED and isinstance(args[0], Pretended):
        plain = [args[2]] if len(args) > 2 and not isinstance(args[2], Pretended) else []
    numbers = torch.Tag.pointwise in func.tags or name in NUMBERS
    changed = func._schema.is_mutable and not isinstance(tensors[0], Pretended)
    if changed or any(tensor.is_meta or tensor.dim() > 0 or not numbers for tensor in plain):
        raise DeviceError(f"{name} mixes the device and the CPU")


def _held(leaf: Any) -> Any:
    return leaf.inner if isinstance(leaf, Pretended) else leaf


def _holding(leaf: Any, held: dict[int, Pretended]) -> Any:
    """What is changed in place stays the tensor that it was."""
    if not isinstance(leaf, Tensor):
        return leaf
    return held[id(leaf)] if id(leaf) in held else Pretended(leaf)


def placed(value: Any, device: torch.device | str = DEVICE) -> Any:
    """The same on a device: a tensor, a module, or a dataclass or dictionary of such."""
    if isinstance(value, Tensor | nn.Module):
        return copy.deepcopy(value).to(device)
    if isinstance(value, dict):
        return {name: placed(part, device) for name, part in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **placed(_fields(value), device))
    return value


def tensors_in(value: Any) -> list[Tensor]:
    """Those of a dataclass, a dictionary, a list or a tuple."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, nn.Module):
        return list(value.parameters())
    if is_dataclass(value):
        value = _fields(value)
    if isinstance(value, dict):
        value = list(value.values())
    parts = value if isinstance(value, list | tuple) else []
    return [tensor for part in parts for tensor in tensors_in(part)]


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}
