"""What a network's layers are given, and hence which attacks they allow.

The module is run on random inputs of the images' shape with a hook at every layer.  What a layer is given, and not what
it is called, decides: rows of weights are mixtures of images only where the layer is given whole images.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from recon.errors import ReconError
from recon.nets.mlp import MLP

LARGE = (-100.0, 10.0, 1000.0)  # times the inputs: logits leave [0, 1]
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass(frozen=True)
class Call:
    """One layer at work: its name and module, what it was given and what it answered."""

    name: str
    module: nn.Module
    given: Tensor
    answered: Tensor


@dataclass(frozen=True)
class Anatomy:
    """What attacks may use.

    outputs K · flat: whether the module takes (n, d) and not (n, C, H, W) · scale: "logits" or "probabilities" · first:
    name of the dense layer that is given the whole flattened image · first_why_not: where there is none · mlp, theta:
    the one-logit network of dense layers and ReLU that is the same function, or minus its second output plus its first
    with the sign that makes class 1 positive · mlp_why_not: where there is none.
    """

    outputs: int
    flat: bool
    scale: str
    first: str | None
    first_why_not: str | None
    mlp: MLP | None
    theta: Tensor | None
    mlp_why_not: str | None


def anatomy(module: nn.Module, shape: tuple[int, ...]) -> Anatomy:
    """Of a module in evaluation mode for images of `shape` (C, H, W); seen on random inputs, never on images.

    ReconError where it takes no such images, or where its answers are not (n, K).
    """
    x = torch.rand(8, *shape, generator=torch.Generator().manual_seed(0)) - 0.5
    flat, answers, calls = _watched(module, x)
    outputs = 1 if answers.dim() == 1 else answers.shape[1]
    scale = _scale(
        module, flat, x, answers.reshape(len(x), outputs), [c for c in calls if not list(c.module.children())]
    )
    working = [call for call in calls if _is_layer(call.module)]
    first = _first(module, [call for call in calls if _same(call.given, x) and call.answered.shape[1:].numel() > 0])
    mlp, theta, mlp_why_not = None, None, None
    try:
        mlp, theta = _as_mlp(working, answers.reshape(len(x), outputs), x, scale)
    except ReconError as error:
        mlp_why_not = str(error)
    first_why_not = None if first else _no_first(working)
    return Anatomy(outputs, flat, scale, first.name if first else None, first_why_not, mlp, theta, mlp_why_not)


def answers_of(module: nn.Module, x: Tensor) -> Tensor:
    """(n, K) or (n,), also of modules that return a tuple or an object with `logits`."""
    found = module(x)
    if isinstance(found, Mapping):
        found = found.get("logits", found.get("out"))
    found = getattr(found, "logits", found)
    return found[0] if isinstance(found, tuple | list) else found


def _watched(module: nn.Module, x: Tensor) -> tuple[bool, Tensor, list[Call]]:
    """(whether images are taken flat, answers, layers in the order in which they work)."""
    calls: list[Call] = []

    def watch(name: str) -> Any:
        def hook(layer: nn.Module, given: tuple[Any, ...], answered: Any) -> None:
            if given and isinstance(given[0], Tensor) and isinstance(answered, Tensor):
                calls.append(Call(name, layer, given[0].detach().clone(), answered.detach().clone()))

        return hook

    hooks = [part.register_forward_hook(watch(name)) for name, part in module.named_modules() if _watched_part(part)]
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
                return flat, answers.float(), calls
            tried.append(f"answers of shape {tuple(answers.shape)}" if isinstance(answers, Tensor) else "no tensor")
    finally:
        for hook in hooks:
            hook.remove()
    size = " × ".join(map(str, x.shape[1:]))
    raise ReconError(f"the network does not classify images of {size} (colours × height × width): {tried[0]}")


def _is_layer(part: nn.Module) -> bool:
    """Whether it has weights of its own, also where those are computed from others (weight norm)."""
    return next(part.parameters(recurse=False), None) is not None or is_parametrized(part)


def _watched_part(part: nn.Module) -> bool:
    return not list(part.children()) or next(part.parameters(), None) is not None


def _first(module: nn.Module, calls: list[Call]) -> Call | None:
    """Of the layers that are given the whole image, the dense one; or what it is a part of where that is linear in the
    image, too, and has more matrices: an adapter beside the layer."""
    dense = next((call for call in calls if isinstance(call.module, nn.Linear)), None)
    found, most = dense, 0 if dense is None else _matrices(dense.module)
    for call in calls:
        around = dense is None or dense.name.startswith(f"{call.name}.")
        if around and call.module is not module and _matrices(call.module) > most and _is_linear(call):
            found, most = call, _matrices(call.module)
    return found


def _matrices(part: nn.Module) -> int:
    return sum(p.dim() == 2 for p in part.parameters())


def _is_linear(call: Call) -> bool:
    """Whether a part answers a vector that is affine in what it is given."""
    if call.answered.dim() != 2:
        return False
    x, zero = call.given, torch.zeros_like(call.given)
    with torch.no_grad():
        here, there, both, at_zero = (call.module(each) for each in (x, x.flip(0), x + x.flip(0), zero))
    size = (here - at_zero).abs().max()
    return bool(size > 0 and (both - here - there + at_zero).abs().max() < 1e-4 * size)


def _scale(module: nn.Module, flat: bool, x: Tensor, answers: Tensor, calls: list[Call]) -> str:
    """ "probabilities" where answers stay within [0, 1] however large the inputs are; else "logits".

    ReconError for several probabilities that do not add up to 1: those are classes of which an image may have many.
    """
    found = [answers]
    with torch.no_grad():
        for factor in LARGE:
            more = answers_of(module, (x.flatten(1) if flat else x) * factor).float()
            found.append(more.reshape(len(x), -1))
    every = torch.cat(found)
    if not torch.isfinite(every).all() or (every < 0).any() or (every > 1).any():
        return "logits"
    if answers.shape[1] == 1:
        spread = (every.max() - every.min()).item()
        return "probabilities" if spread > 0 or (calls and isinstance(calls[-1].module, nn.Sigmoid)) else "logits"
    sums = every.sum(1)
    if torch.allclose(sums, torch.ones_like(sums), atol=1e-4):
        return "probabilities"
    raise ReconError(
        f"the network answers {answers.shape[1]} probabilities that do not add up to 1, so an image may have many "
        "classes: an audit needs one class for each image"
    )


def logits_of(module: nn.Module, seen: Anatomy, x: Tensor, batch: int = 256) -> Tensor:
    """Logits (n, K) in float64 of inputs x (n, C, H, W), on the CPU; of probabilities their logarithm, or logit."""
    device = next(module.parameters()).device
    with torch.no_grad():
        parts = [
            answers_of(module, (p.flatten(1) if seen.flat else p).to(device)).cpu().double() for p in x.split(batch)
        ]
    found = torch.cat(parts).reshape(len(x), seen.outputs)
    if not torch.isfinite(found).all():
        raise ReconError(
            "answers to the images are not finite numbers: the network, the recipe or the transform is off"
        )
    if seen.scale == "logits":
        return found
    return torch.logit(found, eps=1e-12) if seen.outputs == 1 else found.clamp_min(1e-12).log()


def _same(given: Tensor, x: Tensor) -> bool:
    return given.flatten(1).shape == x.flatten(1).shape and torch.equal(given.flatten(1), x.flatten(1))


def _no_first(working: list[Call]) -> str:
    if not working:
        return "None of its layers is a standard one that could be watched."
    first = working[0]
    if isinstance(first.module, CONVOLUTIONS):
        return "The first layer is a convolution: its weights are no mixtures of whole images."
    if isinstance(first.module, nn.Linear):
        return "The first dense layer is not given the image itself: its weights are mixtures of something else."
    return f"The first layer is a {type(first.module).__name__}: its weights are no mixtures of whole images."


def _as_mlp(working: list[Call], answers: Tensor, x: Tensor, scale: str) -> tuple[MLP, Tensor]:
    """Dense layers with batch norm folded into them, ReLU between them, as one logit; checked on x."""
    if other := next((c for c in working if not isinstance(c.module, (nn.Linear, nn.BatchNorm1d))), None):
        raise ReconError(f"It has a {type(other.module).__name__}, and DecoReco inverts dense layers with ReLU only.")
    if answers.shape[1] > 2:
        raise ReconError(f"It has {answers.shape[1]} outputs, and DecoReco inverts the condition for one or two.")
    layers = _folded(working)
    if len(layers) < 2:
        raise ReconError("It has no hidden layer, and DecoReco inverts what hidden layers remember.")
    target = answers
    if scale == "probabilities":
        target = torch.logit(answers) if answers.shape[1] == 1 else answers.log()
    if answers.shape[1] == 2:  # softmax of two is the logistic function of their difference
        w, b = layers[-1]
        layers[-1] = (w[1:] - w[:1], None if b is None else b[1:] - b[:1])
        target = target[:, 1:] - target[:, :1]
    try:
        network = MLP((layers[0][0].shape[1], *(len(w) for w, _ in layers)), tuple(b is not None for _, b in layers))
        theta = network.flatten({n: t for k, (w, b) in enumerate(layers, 1) for n, t in ((f"w{k}", w), (f"b{k}", b))
                                 if t is not None})  # fmt: skip
        same = network(network.unflatten(theta), x.flatten(1))
    except (RuntimeError, ReconError):
        same = target[:, 0] + torch.inf
    size = target.abs().max().clamp_min(1e-12)
    if not (same - target[:, 0]).abs().max() <= 1e-3 * size:
        raise ReconError(
            "Its answers are not those of its dense layers with ReLU between them, which DecoReco inverts."
        )
    return network, theta


def _folded(working: list[Call]) -> list[tuple[Tensor, Tensor | None]]:
    """(weight, bias) of every dense layer; batch norm goes into the layer before it, if it is given what that answers,
    else into the one after it."""
    layers: list[tuple[Tensor, Tensor | None]] = []
    scale = shift = None
    last: Call | None = None
    for call in working:
        if isinstance(call.module, nn.Linear):
            w: Tensor = call.module.weight.detach()
            b: Tensor | None = None if call.module.bias is None else call.module.bias.detach()
            if scale is not None and shift is not None:
                w, b = w * scale, w @ shift + (0 if b is None else b)
                scale = shift = None
            layers.append((w, b))
        else:
            norm = call.module
            assert isinstance(norm, nn.BatchNorm1d)
            if norm.running_mean is None or norm.running_var is None:
                raise ReconError("It has batch norm without running means, which couples images.")
            s = (norm.running_var + norm.eps).rsqrt() * (1 if norm.weight is None else norm.weight.detach())
            t = (0 if norm.bias is None else norm.bias.detach()) - norm.running_mean * s
            if last is not None and isinstance(last.module, nn.Linear) and torch.equal(last.answered, call.given):
                w, b = layers[-1]
                layers[-1] = (s[:, None] * w, t + (0 if b is None else s * b))
            else:
                scale, shift = s, t
        last = call
    return layers


def first_layer_of(module: nn.Module, name: str, shape: tuple[int, ...] = ()) -> Tensor:
    """Weights (h, d) of the dense layer of this name; of a part that is no single layer, what it multiplies images of
    `shape` by."""
    layer = module.get_submodule(name)
    if isinstance(layer, nn.Linear):
        return layer.weight.detach().clone()
    rows = []
    with torch.no_grad():
        for part in torch.eye(math.prod(shape)).split(1024):
            try:
                rows.append(layer(part) - layer(torch.zeros_like(part)))
            except RuntimeError:  # it is given images and flattens them itself
                part = part.view(-1, *shape)
                rows.append(layer(part) - layer(torch.zeros_like(part)))
    return torch.cat(rows).mT.contiguous()


def start_of_layer(module: nn.Module, name: str, shape: tuple[int, ...]) -> Tensor | None:
    """Of a frozen layer with an adapter, (h, d) without the adapter: it is where training began.  None of others."""
    part = module.get_submodule(name)
    trained = {key for key, p in part.named_parameters() if p.requires_grad and p.dim() > 1}
    if isinstance(part, nn.Linear) or len(trained) == sum(p.dim() > 1 for p in part.parameters()):
        return None
    whole = copy.deepcopy(module)
    with torch.no_grad():
        for key, parameter in whole.get_submodule(name).named_parameters():
            if key in trained:
                parameter.zero_()
    return first_layer_of(whole, name, shape)


def loss_of(logits: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
    """Logistic loss of logits (n, 1), cross-entropy of (n, K), for classes (n,)."""
    if logits.shape[1] == 1:
        return F.binary_cross_entropy_with_logits(logits[:, 0], labels.to(logits), reduction=reduction)
    return F.cross_entropy(logits, labels, reduction=reduction)
