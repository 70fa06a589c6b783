"""What a network's layers are given, and hence which attacks they allow.

The module is run on random inputs of the images' shape with a hook at every layer. What a layer is
given, and not what it is called, decides: rows of weights are mixtures of images only where the
layer is given whole images.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_linear_bn_weights

from recon.errors import ReconError
from recon.nets.mlp import MLP
from recon.nets.module import Call, answers_of, is_layer, watch_layers
from recon.released import Weights

LARGE = (1.0, -100.0, 10.0, 1000.0)  # times the inputs: logits leave [0, 1]
OFTEN = 20  # that many times is asked what draws: stochastic depth changes few answers
#: weight (h, d) and bias (h,) of a dense layer
Layer = tuple[Tensor, Tensor | None]
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass(frozen=True)
class Classifier:
    """A module at work on images, and what attacks may use of it.

    Attributes:
        module: in evaluation mode.
        outputs K.
        form: of one input, as the module takes it: (C, H, W), (d,), or (C, L) of a signal.
        scale: "logits" or "probabilities".
        first: name of the dense layer that is given the whole flattened image.
        first_why_not: where there is none.
        dense: the one-logit network of dense layers and ReLU that is the same function; of two
            outputs the second minus the first.
        dense_why_not: where there is none.
    """

    module: nn.Module
    outputs: int
    form: tuple[int, ...]
    scale: str
    first: str | None
    first_why_not: str | None
    dense: Weights | None
    dense_why_not: str | None

    def as_taken(self, x: Tensor) -> Tensor:
        """Images (n, C, H, W) as the module takes them."""
        return x.reshape(len(x), *self.form)

    def of(self, module: nn.Module) -> Classifier:
        """Another module of this architecture, whose dense layers nobody has looked at."""
        return replace(self, module=module, dense=None, dense_why_not="")

    def answers(self, x: Tensor) -> Tensor:
        """Logits (n, K) of inputs x (n, C, H, W), also where the module answers probabilities, with
        their gradient.
        """
        answers = answers_of(self.module, self.as_taken(x)).reshape(len(x), self.outputs)
        return self._logits(answers, 1e-6, 1e-7)

    def logits(self, x: Tensor, batch: int = 256) -> Tensor:
        """Logits (n, K) in float64 of inputs x (n, C, H, W), on the CPU; of probabilities their
        logarithm, or logit. ReconError where they are not finite.
        """
        device = next(self.module.parameters()).device
        with torch.no_grad():
            parts = [
                answers_of(self.module, self.as_taken(part).to(device)).cpu().double()
                for part in x.split(batch)
            ]
        answers = torch.cat(parts).reshape(len(x), self.outputs)
        if not torch.isfinite(answers).all():
            raise ReconError(
                "answers to the images are not finite numbers: the network, recipe or transform is"
                " off"
            )
        return self._logits(answers, 1e-12, 1e-12)

    def _logits(self, answers: Tensor, eps: float, least: float) -> Tensor:
        if self.scale == "logits":
            return answers
        return torch.logit(answers, eps) if self.outputs == 1 else answers.clamp_min(least).log()


class Take:
    """A hook by which a module answers one tensor: that at `place` of what it answers, else the one
    called logits or out, else the first.

    Attributes:
        seen: place -> shape of the tensors (n, K) or (n,) in its last answer.
    """

    def __init__(self) -> None:
        self.place: str | None = None
        self.seen: dict[str, tuple[int, ...]] = {}

    def __call__(self, module: nn.Module, inputs: Any, answers: Any) -> Any:
        """Of the answers."""
        parts = [pair for pair in _parts(answers) if pair[1].dim() in (1, 2)]
        fits = {place: part for place, part in parts if part.is_floating_point()}
        self.seen = {place: tuple(part.shape) for place, part in fits.items()}
        usual = (place for place in fits if place.rpartition(".")[2] in ("logits", "out"))
        first = self.place if self.place in fits else next(usual, next(iter(fits), ""))
        return fits.get(first, answers)


def _parts(answers: Any, place: str = "", depth: int = 3) -> Iterator[tuple[str, Tensor]]:
    """(place, tensor) in tuples, mappings and objects."""
    if isinstance(answers, Tensor):
        yield place, answers
    elif depth:
        parts = getattr(answers, "__dict__", {})
        if isinstance(answers, tuple | list):
            parts = dict(
                zip(getattr(answers, "_fields", range(len(answers))), answers, strict=True)
            )
        for name, part in (answers if isinstance(answers, Mapping) else parts).items():
            yield from _parts(part, f"{place}.{name}".strip("."), depth - 1)


def _on_copies(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """A hook by which a module that works in place changes no image of the audit's."""
    return tuple(part.clone() if isinstance(part, Tensor) else part for part in inputs)


