"""What is audited, read and checked before anything is attacked: network, images, labels, transform, start, head."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from recon.auditing.anatomy import Anatomy, anatomy, first_layer_of, start_of_layer
from recon.auditing.attacks import Released
from recon.auditing.comparison import Case, of_features
from recon.auditing.fit import fit_of, inferred_transform
from recon.auditing.heads import LEAST_FEATURES, Head, OnBackbone, as_images, features_of, head_of, public_half
from recon.auditing.images import Expected, Images
from recon.auditing.inputs import MIN_IMAGES, load_images
from recon.auditing.labels import classes_of
from recon.auditing.networks import Subject, subject_of
from recon.auditing.starts import Start, found_start, public_start, start_of
from recon.auditing.transforms import Transform, transform_of
from recon.errors import ReconError

Classes = tuple[Tensor, Tensor, str] | None


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
) -> tuple[Case, Classes]:
    """Everything read and checked, and what `classes_of` says of all images; ReconError for what does not fit."""
    subject = subject_of(model, arch)
    if backbone is not None:
        subject = replace(subject, module=subject_of(OnBackbone(_backbone(backbone), subject.module)).module)
    began = _began(subject, theta_init, start, arch)
    pair, seen = _watched_on(subject, train, held_out)
    known = classes_of(*pair, labels, seen.outputs)
    y = None if known is None else known[0]
    if transform is None or (isinstance(transform, str) and transform == "auto"):
        done = inferred_transform(subject.module, seen, pair[0], y)
    else:
        done = transform_of(transform, pair[0])
    fit = None if y is None else fit_of(subject.module, seen, pair[0], done, y, subject.assumed)
    x, x_held_out = (done(part.scaled) for part in pair)
    notes = (*_notes(subject, began), *([fit.sharper] if fit and fit.sharper else []))
    case = Case(subject, seen, Released(None), began, *pair, x, x_held_out, done, fit, notes=notes)
    if head := head_of(subject.module, seen, pair[0].shape):
        case = _on_features(case, head)
    rows = case.train.shape[:2] == (1, 1) and case.train.shape[2] >= LEAST_FEATURES
    if case.seen.first is None or not rows or len(case.held_out) < 2 * MIN_IMAGES:
        return replace(case, released=_released(case)), known
    return _with_public(case, known)


def _began(subject: Subject, theta_init: Any, start: Any, arch: str | None) -> Start | None:
    if theta_init is not None and start is not None:
        raise ReconError("give theta_init, a random start that may be known, or start, of a fine-tune, and not both")
    if theta_init is not None:
        return start_of(subject, theta_init, arch)
    found = found_start(subject) if start is None else start
    return None if found is None else public_start(subject, found)


def _backbone(given: Any) -> Any:
    """A module or `Backbone`, or one of `recon.images.features` by its name."""
    if isinstance(given, str):
        from recon.images.features import backbone

        return backbone(given)
    if not isinstance(given, nn.Module) and not isinstance(getattr(given, "module", None), nn.Module):
        raise ReconError(f"the backbone must be an nn.Module or the name of one, not a {type(given).__name__}")
    return given


def _notes(subject: Subject, began: Start | None) -> tuple[str, ...]:
    parameters = list(subject.module.parameters())
    frozen = [p for p in parameters if not p.requires_grad]
    said = ["the file does not say which activations stand between its layers: ReLU is assumed"] * subject.assumed
    if began is not None and began.public:
        said.append(f"training began at {len(began.public)} tensors that are public, and so do the shadow networks")
    if frozen:
        said.append(f"{len(frozen)} of {len(parameters)} parameters were frozen, and are in the shadow networks")
    return tuple(said)


def _released(case: Case) -> Released:
    """What attacks on images are given of the network."""
    seen, module, start = case.seen, case.subject.module, case.start
    w1 = w1_init = None
    if seen.first is not None:
        w1 = first_layer_of(module, seen.first, case.train.shape)
        w1_init = start_of_layer(module, seen.first, case.train.shape)
        if start is not None and (start.whole or f"{seen.first}.weight" in start.public):
            w1_init = first_layer_of(start.module, seen.first, case.train.shape)
    return Released(w1, w1_init, seen.first_why_not, seen.mlp, seen.theta, seen.mlp_why_not)


def _on_features(case: Case, head: Head) -> Case:
    """The case of the trained part alone, which is given features."""
    module, seen = case.subject.module, case.seen
    x, x_held_out = (features_of(module, head, seen, part) for part in (case.x, case.x_held_out))
    start = None
    if case.start is not None and set(head.name.values()) <= (case.start.public or set(head.name.values())):
        there = dict(case.start.module.named_parameters())
        inner = copy.deepcopy(head.module)
        inner.load_state_dict({name: there[full].detach() for name, full in head.name.items()}, strict=False)
        start = Start(inner, frozenset(head.name) if case.start.public else frozenset())
    nothing = Transform(case.transform.words, torch.zeros(x.shape[1:]), torch.ones(1))
    return replace(
        case,
        subject=replace(case.subject, module=head.module),
        seen=anatomy(head.module, tuple(x.shape[1:])),
        start=start,
        train=as_images(case.train, x),
        held_out=as_images(case.held_out, x_held_out),
        x=x,
        x_held_out=x_held_out,
        transform=nothing,
        pictures=(case.train, case.held_out),
        notes=(*case.notes, f"what was trained is a head, and it is audited on its {x.shape[-1]} features"),
    )


def _with_public(case: Case, known: Classes) -> tuple[Case, Classes]:
    """With every other held-out image as the public sample of features, and the rest to compare with."""
    public, rows = public_half(case.held_out)
    if known is not None:
        known = (known[0], known[1][rows], known[2])
    features = case.x_held_out[public].flatten(1)
    if not (features.std(0) > 0).any():
        raise ReconError("all features of the held-out images are alike: the network is given nothing that varies")
    pictures = case.pictures and (case.pictures[0], case.pictures[1].take(rows))
    note = f"{len(public)} of the held-out images are the public sample that attacks on features are given"
    case = replace(
        case,
        held_out=case.held_out.take(rows),
        x_held_out=case.x_held_out[rows],
        public=features,
        pictures=pictures,
        notes=(*case.notes, note),
    )
    return replace(case, released=of_features(_released(case), features)), known


def _watched_on(subject: Subject, train: Any, held_out: Any) -> tuple[tuple[Images, Images], Anatomy]:
    """Both sets, in the shape that the first registered layer takes, and the network at work on it; where the layer
    that sees the images is another one, in the shape that they have."""
    try:
        pair = load_images(train, held_out, Expected(subject.dim, subject.channels))
        return pair, anatomy(subject.module, pair[0].shape)
    except ReconError as error:
        try:
            pair = load_images(train, held_out)
            return pair, anatomy(subject.module, pair[0].shape)
        except ReconError:
            raise error from None
