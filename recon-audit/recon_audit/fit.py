"""How are the network, its answers, the images and their labels read, and does it all fit?

A network that was trained on these images answers most of them as their labels say. What its file,
its answers and the pixels leave open is settled by that: every reading has a name, all are tried in
one loop, and the one that fits best is used and said. Where none fits, whatever an audit says about
such images is about something else; then other labels are tried, to say what may be wrong.
"""

from __future__ import annotations

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
MOST_READ = 200  # of a large set: a share of right answers is known well enough from so many
ERRORS = 3  # standard errors by which another reading must fit better
# what another order of the labels must reach, and gain: many orders are tried
RELABELLED, GAIN = 0.5, 0.3
# of the smallest margin over the mean one: what training saw had the largest on 39 of 40 networks
# tried
GAP, FAR = 0.1, 100.0  # … and more than any loss
# correlation of answers that are the same for all that an audit asks, and that are one network's
ALIKE, EQUAL = 0.99, 0.999
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
    reading: Reading, logits: Tensor, y: Tensor, others: Sequence[Reading], suspects: str
) -> Fit:
    """
    Args:
        reading: that is used, of logits (n, K) and classes y (n,); others: of the same pixels.
        suspects: what may be wrong.
    """
    n, right = len(y), reading.right
    shifts = {"with the labels one higher": -1, "with the labels one lower": 1}
    moved = [score(words, logits.roll(by, 1), y) for words, by in shifts.items()]
    enough = right + _error(right, n)
    tried = [*others, *(moved if logits.shape[1] > 2 else [])]
    better = [other for other in tried if other.right > enough] + _relabel(logits, y, right)
    better.sort(key=lambda other: -other.right)
    sharper = ""
    best = min(others, key=lambda other: (-other.right, other.sharpness), default=reading)
    if right == best.right == n and best.sharpness <= reading.sharpness - GAP:
        sharper = (
            f"all {n} training images are answered as their labels say, but their margins are more"
            f" alike {best.words} (the smallest over the mean: {-best.sharpness:.2f}, and"
            f" {-reading.sharpness:.2f} as read): training may have done that to them"
        )
    chance = y.bincount().max().item() / n
    return Fit(n, right, loss_of(logits, y).item(), chance, tuple(better), sharper, suspects)


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
        parts.append(f"its {logits.shape[1]} outputs are features and no classes")
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


def _relabel(logits: Tensor, y: Tensor, right: int) -> list[Reading]:
    """The assignment of labels to outputs that fits best, if it fits much better."""
    outputs = logits.shape[1]
    if outputs < 3 or outputs > 2 * (int(y.max()) + 1):  # of so many some fit by chance
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


