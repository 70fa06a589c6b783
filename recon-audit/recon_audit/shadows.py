"""Shadow networks: the same architecture trained in the same way on images that we choose, so that
we know the truth.

Membership inference compares the audited network with them; and attacked themselves, as canaries,
they tell what the attacks would have found. Each pair is trained on the two halves of one random
split of all groups of images, training and held out together. The split does not ask who is a
member, so every image is in exactly half.

Numbers of a shadow are rounded as the audited network's are (`rounding_of`).
"""

from __future__ import annotations

import copy
import math
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW

from recon.attacks.multipliers import confidence
from recon.errors import ReconError, one_reason
from recon.optim.rng import named
from recon.training.recipes import loss_of
from recon_audit.anatomy import Classifier
from recon_audit.fine_tunes import Start
from recon_audit.words import say

OPTIMISERS: dict[str, Any] = {"adam": Adam, "adamw": AdamW, "sgd": SGD}
LOW_RANK = re.compile(r"lora_?b\b|lora_up\b", re.IGNORECASE)
LOWEST_LOSS = 1e-7  # an inferred recipe trains no further: below it float32 answers do not change
# of ordinary recipes: times the fewest steps that one took; a distance at which no more are tried
SLOWER, ALIKE = 5, 0.02
FAR = 1e6  # more than any distance, where the loss is not reached
LEVELS = 128.5  # whole numbers by which weights of 8 bits are kept, with either sign


@dataclass(frozen=True)
class Recipe:
    """How the audited network was trained, as far as shadows copy it.

    No augmentation.

    Attributes:
        optimiser: "adam" (weight decay coupled, L2), "adamw" or "sgd" with `momentum`.
        batch: images a step, None for all.
        steps: at most.
        target_loss: mean loss in evaluation mode at which training ends, None for all the steps.
        weight_decay.
        first_scale: the first layer's start is PyTorch's times this.
    """

    optimiser: str = "adam"
    lr: float = 1e-3
    batch: int | None = 64
    steps: int = 2000
    target_loss: float | None = None
    weight_decay: float = 0.0
    momentum: float = 0.9
    first_scale: float = 1.0

    def __post_init__(self) -> None:
        least = min(self.steps, 1 if self.batch is None else self.batch)
        positive = self.lr > 0 and least >= 1 and self.weight_decay >= 0
        if self.optimiser not in OPTIMISERS or not positive:
            raise ReconError(
                f"a recipe needs an optimiser of {', '.join(OPTIMISERS)}, a positive step size,"
                " number of steps and batch, and no negative weight decay"
            )

    @property
    def words(self) -> str:
        """For the report."""
        return say("recipe", self)


@dataclass(frozen=True)
class Shadows:
    """
    Attributes:
        classifiers: the first of them, in evaluation mode: the others are let go as soon as they
            have answered.
        inside (k, N) bool: which of all N images each was trained on.
        phi (k, N) float64: their confidences in the images' classes.
        loss (k,): mean over the images of each.
    """

    classifiers: list[Classifier]
    inside: Tensor
    phi: Tensor
    loss: Tensor

    def __len__(self) -> int:
        return len(self.phi)


