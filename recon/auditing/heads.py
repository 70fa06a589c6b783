"""A head on a frozen backbone: what was trained is given features, and features are what it can give away.

Where all that training changed is one part of the network, which is given a vector for each image and answers for the
network, that part is audited on those vectors.  Then separation looks for features (`recon.attacks.heads`), and
whether a feature lies in the span of the head's first layer is a score of membership.  Half of the held-out images are
the public sample that such attacks are given; they are compared with nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os.path import commonprefix
from typing import Any

import torch
from torch import Tensor, nn

from recon.attacks.heads import Public, matched_filter, span_of, span_test
from recon.attacks.separation import FirstLayer
from recon.auditing.anatomy import Anatomy, answers_of
from recon.errors import ReconError

MOST_PUBLIC = 1000
LEAST_FEATURES = 64  # shorter rows are columns of a table: nothing is sparse in them, and they span everything
SPANS = ("span", "bent", "filter")  # scores of membership


class OnBackbone(nn.Module):
    """A head on a frozen backbone, as one network.  backbone: any module, or a `recon.images.features.Backbone`."""

    def __init__(self, backbone: Any, head: nn.Module) -> None:
        super().__init__()
        module = backbone if isinstance(backbone, nn.Module) else backbone.module
        self.backbone = module.requires_grad_(False)
        self.around: Callable[[Tensor], Any] = backbone
        self.head = head

    def forward(self, x: Tensor) -> Any:
        """Answers of the head to the backbone's features: of Hugging Face's the pooled ones."""
        with torch.no_grad():
            found = self.around(x)
        for name in ("pooler_output", "last_hidden_state"):
            if isinstance(value := getattr(found, name, None), Tensor):
                found = value if value.dim() != 3 else value[:, 0]
        if not isinstance(found, Tensor):
            raise ReconError(f"the backbone must give a tensor, not a {type(found).__name__}")
        return self.head(found.flatten(1).clone())


@dataclass(frozen=True)
class Head:
    """module: what was trained · first: the part of the network that is given the features · name: of the parameters
    of `module` those in the network."""

    module: nn.Module
    first: nn.Module
    name: dict[str, str]


def head_of(module: nn.Module, seen: Anatomy, shape: tuple[int, ...]) -> Head | None:
    """The part that was trained, where it is given vectors that frozen parts make of images and answers for the whole;
    None for other networks."""
    learned = [name for name, p in module.named_parameters() if p.requires_grad]
    if len(learned) == len(list(module.parameters())):
        return None
    common = commonprefix([name.split(".")[:-1] for name in learned])  # type: ignore[type-var]
    within = ".".join(common)
    part = module.get_submodule(within)
    first, prefix, offset = part, f"{within}." if within else "", 0
    if isinstance(part, nn.Sequential):
        children = list(part.children())
        offset = next(k for k, child in enumerate(children) if any(p.requires_grad for p in child.parameters()))
        part, first = nn.Sequential(*children[offset:]), children[offset]
    elif not within:
        return None
    names = {}
    for name, _ in part.named_parameters():
        child, _, rest = name.partition(".")
        names[name] = f"{prefix}{int(child) + offset}.{rest}" if offset or child.isdigit() else prefix + name
    found = Head(part.eval(), first, names)
    x = torch.rand(4, *shape, generator=torch.Generator().manual_seed(1))
    given = _given(module, found, seen, x)
    if given is None or given.dim() != 2:
        return None
    with torch.no_grad():
        whole, own = answers_of(module, seen.as_taken(x)), answers_of(part, given)
    same = isinstance(own, Tensor) and own.shape == whole.shape and torch.allclose(own, whole, rtol=1e-3, atol=1e-5)
    return found if same else None


def _given(module: nn.Module, head: Head, seen: Anatomy, x: Tensor) -> Tensor | None:
    kept: list[Tensor] = []

    def keep(_: nn.Module, given: tuple[Any, ...]) -> None:
        if given and isinstance(given[0], Tensor):
            kept.append(given[0].detach().clone())

    hook = head.first.register_forward_pre_hook(keep)
    try:
        with torch.no_grad():
            module(seen.as_taken(x))
    finally:
        hook.remove()
    return kept[0] if len(kept) == 1 else None


def features_of(module: nn.Module, head: Head, seen: Anatomy, x: Tensor, batch: int = 64) -> Tensor:
    """Features (n, 1, 1, d) of inputs x (n, C, H, W), as the head is given them."""
    found = [_given(module, head, seen, part) for part in x.split(batch)]
    return torch.cat([each for each in found if each is not None]).float()[:, None, None]


def spans(layer: FirstLayer, bias: Tensor | None, features: Tensor, public: Public, n: int) -> dict[str, Tensor]:
    """Scores of membership (N,) of features (N, d): how near they are to the span of the first layer, as plain descent
    and as Adam would bend it, and the response of the layer's rows to what a feature has of its own."""
    found = {}
    for name, bent in (("span", False), ("bent", True)):
        rank = min(len(span_of(layer, public, None, bent)), n)
        found[name] = span_test(layer, features, public, max(rank, 1), bent)
    own = layer.update.new_zeros(len(layer.update)) if bias is None else bias
    found["filter"] = matched_filter(layer.update, own, features, public)
    return found
