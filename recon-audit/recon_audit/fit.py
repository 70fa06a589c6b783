"""How are the network, its answers, the images and their labels read, and does it all fit?

A network that was trained on these images answers most of them as their labels say. What its file,
its answers and the pixels leave open is settled by that: every reading has a name, all are tried in
one loop, and the one that fits best is used and said. Where none fits, whatever an audit says about
such images is about something else; then other labels are tried, to say what may be wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import torch
from scipy.stats import binom
from torch import Tensor

from recon.attacks.multipliers import confidence
from recon.errors import ReconError, one_reason
from recon.training.recipes import loss_of
from recon_audit.anatomy import OFTEN, Classifier, examine, repeats
from recon_audit.images import Images
from recon_audit.labels import classes_of
from recon_audit.networks import Subject

CHANCE = 0.01  # a share of right answers with a larger p is one that chance explains
# images that are tried: a share of right answers is known well enough from so many; of dense
# layers from a file all of a usual set, since what balances over a set does not over a part
MOST_READ, MOST_GUESSED = 200, 5000
ERRORS = 3  # standard errors by which another reading must fit better
# of `Reading.sharpness`: by which what is usual is preferred, within which nobody can choose
USUAL, APART = 0.05, 0.15
FAR = 100.0  # … more than any loss
# imbalance, and sharpness where all are right: training ended below on 287 of 288 networks tried
UNBALANCED, UNSURE = 0.3, 0.2
ALIKE = 0.99  # correlation of answers that are the same for all that an audit asks
SUSPECTS = (
    "the labels are numbered otherwise than the outputs, outputs are features and no classes, the"
    " pixels have another scale, or training subtracted or divided by something else"
)
GUESSED = (
    "a file of weights does not say what its layers form, and another network may answer all"
    " training images rightly, too: give the module itself, or name the widths with --arch"
)
MENDS = "give the module itself, or name the widths of dense layers with ReLU with --arch"
#: mean and deviation of colours in use
KNOWN: tuple[tuple[str, tuple[float, ...], tuple[float, ...]], ...] = (
    ("MNIST", (0.1307,), (0.3081,)),
    ("ImageNet", (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ("CIFAR-10", (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
)
MEANS = {
    "image": "the mean of the training images",
    "channel": "the mean colour of the training images",
    "none": "nothing",
}


@dataclass(frozen=True)
class Transform:
    """What training did to pixels: `function` of images (n, C, H, W), and its words for the
    report.
    """

    words: str
    function: Callable[[Tensor], Tensor] = field(default_factory=lambda: torch.clone)

    def __call__(self, x: Tensor) -> Tensor:
        """Inputs of the network (n, C, H, W) for pixels (n, C, H, W)."""
        with one_reason(f"the transform fails on images of shape {tuple(x.shape)}"):
            inputs = self.function(x.clone())
            if inputs.shape != x.shape or not torch.isfinite(inputs).all():
                raise ReconError(
                    "the transform must return finite images of the shape that it is given"
                )
            return inputs.float()


def transform_of(way: Any, train: Images) -> Transform | None:
    """
    Args:
        way: None or "auto", to be inferred: None is returned · "image", "channel", "none": training
            subtracted its mean image, its mean colour, or nothing · a pair (mean, std) · a function
            of (n, C, H, W), which must not draw, nor do to an image what depends on the others.
    """
    if way is None or str(way) == "auto":
        return None
    if str(way) in MEANS:
        return _affine(MEANS[way], mean_image(train.scaled, way), 1)
    if isinstance(way, tuple | list) and len(way) == 2:
        with one_reason(f"transform must be a pair (mean, std) for images of shape {train.shape}"):
            mean, std = (_of_colours(part).expand(train.shape) for part in way)
        if not (torch.isfinite(mean + std).all() and std.min() > 0):
            raise ReconError("transform must be a finite mean and a positive std")
        return _affine("mean and standard deviation as given", mean, std)
    if not callable(way):
        raise ReconError(
            f"transform must be one of {', '.join(MEANS)}, a pair (mean, std) or a function, not"
            f" {way!r}"
        )
    given, few = Transform("a function as given", way), train.scaled[:6]
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
    axes = (0,) if kind == "image" else (0, 2, 3)
    return (kind != "none") * x.mean(axes, keepdim=True)[0].expand(x.shape[1:])


def _affine(words: str, mean: Any, std: Any) -> Transform:
    """x minus the mean, over the deviation."""
    mean, std = map(_of_colours, (mean, std))
    return Transform(words, lambda x: (x - mean) / std)


def _of_colours(part: Any) -> Tensor:
    """Of a tensor, or of one number or one for each colour."""
    part = torch.as_tensor(part, dtype=torch.float32)
    return part.view(-1, 1, 1) if part.dim() < 2 else part


def _usual(x: Tensor) -> dict[str, Transform]:
    """Ways in use for images x (n, C, H, W), by their words; plain pixels first."""
    mean, colour = mean_image(x, "image"), mean_image(x, "channel")
    spread = x.std((0, 2, 3)).clamp_min(1e-6)
    ways = [
        _affine("nothing", 0, 1),
        _affine(MEANS["image"], mean, 1),
        _affine(MEANS["channel"], colour, 1),
        _affine("0.5, over 0.5", 0.5, 0.5),
        _affine(f"{MEANS['channel']}, over its deviation", colour, spread),
        _affine("their smallest number, over their range", x.min(), x.max() - x.min()),
        _affine("nothing, with pixels times 255", 0, 1 / 255),
        _affine("nothing, with pixels over 255", 0, 255),
        _affine("nothing, with dark and bright exchanged", 1, -1),
        Transform("nothing, with red and blue exchanged", lambda x: x.flip(-3)),
        Transform("nothing, with rows and columns exchanged", lambda x: x.mT),
    ]
    for name, *pair in KNOWN:
        if len(pair[0]) == x.shape[1]:
            ways.append(_affine(f"{name}'s mean, over its deviation", *pair))
    if x.shape[1:3] == (1, 1):  # rows of numbers, each in a unit of its own
        deviation = x.std(0).where(x.std(0) > 1e-6, 1.0)
        ways.append(_affine("the mean of each number, over its deviation", mean, deviation))
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
            the mean cross-entropy of logits brought to one scale; and the imbalance.
        imbalance: Σ_k |Σ_i r_ik| / Σ_ik |r_ik| of probabilities minus labels r (n, K), in [0, 1]:
            the gradient at the last biases, which training brings to 0, over the sum of its parts.
    """

    words: str
    right: int
    sharpness: float
    imbalance: float = 0.0


