"""What a network's layers are given, and hence which attacks they allow.

The module is run on random inputs of the images' shape with a hook at every layer. What a layer is
given, and not what it is called, decides: rows of weights are mixtures of images only where the
layer is given whole images.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from recon.errors import ReconError
from recon.nets.mlp import MLP
from recon.nets.module import answers_of, watch_layers
from recon.nets.network import Shape
from recon.released import Weights

LARGE = (1.0, -100.0, 10.0, 1000.0)  # times the inputs: logits leave [0, 1]
OFTEN = 20  # that many times is asked what draws: stochastic depth changes few answers
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass(frozen=True)
class Classifier:
    """A module at work on images, and what attacks may use of it.

    Attributes:
        module: in evaluation mode.
        outputs K.
        form: of one input, as the module takes it: (C, H, W), (d,), or (C, L) of a signal.
        scale: "logits" or "probabilities".
        first: name of the dense layer that is given the whole flattened image, None without one.
        places: where its classes may be in what it answers.
    """

    module: nn.Module
    outputs: int
    form: Shape
    scale: str
    first: str | None
    places: list[str]

    def as_taken(self, x: Tensor) -> Tensor:
        """Images (n, C, H, W) as the module takes them."""
        return x.reshape(len(x), *self.form)

    def of(self, module: nn.Module) -> Classifier:
        """Another module of this architecture."""
        return replace(self, module=module)

    def answers(self, x: Tensor) -> Tensor:
        """Logits (n, K) of inputs x (n, C, H, W), also where the module answers probabilities, with
        their gradient.
        """
        return self.as_logits(answers_of(self.module, self.as_taken(x)))

    def logits(self, x: Tensor) -> Tensor:
        """Logits (n, K) in float64 of inputs x (n, C, H, W), on the CPU; of probabilities their
        logarithm, or logit. ReconError where they are not finite.
        """
        device = next(self.module.parameters()).device
        with torch.no_grad():
            answers = torch.cat(
                [
                    answers_of(self.module, self.as_taken(part).to(device)).cpu().double()
                    for part in x.split(256)
                ]
            )
        logits = self.as_logits(answers, 1e-12)
        if not torch.isfinite(logits).all():
            raise ReconError(
                "answers to the images are not finite numbers: the network, recipe or transform is"
                " off"
            )
        return logits

    def as_logits(self, answers: Tensor, least: float = 1e-6) -> Tensor:
        """Logits (n, K) of what the module answers, probabilities no smaller than `least`."""
        answers = answers.reshape(len(answers), self.outputs)
        if self.scale == "logits":
            return answers
        return torch.logit(answers, least) if self.outputs == 1 else answers.clamp_min(least).log()


class Take:
    """A hook by which a module answers one tensor: that at `place` of what it answers, else the one
    called logits or out, else the first.

    Attributes:
        places: where the classes may be in its last answer: as they are usually called, or all (n,
            K), or all (n,).
    """

    def __init__(self) -> None:
        self.place: str | None = None
        self.places: list[str] = []

    def __call__(self, module: nn.Module, inputs: Any, answers: Any) -> Any:
        """Of the answers."""
        fits = {
            place: part
            for place, part in _parts(answers)
            if part.dim() in (1, 2) and part.is_floating_point()
        }
        named = [place for place in fits if place.rpartition(".")[2] in ("logits", "out")]
        self.places = named[:1] or [p for p in fits if fits[p].dim() == 2] or [*fits]
        place = self.place if self.place in fits else next(iter(self.places), "")
        return fits.get(place, answers)


def _parts(answers: Any, place: str = "", depth: int = 3) -> Iterator[tuple[str, Tensor]]:
    """(place, tensor) in tuples, mappings and objects."""
    if isinstance(answers, Tensor):
        yield place, answers
    elif depth:
        if isinstance(answers, tuple | list):
            answers = dict(enumerate(answers))
        parts = answers if isinstance(answers, Mapping) else getattr(answers, "__dict__", {})
        for name, part in parts.items():
            yield from _parts(part, f"{place}.{name}".strip("."), depth - 1)


def _on_copies(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """A hook by which a module that works in place changes no image of the audit's."""
    return tuple(part.clone() if isinstance(part, Tensor) else part for part in inputs)


