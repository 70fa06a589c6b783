"""Where training began: a checkpoint, public weights, or a draw whose spread alone is known.

What training left as it was, it froze.  Shadow networks begin where training began and train what was trained.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from recon.auditing.files import load_state
from recon.auditing.networks import Subject, on_meta, subject_of
from recon.errors import ReconError, one_reason

LEAST = 0.5  # share of the network's numbers that its start must have


@dataclass(frozen=True)
class Start:
    """module: of the audited network's architecture, as training began, in what is known · public: names of the
    tensors with which every training begins; of others a shadow draws its own, as spread out · whole: whether all
    parameters are known."""

    module: nn.Module
    public: frozenset[str] = frozenset()
    whole: bool = True


def start_of(subject: Subject, given: Any, arch: str | None) -> Start:
    """The network before training: a module, a state dict, or a file like that of the trained one."""
    if isinstance(given, Mapping):
        module = copy.deepcopy(subject.module)
        with one_reason("theta_init does not fit the network"):
            module.load_state_dict(dict(given))
        return Start(module)
    start = subject_of(given, arch).module
    own, other = ({n: tuple(p.shape) for n, p in m.named_parameters()} for m in (subject.module, start))
    if own != other:
        raise ReconError("theta_init does not fit the network: its parameters have other names or shapes")
    return Start(start)


def public_start(subject: Subject, given: Any) -> Start:
    """Of a fine-tune: tensors of `given` that the network has, too, by name and shape; the others, of a new head, are
    drawn.  What equals its start was frozen, and is frozen in `subject.module`, but for a network that would have
    nothing left to train.

    given: a module, a state dict, a file of weights, or a name of torchvision's weights such as
    ResNet18_Weights.IMAGENET1K_V1, which are downloaded where they are not on this machine.  ReconError where less than
    half of the network's numbers are there.
    """
    own = subject.module.state_dict()
    found = _aligned(own, _state_of(given))
    parameters = dict(subject.module.named_parameters())
    total = sum(p.numel() for p in parameters.values())
    if sum(parameters[name].numel() for name in found if name in parameters) < LEAST * total:
        there = f"only {len(found)} of its {len(own)} tensors are there by name and shape"
        raise ReconError(f"the start does not fit the network: {there}")
    module = copy.deepcopy(subject.module)
    module.load_state_dict(found, strict=False)
    frozen = {name for name in found if torch.equal(found[name].to(own[name]), own[name])}
    if set(parameters) - frozen:
        for name in frozen & set(parameters):
            parameters[name].requires_grad_(False)
    return Start(module, frozenset(found), set(parameters) <= set(found))


def found_start(subject: Subject) -> Any:
    """Public weights on this machine with which training began, as `public_start` takes them, None where there are
    none: torchvision's in its cache, of an architecture whose tensors the network has; at least one of its matrices
    must be equal."""
    from torchvision import models

    own = subject.module.state_dict()
    for file in sorted((Path(torch.hub.get_dir()) / "checkpoints").glob("*.pth")):
        name = file.stem.split("-")[0]
        if name not in models.list_models():
            continue
        theirs = on_meta(name).state_dict()
        if len(_aligned(own, theirs)) <= LEAST * len(theirs):
            continue
        state = load_state(file)
        found = _aligned(own, state)
        if any(value.dim() > 1 and torch.equal(value.to(own[key]), own[key]) for key, value in found.items()):
            return state
    return None


def _state_of(given: Any) -> dict[str, Tensor]:
    if isinstance(given, nn.Module):
        return subject_of(given).module.state_dict()
    if isinstance(given, Mapping):
        return {str(name): value for name, value in given.items() if isinstance(value, Tensor)}
    if isinstance(given, str) and not Path(given).exists() and (weights := _weights_of(given)) is not None:
        with one_reason(f"the weights {given} cannot be had"):
            return dict(weights.get_state_dict(progress=False, check_hash=True))
    if isinstance(given, str | Path):
        return load_state(Path(given))
    wanted = "a module, a state dict, a file or a name of torchvision's weights"
    raise ReconError(f"the start must be {wanted}, not a {type(given).__name__}")


def _weights_of(name: str) -> Any:
    """torchvision's weights of a name such as ResNet18_Weights.DEFAULT or resnet18; None where it knows none."""
    from torchvision import models

    with suppress(ValueError, KeyError, AttributeError):
        return models.get_weight(name)
    with suppress(ValueError, KeyError, AttributeError):
        return models.get_model_weights(name).DEFAULT  # type: ignore[attr-defined]
    return None


def _aligned(own: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of `other` by the names that the network has for them: the same, or after the one prefix by which most
    of them fit."""
    best: dict[str, Tensor] = {}
    for wrapper in ("", "module.", "model.", "_orig_mod.", "backbone.", "encoder."):
        state = {name.removeprefix(wrapper): value for name, value in other.items()}
        first = next(iter(state), "")
        for prefix in sorted({name.removesuffix(first) for name in own if name.endswith(first)} | {""}):
            named = {prefix + name: value for name, value in state.items()}
            fits = {name: value for name, value in named.items() if name in own and own[name].shape == value.shape}
            best = max(best, fits, key=len)
    return best