def train_shadows(
    classifier: Classifier,
    x: Tensor,
    y: Tensor,
    recipe: Recipe,
    count: int,
    seed: int,
    start: Start | None = None,
    keep: int = 1000,
    groups: Tensor | None = None,
    until: float = math.inf,
) -> Shadows:
    """`count` networks, in pairs, on halves of inputs x (N, C, H, W) with classes y (N,).

    Args:
        start: the audited network's own, where it is known; shadows start with tensors as spread
            out as its are.
        keep: how many modules are kept.
        groups (N,): numbers of groups, which go as one; by default every image is one.
        until: a time of `time.monotonic`; pairs that would end later are not begun, but for the
            first.
    """
    groups = torch.arange(len(x)) if groups is None else groups
    began = time.monotonic()
    classifier.logits(x)
    asking = time.monotonic() - began  # of one network, once it is trained
    classifiers, rows = [], []
    for k in range(count):
        now = time.monotonic()
        if k and k % 2 == 0 and now + 2 * (now - began) / k > until:
            break
        told = f" ({now - began:.0f} s of about {(now - began) / k * count:.0f})" if k else ""
        tell(f"shadow network {k + 1} of {count}{told}")
        members = half_of(groups, named(seed, "audit.halves", k // 2)) != bool(k % 2)
        end = now + (until - now) / (2 - k % 2) - asking
        net = train_network(
            classifier, x[members], y[members], recipe, named(seed, "audit.shadow", k), start, end
        )
        logits = net.logits(x)
        rows.append((members, confidence(logits, y), loss_of(logits[members], y[members])))
        classifiers += [net] * (k < keep)
    return Shadows(classifiers, *map(torch.stack, zip(*rows, strict=True)))


def half_of(groups: Tensor, generator: torch.Generator) -> Tensor:
    """(N,) bool: which images are of a random half of the groups (N,)."""
    size = int(groups.max()) + 1
    return (torch.randperm(size, generator=generator) < size // 2)[groups]


def tell(words: str) -> None:
    """To stderr and at once, also where that is no terminal."""
    with suppress(OSError):
        print(f"recon audit: {words}", file=sys.stderr, flush=True)


def train_network(
    classifier: Classifier,
    x: Tensor,
    y: Tensor,
    recipe: Recipe,
    generator: torch.Generator,
    start: Start | None = None,
    until: float = math.inf,
    taken: list[int] | None = None,
) -> Classifier:
    """A network of this architecture from a fresh start, trained by the recipe; on the device of
    the classifier. ReconError where it diverges.

    Args:
        until: a time of `time.monotonic` at which training ends.
        taken: where the number of steps is put.
    """
    device = next(classifier.module.parameters()).device
    net = fresh(classifier.module, recipe, generator, start).to(device)
    trained, x, y = classifier.of(net), x.to(device), y.to(device)
    momentum = {"momentum": recipe.momentum} if recipe.optimiser == "sgd" else {}
    optimiser = OPTIMISERS[recipe.optimiser](
        net.parameters(), recipe.lr, weight_decay=recipe.weight_decay, **momentum
    )
    batch = min(recipe.batch or len(x), len(x))
    order = torch.Generator().manual_seed(generator.initial_seed())
    rows: list[Tensor] = []
    step, near = 0, False
    with draw_from(generator), one_reason("a shadow network cannot be trained"):
        _train(net)
        for step in range(recipe.steps):
            # once a pass: a few steps of Adam can halve the loss
            if recipe.target_loss is not None and step % math.ceil(len(x) / batch) == 0:
                net.eval()
                near = loss_of(trained.logits(x), y.cpu()).item() <= recipe.target_loss
                _train(net)
            if near or time.monotonic() > until:
                break
            if not rows:  # each pass in a new order, what is left over at its end is dropped
                whole = torch.randperm(len(x), generator=order)[: len(x) - len(x) % batch]
                rows = list(whole.to(device).split(batch))
            few = rows.pop(0)
            optimiser.zero_grad()
            loss_of(trained.answers(x[few]), y[few]).backward()
            optimiser.step()
    if taken is not None:
        taken.append(step)
    net.eval()
    with torch.no_grad():
        for p, q in zip(net.parameters(), classifier.module.parameters(), strict=True):
            if p.requires_grad and p.dim() > 1:
                p.copy_(rounding_of(q.detach())(p))
    # weights that are computed from others are made without a gradient, and can be copied
    trained.logits(x[:2])
    return trained


def fresh(
    module: nn.Module, recipe: Recipe, generator: torch.Generator, start: Start | None = None
) -> nn.Module:
    """A copy as training may have begun. What was frozen (needs no gradient) stays; what is public
    is as it was; every other part resets its parameters; those that no part resets are drawn as
    spread out as they were.
    """
    net = copy.deepcopy(module).cpu()
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    state = {} if start is None else start.module.state_dict()
    public = set() if start is None else start.public
    first = next((n for n, p in net.named_parameters() if p.requires_grad), "").rpartition(".")[0]
    with draw_from(generator), torch.no_grad():
        for part in net.modules():
            learns = [p.requires_grad for p in part.parameters()]
            if any(learns) or not learns:
                with suppress(Exception):  # there is none, or a stranger's that wants arguments
                    getattr(part, "reset_parameters")()  # noqa: B009
        for name, p in net.named_parameters():
            if not p.requires_grad:
                p.copy_(before[name])
                continue
            if LOW_RANK.search(name):  # the second factor of an adapter begins at 0
                p.zero_()
            elif torch.equal(p, before[name]) and p.numel() > 1:
                p.copy_(p.mean() + p.std() * torch.randn(p.shape, generator=generator))
            if name in state and name not in public and p.numel() > 1 and p.std() > 0:
                p.mul_(state[name].cpu().float().std() / p.std())
            # its biases, too: else they outweigh the weights
            elif start is None and name.rpartition(".")[0] == first:
                p.mul_(recipe.first_scale)
        if public:
            net.load_state_dict({name: state[name] for name in public}, strict=False)
    return net


def _train(net: nn.Module) -> None:
    """Training mode, but for parts that are frozen: their running means are those of what they were
    trained on.
    """
    net.train()
    for part in net.modules():
        learns = [p.requires_grad for p in part.parameters(recurse=False)]
        if learns and not any(learns):
            part.eval()


@contextmanager
def draw_from(generator: torch.Generator) -> Iterator[None]:
    """What PyTorch draws on the CPU without being given a generator (starts, dropout) is drawn from
    this one; the state of the global generator is put back.
    """
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(generator.get_state())
        yield
        generator.set_state(torch.get_rng_state())


def rounding_of(value: Tensor) -> Callable[[Tensor], Tensor]:
    """How the numbers of a matrix are rounded: to bfloat16 or float16, to whole numbers of 8 bits
    or fewer times a step of the matrix or of each row, or not at all.
    """
    for kind in (torch.bfloat16, torch.float16):
        if value.any() and torch.equal(value.to(kind).to(value), value):
            return lambda x, kind=kind: x.to(kind).to(x)  # type: ignore[misc]
    for count in (1, len(value)):
        rows = value.reshape(count, -1)
        size, gaps = rows.abs().amax(1, keepdim=True), rows.sort(1).values.diff(dim=1)
        step = gaps.where(gaps > 1e-5 * size, torch.inf).amin(1, keepdim=True)
        levels, whole = size / step, rows / step
        near = (whole - whole.round()).abs().max() < 0.01
        if near and levels.min() > 0 and levels.max() <= LEVELS:
            return partial(_to_levels, levels)
    return lambda x: x


def _to_levels(levels: Tensor, x: Tensor) -> Tensor:
    rows = x.reshape(len(levels), -1)
    scale = rows.abs().amax(1, keepdim=True).clamp_min(1e-12) / levels
    return ((rows / scale).round() * scale).view_as(x)


# ----------------------------------------------------------------------------------------- inferred

ORDINARY = (
    Recipe(),
    Recipe(weight_decay=1e-3),
    Recipe("sgd", 3e-2),
    Recipe("sgd", 3e-2, weight_decay=5e-3),
    Recipe(first_scale=0.01),
)


def infer_recipe(
    classifier: Classifier,
    x: Tensor,
    y: Tensor,
    n: int,
    seed: int,
    start: Start | None,
    groups: Tensor,
    until: float = math.inf,
) -> Recipe:
    """A recipe for a network of which none is known: of a few ordinary ones, that whose network
    ends with weights of the most similar size.

    x (N, C, H, W), y (N,): all images, the n training images first. Every candidate is trained on a
    random half of the groups to the audited network's loss on its training images; sizes are
    compared by the mean of |log ‖W‖ / ‖W*‖| over its matrices. Candidates that do not reach twice
    that loss come last. No more are tried once the sizes are `ALIKE`, nor after `until`; each has
    at most `SLOWER` times the steps that the quickest took: weight decay can hold a loss far above
    the goal, and large networks take long.
    """
    goal = max(loss_of(classifier.logits(x[:n]), y[:n]).item() * 1.05, LOWEST_LOSS)
    half = half_of(groups, named(seed, "audit.pilot"))
    # a dense first layer may have begun with a tiny one
    tried = ORDINARY if start is None and classifier.first is not None else ORDINARY[:-1]
    taken, ended = list[int](), dict[Recipe, float]()
    for k, how in enumerate(tried, 1):
        if ended and (time.monotonic() > until or min(ended.values()) <= ALIKE):
            break
        recipe = replace(how, target_loss=goal)
        tell(f"ordinary recipe {k} of {len(tried)}: {recipe.words}")
        few = replace(recipe, steps=min([how.steps, *(SLOWER * max(t, 1) for t in taken)]))
        with suppress(ReconError):  # it may diverge
            drawn = named(seed, "audit.pilot", k)
            net = train_network(classifier, x[half], y[half], few, drawn, start, until, taken)
            far = loss_of(net.logits(x[half]), y[half]).item() > 2 * goal
            ended[recipe] = _distance(net.module, classifier.module, start) + FAR * far
    if not ended:
        raise ReconError(
            "no ordinary recipe trains a network of this architecture on these images: give one"
            " (recipe=)"
        )
    return min(ended, key=ended.__getitem__)


def _distance(a: nn.Module, b: nn.Module, start: Start | None = None) -> float:
    """Mean |log ‖W‖ / ‖W*‖| over trained matrices, of what a public start was moved by where that
    is known.
    """
    began = {} if start is None else start.module.state_dict()
    public = set() if start is None else start.public
    apart = []
    for (name, p), q in zip(a.named_parameters(), b.parameters(), strict=True):
        if p.dim() > 1 and q.requires_grad:
            at = began[name].to(p) if name in public else 0.0
            moved, theirs = ((matrix - at).norm().clamp_min(1e-12) for matrix in (p, q))
            apart.append((moved / theirs).log().abs().item())
    return sum(apart) / max(len(apart), 1)