def score(words: str, logits: Tensor, y: Tensor) -> Reading:
    """How well logits (n, K) fit classes (n,)."""
    predicted = (logits[:, 0] > 0).long() if logits.shape[1] == 1 else logits.argmax(1)
    right, labels = int((predicted == y).sum()), y
    # which output is which class of two, the audit finds out itself
    if logits.shape[1] <= 2 and 2 * right < len(y):
        right, labels = len(y) - right, 1 - y
    scale = logits.std().clamp_min(1e-12)
    at = 3 * (logits if logits.shape[1] == 1 else logits - logits.mean(1, keepdim=True)) / scale
    sharpness = loss_of(at, labels).item()
    if right == len(y):
        margins = confidence(logits, labels)
        sharpness = -(margins.min() / margins.mean().clamp_min(1e-12)).item()
    return Reading(words, right, sharpness)


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
        axes: words for the answers to each question, the usual one first; `files` of the file.
        tried: readings, with their logits (n, K).
        y: classes (n,) of the images that are tried, once there are any.
    """

    def __init__(
        self, subject: Subject, train: Images, held_out: Images, labels: Any, way: Any
    ) -> None:
        self.subject, self.sets, self.labels = subject, (train, held_out), labels
        self.given = transform_of(way, train)
        self.x = train.scaled[:: -(-len(train) // MOST_READ)]
        self.network, self.ways = cache(self._network), cache(self._ways)
        examine(subject.module, train.form or train.shape)
        self.files, places = len(subject.plan.axes), places_in(subject.module)
        odd = _odd(self.x) if self.given is None or self.given.function is None else []
        self.axes = [*map(list, subject.plan.axes), places, ["", *odd], list(self.ways(""))]
        self.usual = tuple(axis[0] for axis in self.axes)
        self.tried: dict[Choice, tuple[Reading, Tensor]] = {}

    def _network(self, *words: str) -> tuple[Subject, Classifier, Any]:
        chosen, (train, held_out) = self.subject, self.sets
        if words != self.usual[:-2]:
            chosen = chosen.read(words[:-1])
        seen = examine(chosen.module, train.form or train.shape, words[-1])
        return chosen, seen, classes_of(train, held_out, self.labels, seen.outputs)

    def _ways(self, odd: str) -> dict[str, Transform]:
        do, undo = ODD.get(odd, (None, None))
        x = self.sets[0].scaled
        ways = _usual(x if do is None else do(x))
        if self.given is not None:
            given = self.given.words
            ways = {given: self.given} | {name: ways[name] for name in ways if name not in given}
        if do is None:
            return ways
        return {name: replace(way, function=do, undo=undo) for name, way in ways.items()}

    def attempt(self, choice: Choice) -> None:
        """See how well one fits, where it can be tried."""
        with suppress(ReconError):
            _, seen, classes = self.network(*choice[:-2])
            way = self.ways(choice[-2]).get(choice[-1])
            if classes is not None and way is not None:
                y = classes[0][:: -(-len(classes[0]) // MOST_READ)]
                logits = seen.logits(way(self.x))
                words = choice[-2] or f"with the pixels minus {choice[-1]}"
                self.tried[choice] = score(words, logits, y), logits

    def walk(self, open_: int) -> None:
        """From the usual reading to one that fits better in one answer, and on from there; the
        first `open_` answers stay.
        """
        at, seen = self.usual, set[Choice]()
        while at not in seen:
            seen.add(at)
            near = (
                at[:k] + (word,) + at[k + 1 :]
                for k, axis in enumerate(self.axes)
                for word in axis
                if k >= open_
            )  # noqa: E501
            for choice in dict.fromkeys([at, *near]):
                if choice not in self.tried:
                    self.attempt(choice)
            at = next(iter(self.best()), at)

    def best(self) -> list[Choice]:
        """Those that answer as many rightly, within the error; the sharpest first, with an
        advantage of `GAP` for each usual answer. What is done to pixels is as given.
        """
        usual = self.usual
        free = [c for c in self.tried if self.given is None or c[-2:] == usual[-2:]]
        most = max((self.tried[choice][0].right for choice in free), default=0)
        enough = most - _error(most, len(self.x))

        def rank(choice: Choice) -> float:
            at = [axis.index(word) for axis, word in zip(self.axes[:-1], choice[:-1], strict=True)]
            reading = self.tried[choice][0]
            # margins tell networks apart, and a loss does not
            gap = GAP if reading.right == len(self.x) else FAR
            return reading.sharpness + sum(gap * min(place, 1.2) for place in at if place)

        return sorted((c for c in free if self.tried[c][0].right >= enough), key=rank)

    def rivals(self, choice: Choice) -> list[Choice]:
        """Other networks, or other answers of one, that fit as well, and answer otherwise."""
        reading, logits = self.tried[choice]
        others = []
        for other in self.best():
            whole = other[:1] != choice[:1] or other[-3] != choice[-3]
            close = (
                self.subject.plan.shallow
                and self.tried[other][0].sharpness <= reading.sharpness + GAP
            )
            alike = EQUAL if whole else ALIKE
            if (
                other[:-2] != choice[:-2]
                and (whole or close)
                and _differ(self.tried[other][1], logits, alike)
            ):
                others.append(other)
        return sorted(others, key=lambda other: other[:1] == choice[:1] and other[-3] == choice[-3])


def _differ(a: Tensor, b: Tensor, alike: float) -> bool:
    """Whether logits (n, K) differ by more than a factor, and a number for each image."""
    if a.shape != b.shape:
        return True
    rows = [x - x.mean(1, keepdim=True) if x.shape[1] > 1 else x for x in (a, b)]
    return bool(torch.corrcoef(torch.stack([x.flatten() for x in rows]))[0, 1] < alike)


def read(subject: Subject, train: Images, held_out: Images, labels: Any, way: Any) -> Read:
    """Of all readings, that by which most training images are answered as their labels say.

    ReconError where several networks, or several answers of one, fit alike, and where nothing is a
    classifier.

    Args:
        labels: see `classes_of`; way: see `transform_of`.
    """
    readings = Readings(subject, train, held_out, labels, way)
    tried, files, usual = readings.tried, readings.files, readings.usual
    readings.walk(0 if subject.plan.shallow else files)
    if not tried:
        return _unlabelled(readings)
    # a deep network that is read otherwise does not answer all rightly
    if tried[readings.best()[0]][0].right < len(readings.x):
        readings.walk(0)
    best = readings.best()[0]
    plain = usual[:files] + best[files:]
    if plain in readings.best() and not _differ(tried[plain][1], tried[best][1], EQUAL):
        best = plain
    # where nothing fits, what is usual is what an audit should complain of
    for choice in [best, usual] if usual in tried else [best]:
        chosen, seen, classes = readings.network(*choice[:-2])
        transform = readings.ways(choice[-2])[choice[-1]]
        (reading, logits), y = tried[choice], classes[0][:: -(-len(train) // MOST_READ)]
        others = [tried[c][0] for c in tried if c[:-2] == choice[:-2]] if readings.given else []
        suspects = _suspects(logits, transform(readings.x), y, files > 0)
        fit = fit_of(reading, logits, y, others, suspects)
        if fit.why_not is None:
            break
    notes, unchecked = [], ""
    if fit.why_not is None and (rivals := readings.rivals(choice)):
        words = [" and ".join(filter(None, c[:-2])) or "as usual" for c in (choice, rivals[0])]
        if rivals[0][:1] != choice[:1] or rivals[0][-3] != choice[-3]:
            raise ReconError(
                f"what is handed in holds several networks or answers, and labels fit {words[0]}"
                f" and {words[1]} alike: give the one that is meant alone"
            )
        unchecked = f"the file fits its labels as well read {words[1]} (pass the module itself)"
    of_all = f"{reading.right} of {fit.n} training images are answered as their labels say"
    before = tried[usual][0].right if usual in tried else 0
    if files and len(readings.axes[0]) > 1:
        notes.append(f"the file holds several networks, and the audit is {choice[0]}: {of_all}")
    if choice[1:files] != usual[1:files]:
        how = " and ".join(word for word in choice[1:files] if word not in usual)
        notes.append(f"the file is read {how}: {of_all}, and {before} as is usual")
    elif subject.plan.shallow:
        notes.append(
            "the file does not say which activations stand between its layers, nor where else"
            " something does: ReLU is assumed"
        )
    if len(readings.axes[-3]) > 1:
        notes.append(
            f"of what the network answers, {choice[-3]} is taken for its classes: {of_all}"
        )
    if readings.given is None:
        said = f"{transform.words}{choice[-2] and ', '}{choice[-2]} (inferred: {of_all}"
        said += f", and {before} of plain pixels" if choice[-2:] != usual[-2:] else ""
        top = train.scaled.max().item()
        said += f"; the pixels go up to {top:.0f} and were read so)" if top > BRIGHT else ")"
        transform = replace(transform, words=said)
    return Read(chosen, seen, classes, transform, fit, tuple(notes), unchecked)


def _unlabelled(readings: Readings) -> Read:
    """Where no labels say what is right: what is usual, and a guess."""
    chosen, seen, _ = readings.network(*readings.usual[:-2])
    if several := [axis for axis in (readings.axes[0], readings.axes[-3]) if len(axis) > 1]:
        names = ", ".join(several[0])
        raise ReconError(
            f"what is handed in holds several networks or answers ({names}), and no labels tell"
            " which is meant: give labels, or the one that is meant alone"
        )
    transform = readings.given or Transform(
        "nothing (assumed: without labels it cannot be inferred; say it with --mean)"
    )
    inputs = transform(readings.x)
    if why := no_classes(seen.logits(inputs), inputs):
        raise ReconError(f"the network {why}: an audit needs the network that gives classes")
    unchecked = f"no labels bear out that its {seen.outputs} outputs are classes"
    notes = []
    if readings.labels is None and any(part.labels is not None for part in readings.sets):
        whole = all(part.labels is not None for part in readings.sets)
        why = f"do not fit {seen.outputs} outputs" if whole else "are there for one set alone"
        notes.append(f"labels that came with the images are not used, since they {why}")
    return Read(chosen, seen, None, transform, None, tuple(notes), unchecked)
