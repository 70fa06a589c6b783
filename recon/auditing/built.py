"""Modules from files of weights: dense layers with ReLU by their widths, and networks of torchvision by their names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from recon.errors import ReconError
from recon.nets.mlp import Params

#: torchvision's names that `auto` recognises by their tensors; any other of its names can be given
KNOWN = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "vgg11", "vgg11_bn", "vgg16", "vgg16_bn",
         "alexnet", "mobilenet_v2", "densenet121", "squeezenet1_0", "squeezenet1_1")  # fmt: skip
PREFIXES = ("module.", "_orig_mod.", "_module.", "_fsdp_wrapped_module.", "model.", "net.", "encoder.", "backbone.")
OF_THE_LOSS = re.compile(r"(criterion|loss|loss_fn|loss_func|loss_function)\.")  # class weights, say
EMBEDDING = re.compile(r"embed|(^|\.)(emb|wte|wpe|tok|tokens?|vocab|lookup|codebook)\.")
ADAPTERS = re.compile(r"lora_[AB]|\.adapter|lora_embedding")


def built(state: dict[str, Tensor], path: Path, arch: str | None) -> tuple[nn.Module, str, list[str]]:
    """(module, architecture in words, which tensor is which)."""
    if adapters := [name for name in state if ADAPTERS.search(name)]:
        raise ReconError(
            f"{path} holds adapters ({adapters[0]}), which are added to layers that it does not hold: merge them "
            "(merge_and_unload() of PEFT) and pass the merged module"
        )
    state = {name: value for name, value in state.items() if not OF_THE_LOSS.match(name)}
    if looked_up := [name for name in state if EMBEDDING.search(name.lower())]:
        raise ReconError(f"{path} holds an embedding ({looked_up[0]}), which is no dense layer: pass the module itself")
    if arch is None:
        arch = _inferred(state, path)
    if re.match("[0-9]", arch) or not arch.isidentifier():
        return _dense(state, path, arch)
    return _from_torchvision(state, path, arch)


def parse_arch(arch: str) -> tuple[int, ...]:
    """ "3072-1000-1000-1" -> (3072, 1000, 1000, 1); ReconError unless they are widths."""
    if not re.fullmatch(r"[1-9][0-9]{0,8}(-[1-9][0-9]{0,8})+", arch):
        raise ReconError(
            f"the architecture must be widths like 3072-1000-1000-1 or a name of torchvision like resnet18, not "
            f"'{arch}'"
        )
    return tuple(int(width) for width in arch.split("-"))


def _inferred(state: dict[str, Tensor], path: Path) -> str:
    """Widths where all weights are matrices that form one chain, else a name of `KNOWN`; ReconError otherwise."""
    matrices = [
        state[name] for name in sorted(state, key=_natural) if _kind(name) == "weight" and state[name].dim() > 1
    ]
    if matrices and all(each.dim() == 2 for each in matrices):
        _grouped(state, path)  # two names for one layer are no question of order
        for order in (matrices, matrices[::-1]):
            if all(a.shape[0] == b.shape[1] for a, b in zip(order, order[1:], strict=False)):
                return "-".join(map(str, [order[0].shape[1], *(each.shape[0] for each in order)]))
        raise ReconError(
            f"the architecture cannot be read off {path}: its matrices {_shapes(matrices)} form no chain in the order "
            "of their names; say it with --arch"
        )
    if not matrices:
        raise ReconError(
            f"{path} has no weights of layers in it, only {', '.join(sorted(state)[:6]) or 'no weights at all'}"
        )
    stripped = _stripped(state)
    for name in KNOWN:
        own = _on_meta(name)
        if set(_renamed(stripped, own)) == set(own.state_dict()):
            return name
    raise ReconError(
        f"the architecture cannot be read off {path}, which has {len(matrices)} layers with convolutions: name it with "
        "--arch, such as resnet18, or pass the module itself to recon.audit in Python"
    )


def _shapes(tensors: list[Tensor]) -> str:
    return ", ".join("×".join(map(str, each.shape)) for each in tensors[:6])


def _on_meta(name: str, classes: int = 1000) -> nn.Module:
    """torchvision's network of this name, without numbers: nothing is drawn."""
    from torchvision import models

    with torch.device("meta"):
        return models.get_model(name, weights=None, num_classes=classes)