def places_in(module: nn.Module) -> list[str]:
    """Of what a module that was examined answers: where the classes may be."""
    seen = next(hook.seen for hook in module._forward_hooks.values() if isinstance(hook, Take))
    named = [place for place in seen if place.rpartition(".")[2] in ("logits", "out")]
    return named[:1] or [place for place, shape in seen.items() if len(shape) == 2] or list(seen)


def examine(module: nn.Module, shape: tuple[int, ...], place: str | None = None) -> Classifier:
    """Of a module in evaluation mode for images of `shape` (C, H, W), or signals (C, L); seen on
    random inputs, never on images. ReconError where it takes no such images, where its answers are
    not (n, K), and where it is no function: it draws, or answers otherwise in training mode.

    Args:
        place: of its classes in what it answers, None for what they are usually called, or the
            first.
    """
    takes = [hook for hook in module._forward_hooks.values() if isinstance(hook, Take)]
    if not takes:
        takes = [Take()]
        module.register_forward_hook(takes[0])
        module.register_forward_pre_hook(_on_copies)
    takes[0].place = takes[0].place if place is None else place
    x = torch.rand(8, *shape, generator=torch.Generator().manual_seed(0)) - 0.5
    flat, answers, calls = watch_layers(module, x)
    if not answers.is_floating_point():
        raise ReconError("the network answers whole numbers, as of classes: an audit needs logits")
    answers = answers.float().reshape(len(x), -1)
    form = (math.prod(shape),) if flat else shape
    taken = x.reshape(len(x), *form)
    scale = _scale(module, taken)
    _check_function(module, taken, answers, scale)
    working = [c for c in calls if is_layer(c.module) and ".parametrizations." not in c.name]
    first = next((c for c in calls if isinstance(c.module, nn.Linear) and _same(c.inputs, x)), None)
    first_why_not = None if first else _no_first(working)
    dense, dense_why_not = None, None
    try:
        dense = _as_dense(working, answers, x, scale)
    except ReconError as error:
        dense_why_not = str(error)
    name = first.name if first else None
    return Classifier(
        module, answers.shape[1], form, scale, name, first_why_not, dense, dense_why_not
    )


def _check_function(module: nn.Module, x: Tensor, answers: Tensor, scale: str) -> None:
    """ReconError for a module that answers the same inputs otherwise another time, or in training
    mode.
    """

    def ask() -> Tensor:
        with torch.no_grad():
            return answers_of(module, x).float().reshape(answers.shape)

    if not repeats(ask):
        raise ReconError(
            "the network gives another answer each time that it is asked, in evaluation mode too:"
            " something in it draws, such as a dropout without training=self.training"
        )
    kinds = ["", ""]
    # some want labels in training mode
    with suppress(Exception), torch.random.fork_rng(devices=[]):
        training = copy.deepcopy(module).train()
        kinds = [f"{len(answers[0])} {scale}", _kind(training, x)]
    # one logit may stay within [0, 1] by chance
    if kinds[0] != kinds[1] and kinds != ["1 logits", "1 probabilities"]:
        raise ReconError(
            f"the network answers {kinds[0]} in evaluation mode, and {kinds[1]} in training mode:"
            " an audit needs one that answers the same classes in both"
        )


def repeats(ask: Callable[[], Tensor], times: int = 2) -> bool:
    """Whether what is asked so many times more answers the same; it is asked often where numbers
    are drawn.
    """
    with torch.random.fork_rng(devices=[]):
        before = torch.get_rng_state()
        answers = ask()
        times = times if torch.equal(before, torch.get_rng_state()) else OFTEN
        near = 1e-4 * answers.nan_to_num(0, 0, 0).std().item()
        again = (ask() for _ in range(times))
        return all(torch.allclose(other, answers, 1e-3, near, equal_nan=True) for other in again)


def _kind(module: nn.Module, x: Tensor) -> str:
    """How many answers to inputs x, and of which scale."""
    return f"{answers_of(module, x).reshape(len(x), -1).shape[1]} {_scale(module, x)}"


def _scale(module: nn.Module, x: Tensor) -> str:
    """ "probabilities" where answers (n, K) to inputs x stay within [0, 1], those to larger ones,
    too; else "logits". ReconError for several probabilities that do not add up to 1: those are
    classes of which an image may have many.
    """
    with torch.no_grad():
        parts = [answers_of(module, factor * x).float().reshape(len(x), -1) for factor in LARGE]
    every = torch.cat(parts)
    if not torch.isfinite(every).all() or (every < 0).any() or (every > 1).any():
        return "logits"
    sums, outputs = every.sum(1), every.shape[1]
    if outputs > 1 and torch.allclose(sums, torch.ones_like(sums), atol=1e-4):
        return "probabilities"
    if (every == every[0, 0]).all():  # a head that starts at 0
        return "logits"
    if outputs == 1:
        return "probabilities"
    what = f"{outputs} probabilities that do not add up to 1"
    raise ReconError(f"the network answers {what}: an audit needs one class for each image")


