"""How are the network, its answers, the images and their labels read, and does it all fit?

A network that was trained on these images answers most of them as their labels say. What its file,
its answers and the pixels leave open is settled by that: every reading has a name, all are tried in
one loop, and the one that fits best is used and said. Where none fits, whatever an audit says about
such images is about something else; then other labels are tried, to say what may be wrong.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from scipy.optimize import linear_sum_assignment
from scipy.stats import binom
from sklearn.metrics import confusion_matrix
from torch import Tensor

from recon.attacks.multipliers import confidence
from recon.errors import ReconError, one_reason
from recon.training.recipes import loss_of
from recon_audit.anatomy import OFTEN, Classifier, examine, places_in, repeats
from recon_audit.images import Images
from recon_audit.labels import classes_of
from recon_audit.networks import Subject

CHANCE = 0.01  # a share of right answers with a larger p is one that chance explains
MOST_READ = 300  # of a large set: a share of right answers is known well enough from so many
ERRORS = 3  # standard errors by which another reading must fit better
# what another order of the labels must reach, and gain: many orders are tried
RELABELLED, GAIN = 0.5, 0.3
# of the smallest margin over the mean one: what training saw had the largest on 39 of 40 networks
# tried
GAP = 0.1
ALIKE = 0.99  # correlation of answers that are the same for all that an audit asks
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
    """What training did to pixels: (`function` of them − mean) / std.

    Attributes:
        mean, std: (C, H, W) or what broadcasts to it.
        words: for the report.
        function, undo: its inverse, where that is known.
    """

    words: str
    mean: Tensor = torch.tensor(0.0)
    std: Tensor = torch.tensor(1.0)
    function: Callable[[Tensor], Tensor] | None = None
    undo: Callable[[Tensor], Tensor] | None = None

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
        return (inputs.float() - self.mean) / self.std

    def back(self, x: Tensor) -> Tensor:
        """Pixels of inputs; of a `function`, whose inverse nobody knows, what it returned."""
        x = x * self.std + self.mean
        return x if self.undo is None else self.undo(x)


Way = Callable[[Tensor], Tensor]
#: readings of pixels in words: what is done, and its inverse
ODD: dict[str, tuple[Way, Way]] = {
    "with the pixels times 255": (lambda x: x * 255, lambda x: x / 255),
    "with the pixels over 255": (lambda x: x / 255, lambda x: x * 255),
    "with red and blue exchanged": (lambda x: x.flip(-3), lambda x: x.flip(-3)),
    "with rows and columns exchanged": (lambda x: x.mT, lambda x: x.mT),
    "with dark and bright exchanged": (lambda x: 1 - x, lambda x: 1 - x),
}


def _odd(x: Tensor) -> list[str]:
    """Those that images x (n, C, H, W) allow."""
    never = {
        "with red and blue exchanged": x.shape[1] != 3,
        "with rows and columns exchanged": not 1 < x.shape[2] == x.shape[3],
        "with dark and bright exchanged": bool(x.min() < 0 or x.max() > 1),
    }
    return [words for words in ODD if not never.get(words)]


def transform_of(way: Any, train: Images) -> Transform | None:
    """
    Args:
        way: None or "auto", to be inferred: None is returned · "image", "channel", "none": training
            subtracted its mean image, its mean colour, or nothing · a pair (mean, std) · a function
            of (n, C, H, W), which must not draw, nor do to an image what depends on the others.
    """
    if way is None or (isinstance(way, str) and way == "auto"):
        return None
    if isinstance(way, str):
        if way not in MEANS:
            raise ReconError(f"unknown mean '{way}': choose one of {', '.join(MEANS)}")
        return Transform(MEANS[way], mean_image(train.scaled, way))
    if isinstance(way, tuple | list) and len(way) == 2:
        with one_reason(f"transform must be a pair (mean, std) for images of shape {train.shape}"):
            mean, std = (torch.as_tensor(part, dtype=torch.float32) for part in way)
            mean, std = (part.view(-1, 1, 1) if part.dim() < 2 else part for part in (mean, std))
            mean, std = mean.expand(train.shape), std.expand(train.shape)
        if not (torch.isfinite(mean).all() and torch.isfinite(std).all() and (std > 0).all()):
            raise ReconError("transform must be a finite mean and a positive std")
        return Transform("mean and standard deviation as given", mean, std)
    if not callable(way):
        raise ReconError(
            f"transform must be one of {', '.join(MEANS)}, a pair (mean, std) or a function, not"
            f" {way!r}"
        )
    given, few = Transform("a function as given", function=way), train.scaled[:6]
    if not repeats(lambda: given(few), OFTEN):
        raise ReconError(
            "the transform makes other inputs of the same images each time, as augmentation does:"
            " give what is done to images in evaluation"
        )
    if not torch.allclose(given(few)[:3], given(few[:3]), 1e-3, 1e-4):
        raise ReconError(
            "what the transform does to an image depends on the images beside it: give a pair"
            " (mean, std), or a function of each image alone"
        )
    return given


def mean_image(x: Tensor, kind: str) -> Tensor:
    """What training subtracted from images x (n, C, H, W), (C, H, W): a kind of `MEANS`."""
    mean = x.mean(0)
    if kind == "none":
        return torch.zeros_like(mean)
    return mean if kind == "image" else mean.flatten(1).mean(1)[:, None, None].expand_as(mean)


def _usual(x: Tensor) -> dict[str, Transform]:
    """Ways in use for images x (n, C, H, W), by their words; plain pixels first."""
    half = torch.tensor(0.5)
    mean, colour = mean_image(x, "image"), mean_image(x, "channel")
    ways = [Transform("nothing"), Transform(MEANS["image"], mean)]
    if x.shape[1] > 1:
        ways.append(Transform(MEANS["channel"], colour))
    ways.append(Transform("0.5, over 0.5", half, half))
    for name, pair in KNOWN.get(x.shape[1], {}).items():
        usual, deviation = (torch.tensor(numbers).view(-1, 1, 1) for numbers in pair)
        ways.append(Transform(f"{name}'s mean, over its deviation", usual, deviation))
    spread = x.std((0, 2, 3)).clamp_min(1e-6).view(-1, 1, 1)
    ways.append(Transform(f"{MEANS['channel']}, over its deviation", colour, spread))
    if x.shape[1:3] == (1, 1):  # rows of numbers, each in a unit of its own
        deviation = x.std(0)
        deviation = torch.where(deviation > 1e-6, deviation, 1.0)
        ways.append(Transform("the mean of each number, over its deviation", mean, deviation))
    low, high = x.min(), x.max()
    if low < 0 or high > BRIGHT:
        ways.append(Transform("their smallest number, over their range", low, high - low))
    return {way.words: way for way in ways}


# ---------------------------------------------------------------------------------------------- fit


@dataclass(frozen=True)
class Reading:
    """One way to read a network, images and labels.

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
        suspects: what may be wrong where none fits.
    """

    n: int
    right: int
    loss: float
    chance: float
    better: tuple[Reading, ...]
    sharper: str
    suspects: str

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
        return f"{sentence}: {self.suspects}"


def fit_of(
    classifier: Classifier,
    train: Images,
    transform: Transform,
    y: Tensor,
    of_a_file: bool = False,
) -> Fit:
    """
    Args:
        y: classes (n,) of the training images, in 0 … K − 1.
        of_a_file: whether the network was built from one, which may be built otherwise.
    """
    x, y = _sample(train, y)
    n = len(y)
    logits = classifier.logits(transform(x))
    plain, loss = score("", logits, y)
    ways = [way for words, way in _usual(x).items() if words not in transform.words]
    tried = {f"with the pixels minus {way.words}": way for way in ways}
    for words in _odd(x) if transform.function is None else []:
        tried[words] = replace(transform, function=ODD[words][0])
    others = []
    for words, way in tried.items():
        with suppress(ReconError):  # answers that are not finite
            others.append(score(words, classifier.logits(way(x)), y)[0])
    best = min((each for each in others if each.right == n), key=_sharpness, default=plain)
    if logits.shape[1] > 2:
        shifts = {"with the labels one higher": -1, "with the labels one lower": 1}
        others += [score(words, logits.roll(by, 1), y)[0] for words, by in shifts.items()]
    enough = plain.right + _error(plain.right, n)
    better = [reading for reading in others if reading.right > enough]
    better += _relabel(logits, y, plain.right)
    better.sort(key=lambda reading: -reading.right)
    sharper = ""
    if plain.right == n and best.sharpness <= plain.sharpness - GAP:
        sharper = (
            f"all {n} training images are answered as their labels say, but their margins are more"
            f" alike {best.words} (the smallest over the mean: {-best.sharpness:.2f}, and"
            f" {-plain.sharpness:.2f} as read): training may have done that to them"
        )
    chance = y.bincount().max().item() / n
    suspects = _suspects(logits, transform(x), y, of_a_file)
    return Fit(n, plain.right, loss, chance, tuple(better), sharper, suspects)


def _suspects(logits: Tensor, inputs: Tensor, y: Tensor, of_a_file: bool) -> str:
    """What may be wrong where a network does not fit."""
    answers = logits.argmax(1) if logits.shape[1] > 1 else (logits[:, 0] > 0).long()
    if len(answers.unique()) == 1:
        return f"it gives one answer to all images, output {int(answers[0])}, and has learned none"
    if why := no_classes(logits, inputs):
        return f"it {why}, and its outputs are no classes"
    parts = []
    if of_a_file:
        parts.append("the file is put together otherwise than here (pass the module itself)")
    if logits.shape[1] > 2 * (int(y.max()) + 1):
        parts.append(f"its {logits.shape[1]} outputs are no classes but features")
    parts += ["the labels are numbered otherwise than the outputs", "the pixels have another scale"]
    return ", ".join(parts) + ", or training subtracted or divided by something else"


def no_classes(logits: Tensor, inputs: Tensor) -> str:
    """Why answers (n, K) to inputs are surely no classes; "" where they may be some."""
    if logits.shape[1] < 3:
        return ""
    if logits.shape[1] == inputs[0].numel():
        pair = torch.stack([logits.flatten(), inputs.flatten().double()])
        if torch.corrcoef(pair)[0, 1] > 0.7:
            return "answers the images that it is given, as an autoencoder does"
    if (logits >= 0).all() and (logits == 0).double().mean() > 0.02:
        return "answers numbers of which none is negative and many are 0, as features are"
    lengths = logits.norm(dim=1)
    if (lengths - 1).abs().max() < 1e-3:
        return "answers vectors of length 1, as an embedding does"
    return ""


def _sample(train: Images, y: Tensor) -> tuple[Tensor, Tensor]:
    """Pixels and classes of at most `MOST_READ` images, spread over all of them."""
    rows = list(range(0, len(train), -(-len(train) // MOST_READ)))
    return train.scaled[rows], y[rows]


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


def score(words: str, logits: Tensor, y: Tensor) -> tuple[Reading, float]:
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


def _sharpness(reading: Reading) -> float:
    return reading.sharpness


def _error(right: int, n: int) -> float:
    """`ERRORS` standard errors of a count, and at least two images."""
    share = min(max(right / n, 1 / n), 1 - 1 / n)
    return max(2.0, ERRORS * (n * share * (1 - share)) ** 0.5)


# ------------------------------------------------------------------------------------ what is read


@dataclass(frozen=True)
class Read:
    """A reading at work: network, classes of both sets (None without labels) and transform.

    Attributes:
        fit: None without labels.
        notes: what the report says of the reading.
        unchecked: why the reading is a guess, "" where labels bear it out: then silence of the
            attacks says nothing.
    """

    subject: Subject
    classifier: Classifier
    classes: tuple[Tensor, Tensor, str] | None
    transform: Transform
    fit: Fit | None = None
    notes: tuple[str, ...] = ()
    unchecked: str = ""


#: an answer to each question that is open: of the file, where the classes are in what the network
#: answers, how the pixels are kept, what training subtracted
Choice = tuple[str, ...]


class Readings:
    """All that the file, the answers and the pixels leave open.

    Attributes:
        axes: words for the answers to each question, the usual one first.
    """

    def __init__(
        self, subject: Subject, train: Images, held_out: Images, labels: Any, way: Any
    ) -> None:
        self.subject, self.sets, self.labels = subject, (train, held_out), labels
        self.given = transform_of(way, train)
        examine(subject.module, train.form or train.shape)
        self.places = places_in(subject.module)
        self.network, self.ways = cache(self._network), cache(self._ways)
        odd = [""] if self.given else ["", *_odd(train.scaled)]
        self.axes = [*map(list, subject.plan.axes), self.places, odd, list(self.ways(""))]
        self.usual = tuple(axis[0] for axis in self.axes)

    def _network(self, *words: str) -> tuple[Subject, Classifier, tuple[Tensor, Tensor, str] | None]:
        chosen, (train, held_out) = self.subject, self.sets
        if words != self.usual[:-2]:
            chosen = chosen.read(words[:-1])
            chosen = replace(chosen, module=copy.deepcopy(chosen.module))
        seen = examine(chosen.module, train.form or train.shape, words[-1])
        return chosen, seen, classes_of(train, held_out, self.labels, seen.outputs)

    def _ways(self, odd: str) -> dict[str, Transform]:
        if self.given is not None:
            return {self.given.words: self.given}
        x = self.sets[0].scaled
        if not odd:
            return _usual(x)
        do, undo = ODD[odd]
        return {name: replace(way, function=do, undo=undo) for name, way in _usual(do(x)).items()}

    def attempt(self, choice: Choice) -> tuple[Reading, Tensor]:
        """How well one fits, and its logits (n, K); ReconError where it cannot be tried."""
        _, seen, classes = self.network(*choice[:-2])
        if classes is None:
            raise ReconError("no labels fit these outputs")
        x, y = _sample(self.sets[0], classes[0])
        logits = seen.logits(self.ways(choice[-2])[choice[-1]](x))
        return score("", logits, y)[0], logits

    def walk(self, axes: Sequence[Sequence[str]]) -> dict[Choice, tuple[Reading, Tensor]]:
        """From the usual reading to one that fits better in one answer, and on from there."""
        tried: dict[Choice, tuple[Reading, Tensor]] = {}
        at, seen = self.usual, set[Choice]()
        while at not in seen:
            seen.add(at)
            near = [at[:k] + (word,) + at[k + 1 :] for k, axis in enumerate(axes) for word in axis]
            for choice in dict.fromkeys([at, *near]):
                if choice not in tried:
                    with suppress(ReconError):
                        tried[choice] = self.attempt(choice)
            at = self.near_best(tried)[0] if tried else at
        return tried

    def near_best(self, tried: dict[Choice, tuple[Reading, Tensor]]) -> list[Choice]:
        """Those that answer as many rightly, within the error; the sharpest first, with an
        advantage of `GAP` for each usual answer.
        """
        most = max(reading.right for reading, _ in tried.values())
        n = len(next(iter(tried.values()))[1])
        near = [c for c, (reading, _) in tried.items() if reading.right >= most - _error(most, n)]
        return sorted(near, key=lambda choice: tried[choice][0].sharpness + GAP * self._odds(choice))

    def _odds(self, choice: Choice) -> int:
        return sum(a != b for a, b in zip(choice[:-1], self.usual[:-1], strict=True))


def read(subject: Subject, train: Images, held_out: Images, labels: Any, way: Any) -> Read:
    """Of all readings, that by which most training images are answered as their labels say.

    ReconError where several networks, or several answers of one, fit alike, and where nothing is a
    classifier.

    Args:
        labels: see `classes_of`; way: see `transform_of`.
    """
    readings = Readings(subject, train, held_out, labels, way)
    shallow, axes = subject.plan.shallow, readings.axes
    files = len(subject.plan.axes)
    # a deep network that is read otherwise does not answer all rightly
    tried = readings.walk(axes if shallow else [axis[:1] for axis in axes[:files]] + axes[files:])
    if not tried:
        return _unlabelled(readings)
    best = readings.near_best(tried)[0]
    n = len(tried[best][1])
    if not shallow and tried[best][0].right < n:
        tried |= readings.walk(axes)
        best = readings.near_best(tried)[0]
    chosen, seen, classes = readings.network(*best[:-2])
    assert classes is not None
    right = tried[best][0].right
    of_all = f"{right} of {n} training images are answered as their labels say"
    transform = readings.ways(best[-2])[best[-1]]
    if readings.given is None:
        words = f"{transform.words}{best[-2] and ', '}{best[-2]} (inferred: {of_all}"
        plain = tried.get((*best[:-2], "", axes[-1][0]))
        if plain is not None and best[-2:] != ("", axes[-1][0]):
            words += f", and {plain[0].right} of plain pixels"
        top = train.scaled.max().item()
        words += f"; the pixels go up to {top:.0f} and were read so)" if top > BRIGHT else ")"
        transform = replace(transform, words=words)
    notes, unchecked = [], ""
    rivals = [c for c in readings.near_best(tried) if c[:-2] != best[:-2] and _differ(tried, c, best)]
    network = [rival for rival in rivals if rival[:1] != best[:1] or rival[-3] != best[-3]]
    if network:
        what = [", ".join(filter(None, choice[:-2])) or "the first" for choice in (best, network[0])]
        raise ReconError(
            f"what is handed in holds several networks or answers, and labels fit {what[0]} and"
            f" {what[1]} alike: give the one that is meant alone"
        )
    new = [word for word, old in zip(best[:files], readings.usual[:files], strict=True) if word != old]
    if new:
        notes.append(f"the file is read {' and '.join(new)}: {of_all}, and {tried[readings.usual][0].right} as files are usually read")  # noqa: E501
    elif shallow:
        notes.append("the file does not say which activations stand between its layers, nor where batch norm stands: ReLU is assumed, after batch norm")  # noqa: E501
    if best[-3] and len(readings.places) > 1:
        notes.append(f"of what the network answers ({', '.join(readings.places)}), {best[-3]} is taken for its classes, whose labels fit")  # noqa: E501
    if rivals:
        sharp = tried[best][0].sharpness
        close = [c for c in rivals if tried[c][0].sharpness <= sharp + GAP]
        if close:
            unchecked = f"the file fits its labels as well {' and '.join(filter(None, close[0][:files])) or 'as usual'}: pass the module itself"  # noqa: E501
    fit = fit_of(seen, train, transform, classes[0], files > 0)
    return Read(chosen, seen, classes, transform, fit, tuple(notes), unchecked)


def _differ(tried: dict[Choice, tuple[Reading, Tensor]], a: Choice, b: Choice) -> bool:
    """Whether two readings answer otherwise, but for a factor and a number for each image."""
    pair = [tried[choice][1] for choice in (a, b)]
    if pair[0].shape != pair[1].shape:
        return True
    centred = [part - part.mean(1, keepdim=part.shape[1] > 1 or None) if part.shape[1] > 1 else part for part in pair]  # noqa: E501
    return bool(torch.corrcoef(torch.stack([part.flatten() for part in centred]))[0, 1] < ALIKE)


def _unlabelled(readings: Readings) -> Read:
    """Where no labels say what is right: what is usual, and a guess."""
    chosen, seen, _ = readings.network(*readings.usual[:-2])
    choice = [axis for axis in (*chosen.plan.axes[:1], readings.places) if len(axis) > 1]
    if choice:
        names = ", ".join(word or "the first" for word in choice[0])
        raise ReconError(
            f"what is handed in holds several networks or answers ({names}), and no labels tell"
            " which is meant: give labels, or the one that is meant alone"
        )
    transform = readings.given or Transform(
        "nothing (assumed: without labels it cannot be inferred; say it with --mean)"
    )
    inputs = transform(readings.sets[0].scaled[:MOST_READ])
    if why := no_classes(seen.logits(inputs), inputs):
        raise ReconError(f"the network {why}: an audit needs the network that gives classes")
    unchecked = f"no labels bear out that its {seen.outputs} outputs are classes"
    return Read(chosen, seen, None, transform, unchecked=unchecked)