@dataclass(frozen=True)
class Fit:
    """
    Attributes:
        right of n training images (`MOST_GUESSED` at most), loss: as read.
        chance: share of the most frequent label.
        better: readings that fit better, the best first.
        suspects: what may be wrong where none fits.
    """

    n: int
    right: int
    loss: float
    chance: float
    better: tuple[Reading, ...]
    suspects: str

    @property
    def why_not(self) -> str | None:
        """Why the audit cannot speak of membership; None where the network fits what is read."""
        by_chance = self.right < self.n and binom.sf(self.right - 1, self.n, self.chance) > CHANCE
        if not by_chance and not self.better:
            return None
        likely = f", no more than chance explains ({self.chance:.0%} have the most frequent label)"
        more = "".join(f", and {other.right} {other.words}" for other in self.better[:2])
        return (
            f"the network answers {self.right} of {self.n} training images as their labels say"
            f" (loss {self.loss:.2g}){likely if by_chance else ''}{more or f': {self.suspects}'}"
        )


def _suspects(logits: Tensor, inputs: Tensor, of_a_file: bool) -> str:
    """What may be wrong where a network does not fit."""
    answers = (logits > 0).any(1).long() if logits.shape[1] == 1 else logits.argmax(1)
    if (answers == answers[0]).all():
        return f"it gives one answer to all images, output {answers[0]}, and has learned none"
    if why := no_classes(logits, inputs):
        return f"it {why}, and its outputs are no classes"
    file = "the file is put together otherwise than here (pass the module itself), "
    return f"{file * of_a_file}{SUSPECTS}"