def _same(inputs: Tensor, x: Tensor) -> bool:
    return inputs.flatten(1).shape == x.flatten(1).shape and torch.equal(
        inputs.flatten(1), x.flatten(1)
    )


def _no_first(working: list[Call]) -> str:
    if not working:
        return "None of its layers is a standard one that could be watched."
    first = working[0]
    if isinstance(first.module, nn.Conv1d | nn.Conv3d):
        kind = "signals" if isinstance(first.module, nn.Conv1d) else "volumes"
        return f"The network takes {kind}, and the attack is on images that a dense layer is given."
    if isinstance(first.module, nn.Conv2d):
        return "The first layer is a convolution: its weights are no mixtures of whole images."
    if isinstance(first.module, nn.Linear):
        return (
            "The first dense layer is not given the image itself: its weights are mixtures of"
            " something else."
        )
    return (
        f"The first layer is a {type(first.module).__name__}: its weights are no mixtures of whole"
        " images."
    )


def _as_dense(working: list[Call], answers: Tensor, x: Tensor, scale: str) -> Weights:
    """Dense layers with batch norm folded into them, ReLU between them, as one logit; checked on x.
    ReconError that says why there is none.
    """
    for call in working:
        if not isinstance(call.module, nn.Linear | nn.BatchNorm1d):
            kind = type(call.module).__name__
            raise ReconError(f"It has a {kind}, and DecoReco inverts dense layers with ReLU only.")
    outputs = answers.shape[1]
    if outputs > 2:
        raise ReconError(
            f"It has {outputs} outputs, and DecoReco inverts the condition for one or two."
        )
    layers = _fold_norms(working)
    if len(layers) < 2:
        raise ReconError(
            "It has no hidden layer, and DecoReco inverts what hidden layers remember."
        )
    logits = answers
    if scale == "probabilities":
        logits = torch.logit(answers) if outputs == 1 else answers.log()
    if outputs == 2:  # softmax of two is the logistic function of their difference
        w, b = layers[-1]
        layers[-1] = (w[1:] - w[:1], None if b is None else b[1:] - b[:1])
        logits = logits[:, 1:] - logits[:, :1]
    logits = logits[:, 0]
    try:
        dense = _network_of(layers)
        same = dense.network(dense.params, x.flatten(1))
    except (RuntimeError, ReconError):
        same = logits + torch.inf
    if not (same - logits).abs().max() <= 1e-3 * logits.abs().max().clamp_min(1e-12):
        raise ReconError(
            "Its answers are not those of its dense layers with ReLU, which DecoReco inverts."
        )
    return dense


def _network_of(layers: Sequence[Layer]) -> Weights:
    """Dense layers with ReLU between them, as attacks are given them."""
    widths = (layers[0][0].shape[1], *(len(w) for w, _ in layers))
    network = MLP(widths, tuple(b is not None for _, b in layers))
    theta = {}
    for (weight, bias), (w, b) in zip(network.names, layers, strict=True):
        theta[weight] = w
        if bias is not None and b is not None:
            theta[bias] = b
    return Weights(network, network.flatten(theta))


def _fold_norms(working: list[Call]) -> list[Layer]:
    """Of every dense layer, with the batch norm in it that is given what the layer answers."""
    layers: list[Layer] = []
    last: Call | None = None
    for call in working:
        norm = call.module
        if isinstance(norm, nn.Linear):
            layers.append((norm.weight.detach(), None if norm.bias is None else norm.bias.detach()))
        else:
            assert isinstance(norm, nn.BatchNorm1d)
            if last is None or not torch.equal(last.outputs, call.inputs):
                raise ReconError(
                    "It has batch norm that does not follow a dense layer, into which it could be"
                    " folded."
                )
            mean, spread = norm.running_mean, norm.running_var
            if mean is None or spread is None:
                raise ReconError("It has batch norm without running means, which couples images.")
            scale = torch.ones_like(mean) if norm.weight is None else norm.weight
            shift = torch.zeros_like(mean) if norm.bias is None else norm.bias
            w, b = fuse_linear_bn_weights(*layers[-1], mean, spread, norm.eps, scale, shift)
            layers[-1] = (w.detach(), b.detach())
        last = call
    return layers


def first_layer_of(classifier: Classifier, start: nn.Module | None) -> Weights | None:
    """The dense layer that is given whole images, as a network of its own; None where there is
    none.

    Args:
        start: the module before training, as far as it is known.
    """
    if classifier.first is None:
        return None
    w1 = _weight(classifier.module, classifier.first)
    network = MLP((w1.shape[1], len(w1)), (False,))
    w1_init = None if start is None else network.flatten({"w1": _weight(start, classifier.first)})
    return Weights(network, network.flatten({"w1": w1}), w1_init)


def _weight(module: nn.Module, name: str) -> Tensor:
    weight = module.get_submodule(name).weight
    assert isinstance(weight, Tensor)
    return weight.detach()
