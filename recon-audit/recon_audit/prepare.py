"""What is audited, read and checked before anything is attacked: network, images, labels,
transform, start, head.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recon.attacks.heads import Public
from recon.errors import ReconError
from recon_audit.adapters import adapter_scores, first_adapter, on_base
from recon_audit.anatomy import Classifier, examine
from recon_audit.attacks import Released
from recon_audit.exchange import LEAST, Exchangeability, groups_of, why_no_labels
from recon_audit.fine_tunes import (
    LEAST_FEATURES,
    MOST_PUBLIC,
    Head,
    Start,
    began_at,
    features_of,
    head_of,
    on_backbone,
    part_at,
)
from recon_audit.fit import Fit, Transform, read
from recon_audit.images import Expected, Images, load_images
from recon_audit.networks import Subject, subject_of

PREDICTED = "the network's own predictions"


@dataclass(frozen=True)
class Case:
    """What is audited. Of a head on a frozen backbone, images and inputs are features.

    Attributes:
        subject: the network, and the classifier that it is.
        start: the module before training, where it is known.
        train, held_out: images, and their inputs x (n, C, H, W), x_held_out.
        transform: that was done to them.
        y: classes of all of them, the training ones first, and `labels`, where those are from in
            words; `predicted`: those that the network answers.
        named: groups of all of them as they were given, "" for an image by itself.
        fit: how the network fits what is read; None without labels.
        notes: what else the report says of the inputs.
        public (k, d): features that attacks are given.
        sample: public inputs (k, C, H, W) of a whole fine-tune, that attacks are given.
        pictures: the images themselves, where `train` and `held_out` are features.
        unchecked: why the reading is a guess, "" where labels bear it out.
        n_train: of the training images, also where fewer are compared, the `rows` of those.
        groups: the number of the group of each of all of them, which have `size` images at most.
    """

    subject: Subject
    classifier: Classifier
    start: Start | None
    train: Images
    held_out: Images
    x: Tensor
    x_held_out: Tensor
    transform: Transform
    y: Tensor
    labels: str
    predicted: Tensor
    named: list[str]
    fit: Fit | None
    notes: tuple[str, ...]
    n_train: int
    rows: list[int]
    groups: Tensor
    size: int = 1
    public: Tensor | None = None
    sample: Tensor | None = None
    pictures: tuple[Images, Images] | None = None
    unchecked: str = ""

    @property
    def released(self) -> Released:
        """What attacks on images are given of the network."""
        start = self.start
        if start and not (start.whole or f"{self.classifier.first}.weight" in start.public):
            start = None
        before = start.module if start else None
        return Released.of(self.classifier, before, self.public)

    @property
    def first(self) -> Tensor:
        """Rows (G,) of the first image of every group, the training ones first."""
        return torch.from_numpy(np.unique(self.groups.numpy(), return_index=True)[1])

    @property
    def names(self) -> list[str]:
        """Of the groups of training images: as they were given, or of the first image."""
        rows = [row for row in self.first.tolist() if row < len(self.train)]
        return [self.named[row] or self.train.names[row] for row in rows]

    def by_predictions(self, reason: str) -> Case:
        """With what the network answers in the place of labels."""
        return replace(self, y=self.predicted, labels=f"{PREDICTED}, since {reason}")

    def among(self, alike: Exchangeability) -> Case:
        """With what is compared. Of a head every other held-out group is the public sample."""
        taken = self._taken(alike.train, alike.held_out, alike.groups)
        return _with_public(replace(taken, size=alike.size))

    def _taken(self, rows: list[int], rows_held_out: list[int], groups: Tensor) -> Case:
        pictures, n = self.pictures, len(self.train)
        both = rows + [n + row for row in rows_held_out]
        return replace(
            self,
            train=self.train.take(rows),
            held_out=self.held_out.take(rows_held_out),
            x=self.x[rows],
            x_held_out=self.x_held_out[rows_held_out],
            y=self.y[both],
            predicted=self.predicted[both],
            named=[self.named[row] for row in both],
            rows=[self.rows[row] for row in rows],
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
    backbone: Any = None,
    base: Any = None,
    transform: Any = None,
    arch: str | None = None,
    resize: int | None = None,
    crop: int | None = None,
    groups: Any = None,
) -> Case:
    """What is handed in to `recon.audit`, which see, read and checked; ReconError for what does not
    fit.
    """
    errors, sources = [], (train, held_out)
    handed_in = on_backbone(
        subject_of(model, arch) if base is None else on_base(model, base, arch), backbone
    )
    # in the shape that the first registered layer takes; where the layer that sees the images is
    # another one, in the shape that they have
    for expected in (handed_in.expected, Expected()):
        try:
            expected = replace(expected, resize=resize, crop=crop)
            (train, held_out) = load_images(*sources, expected)
            known = read(handed_in, train, held_out, labels, transform)
            break
        except ReconError as error:
            errors.append(error)
    else:
        raise errors[0]
    subject, classifier, classes, fit = known.subject, known.classifier, known.classes, known.fit
    transform, began = known.transform, began_at(subject, arch, theta_init, start)
    notes = [*known.notes, *_notes(subject, began)]
    x, x_held_out = transform(train.scaled), transform(held_out.scaled)
    logits = classifier.logits(torch.cat([x, x_held_out]))
    predicted = (logits[:, 0] > 0).long() if classifier.outputs == 1 else logits.argmax(1)
    y, origin, doubt = _classes(logits, predicted, classes, fit)
    if classes is None and train.labels is not None and held_out.labels is not None:
        doubt = "the images' labels do not fit its outputs"
    case = Case(
        subject=subject,
        classifier=classifier,
        start=began,
        train=train,
        held_out=held_out,
        x=x,
        x_held_out=x_held_out,
        transform=transform,
        y=y,
        labels=origin,
        predicted=predicted,
        named=groups_of(train, held_out, groups),
        fit=fit,
        notes=tuple(notes),
        unchecked=known.unchecked,
        n_train=len(train),
        rows=list(range(len(train))),
        groups=torch.arange(len(y)),
    )
    case = case if doubt is None else case.by_predictions(doubt)
    head = head_of(classifier, train.shape)
    return _on_features(case, head) if head else case


def _classes(
    logits: Tensor, predicted: Tensor, labels: tuple[Tensor, Tensor, str] | None, fit: Fit | None
) -> tuple[Tensor, str, str | None]:
    """Of all images, the training ones first, where they are from, and why they are not used."""
    if labels is None:
        return predicted, "", "no labels were given"
    *parts, origin = labels
    y, n = torch.cat(parts), len(parts[0])
    if logits.shape[1] <= 2 and (y == predicted)[:n].double().mean() < 0.5:
        y, origin = 1 - y, f"{origin}, the other way round, as the network has them"
    if fit is not None and fit.why_not is not None:
        return y, origin, None
    return y, origin, why_no_labels(logits[n:], y[:n], y[n:])


def _notes(subject: Subject, start: Start | None) -> list[str]:
    parameters = list(subject.module.parameters())
    frozen = sum(not p.requires_grad for p in parameters)
    notes = []
    if start is not None and start.public:
        notes.append(
            f"training began at {len(start.public)} tensors that are public, and so do the shadow"
            " networks"
        )
    if first := first_adapter(subject.module):
        sure = "do" if "certificate" in adapter_scores(subject.module) else "do not"
        notes.append(f"the factors of the adapter of layer {first[0]} {sure} certify members")
    if frozen:
        notes.append(
            f"{frozen} of {len(parameters)} parameters were frozen, and are in the shadow networks"
        )
    return notes


def _on_features(case: Case, head: Head) -> Case:
    """The case of the trained part alone, which is given features."""
    x, x_held_out = (
        features_of(head, case.classifier, inputs) for inputs in (case.x, case.x_held_out)
    )
    note = f"what was trained is a head, and it is audited on its {x.shape[-1]} features"
    return replace(
        case,
        subject=replace(case.subject, module=head.module),
        classifier=examine(head.module, tuple(x.shape[1:])),
        start=_start_of_head(case.start, head),
        train=replace(case.train, pixels=x.numpy()),
        held_out=replace(case.held_out, pixels=x_held_out.numpy()),
        x=x,
        x_held_out=x_held_out,
        transform=Transform(case.transform.words),
        pictures=(case.train, case.held_out),
        notes=(*case.notes, note),
    )


def _start_of_head(start: Start | None, head: Head) -> Start | None:
    if start is None:
        return None
    module = part_at(start.module, *head.place)
    if not start.public:
        return Start(module)
    public = {id(p) for name, p in start.module.named_parameters() if name in start.public}
    if not all(id(p) in public for p in module.parameters()):
        return None
    return Start(module, frozenset(name for name, _ in module.named_parameters()))


def _with_public(case: Case) -> Case:
    """Of features, and of a whole fine-tune, with every other group of held-out images as the
    public sample, and the rest to compare with.
    """
    n = len(case.train)
    own = case.groups[n:] - case.groups[:n].max() - 1
    rows = case.train.shape[:2] == (1, 1) and case.train.shape[2] >= LEAST_FEATURES
    tuned = case.pictures is None and case.start is not None and bool(case.start.public)
    of_features = rows and case.classifier.first is not None
    if not (of_features or tuned) or own.max() + 1 < 2 * LEAST:
        return case
    public = torch.nonzero(own % 2 == 0)[:MOST_PUBLIC, 0]
    sample = case.x_held_out[public]
    features = sample.flatten(1)
    Public(features)  # which refuses those that do not vary, before anything is attacked
    note = (
        f"{len(public)} of the held-out images are the public sample that attacks on features are"
        " given: with public images of another kind far less comes back"
    )
    left = torch.nonzero(own % 2 == 1)[:, 0]
    groups = torch.cat([case.groups[:n], case.groups[:n].max() + 1 + own[left] // 2])
    others = case._taken(list(range(n)), left.tolist(), groups)
    others = replace(others, notes=(*case.notes, note))
    return replace(others, sample=sample) if tuned else replace(others, public=features)
