"""What is audited, read and checked before anything is attacked: network, images, labels,
transform, start, head.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from recon.attacks.heads import Public
from recon.errors import ReconError
from recon_audit.adapters import adapter_scores, first_adapter, on_base
from recon_audit.anatomy import Classifier, examine
from recon_audit.attacks import Released
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
from recon_audit.images import MIN_IMAGES, Expected, Images, load_images
from recon_audit.networks import Subject, subject_of


@dataclass(frozen=True)
class Case:
    """What is audited. Of a head on a frozen backbone, images and inputs are features.

    Attributes:
        subject: the network, and the classifier that it is.
        start: the module before training, where it is known.
        train, held_out: images, and their inputs x (n, C, H, W), x_held_out.
        transform: that was done to them.
        classes: of both sets, and where those are from in words; None without labels.
        fit: how the network fits what is read; None without labels.
        notes: what else the report says of the inputs.
        public (k, d): features that attacks are given.
        sample: public inputs (k, C, H, W) of a whole fine-tune, that attacks are given.
        pictures: the images themselves, where `train` and `held_out` are features.
        unchecked: why the reading is a guess, "" where labels bear it out.
    """

    subject: Subject
    classifier: Classifier
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
) -> Case:
    """What is handed in to `recon.audit`, which see, read and checked; ReconError for what does not
    fit.
    """
    errors, sources = [], (train, held_out)
    subject = subject_of(model, arch) if base is None else on_base(model, base, arch)
    handed_in = on_backbone(subject, backbone)
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
    if fit is not None and fit.sharper:
        notes.append(fit.sharper)
    x, x_held_out = transform(train.scaled), transform(held_out.scaled)
    case = Case(
        subject=subject,
        classifier=classifier,
        start=began,
        train=train,
        held_out=held_out,
        x=x,
        x_held_out=x_held_out,
        transform=transform,
        classes=classes,
        fit=fit,
        notes=tuple(notes),
        unchecked=known.unchecked,
    )
    tuned = began is not None and bool(began.public)
    if head := head_of(classifier, train.shape):
        case, tuned = _on_features(case, head), False
    rows = case.train.shape[:2] == (1, 1) and case.train.shape[2] >= LEAST_FEATURES
    of_features = rows and case.classifier.first is not None
    if not (of_features or tuned) or len(case.held_out) < 2 * MIN_IMAGES:
        return case
    return _with_public(case, tuned)


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


def _with_public(case: Case, tuned: bool) -> Case:
    """With every other held-out image as the public sample, of features or of a whole fine-tune,
    and the rest to compare with.
    """
    public = list(range(0, len(case.held_out), 2))[:MOST_PUBLIC]
    sample = case.x_held_out[public]
    features = sample.flatten(1)
    Public(features)  # which refuses those that do not vary, before anything is attacked
    note = (
        f"{len(public)} of the held-out images are the public sample that attacks on features are"
        " given: with public images of another kind far less comes back"
    )
    others = case.among(sorted(set(range(len(case.held_out))) - set(public)))
    known = {"sample": sample} if tuned else {"public": features}
    return replace(others, notes=(*case.notes, note), **known)
