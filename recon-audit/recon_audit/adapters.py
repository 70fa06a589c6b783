"""Low-rank adapters: a file of PEFT's on its base, or a module with PEFT's layers, becomes the
network that answers, and its two factors are asked for members (`recon.attacks.adapters`).

The adapter is a parametrisation of the layer's weight: everything else sees W0 + B A, and training
changes A and B alone.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.nn.utils.parametrize import register_parametrization

from recon.attacks import by_adapter_nullspace
from recon.attacks.adapters import Adapter, Inputs, certificate
from recon.errors import ReconError, one_reason
from recon_audit.anatomy import inputs_of
from recon_audit.files import State, digest, load_state
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


def adapt(layer: Any, name: str, a: Tensor, b: Tensor, scale: float) -> None:
    """Put an adapter on a linear layer, in place; ReconError for another one, or other shapes."""
    if not isinstance(layer, nn.Linear):
        kind = "layer that the base does not have" if layer is None else type(layer).__name__
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
    state = {name.removeprefix("base_model.model."): value for name, value in state.items()}
    subject = subject_of(base, arch)
    layers = dict(subject.module.requires_grad_(False).named_modules())
    adapted = sorted({name.partition(".lora_")[0] for name in state if ".lora_" in name})
    with one_reason(f"{path} does not fit the base"):
        for name in [name for name in state if ".lora_" not in name]:
            stem, _, kind = name.rpartition(".")  # a bias, or of a layer that was trained whole
            getattr(layers[stem], kind).requires_grad_(True).data.copy_(state[name])
    for name in adapted:
        a, b = (state.get(f"{name}.lora_{kind}.weight") for kind in "AB")
        if a is None or b is None or len(a) != config["r"]:
            raise ReconError(
                f"{path} has no lora_A and lora_B of rank {config['r']}, as {CONFIG} says, for"
                f" '{name}'"
            )
        size = len(a) ** (0.5 if config.get("use_rslora") else 1)
        adapt(layers.get(name), name, a, b, config["lora_alpha"] / size)
    return Subject(
        subject.module,
        printable(path),
        digest(path.read_bytes()),
        f"{subject.arch} with LoRA on {', '.join(adapted)}",
        subject.tensors,
    )


def _config(place: Path) -> dict[str, Any]:
    with one_reason(f"{place}, which says the adapter's rank and scale, cannot be read"):
        config = {"peft_type": None, "r": None, **json.loads(place.read_text("utf-8"))}
    kinds = [*(field for field in UNREAD if config.get(field)), config["peft_type"]]
    if kinds != ["LORA"]:
        raise ReconError(f"{place} asks for {kinds[0]}, which is not read: plain LoRA is")
    return config


def plain(layer: Any) -> Any:
    """The linear layer with `LowRank` that a layer of PEFT's is; ReconError where it is none."""
    kind, names = type(layer).__name__, layer.active_adapters
    if len(names) > 1 or getattr(layer, "use_dora", {}).get(names[0]):
        raise ReconError(f"a layer has DoRA or several adapters ({kind}): plain LoRA is read")
    if layer.merged:
        layer.unmerge()
    a, b, scale = (part[names[0]] for part in (layer.lora_A, layer.lora_B, layer.scaling))
    adapt(layer.base_layer, kind, a.weight, b.weight, float(scale))
    return layer.base_layer


# ------------------------------------------------------------------------------------------- scores


def first_adapter(module: nn.Module) -> tuple[str, Adapter] | None:
    """Name and factors of the first adapted layer, whose inputs training did not move; None without
    one.
    """
    for name, part in module.named_modules():
        if isinstance(part, LowRank):
            return name.rpartition(".parametrizations")[0], Adapter(
                part.lora_a.detach().cpu(), part.lora_b.detach().cpu()
            )
    return None


def adapter_scores(module: nn.Module) -> tuple[str, ...]:
    """Of membership: the filter, and the certificate where the adversary believes it."""
    first = first_adapter(module)
    return SCORES[: 1 + certificate(first[1]).holds] if first else ()


def scores_of(module: nn.Module, x: Tensor) -> State:
    """`adapter_scores` (N,) of inputs x (N, C, H, W)."""
    first = first_adapter(module)
    if first is None:
        return {}
    h = inputs_of(module, first[0], x.to(next(module.parameters()).device)).cpu()
    h = h if h.dim() == 2 else h.flatten(1, -2).mean(1)  # of tokens
    about = by_adapter_nullspace(first[1], Inputs(h, h)).diagnostics
    values = about["filter"], -about["residual"].log()
    return dict(zip(adapter_scores(module), values, strict=False))