def no_classes(logits: Tensor, inputs: Tensor) -> str:
    """Why answers (n, K) to inputs are surely no classes; "" where they may be some."""
    if logits.shape[1] < 3:
        return ""
    if logits.shape[1] == inputs[0].numel():
        pair = torch.stack([logits.flatten(), inputs.flatten().double()])
        if torch.corrcoef(pair)[0, 1] > 0.7:
            return "answers the images that it is given, as an autoencoder does"
    if logits.min() >= 0 and (logits == 0).double().mean() > 0.02:
        return "answers numbers of which none is negative and many are 0, as features are"
    if (logits.norm(dim=1) - 1).abs().max() < 1e-3:
        return "answers vectors of length 1, as an embedding does"
    return ""


def score(words: str, logits: Tensor, y: Tensor, whole: bool) -> Reading:
    """How well logits (n, K) fit classes (n,).

    Args:
        whole: whether these are all images of training, over which training balances.
    """
    z, n = torch.cat([-logits, logits], 1) / 2 if logits.shape[1] == 1 else logits, len(y)
    right = int((z.argmax(1) == y).sum())
    # which output is which class of two, the audit finds out itself
    if z.shape[1] == 2 and 2 * right < n:
        right, y = n - right, 1 - y
    margins = confidence(z, y)
    sharpness = -(margins.min() / margins.mean().clamp_min(1e-12)).item()
    if right < n:
        sharpness = loss_of(3 * (z - z.mean(1, keepdim=True)) / z.std().clamp_min(1e-12), y).item()
    others = z.log_softmax(1).scatter(1, y[:, None], -torch.inf)
    others = (others - others.max()).exp()  # a common factor: probabilities may be 1e-400
    residual = others.scatter(1, y[:, None], -others.sum(1, keepdim=True))
    imbalance = whole * (residual.sum(0).abs().sum() / residual.abs().sum()).item()
    return Reading(words, right, sharpness + imbalance, imbalance)


def _error(right: int, n: int) -> float:
    """`ERRORS` standard errors of a count, and at least that of one image."""
    return ERRORS * max(right * (1 - right / n), 1 - 1 / n) ** 0.5


# ------------------------------------------------------------------------------------ what is read


@dataclass(frozen=True)
class Read:
    """A reading at work: network, classes of both sets (None without labels) and transform.

    Attributes:
        fit: None without labels.
        notes: what the report says of the reading.
        unchecked: why the reading is a guess, "" where labels, or who hands it in, bear it out: of
            a guess silence of the attacks says nothing.
    """

    subject: Subject
    classifier: Classifier
    classes: tuple[Tensor, Tensor, str] | None
    transform: Transform
    fit: Fit | None = None
    notes: tuple[str, ...] = ()
    unchecked: str = ""


#: an answer to each question that is open: of the file, where the classes are in what the network
#: answers, what training did to pixels
Choice = tuple[str, ...]


