"""Where training began, and what it changed: the start of a network, and a head on a frozen
backbone.

A start is a checkpoint, public weights, or a draw whose spread alone is known. What training left
as it was, it froze. Shadow networks begin where training began and train what was trained.

Where all that training changed is one part of the network, which is given a vector for each image
and answers for the network, that part is audited on those vectors. Then separation looks for
features (`recon.attacks.heads`), and the matched filter of the head's first layer is a score of
membership. Of a whole fine-tune the label filter is one. Half of the held-out images are the public
sample that such attacks are given; they are compared with nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from os.path import commonprefix
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from recon.errors import ReconError, one_reason
from recon.nets.module import answers_of
from recon.nets.network import Shape
from recon_audit.anatomy import Classifier, inputs_of
from recon_audit.files import State, load_state
from recon_audit.networks import Subject, strip_prefixes, subject_of

LEAST = 0.5  # share of the network's tensors that its start must have


@dataclass(frozen=True)
class Start:
    """
    Attributes:
        module: of the audited network's architecture, as training began, in what is known.
        public: names of the tensors with which every training begins; of others a shadow draws its
            own, as spread out.
    """

    module: nn.Module
    public: frozenset[str] = frozenset()


def start_of(subject: Subject, source: Any, arch: str | None) -> Start:
    """The network before training: a module, a state dict, or a file like that of the trained
    one.
    """
    if not isinstance(source, Mapping):
        source = subject_of(source, arch).read(subject.words).module.state_dict()
    module = copy.deepcopy(subject.module)
    with one_reason("theta_init does not fit the network"):
        module.load_state_dict(source)
    return Start(module)


def public_start(subject: Subject, source: Any) -> Start:
    """Of a fine-tune: tensors of `source` that the network has, too, by name and shape; the others,
    of a new head, are drawn. What equals its start was frozen, and is frozen in `subject.module`,
    but for a network that would have nothing left to train.

    ReconError where less than half of the network's tensors are there.

    Args:
        source: a module, a state dict, a file of weights, or a name of torchvision's weights such
            as ResNet18_Weights.IMAGENET1K_V1, which are downloaded where they are not on this
            machine.
    """
    state = subject.module.state_dict()
    public = _align(state, _state_of(source))
    parameters = dict(subject.module.named_parameters())
    if len(public) < LEAST * len(state):
        raise ReconError(
            f"the start does not fit the network: only {len(public)} of its {len(state)} tensors"
            " are there by name and shape"
        )
    module = copy.deepcopy(subject.module)
    module.load_state_dict(public, strict=False)
    frozen = {name for name in public if torch.equal(public[name].to(state[name]), state[name])}
    if set(parameters) - frozen:
        for name in frozen & set(parameters):
            parameters[name].requires_grad_(False)
    return Start(module, frozenset(public))


def _state_of(source: Any) -> State:
    if isinstance(source, nn.Module):
        source = source.state_dict()
    if isinstance(source, Mapping):
        return {str(name): value for name, value in source.items() if isinstance(value, Tensor)}
    if not isinstance(source, str | Path):
        raise ReconError(
            "the start must be a module, a state dict, a file or a name of torchvision's weights,"
            f" not a {type(source).__name__}"
        )
    if Path(source).exists():
        return load_state(Path(source))
    from torchvision import models

    with one_reason(f"there is no file {source}, or the weights of that name cannot be had"):
        name = str(source)
        weights = (
            models.get_weight(name) if "." in name else models.get_model_weights(name)["DEFAULT"]
        )
        return dict(weights.get_state_dict(progress=False, check_hash=True))


def _align(target: Mapping[str, Tensor], other: State) -> State:
    """Tensors of `other` by the names that the network has for them: the same, or after the one
    prefix by which most of them fit.
    """
    state = strip_prefixes(other)
    first = next(iter(state), "")
    ends = {name.removesuffix(first) for name in target if name.endswith(first)} | {""}
    ways = (
        {
            prefix + name: value
            for name, value in state.items()
            if getattr(target.get(prefix + name), "shape", None) == value.shape
        }
        for prefix in sorted(ends)
    )
    return max(ways, key=len)


# -------------------------------------------------------------------------------------------- heads

MOST_PUBLIC = 1000
# shorter rows are columns of a table: nothing is sparse in them, and they span everything
LEAST_FEATURES = 64


@dataclass(frozen=True)
class Head:
    """
    Attributes:
        module: what was trained.
        first: name of the layer that is given the features.
        place: where `part_at` has what was trained from.
    """

    module: nn.Module
    first: str
    place: tuple[str, int]


def part_at(module: nn.Module, name: str, skipped: int) -> nn.Module:
    """The submodule of that name; of a Sequential what comes after the first parts, `skipped` of
    them.
    """
    part = module.get_submodule(name)
    if isinstance(part, nn.Sequential):
        part = nn.Sequential(*list(part)[skipped:])
    return part.eval()


def head_of(classifier: Classifier, shape: Shape) -> Head | None:
    """The part that was trained, where it is given vectors that frozen parts make of images and
    answers for the whole; None for other networks.
    """
    module = classifier.module
    learned = [name for name, p in module.named_parameters() if p.requires_grad]
    if len(learned) == len(list(module.parameters())):
        return None
    common = commonprefix([name.split(".")[:-1] for name in learned])  # type: ignore[type-var]
    within, skipped = ".".join(common), 0
    outer = module.get_submodule(within)
    if isinstance(outer, nn.Sequential):
        skipped = [any(p.requires_grad for p in child.parameters()) for child in outer].index(True)
    elif not within:
        return None
    head = Head(part_at(module, within, skipped), learned[0].rpartition(".")[0], (within, skipped))
    x = torch.rand(4, *shape, generator=torch.Generator().manual_seed(1))
    with torch.no_grad(), suppress(RuntimeError):
        x = classifier.as_taken(x)
        inputs, whole = inputs_of(module, head.first, x), answers_of(module, x)
        if (
            inputs.dim() == 2
            and len(inputs) == len(x)
            and torch.allclose(answers_of(head.module, inputs), whole, 1e-3, 1e-5)
        ):
            return head
    return None


def features_of(head: Head, classifier: Classifier, x: Tensor) -> Tensor:
    """Features (n, 1, 1, d) of inputs x (n, C, H, W), as the head is given them."""
    return inputs_of(classifier.module, head.first, classifier.as_taken(x))[:, None, None]
