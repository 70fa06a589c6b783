"""What is audited, read and checked before anything is attacked: network, images, labels,
transform, start, head.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recon.attacks.heads import Public
from recon.errors import ReconError, one_reason
from recon.released import Weights
from recon_audit.adapters import adapter_scores, first_adapter, on_base
from recon_audit.anatomy import examine, first_layer_of
from recon_audit.exchange import LEAST, Exchangeability, groups_of, why_no_labels
from recon_audit.fine_tunes import (
    LEAST_FEATURES,
    MOST_PUBLIC,
    Head,
    Start,
    features_of,
    head_of,
    part_at,
    public_start,
    start_of,
)
from recon_audit.fit import Read, read
from recon_audit.images import Expected, Images, load_images
from recon_audit.networks import Subject, subject_of
from recon_audit.words import say

PREDICTED = "the network's own predictions"


@dataclass(frozen=True, kw_only=True)
class Case(Read):
    """What is audited, and how it is read. Of a head on a frozen backbone, images and inputs are
    features.

    Attributes:
        start: the module before training, where it is known.
        train, held_out: images.
        x (N, C, H, W): inputs of all of them, the training ones first.
        y: classes of all of them, the training ones first, and `labels`, where those are from in
            words; `predicted`: those that the network answers.
        named: groups of all of them as they were given, "" for an image by itself.
        public (k, d): features that attacks are given.
        sample (k, C, H, W): public inputs of a whole fine-tune, that they are given.
        pictures: the images themselves, where `train` and `held_out` are features.
        n_train: of the training images, also where fewer are compared, the `rows` of those.
        groups: the number of the group of each of all of them, which have `size` images at most.
        trusted: somebody says that labels hold for both sets.
    """

    start: Start | None
    train: Images
    held_out: Images
    x: Tensor
    y: Tensor
    labels: str
    predicted: Tensor
    named: list[str]
    n_train: int
    rows: Tensor
    groups: Tensor
    trusted: bool
    size: int = 1
    public: Tensor | None = None
    sample: Tensor | None = None
    pictures: tuple[Images, Images] | None = None

    @property
    def member_classes(self) -> Tensor:
        """Of all images, by which membership is inferred: what the network answers; labels where
        they are trusted to hold for both sets.
        """
        return self.y if self.trusted else self.predicted

    @property
    def first_layer(self) -> Weights | None:
        """That is given whole images, and its start, where that is known."""
        start = self.start
        if start and start.public and f"{self.classifier.first}.weight" not in start.public:
            start = None
        return first_layer_of(self.classifier, start.module if start else None)

    @property
    def first(self) -> Tensor:
        """Rows (G,) of the first image of every group, the training ones first."""
        return torch.from_numpy(np.unique(self.groups, return_index=True)[1])

    @property
    def names(self) -> list[str]:
        """Of the groups of training images: as they were given, or of the first image."""
        names = self.train.names
        rows = self.first.tolist()
        return [self.named[row] or names[row] for row in rows if row < len(names)]

    def by_predictions(self, reason: str) -> Case:
        """With what the network answers in the place of labels."""
        return replace(self, y=self.predicted, labels=f"{PREDICTED}, since {reason}")

    def among(self, alike: Exchangeability) -> Case:
        """With what is compared. Of a head every other held-out group is the public sample."""
        case = self._taken(alike.train, alike.held_out, alike.groups)
        return _with_public(replace(case, size=alike.size))

    def _taken(self, rows: list[int], rows_held_out: list[int], groups: Tensor) -> Case:
        pictures, n = self.pictures, len(self.train)
        both = rows + [n + row for row in rows_held_out]
        return replace(
            self,
            train=self.train.take(rows),
            held_out=self.held_out.take(rows_held_out),
            x=self.x[both],
            y=self.y[both],
            predicted=self.predicted[both],
            named=[self.named[row] for row in both],
            rows=self.rows[rows],
            groups=groups,
            pictures=pictures and (pictures[0].take(rows), pictures[1].take(rows_held_out)),
        )


def prepare(
    model: Any,
    train: Any,
    held_out: Any = None,
    *,
    labels: Any = None,
    theta_init: Any = None,
    start: Any = None,
    base: Any = None,
    transform: Any = None,
    arch: str | None = None,
    resize: int | None = None,
    crop: int | None = None,
    groups: Any = None,
    trust_labels: bool = False,
) -> Case:
    """What is handed in to `recon.audit`, which see, read and checked; ReconError for what does not
    fit.
    """
    subject = subject_of(model, arch) if base is None else on_base(model, base, arch)
    sources, errors = (train, held_out), []
    # in the shape that the first registered layer takes; where the layer that sees the images is
    # another one, in the shape that they have
    for expected in (subject.expected, Expected()):
        try:
            expected = replace(expected, resize=resize, crop=crop)
            train, held_out = load_images(*sources, expected)
            known = read(subject, train, held_out, labels, transform)
            break
        except ReconError as error:
            errors.append(error)
    else:
        raise errors[0]
    if theta_init is not None and start is not None:
        raise ReconError(
            "give theta_init, a random start that may be known, or start, of a fine-tune, and not"
            " both"
        )
    classifier, began = known.classifier, None
    if theta_init is not None:
        began = start_of(known.subject, theta_init, arch)
    elif start is not None:
        began = public_start(known.subject, start)
    x = torch.cat([known.transform(part.scaled) for part in (train, held_out)])
    logits = classifier.logits(x)
    predicted = (logits[:, 0] > 0).long() if classifier.outputs == 1 else logits.argmax(1)
    y, origin, doubt = _classes(logits, predicted, known)
    if known.classes is None and train.labels is not None and held_out.labels is not None:
        doubt = "the images' labels do not fit its outputs"
    known = replace(known, notes=(*known.notes, *_notes(known.subject, began)))
    case = Case(
        **vars(known),
        start=began,
        train=train,
        held_out=held_out,
        x=x,
        y=y,
        labels=origin,
        predicted=predicted,
        named=groups_of(train, held_out, groups),
        n_train=len(train),
        rows=torch.arange(len(train)),
        groups=torch.arange(len(y)),
        trusted=trust_labels,
    )
    case = case.by_predictions(doubt) if doubt else case
    head = head_of(classifier, train.shape)
    return _on_features(case, head) if head else case


def whole(value: Any, name: str) -> int:
    """A number that counts; ReconError for what is none."""
    value = int(value) if isinstance(value, float) and value.is_integer() else value
    with one_reason(f"{name} must be a whole number"):
        return operator.index(value)


def _classes(logits: Tensor, predicted: Tensor, known: Read) -> tuple[Tensor, str, str | None]:
    """Of all images, the training ones first, where they are from, and why they are not used."""
    if known.classes is None:
        return predicted, "", "no labels were given"
    *parts, origin = known.classes
    y, n = torch.cat(parts), len(parts[0])
    if logits.shape[1] <= 2 and (y == predicted)[:n].double().mean() < 0.5:
        y, origin = 1 - y, f"{origin}, the other way round, as the network has them"
    return y, origin, why_no_labels(logits[n:], y[:n], y[n:])


def _notes(subject: Subject, start: Start | None) -> list[str]:
    first = first_adapter(subject.module)
    about = (
        say("public", len(start.public) if start else 0),
        say("adapted", first and first[0], "certificate" in adapter_scores(subject.module)),
    )
    return [note for note in about if note]


def _on_features(case: Case, head: Head) -> Case:
    """The case of the trained part alone, which is given features."""
    x, n = features_of(head, case.classifier, case.x), len(case.train)
    return replace(
        case,
        subject=replace(case.subject, module=head.module),
        classifier=examine(head.module, tuple(x.shape[1:])),
        start=_start_of_head(case.start, head),
        train=replace(case.train, scaled=x[:n]),
        held_out=replace(case.held_out, scaled=x[n:]),
        x=x,
        pictures=(case.train, case.held_out),
        notes=(
            *case.notes,
            f"what was trained is a head, and it is audited on its {x.shape[-1]} features",
        ),
    )


def _start_of_head(start: Start | None, head: Head) -> Start | None:
    if start is None:
        return None
    part = part_at(start.module, *head.place)
    inside = {id(p) for p in part.parameters()}
    names = {name for name, p in start.module.named_parameters() if id(p) in inside}
    if not start.public:
        return Start(part)
    return Start(part, frozenset(dict(part.named_parameters()))) if names <= start.public else None


def _with_public(case: Case) -> Case:
    """Of features, and of a whole fine-tune, with every other group of held-out images as the
    public sample, and the rest to compare with.
    """
    n, shape = len(case.train), case.train.shape
    inner, outer = case.groups.tensor_split([n])
    own = outer - (most := inner.max() + 1)
    rows = shape[:2] == (1, 1) and shape[2] >= LEAST_FEATURES and case.classifier.first
    tuned = case.pictures is None and case.start is not None and bool(case.start.public)
    if not (rows or tuned) or own.max() + 1 < 2 * LEAST:
        return case
    public, left = torch.nonzero(own % 2 == 0)[:MOST_PUBLIC, 0], torch.nonzero(own % 2)[:, 0]
    sample = case.x[n + public]
    features = sample.flatten(1)
    Public(features)  # which refuses those that do not vary, before anything is attacked
    case = replace(case, notes=(*case.notes, say("sample", len(public))))
    case = case._taken([*range(n)], left.tolist(), torch.cat([inner, most + own[left] // 2]))
    return replace(case, sample=sample) if tuned else replace(case, public=features)
