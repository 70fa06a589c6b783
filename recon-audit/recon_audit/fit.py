"""Does the network fit these images and labels, as the audit reads them?

A network that was trained on them answers most of them as their labels say. Where it does not,
labels, scale or mean are read otherwise than in training, and whatever an audit says about such
images is about something else. So other readings are tried: pixels times 255 or over it, means and
deviations that are in use, labels shifted by one, and each label as another output.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from scipy.optimize import linear_sum_assignment
from scipy.stats import binom
from sklearn.metrics import confusion_matrix
from torch import Tensor, nn

from recon.attacks.multipliers import confidence
from recon.errors import ReconError, one_reason
from recon.training.recipes import loss_of
from recon_audit.anatomy import Classifier
from recon_audit.images import Images

CHANCE = 0.01  # a share of right answers with a larger p is one that chance explains
MOST_READ = 2000  # of a large set: a share of right answers is known well enough from so many
ERRORS = 3  # standard errors by which another reading must fit better
# what another order of the labels must reach, and gain: many orders are tried
RELABELLED, GAIN = 0.5, 0.3
# a share of a loss, and a loss below which it says nothing of the activations
MUCH, LITTLE = 0.25, 0.01
# of the smallest margin over the mean one: what training saw had the largest on 39 of 40 networks
# tried
GAP = 0.1
# floats beyond it are hardly normalised: they may have to be divided, and the report says so
BRIGHT = 16
#: colours -> mean and deviation in use
KNOWN: dict[int, dict[str, tuple[tuple[float, ...], ...]]] = {
    1: {"MNIST": ((0.1307,), (0.3081,))},
    3: {
        "ImageNet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        "CIFAR-10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    },
}
MEANS = {
    "image": "the mean of the training images",
    "channel": "the mean colour of the training images",
    "none": "nothing",
}


@dataclass(frozen=True)
class Transform:
    """What training did to pixels: (x − mean) / std, or `function`.

    Attributes:
        mean, std: (C, H, W) or what broadcasts to it.
        words: for the report.
    """

    words: str
    mean: Tensor = torch.tensor(0.0)
    std: Tensor = torch.tensor(1.0)
    function: Callable[[Tensor], Tensor] | None = None

    def __call__(self, x: Tensor) -> Tensor:
        """Inputs of the network (n, C, H, W) for pixels (n, C, H, W)."""
        if self.function is None:
            return (x - self.mean) / self.std
        with one_reason(f"the transform fails on images of shape {tuple(x.shape)}"):
            inputs = self.function(x.clone())
        if (
            not isinstance(inputs, Tensor)
            or inputs.shape != x.shape
            or not torch.isfinite(inputs).all()
        ):
            raise ReconError(
                "the transform must return finite images of the shape that it is given"
            )
        return inputs.float()

    def back(self, x: Tensor) -> Tensor:
        """Pixels of inputs; of a `function`, whose inverse nobody knows, the inputs themselves."""
        return x if self.function is not None else x * self.std + self.mean


def transform_of(way: Any, train: Images, classifier: Classifier, y: Tensor | None) -> Transform:
    """
    Args:
        way: None or "auto", inferred (`infer_transform`) · "image", "channel", "none": training
            subtracted its mean image, its mean colour, or nothing · a pair (mean, std) · a function
            of (n, C, H, W).
    """
    if way is None or (isinstance(way, str) and way == "auto"):
        return infer_transform(classifier, train, y)
    if isinstance(way, str):
        if way not in MEANS:
            raise ReconError(f"unknown mean '{way}': choose one of {', '.join(MEANS)}")
        return Transform(MEANS[way], mean_image(train, way))
    if isinstance(way, tuple | list) and len(way) == 2:
        with one_reason(f"transform must be a pair (mean, std) for images of shape {train.shape}"):
            mean, std = (torch.as_tensor(part, dtype=torch.float32) for part in way)
            mean, std = (part.view(-1, 1, 1) if part.dim() < 2 else part for part in (mean, std))
            mean, std = mean.expand(train.shape), std.expand(train.shape)
        if not (torch.isfinite(mean).all() and torch.isfinite(std).all() and (std > 0).all()):
            raise ReconError("transform must be a finite mean and a positive std")
        return Transform("mean and standard deviation as given", mean, std)
    if callable(way):
        return Transform("a function as given", function=way)
    raise ReconError(
        f"transform must be one of {', '.join(MEANS)}, a pair (mean, std) or a function, not"
        f" {way!r}"
    )


def mean_image(train: Images, kind: str) -> Tensor:
    """What training subtracted from every image, (C, H, W): a kind of `MEANS`."""
    mean = train.scaled.mean(0)
    if kind == "none":
        return torch.zeros_like(mean)
    return mean if kind == "image" else mean.flatten(1).mean(1)[:, None, None].expand_as(mean)


# ---------------------------------------------------------------------------------------------- fit


@dataclass(frozen=True)
class Reading:
    """One way to read images and labels.

    Attributes:
        words: for the report.
        right: images answered as their labels say.
        sharpness: by which ways with equally many are told apart, the smaller the better: where all
            are right minus the smallest margin over the mean one, which training makes large; else
            the mean cross-entropy of logits brought to one scale.
    """

    words: str
    right: int
    sharpness: float


@dataclass(frozen=True)
class Fit:
    """
    Attributes:
        right of n training images (`MOST_READ` at most), loss: as read.
        chance: share of the most frequent label.
        better: readings that fit better, the best first.
        sharper: one by which all are right, too, with margins that are more alike (`GAP`), in a
            sentence: "" where there is none.
    """

    n: int
    right: int
    loss: float
    chance: float
    better: tuple[Reading, ...]
    sharper: str

    @property
    def why_not(self) -> str | None:
        """Why the audit cannot speak of membership; None where the network fits what is read."""
        by_chance = self.right < self.n and binom.sf(self.right - 1, self.n, self.chance) > CHANCE
        if not by_chance and not self.better:
            return None
        right = f"{self.right} of {self.n} training images"
        sentence = f"the network answers {right} as their labels say (loss {self.loss:.2g})"
        if by_chance:
            sentence += (
                f", no more than chance explains ({self.chance:.0%} have the most frequent label)"
            )
        if self.better:
            return sentence + "".join(
                f", and {reading.right} {reading.words}" for reading in self.better[:2]
            )
        return (
            f"{sentence}: the labels are numbered otherwise than the outputs, the pixels have"
            " another scale, or training subtracted or divided by something else"
        )


def fit_of(
    classifier: Classifier,
    train: Images,
    transform: Transform,
    y: Tensor,
    assumed: bool = False,
) -> Fit:
    """
    Args:
        y: classes (n,) of the training images, in 0 … K − 1.
        assumed: whether the activations are, see `Subject`.
    """
    part, y = _sample(train, y)
    n = len(y)
    logits = classifier.logits(transform(part))
    plain, loss = _read("", logits, y)
    enough = plain.right + _error(plain.right, n)
    ways = [way for way in _transforms(train) if way.words not in transform.words]
    tried = _other_readings(classifier, part, ways, logits)
    others = [_read(words, at, y)[0] for words, at in tried]
    better = [reading for reading in others if reading.right > enough]
    for kind in (nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.LeakyReLU) if assumed else ():
        at = _with_activation(kind, classifier).logits(transform(part))
        read, other = _read(f"with {kind.__name__} in the place of ReLU", at, y)
        # as many with a fraction of the loss: training ends where its own activation makes the loss
        # small
        smaller = loss > LITTLE and other < MUCH * loss and read.right >= plain.right
        better += [read] if smaller or read.right > enough else []
    better += _relabel(logits, y, plain.right)
    better.sort(key=lambda reading: -reading.right)
    best = min(
        (reading for reading in others if reading.right == n),
        key=lambda reading: reading.sharpness,
        default=plain,
    )
    sharper = ""
    if plain.right == n and best.sharpness <= plain.sharpness - GAP:
        sharper = (
            f"all {n} training images are answered as their labels say, but their margins are more"
            f" alike {best.words} (the smallest over the mean: {-best.sharpness:.2f}, and"
            f" {-plain.sharpness:.2f} as read): training may have done that to them"
        )
    return Fit(n, plain.right, loss, y.bincount().max().item() / n, tuple(better), sharper)


def infer_transform(classifier: Classifier, train: Images, y: Tensor | None) -> Transform:
    """What training did to pixels, of the ways in use: that by which most training images are
    answered as their labels say, and of those that answer as many, within the error, the one whose
    answers are sharpest.

    Without labels nothing is subtracted, and `words` says that this was assumed.
    """
    ways = _transforms(train)
    if y is None:
        assumed = "nothing (assumed: without labels it cannot be inferred; say it with --mean)"
        return replace(ways[0], words=assumed)
    read = []
    part, y = _sample(train, y)
    for way in ways:
        with suppress(ReconError):  # answers that are not finite
            read.append((_read(way.words, classifier.logits(way(part)), y)[0], way))
    if not read:
        return ways[0]
    most = max(reading.right for reading, _ in read)
    near = [(reading, way) for reading, way in read if reading.right >= most - _error(most, len(y))]
    best, way = min(near, key=lambda pair: pair[0].sharpness)
    plain = read[0][0]
    words = f"inferred: {best.right} of {len(y)} training images are answered as their labels say"
    words += "" if best is plain else f", and {plain.right} of plain pixels"
    top = train.scaled.max().item()
    words += f"; the pixels go up to {top:.0f} and were read so" if top > BRIGHT else ""
    return replace(way, words=f"{way.words} ({words})")


def _sample(train: Images, y: Tensor) -> tuple[Tensor, Tensor]:
    """Pixels and classes of at most `MOST_READ` images, spread over all of them."""
    rows = list(range(0, len(train), -(-len(train) // MOST_READ)))
    return train.scaled[rows], y[rows]


def _transforms(train: Images) -> list[Transform]:
    """Ways in use, plain pixels first."""
    x, shape, half = train.scaled, train.shape, torch.tensor(0.5)
    mean, colour = mean_image(train, "image"), mean_image(train, "channel")
    ways = [Transform("nothing"), Transform(MEANS["image"], mean)]
    if shape[0] > 1:
        ways.append(Transform(MEANS["channel"], colour))
    ways.append(Transform("0.5, over 0.5", half, half))
    for name, pair in KNOWN.get(shape[0], {}).items():
        usual, deviation = (torch.tensor(numbers).view(-1, 1, 1) for numbers in pair)
        ways.append(Transform(f"{name}'s mean, over its deviation", usual, deviation))
    spread = x.std((0, 2, 3)).clamp_min(1e-6).view(-1, 1, 1)
    ways.append(Transform(f"{MEANS['channel']}, over its deviation", colour, spread))
    if shape[:2] == (1, 1):  # rows of numbers, each in a unit of its own
        deviation = x.std(0)
        deviation = torch.where(deviation > 1e-6, deviation, 1.0)
        ways.append(Transform("the mean of each number, over its deviation", mean, deviation))
    low, high = x.min(), x.max()
    if low < 0 or high > BRIGHT:
        ways.append(Transform("their smallest number, over their range", low, high - low))
    return ways


def _other_readings(
    classifier: Classifier, x: Tensor, ways: list[Transform], logits: Tensor
) -> Iterator[tuple[str, Tensor]]:
    """Other readings of the pixels x (n, C, H, W), and labels shifted by one, in words, with the
    logits.
    """
    tried = [(f"with the pixels minus {way.words}", way(x)) for way in ways]
    tried += [("with the pixels times 255", x * 255), ("with the pixels over 255", x / 255)]
    tried += [("with red and blue exchanged", x.flip(1))] if x.shape[1] == 3 else []
    tried += [("with rows and columns exchanged", x.mT)] if 1 < x.shape[2] == x.shape[3] else []
    tried += [("with dark and bright exchanged", 1 - x)] if x.min() >= 0 and x.max() <= 1 else []
    for words, pixels in tried:
        with suppress(ReconError):  # answers that are not finite
            yield words, classifier.logits(pixels)
    if logits.shape[1] > 2:
        yield "with the labels one higher", logits.roll(-1, 1)
        yield "with the labels one lower", logits.roll(1, 1)


def _with_activation(kind: type[nn.Module], classifier: Classifier) -> Classifier:
    """A copy with another activation in the place of ReLU."""
    other = copy.deepcopy(classifier.module)
    for part in list(other.modules()):
        for name, child in list(part.named_children()):
            if isinstance(child, nn.ReLU):
                setattr(part, name, kind())
    return classifier.of(other)


def _relabel(logits: Tensor, y: Tensor, right: int) -> list[Reading]:
    """The assignment of labels to outputs that fits best, if it fits much better."""
    outputs = logits.shape[1]
    if outputs < 3:
        return []
    counts = confusion_matrix(y.numpy(), logits.argmax(1).numpy(), labels=range(outputs))
    rows, columns = linear_sum_assignment(counts, maximize=True)
    matched = int(counts[rows, columns].sum())
    if matched < RELABELLED * len(y) or matched < right + GAIN * len(y):
        return []
    moved = [
        (int(r), int(c)) for r, c in zip(rows, columns, strict=True) if r != c and counts[r, c]
    ]
    changes = ", ".join(f"label {r} is output {c}" for r, c in moved[:4]) + (
        ", …" if len(moved) > 4 else ""
    )
    return [Reading(f"with the labels in another order ({changes})", matched, 0.0)]


def _read(words: str, logits: Tensor, y: Tensor) -> tuple[Reading, float]:
    """And the loss of these logits as they are."""
    predicted = (logits[:, 0] > 0).long() if logits.shape[1] == 1 else logits.argmax(1)
    right, labels = int((predicted == y).sum()), y
    # which output is which class of two, the audit finds out itself
    if logits.shape[1] <= 2 and 2 * right < len(y):
        right, labels = len(y) - right, 1 - y
    scale = logits.std().clamp_min(1e-12)
    at = 3 * (logits if logits.shape[1] == 1 else logits - logits.mean(1, keepdim=True)) / scale
    loss, sharpness = (loss_of(*pair).item() for pair in ((logits, y), (at, labels)))
    if right == len(y):
        margins = confidence(logits, labels)
        sharpness = -(margins.min() / margins.mean().clamp_min(1e-12)).item()
    return Reading(words, right, sharpness), loss


def _error(right: int, n: int) -> float:
    """`ERRORS` standard errors of a count, and at least two images."""
    share = min(max(right / n, 1 / n), 1 - 1 / n)
    return max(2.0, ERRORS * (n * share * (1 - share)) ** 0.5)