def _head(module: nn.Module) -> str:
    """Name of the layer that gives the answers: the last dense one or convolution."""
    return [name for name, part in module.named_modules() if isinstance(part, nn.Linear | nn.Conv2d)][-1]


def _renamed(state: dict[str, Tensor], own: nn.Module) -> dict[str, Tensor]:
    """With the tensors of the head by torchvision's name, where it stands alone in a `Sequential` of the owner's, as
    in `fc = Sequential(Dropout(), Linear(512, 2))`, or in the place of one."""
    head = _head(own)
    for place in (head, head.rpartition(".")[0]):
        held = [name for name in state if place and name.startswith(f"{place}.")]
        stems = {name.rpartition(".")[0] for name in held}
        if len(stems) == 1 and (stem := stems.pop()) != head:
            new = {name: f"{head}.{name.removeprefix(f'{stem}.')}" for name in held}
            return {new.get(name, name): value for name, value in state.items()}
    return state


def _stripped(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Without what wrappers put before every name."""
    while prefix := next((p for p in PREFIXES if state and all(name.startswith(p) for name in state)), None):
        state = {name.removeprefix(prefix): value for name, value in state.items()}
    return state


def _from_torchvision(state: dict[str, Tensor], path: Path, arch: str) -> tuple[nn.Module, str, list[str]]:
    """Of that name, with as many outputs as its last matrix has rows."""
    from torchvision import models

    if arch not in models.list_models(module=models):
        raise ReconError(f"unknown architecture '{arch}': widths like 3072-1000-1000-1, or a name of torchvision")
    own_names = _on_meta(arch)
    state = _renamed(_stripped(state), own_names)
    last = state.get(f"{_head(own_names)}.weight")
    if last is None:
        raise ReconError(f"{path} is no {arch}: it has no {_head(own_names)}.weight")
    stem = state.get("conv1.weight")
    if stem is not None and arch.startswith(("resnet", "wide_resnet", "resnext")) and stem.shape[-1] == 3:
        raise ReconError(
            f"{path} is a {arch} with a 3×3 stem, and no file says whether a max-pool follows: pass the module"
        )
    module = _with_colours(_on_meta(arch, len(last)), state)
    module = module.to_empty(device="cpu")
    own = module.state_dict()
    odd = sorted(set(own) ^ set(state)) or [name for name in own if own[name].shape != state[name].shape]
    if odd:
        raise ReconError(f"{path} is no {arch}: {', '.join(odd[:4])} {'does' if len(odd) == 1 else 'do'} not fit")
    module.load_state_dict(state)
    return module.float().eval(), arch, [f"all {len(state)} tensors by their names"]


def _with_colours(module: nn.Module, state: dict[str, Tensor]) -> nn.Module:
    """With a first convolution for as many colours as the file has."""
    name, first = next(((n, p) for n, p in module.named_modules() if isinstance(p, nn.Conv2d)), ("", None))
    weight = state.get(f"{name}.weight")
    if first is not None and first.groups == 1 and weight is not None and weight.dim() == 4:
        first.in_channels = weight.shape[1]
        shape = (len(first.weight), weight.shape[1], *first.weight.shape[2:])
        first.weight = nn.Parameter(torch.empty(shape, device="meta"))
    return module


def _dense(state: dict[str, Tensor], path: Path, arch: str) -> tuple[nn.Module, str, list[str]]:
    """Dense layers with ReLU between them; batch norm, where the file has it, after the dense layer before it."""
    widths = parse_arch(arch)
    stems, norms, foreign = _grouped(state, path)
    theta, mapping = _assign(stems, widths, arch, path)
    layers: list[nn.Module] = [nn.Flatten()]
    used = dict(norms)
    for layer, (fan_in, fan_out) in enumerate(zip(widths, widths[1:], strict=False), start=1):
        bias = theta.get(f"b{layer}")
        linear = nn.utils.skip_init(nn.Linear, fan_in, fan_out, bias=bias is not None)
        linear.load_state_dict({"weight": theta[f"w{layer}"], **({} if bias is None else {"bias": bias})})
        layers.append(linear)
        if layer < len(widths) - 1:
            if norm := next((s for s in sorted(used, key=_natural) if len(used[s]["running_mean"]) == fan_out), None):
                layers.append(_norm(used.pop(norm)))
                mapping.append(f"batch norm after w{layer} = {norm}")
            layers.append(nn.ReLU())
    left = sorted([name for parts in stems.values() for name, _ in parts.values()] + foreign)
    left += [f"{stem}.running_mean" for stem in used]
    if left:
        raise ReconError(
            f"{path} holds tensors that {arch} has no place for: {', '.join(left[:6])} (widths mean dense layers with "
            "ReLU between them; other networks go by torchvision's name, or into recon.audit as a module)"
        )
    return nn.Sequential(*layers).eval(), arch, mapping


def _norm(parts: dict[str, Tensor]) -> nn.BatchNorm1d:
    norm = nn.BatchNorm1d(len(parts["running_mean"]), affine="weight" in parts)
    norm.load_state_dict(parts, strict=False)
    return norm


Stems = dict[str, dict[str, tuple[str, Tensor]]]


def _grouped(state: dict[str, Tensor], path: Path) -> tuple[Stems, dict[str, dict[str, Tensor]], list[str]]:
    """Weights and biases of dense layers by stem, tensors of batch norms by stem, and names of everything else."""
    normed = {name.rpartition(".")[0] for name in state if name.endswith(".running_mean")}
    normed = {stem for stem in normed if f"{stem}.running_var" in state}
    norms: dict[str, dict[str, Tensor]] = {stem: {} for stem in normed}
    stems: Stems = {}
    foreign = []
    for name, tensor in state.items():
        own = re.fullmatch(r"([wb])([0-9]+)", name)
        stem, kind = (own[2], {"w": "weight", "b": "bias"}[own[1]]) if own else name.rpartition(".")[::2]
        if stem in norms:
            norms[stem][kind] = tensor.float() if tensor.is_floating_point() else tensor
            continue
        if kind not in ("weight", "bias") or (kind == "weight" and tensor.dim() != 2):
            foreign.append(name)
            continue
        if not tensor.is_floating_point() or not torch.isfinite(tensor.float()).all():
            raise ReconError(f"tensor '{name}' of {path} holds numbers that are not finite floats")
        parts = stems.setdefault(stem, {})
        if kind in parts:
            raise ReconError(f"{path} holds both {parts[kind][0]} and {name}, which mean the same layer: leave one out")
        parts[kind] = (name, tensor.float())
    return stems, norms, foreign


def _kind(name: str) -> str:
    return "weight" if re.fullmatch(r"w[0-9]+|(.*\.)?weight", name) else ""


def _assign(stems: Stems, widths: tuple[int, ...], arch: str, path: Path) -> tuple[Params, list[str]]:
    """Parameters by the package's names and the mapping in words; takes them out of `stems`."""
    held = ", ".join(f"{n} {tuple(t.shape)}" for s in sorted(stems, key=_natural) for n, t in stems[s].values())
    theta: Params = {}
    mapping = []
    for layer, (fan_in, fan_out) in enumerate(zip(widths, widths[1:], strict=False), start=1):
        fits = [s for s in stems if "weight" in stems[s] and stems[s]["weight"][1].shape == (fan_out, fan_in)]
        if not fits:
            raise ReconError(
                f"{path} has no weight of shape ({fan_out}, {fan_in}) for layer {layer} of {arch}, "
                f"only {held[:300] or 'no weights at all'}"
            )
        parts = stems.pop(min(fits, key=_natural))
        for kind, name in (("weight", f"w{layer}"), ("bias", f"b{layer}")):
            if kind in parts:
                theta[name] = parts[kind][1]
                mapping.append(f"{name} = {parts[kind][0]}")
        if "bias" in parts and theta[f"b{layer}"].shape != (fan_out,):
            shape = tuple(theta[f"b{layer}"].shape)
            raise ReconError(f"the bias {parts['bias'][0]} of {path} has shape {shape}, and {arch} needs ({fan_out},)")
    return theta, mapping


def _natural(name: str) -> list[Any]:
    """Sorts layer.10 after layer.9; text and numbers alternate, so that like is compared with like."""
    return [int(part) if part.isdigit() else part for part in re.split(r"([0-9]+)", name)]