class Readings:
    """All that the file, the answers and the pixels leave open.

    Attributes:
        axes: words for the answers to each question, the usual one first; `files` of the file.
        tried: readings, with their logits (n, K).
    """

    def __init__(
        self, subject: Subject, train: Images, held_out: Images, labels: Any, way: Any
    ) -> None:
        self.subject, self.sets, self.labels = subject, (train, held_out), labels
        self.given, self.form = transform_of(way, train), train.form or train.shape
        most = MOST_GUESSED if subject.plan.guessed else MOST_READ
        self.rows = slice(None, None, -(-len(train) // most))
        self.x, self.network = train.scaled[self.rows], cache(self._network)
        given = {} if self.given is None else {self.given.words: self.given}
        self.ways = given | _usual(train.scaled)
        self.files, places = len(subject.plan.axes), examine(subject.module, self.form).places
        self.axes = [*map(list, subject.plan.axes), places, list(self.ways)]
        self.usual = tuple(axis[0] for axis in self.axes)
        self.tried: dict[Choice, tuple[Reading, Tensor]] = {}
        self.walk()

    def _network(self, *words: str) -> tuple[Subject, Classifier, Any]:
        usual = words == self.usual[:-1]
        chosen = self.subject if usual else self.subject.read(words[:-1])
        seen = examine(chosen.module, self.form, words[-1])
        return chosen, seen, classes_of(self.sets, self.labels, seen.outputs)

    def of_pixels(self, choice: Choice) -> list[Reading]:
        """Those of the same network that were tried, the best first."""
        same = [self.tried[other][0] for other in self.tried if other[:-1] == choice[:-1]]
        return sorted(same, key=lambda reading: (-reading.right, reading.sharpness))

    def attempt(self, choice: Choice) -> bool:
        """See how well one fits, where it can be tried; whether it answers all images rightly."""
        with suppress(ReconError, RuntimeError):
            _, seen, classes = self.network(*choice[:-1])
            if choice not in self.tried and classes is not None:
                logits, y = seen.logits(self.ways[choice[-1]](self.x)), classes[0][self.rows]
                words, whole = f"with the pixels minus {choice[-1]}", self.rows.step == 1
                self.tried[choice] = score(words, logits, y, whole), logits
        return choice in self.tried and self.tried[choice][0].right == len(self.x)

    def walk(self) -> None:
        """From the usual reading to one that fits better in one answer, and on from there. Of a
        deep network the file is settled where all is answered rightly.
        """
        at, seen = self.usual, set[Choice]()
        while at not in seen:
            seen.add(at)
            settled = self.attempt(at) and not self.subject.plan.guessed
            for k in range(self.files if settled else 0, len(self.axes)):
                for word in self.axes[k]:
                    self.attempt((*at[:k], word, *at[k + 1 :]))
            at = next(iter(self.best()), at)

    def best(self) -> list[Choice]:
        """Those that answer as many rightly, within the error; the sharpest first, with an
        advantage of `USUAL` for each usual answer, and of `APART` for plain pixels. What is done to
        pixels is as given.
        """
        free = [c for c in self.tried if self.given is None or c[-1] == self.usual[-1]]
        most = max((self.tried[choice][0].right for choice in free), default=0)
        enough = most - _error(most, len(self.x))

        def rank(choice: Choice) -> float:
            reading = self.tried[choice][0]
            # of a deep network margins tell, and a loss does not
            sure = self.subject.plan.guessed or reading.right == len(self.x)
            odd = sum(word != usual for word, usual in zip(choice[:-1], self.usual, strict=False))
            # margins that are as alike tell nothing: then pixels are as they are
            changed = choice[-1] != self.usual[-1] and reading.right == len(self.x)
            return reading.sharpness + (USUAL if sure else FAR) * odd + APART * changed

        return sorted((c for c in free if self.tried[c][0].right >= enough), key=rank)

    def refuse(self, choice: Choice) -> None:
        """ReconError where labels leave open which network, or which of its answers, it is."""
        (reading, logits), guessed = self.tried[choice], self.subject.plan.guessed
        from_ = 0 if guessed else self.files
        for other in self.best():
            near = self.tried[other][0].sharpness <= reading.sharpness + APART
            another = other[from_:-1] != choice[from_:-1]
            if near and another and _differ(self.tried[other][1], logits):
                words = (" and ".join(filter(None, c[:-1])) or "as usual" for c in (choice, other))
                raise ReconError(
                    f"labels fit what is handed in as well if it is read {' as '.join(words)}:"
                    f" {MENDS}"
                )
        odd = choice[: self.files] != self.usual[: self.files]
        unsure = reading.sharpness > UNSURE if reading.right == len(self.x) else odd
        if guessed and (unsure or reading.imbalance > UNBALANCED):
            raise ReconError(
                "the file, as it is read, answers its training images less surely, or some classes"
                f" too often, as no network does that was trained on them: {MENDS}, or hand in all"
                " images of training"
            )


def _differ(a: Tensor, b: Tensor) -> bool:
    """Whether logits (n, K) differ by more than a factor, and a number for each image."""
    if a.shape != b.shape:
        return True
    rows = [(x - x.mean(1, keepdim=True) * (x.shape[1] > 1)).flatten() for x in (a, b)]
    return bool(torch.corrcoef(torch.stack(rows))[0, 1] < ALIKE)


def _fit(readings: Readings, choice: Choice) -> Fit:
    """Of a reading that was tried."""
    (reading, logits), (_, _, classes) = readings.tried[choice], readings.network(*choice[:-1])
    y, n, inputs = classes[0][readings.rows], len(readings.x), readings.ways[choice[-1]](readings.x)
    others = readings.of_pixels(choice) if readings.given else []
    enough = reading.right + _error(reading.right, n)
    better = tuple(other for other in others if other.right > enough)
    suspects = _suspects(logits, inputs, readings.files > 0)
    chance = y.bincount().max().item() / n
    return Fit(n, reading.right, loss_of(logits, y).item(), chance, better, suspects)


def read(subject: Subject, train: Images, held_out: Images, labels: Any, way: Any) -> Read:
    """Of all readings, that by which most training images are answered as their labels say.

    ReconError where several networks, or several answers of one, fit alike, and where nothing is a
    classifier.

    Args:
        labels: see `classes_of`; way: see `transform_of`.
    """
    readings = Readings(subject, train, held_out, labels, way)
    tried, files, usual = readings.tried, readings.files, readings.usual
    if not tried:
        return _unlabelled(readings)
    choice = readings.best()[0]
    fit = _fit(readings, choice)
    if fit.why_not and usual in tried:
        # where nothing fits, what is usual is what an audit should complain of
        choice, fit = usual, _fit(readings, usual)
    if fit.why_not is None:
        readings.refuse(choice)
    transform, notes = readings.ways[choice[-1]], []
    of_all = f"{fit.right} of {fit.n} training images are answered as their labels say"
    if choice[:files] != usual[:files]:
        how = " and ".join(word for word in choice[:files] if word not in usual)
        notes.append(f"the file is read {how}: {of_all}")
    if len(readings.axes[-2]) > 1:
        notes.append(
            f"of what the network answers, {choice[-2]} is taken for its classes: {of_all}"
        )
    if readings.given is None:
        transform = replace(transform, words=f"{transform.words} (inferred: {of_all})")
    elif (best := readings.of_pixels(choice)[0]).sharpness < tried[choice][0].sharpness - APART:
        notes.append(f"{of_all}, and more surely {best.words}: training may have done that to them")
    guess = GUESSED if subject.plan.guessed else ""
    return Read(*readings.network(*choice[:-1]), transform, fit, tuple(notes), guess)


def _unlabelled(readings: Readings) -> Read:
    """Where no labels say what is right: what is usual, and a guess."""
    chosen, seen, _ = readings.network(*readings.usual[:-1])
    if len(places := readings.axes[-2]) > 1:
        raise ReconError(
            f"the network gives several answers ({', '.join(places)}), and no labels tell which is"
            " meant: give labels, or a module that answers that alone"
        )
    transform = readings.given or Transform(
        "nothing (assumed: without labels it cannot be inferred; say it with --mean)"
    )
    inputs = transform(readings.x)
    if why := no_classes(seen.logits(inputs), inputs):
        raise ReconError(f"the network {why}: an audit needs the network that gives classes")
    unchecked = f"no labels bear out that its {seen.outputs} outputs are classes"
    return Read(chosen, seen, None, transform, unchecked=unchecked)