def examine(module: nn.Module, shape: Shape, place: str | None = None) -> Classifier:
    """Of a module in evaluation mode for images of `shape` (C, H, W), or signals (C, L); seen on
    random inputs, never on images. ReconError where it takes no such images, where its answers are
    not (n, K), and where it is no function: it draws, or answers otherwise in training mode.

    Args:
        place: of its classes in what it answers, None for what they are usually called, or the
            first.
    """
    take = next((hook for hook in module._forward_hooks.values() if isinstance(hook, Take)), None)
    if take is None:
        take = Take()
        module.register_forward_hook(take)
        module.register_forward_pre_hook(_on_copies)
    take.place = take.place if place is None else place
    x = torch.rand(8, *shape, generator=torch.Generator().manual_seed(0)) - 0.5
    flat, answers, calls = watch_layers(module, x)
    if not answers.is_floating_point():
        raise ReconError("the network answers whole numbers, as of classes: an audit needs logits")
    answers = answers.float().reshape(len(x), -1)
    form = (math.prod(shape),) if flat else shape
    taken = x.reshape(len(x), *form)
    scale = _scale(module, taken)
    _check_function(module, taken, answers, scale)
    dense = [call for call in calls if isinstance(call.module, nn.Linear)]
    whole = (c.name for c in dense if torch.equal(c.inputs.flatten(1), x.flatten(1)))
    return Classifier(
        module=module,
        outputs=answers.shape[1],
        form=form,
        scale=scale,
        first=next(whole, None),
        places=take.places,
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
    training = evaluation = f"{answers.shape[1]} {scale}"
    # some want labels in training mode
    with suppress(Exception), torch.random.fork_rng(devices=[]):
        other = copy.deepcopy(module).train()
        outputs = answers_of(other, x).reshape(len(x), -1).shape[1]
        training = f"{outputs} {_scale(other, x)}"
    # one logit may stay within [0, 1] by chance
    by_chance = (evaluation, training) == ("1 logits", "1 probabilities")
    if training != evaluation and not by_chance:
        raise ReconError(
            f"the network answers {evaluation} in evaluation mode, and {training} in training mode:"
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
        return all(torch.allclose(ask(), answers, 1e-3, near, equal_nan=True) for _ in range(times))


def _scale(module: nn.Module, x: Tensor) -> str:
    """ "probabilities" where answers (n, K) to inputs x stay within [0, 1], those to larger ones,
    too; else "logits". ReconError for several probabilities that do not add up to 1: those are
    classes of which an image may have many.
    """
    with torch.no_grad():
        every = torch.cat(
            [answers_of(module, factor * x).float().reshape(len(x), -1) for factor in LARGE]
        )
    if not ((every >= 0) & (every <= 1)).all():
        return "logits"
    outputs = every.shape[1]
    if outputs > 1 and (every.sum(1) - 1).abs().max() < 1e-4:
        return "probabilities"
    if (every == every[0, 0]).all():  # a head that starts at 0
        return "logits"
    if outputs == 1:
        return "probabilities"
    raise ReconError(
        f"the network answers {outputs} probabilities that do not add up to 1: an audit needs one"
        " class for each image"
    )


def inputs_of(module: nn.Module, name: str, x: Tensor) -> Tensor:
    """What the layer of that name is given of inputs x (n, ...)."""
    return torch.cat(
        [
            call.inputs
            for rows in x.split(64)
            for call in watch_layers(module, rows)[2]
            if call.name == name
        ]
    ).float()


def first_layer_of(classifier: Classifier, start: nn.Module | None) -> Weights | None:
    """The dense layer that is given whole images, as a network of its own; None where there is
    none.

    Args:
        start: the module before training, as far as it is known.
    """
    if classifier.first is None:
        return None
    modules: list[Any] = [classifier.module] if start is None else [classifier.module, start]
    known = [part.get_submodule(classifier.first).weight.detach() for part in modules]
    height, width = known[0].shape
    return Weights(MLP((width, height), (False,)), *(w.flatten() for w in known))
