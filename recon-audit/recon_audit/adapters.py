"""Low-rank adapters: a file of PEFT's on its base, or a module with PEFT's layers, becomes the
network that answers, and its two factors are asked for members (`recon.attacks.adapters`).

The adapter is a parametrisation of the layer's weight: everything else sees W0 + B A, and training
changes A and B alone.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized, register_parametrization

from recon.attacks import by_adapter_nullspace
from recon.attacks.adapters import Adapter, Inputs, certificate
from recon.errors import ReconError, one_reason
from recon.nets.module import watch_layers
from recon_audit.files import State, load_state
from recon_audit.images import printable
from recon_audit.networks import Subject, subject_of

FILE, CONFIG = "adapter_model.safetensors", "adapter_config.json"
UNREAD = ("use_dora", "rank_pattern", "alpha_pattern", "fan_in_fan_out")  # fields of the latter
SCORES = ("adapter", "certificate")  # of membership


class LowRank(nn.Module):
    """W0 to W0 + scale · B A."""

    def __init__(self, a: Tensor, b: Tensor, scale: float) -> None:
        super().__init__()
        self.lora_a, self.lora_b = (nn.Parameter(part.detach().float()) for part in (a, b))
        self.scale = scale

    def reset_parameters(self) -> None:
        """As PEFT begins."""
        nn.init.kaiming_uniform_(self.lora_a, 5**0.5)
        nn.init.zeros_(self.lora_b)

    def forward(self, weight: Tensor) -> Tensor:
        """The weight with the adapter."""
        return weight + self.scale * self.lora_b @ self.lora_a

    @property
    def factors(self) -> Adapter:
        """What is published."""
        return Adapter(self.lora_a.detach().cpu(), self.lora_b.detach().cpu())


def adapt(layer: Any, name: str, a: Tensor, b: Tensor, scale: float) -> None:
    """Put an adapter on a linear layer, in place; ReconError for another one, or other shapes."""
    if not isinstance(layer, nn.Linear):
        kind = type(layer).__name__ if layer is not None else "layer that the base does not have"
        raise ReconError(f"the adapter of '{name}' is on a {kind}: only linear ones are read")
    with one_reason(f"the factors of '{name}' do not fit its weight {tuple(layer.weight.shape)}"):
        register_parametrization(layer.requires_grad_(False), "weight", LowRank(a, b, scale))


def on_base(model: Any, base: Any, arch: str | None) -> Subject:
    """A base, as `subject_of` takes it, with an adapter of PEFT's: its file or folder, `CONFIG`
    beside it. ReconError where one does not fit the other, and for what is no plain LoRA.
    """
    if isinstance(model, nn.Module):
        raise ReconError("a base belongs to an adapter's file: a module has both in it")
    path = Path(model) / FILE if Path(model).is_dir() else Path(model)
    state, config = load_state(path), _config(path.with_name(CONFIG))
    subject = subject_of(base, arch)
    layers = dict(subject.module.requires_grad_(False).named_modules())
    dense = [part for part in layers.values() if isinstance(part, nn.Linear)]
    for read in re.finditer(r"w(\d+) = (\S+)\.weight", "\n".join(subject.tensors)):
        layers[read[2]] = dense[int(read[1]) - 1]  # by its name in the base's file
    pairs: dict[str, State] = {}
    for name, value in state.items():
        stem, _, kind = name.removeprefix("base_model.model.").rpartition(".")
        if factor := re.fullmatch(r"(.+)\.lora_([AB])(\.default)?", stem):
            pairs.setdefault(factor[1], {})[factor[2]] = value
        else:  # biases, and layers that were trained whole
            with one_reason(f"{path} holds '{name}', which does not fit the base"):
                getattr(layers[stem], kind).data.copy_(value)
                getattr(layers[stem], kind).requires_grad_(True)
    for name, pair in pairs.items():
        with one_reason(f"{path} has no pair of factors of rank r, as {CONFIG} says, of '{name}'"):
            a, b, rank = pair["A"], pair["B"], config["r"]
            if len(a) != rank:
                raise ValueError(f"r = {rank}, and lora_A has {len(a)} rows")
            scale = config["lora_alpha"] / rank ** (0.5 if config.get("use_rslora") else 1)
        adapt(layers.get(name), name, a, b, scale)
    if not pairs:
        raise ReconError(
            f"{path} holds no factors of an adapter (lora_A, lora_B): leave --base out"
        )
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    words = f"{subject.arch} with LoRA on {', '.join(pairs)}"
    return replace(subject, file=printable(path), sha256=digest, arch=words)


def _config(place: Path) -> dict[str, Any]:
    if not place.is_file():
        raise ReconError(f"there is no {place}, which says the adapter's scale")
    with one_reason(f"{place} is no configuration of PEFT's"):
        config = dict(json.loads(place.read_text("utf-8")))
    unread = [field for field in UNREAD if config.get(field)]
    if unread or config.get("peft_type") != "LORA":
        what = f"sets {unread[0]}" if unread else f"is of {config.get('peft_type')}"
        raise ReconError(f"{place} {what}, which is not read: plain LoRA is")
    return config


def plain(module: nn.Module) -> nn.Module:
    """A module whose LoRA layers of PEFT's are linear ones with `LowRank`, in place; unchanged
    where it has none.
    """
    for place, part in list(module.named_modules()):
        if not isinstance(getattr(part, "lora_A", None), nn.ModuleDict) or not part.lora_A:
            continue
        keys = list(part.active_adapters)
        if len(keys) != 1 or any(dict(getattr(part, "use_dora", {})).values()):
            raise ReconError(f"'{place}' has DoRA or several adapters, which are not read: LoRA is")
        a, b = (factor[keys[0]].weight for factor in (part.lora_A, part.lora_B))
        if part.merged:
            part.unmerge()
        adapt(part.base_layer, place, a, b, float(part.scaling[keys[0]]))
        above, _, name = place.rpartition(".")
        setattr(module.get_submodule(above), name, part.base_layer)
    return module


# ------------------------------------------------------------------------------------------- scores


def adapters_of(module: nn.Module) -> dict[str, LowRank]:
    """The adapters, by the names of their layers."""
    return {
        name.rpartition(".parametrizations")[0]: part
        for name, part in module.named_modules()
        if isinstance(part, LowRank)
    }


def believed(module: nn.Module) -> list[str]:
    """Layers whose certificate the adversary believes."""
    parts = adapters_of(module).items()
    return [name for name, part in parts if certificate(part.factors).holds]


def adapter_scores(module: nn.Module) -> tuple[str, ...]:
    """Of membership: the filter, and the certificate where it is believed."""
    return SCORES[: bool(adapters_of(module)) + bool(believed(module))]


def scores_of(module: nn.Module, x: Tensor) -> State:
    """`SCORES` of inputs x (N, C, H, W): the filter, and the certificate where it is believed, of
    the layers whose inputs did not move in training: the same without any adapter.
    """
    adapters, total = adapters_of(module), {}
    now = _inputs(module, x)
    scales = [part.scale for part in adapters.values()]
    for part in adapters.values():
        part.scale = 0.0
    before = _inputs(module, x)
    for part, scale in zip(adapters.values(), scales, strict=True):
        part.scale = scale
    for name, part in adapters.items():
        h = now.get(name, x[:0])
        if not len(h) or not torch.allclose(h, before[name], rtol=1e-4, atol=1e-6):
            continue
        about = by_adapter_nullspace(part.factors, Inputs(h, h)).diagnostics
        values = [about["filter"], -about["residual"].log()][: 1 + about["certificate"].holds]
        for score, value in zip(SCORES, values, strict=False):
            total[score] = total.get(score, 0) + value
    return total


def _inputs(module: nn.Module, x: Tensor, batch: int = 64) -> State:
    """Of every linear layer, (N, d); of tokens their mean."""
    parts: dict[str, list[Tensor]] = {}
    device = next(module.parameters()).device
    for rows in x.split(batch):
        for call in watch_layers(module, rows.to(device))[2]:
            if is_parametrized(call.module, "weight"):
                h = call.inputs.float().cpu()
                parts.setdefault(call.name, []).append(
                    h if h.dim() == 2 else h.flatten(1, -2).mean(1)
                )  # noqa: E501
    return {name: torch.cat(values) for name, values in parts.items()}
