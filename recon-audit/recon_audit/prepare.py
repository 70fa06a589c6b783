"""What is audited, read and checked before anything is attacked: network, images, labels,
transform, start, head.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from recon.errors import ReconError
from recon_audit.anatomy import Anatomy, anatomy
from recon_audit.attacks import Released
from recon_audit.fine_tunes import (
    LEAST_FEATURES,
    MOST_PUBLIC,
    Head,
    OnBackbone,
    Start,
    features_of,
    found_start,
    head_of,
    public_start,
    start_of,
)
from recon_audit.fit import Fit, Transform, fit_of, inferred_transform, transform_of
from recon_audit.images import Images, classes_of
from recon_audit.inputs import MIN_IMAGES, load_images
from recon_audit.networks import Subject, subject_of


@dataclass(frozen=True)
class Case:
    """What is audited:

    Of a head on a frozen backbone, images and inputs are features;

    Attributes:
        subject, seen (its anatomy), start (the module before training, where it is known), train
            and held_out images and their inputs x (n, C, H, W), the transform, their classes and
            where those are from in words, and how the network fits what is read (both None without
            labels).
        notes: what else the report says of the inputs.
        public (k, d): those that attacks are given.
        pictures: the images themselves.
    """

    subject: Subject
    seen: Anatomy
    start: Start | None
    train: Images
    held_out: Images
    x: Tensor
    x_held_out: Tensor
    transform: Transform
    classes: tuple[Tensor, Tensor, str] | None
    fit: Fit | None
    notes: tuple[str, ...]
    public: Tensor | None = None
    pictures: tuple[Images, Images] | None = None

    @property
    def released(self) -> Released:
        """What attacks on images are given of the network."""
        start, first = self.start, f"{self.seen.first}.weight"
        known = start is not None and (start.whole or first in start.public)
        return Released.of(
            self.subject.module, self.seen, start.module if start and known else None, self.public
        )

    def among(self, rows: list[int]) -> Case:
        """With these rows of the held-out images."""
        classes, pictures = self.classes, self.pictures
        return replace(
            self,
            held_out=self.held_out.take(rows),
            x_held_out=self.x_held_out[rows],
            classes=classes and (classes[0], classes[1][rows], classes[2]),
            pictures=pictures and (pictures[0], pictures[1].take(rows)),
        )


def prepared(
    model: Any,
    train: Any,
    held_out: Any,
    labels: Any,
    theta_init: Any,
    transform: Any,
    arch: str | None,
    start: Any = None,
    backbone: Any = None,
) -> Case:
    """Everything read and checked; ReconError for what does not fit."""
    subject = subject_of(model, arch)
    if backbone is not None:
        subject = replace(subject, module=subject_of(OnBackbone(backbone, subject.module)).module)
    if theta_init is not None and start is not None:
        raise ReconError(
            "give theta_init, a random start that may be known, or start, of a fine-tune, and not"
            " both"
        )
    if theta_init is not None:
        began: Start | None = start_of(subject, theta_init, arch)
    else:
        found = found_start(subject) if start is None else start
        began = None if found is None else public_start(subject, found)
    pair, seen = _watched_on(subject, train, held_out)
    classes = classes_of(*pair, labels, seen.outputs)
    y = None if classes is None else classes[0]
    if transform is None or (isinstance(transform, str) and transform == "auto"):
        done = inferred_transform(subject.module, seen, pair[0], y)
    else:
        done = transform_of(transform, pair[0])
    fit = None if y is None else fit_of(subject.module, seen, pair[0], done, y, subject.assumed)
    notes = (*_notes(subject, began), *([fit.sharper] if fit and fit.sharper else []))
    x, x_held_out = (done(part.scaled) for part in pair)
    case = Case(subject, seen, began, *pair, x, x_held_out, done, classes, fit, notes)
    if head := head_of(subject.module, seen, pair[0].shape):
        case = _on_features(case, head)
    rows = case.train.shape[:2] == (1, 1) and case.train.shape[2] >= LEAST_FEATURES
    if case.seen.first is None or not rows or len(case.held_out) < 2 * MIN_IMAGES:
        return case
    return _with_public(case)


def _notes(subject: Subject, began: Start | None) -> tuple[str, ...]:
    parameters = list(subject.module.parameters())
    frozen = [p for p in parameters if not p.requires_grad]
    said = [
        "the file does not say which activations stand between its layers: ReLU is assumed"
    ] * subject.assumed
    if began is not None and began.public:
        said.append(
            f"training began at {len(began.public)} tensors that are public, and so do the shadow"
            " networks"
        )
    if frozen:
        said.append(
            f"{len(frozen)} of {len(parameters)} parameters were frozen, and are in the shadow"
            " networks"
        )
    return tuple(said)


def _on_features(case: Case, head: Head) -> Case:
    """The case of the trained part alone, which is given features."""
    module, seen = case.subject.module, case.seen
    x, x_held_out = (features_of(module, head, seen, part) for part in (case.x, case.x_held_out))
    start = None
    if case.start is not None and set(head.name.values()) <= (
        case.start.public or set(head.name.values())
    ):
        there = dict(case.start.module.named_parameters())
        inner = copy.deepcopy(head.module)
        inner.load_state_dict(
            {name: there[full].detach() for name, full in head.name.items()}, strict=False
        )
        start = Start(inner, frozenset(head.name) if case.start.public else frozenset())
    return replace(
        case,
        subject=replace(case.subject, module=head.module),
        seen=anatomy(head.module, tuple(x.shape[1:])),
        start=start,
        train=replace(case.train, pixels=x.numpy()),
        held_out=replace(case.held_out, pixels=x_held_out.numpy()),
        x=x,
        x_held_out=x_held_out,
        transform=Transform(case.transform.words, torch.zeros(x.shape[1:]), torch.ones(1)),
        pictures=(case.train, case.held_out),
        notes=(
            *case.notes,
            f"what was trained is a head, and it is audited on its {x.shape[-1]} features",
        ),
    )


def _with_public(case: Case) -> Case:
    """With every other held-out image as the public sample of features, and the rest to compare
    with.
    """
    public = list(range(0, len(case.held_out), 2))[:MOST_PUBLIC]
    features = case.x_held_out[public].flatten(1)
    if not (features.std(0) > 0).any():
        raise ReconError(
            "all features of the held-out images are alike: the network is given nothing that"
            " varies"
        )
    note = (
        f"{len(public)} of the held-out images are the public sample that attacks on features are"
        " given"
    )
    rest = case.among(sorted(set(range(len(case.held_out))) - set(public)))
    return replace(rest, public=features, notes=(*case.notes, note))


def _watched_on(
    subject: Subject, train: Any, held_out: Any
) -> tuple[tuple[Images, Images], Anatomy]:
    """Both sets, in the shape that the first registered layer takes, and the network at work on it;
    where the layer that sees the images is another one, in the shape that they have.
    """
    try:
        pair = load_images(train, held_out, subject.expected)
        return pair, anatomy(subject.module, pair[0].shape)
    except ReconError as error:
        try:
            pair = load_images(train, held_out)
            return pair, anatomy(subject.module, pair[0].shape)
        except ReconError:
            raise error from None
