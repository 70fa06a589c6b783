"""How much of its training set does *your* network give away? Attack its weights, then compare with
your images.

Three attacks on images (`recon_audit.attacks`) are given the weights, the shape and the number of
the images, never an image. Only when they are done do images enter (`recon_audit.scoring`): those
the network was trained on, as many that it never saw, and mixtures of the former, which nobody
recovered. Membership inference (`recon_audit.membership`) needs images from the start. Both are
tried on networks of which we know the truth, too.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from math import inf
from pathlib import Path
from secrets import token_hex
from time import monotonic, perf_counter
from typing import Any

import torch
from torch import Tensor, nn

import recon
from recon.errors import ReconError, one_reason
from recon.store.machine import check_seed, device_name, resolve_device, versions
from recon_audit import words
from recon_audit.aggregates import aggregates, check_salt
from recon_audit.attacks import RECONSTRUCTIONS
from recon_audit.comparison import Comparison, Settings, save_attempts
from recon_audit.exchange import Exchangeability, compare_sets
from recon_audit.places import FOLDER, fresh_place
from recon_audit.prepare import PREDICTED, Case, prepare
from recon_audit.report import SCHEMA, Leaked, Report, digest, page
from recon_audit.scoring import Json
from recon_audit.shadows import Recipe, tell
from recon_audit.verdict import INFERRED, LEAKS, attack_states, decide, lines, power_words

ATTACKS = (*RECONSTRUCTIONS, "membership")
SHADOWS = {"smoke": 4, "laptop": 8, "paper": 32}
CANARIES = {"smoke": 1, "laptop": 2, "paper": 4}
#: parts of the report that come last, and those that are there where an attack made them
WORDS = (
    "verdict",
    "membership_verdict",
    "lines",
    "tried",
    "power_words",
    "summary",
    "aggregates_only",
    "leaked",
)
RESULTS = (
    "recipe",
    "result",
    "power",
    "membership",
)
SMALL = 3_000_000  # numbers
SPENT = 0.85  # of the time on networks: the rest is for what comes after them


def audit(
    model: nn.Module | str | Path,
    train: Any,
    held_out: Any = None,
    *,
    labels: Any = None,
    theta_init: Any = None,
    start: Any = None,
    backbone: Any = None,
    base: Any = None,
    transform: Any = None,
    resize: int | None = None,
    crop: int | None = None,
    groups: Any = None,
    attacks: Sequence[str] | None = None,
    out: str | Path | None = None,
    seed: int = 0,
    device: str = "auto",
    profile: str = "laptop",
    arch: str | None = None,
    recipe: Recipe | Mapping[str, Any] | None = None,
    shadows: int | None = None,
    canaries: int | None = None,
    time: float | None = None,
    claimed_epsilon: Any = None,
    aggregates_only: bool = False,
    salt: str | None = None,
) -> Report:
    """Attack `model`, compare with the images, and say whether it leaks.

    Everything is checked before the attack starts. In `out`, what earlier audits wrote is replaced
    in the end, and goes where this one fails; nothing else there is touched. ReconError for a
    network, images or settings that do not fit, and for a folder where another audit is at work.

    Args:
        model: any `nn.Module` that classifies images, or a file of weights (safetensors, .pt,
            .onnx).
        train: the images it was trained on, held_out: images from the same source that it never
            saw; tensors, arrays, data sets, folders, .npz, see `recon_audit.images.load_images`.
        labels: a pair of sequences, a CSV file, or those of the images.
        theta_init: the network before training, where an adversary may know it.
        start: of a fine-tune, where training began (see `public_start`), by default public weights
            on this machine that share a matrix with the network.
        backbone: a frozen module that gives a vector, where `model` is a head on it.
        base: the network that `model`, a file or folder of PEFT's with LoRA, adapts.
        transform: what training did to pixels, see `transform_of`; None or "auto" to infer it, see
            `recon_audit.fit`.
        resize, crop: pixels of pictures' shorter side, then of a square in their middle.
        groups: of images that belong together, as of one patient: everything goes by group. A pair
            of sequences, a CSV file of name,group, or "folders".
        attacks: of ATTACKS, by default all.
        out: where the report goes, None for nowhere.
        arch: of a file, see `subject_of`.
        recipe: how it was trained, None to infer that.
        shadows, canaries: how many networks are trained to compare with, and how many of them are
            attacked, by default as the profile says; 0 canaries leave the power unmeasured.
        time: seconds that it may take: fewer shadows and steps, and the report says so.
        claimed_epsilon: ε that is claimed for the training, or (ε, δ), to compare with.
        aggregates_only: no image, no name of one and no recovered picture in the report or in
            `out`, and salted hashes for names; salt: theirs, by default a random one that
            `Report.salt` holds.
    """
    if profile not in SHADOWS:
        raise ReconError(f"unknown profile '{profile}': choose one of {', '.join(SHADOWS)}")
    if salt is not None:
        check_salt(salt)
    counts = (
        whole(SHADOWS[profile] if shadows is None else shadows, "shadows"),
        whole(CANARIES[profile] if canaries is None else canaries, "canaries"),
    )
    chosen = _chosen(attacks)
    if min(counts) < 0 or ("membership" in chosen and counts[0] < 2):
        raise ReconError(
            "the numbers of shadows and canaries must not be negative, and membership needs two"
            " shadows"
        )
    for name, size in (("resize", resize), ("crop", crop)):
        if size is not None and whole(size, name) < 1:
            raise ReconError(f"{name} must be a number of pixels, not {size}")
    if isinstance(recipe, Mapping):
        with one_reason("recipe must have the fields of recon_audit.shadows.Recipe"):
            recipe = Recipe(**recipe)
    if not isinstance(recipe, Recipe | None):
        raise ReconError(f"recipe must be a recon_audit.shadows.Recipe, not {recipe!r:.60}")
    check_seed(seed := whole(seed, "seed"))
    name = f"cuda:{device}" if isinstance(device, int) else str(device)
    until = inf if time is None else monotonic() + SPENT * positive(time, "time")
    claimed = claim_of(claimed_epsilon)
    settings = Settings(
        chosen, seed, profile, resolve_device(name), *counts, recipe, until, claimed
    )
    torch.set_flush_denormal(True)
    with one_reason("out must be a path"):
        folder = None if out is None else Path(out)
    with fresh_place(folder) as fresh:
        try:
            case = prepare(
                model,
                train,
                held_out,
                labels=labels,
                theta_init=theta_init,
                start=start,
                backbone=backbone,
                base=base,
                transform=transform,
                arch=arch,
                resize=resize,
                crop=crop,
                groups=groups,
            )
        except OSError as error:
            raise ReconError(f"{error.filename} cannot be read: {error.strerror}") from error
        with few_threads(case):
            report = audit_case(
                case, settings, fresh, (salt or token_hex(16)) if aggregates_only else None
            )
        if fresh:
            report.save(fresh)
    return report


def whole(value: Any, name: str) -> int:
    """A number that counts; ReconError for what is none."""
    value = int(value) if isinstance(value, float) and value.is_integer() else value
    with one_reason(f"{name} must be a whole number"):
        return operator.index(value)


def _chosen(attacks: Any) -> tuple[str, ...]:
    with one_reason("attacks must be names"):
        names = attacks.split(",") if isinstance(attacks, str) else list(attacks or ATTACKS)
    if unknown := [name for name in names if name not in ATTACKS]:
        raise ReconError(f"unknown attack '{unknown[0]}': choose from {', '.join(ATTACKS)}")
    return tuple(name for name in ATTACKS if name in names)


def positive(value: Any, name: str) -> float:
    """As a float; ReconError for what is no positive number."""
    with one_reason(f"{name} must be a positive number"):
        number = float(value)
    if not 0 < number < inf:
        raise ReconError(f"{name} must be a positive number, not {value}")
    return number


def claim_of(source: Any) -> tuple[float, float] | None:
    """(ε, δ) as claimed: of one number, δ = 0; of a text, two of them joined by a comma."""
    if source is None:
        return None
    parts = source.split(",") if isinstance(source, str) else source
    epsilon, *more = parts if isinstance(parts, list | tuple) else (parts,)
    if len(more) > 1:
        raise ReconError(f"claimed_epsilon must be ε or (ε, δ), not {source}")
    return positive(epsilon, "ε"), positive(more[0], "δ") if more else 0.0


@contextmanager
def few_threads(case: Case) -> Iterator[None]:
    """One thread for a small network: beside a busy process several wait for each other."""
    threads, numbers = (
        torch.get_num_threads(),
        sum(p.numel() for p in case.subject.module.parameters()),
    )
    torch.set_num_threads(1 if numbers < SMALL else threads)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def audit_case(
    case: Case, settings: Settings, folder: Path | None = None, salt: str | None = None
) -> Report:
    """Of what was prepared;

    Args:
        folder: for what attacks recover.
        salt: of a report of aggregates only, which keeps nothing of that, None for a whole one.
    """
    began = perf_counter()
    train, held_out = case.pictures or (case.train, case.held_out)
    tell(f"{len(train)} training and {len(held_out)} held-out images are read, and compared")
    alike = compare_sets(
        train.flat,
        held_out.flat,
        settings.seed,
        # what is predicted may differ because of who was trained on
        None if case.labels.startswith(PREDICTED) else case.y,
        train.names + held_out.names,
        case.named,
    )
    compared = case if alike.why_not else case.among(alike)
    notes = [part.note for part in (case.train, case.held_out) if part.note]
    notes += [*compared.notes, *alike.notes]
    why_not = alike.why_not
    report = _about_inputs(case, alike, notes, settings) | {"aggregates_only": salt is not None}
    pairs, leaked, n = [], [], 0
    if why_not is None:
        counts = {"train": len(compared.train), "held_out": len(compared.held_out)}
        report["exchangeability"]["compared"] = counts  # without the public sample
        compare = Comparison(compared, settings)
        n = compare.n
        if compare.asked:
            tell(", ".join(compare.asked))
            if n < min(compare.sizes):
                notes.append(
                    f"what came back is compared with {n} of the images of each kind, drawn at"
                    " random"
                )
            recovery = compare.images()
            report |= recovery[0]
            leaked, pairs = recovery[1], recovery[2]
            if folder is not None and salt is None:
                save_attempts(recovery[3], folder / FOLDER)
        if compare.needs_shadows:
            inference = compare.with_shadows()
            report |= inference[0]
            leaked = leaked + inference[1]
    misfit = None if case.fit is None else case.fit.why_not
    members = report["membership"]
    if members is None and "membership" in settings.attacks:
        members = {}  # where the sets cannot be compared, for the question
    verdict = decide(report["result"], n, report["power"], members, why_not, misfit, case.unchecked)
    report |= {"verdict": verdict.images, "membership_verdict": verdict.membership}
    given_away = {True: verdict.membership == INFERRED, False: verdict.images == LEAKS}
    leaked = [image for image in leaked if given_away[image.how == "membership"]]
    report["leaked"] = [asdict(image) for image in _worst_of_each(leaked, members)]
    report["images"]["scored"] = n
    if salt is not None:
        report, pairs = aggregates(report, salt), []
    report |= {
        "lines": lines(report, verdict),
        "tried": attack_states(report),
        "power_words": power_words(report),
    }
    report["summary"] = " ".join(report["lines"])
    report["seconds"] = round(perf_counter() - began, 2)
    leaked = [Leaked(**image) for image in report["leaked"]]
    html = page(report, pairs)
    return Report(verdict.images, verdict.membership, report["lines"], leaked, report, html, salt)


def _worst_of_each(leaked: list[Leaked], members: Json | None) -> list[Leaked]:
    """One entry an image, the most probable first: that it came back, or else that it was trained
    on, of as many as can be named.
    """
    leaked = sorted(leaked, key=lambda image: (-image.probability, -image.score))
    recovered = [image for image in leaked if image.how != "membership"]
    rows = list(members["scores"][members["best"]]["named"].values()) if members else []
    most = max(
        [row["count"] for row in rows if row["resolved"]] or [row["count"] for row in rows[:1]],
        default=0,
    )  # noqa: E501
    named = [image for image in leaked if image.how == "membership"][:most]
    first = {image.index: image for image in [*named, *recovered[::-1]]}
    return [image for image in leaked if first.get(image.index) is image]


def _about_inputs(case: Case, alike: Exchangeability, notes: list[str], settings: Settings) -> Json:
    """The report before anything is attacked."""
    subject, fit = case.subject, case.fit
    parameters = list(subject.module.parameters())
    code = [
        path
        for part in (recon, words)
        for path in sorted(Path(str(part.__file__)).parent.rglob("*.py"))
    ]
    counts = {"train": len(case.train), "held_out": len(case.held_out)}
    return {
        "schema": SCHEMA,
        **dict.fromkeys(WORDS),
        "weights": {"file": subject.file, "sha256": subject.sha256, "arch": subject.arch},
        "tensors": subject.tensors,
        "sha256": {
            "train": digest(case.train.pixels.tobytes()),
            "held_out": digest(case.held_out.pixels.tobytes()),
            "code": digest(*(path.read_bytes() for path in code)),
        },
        "network": {
            "outputs": case.classifier.outputs,
            "numbers": sum(p.numel() for p in parameters),
            "trained": sum(p.numel() for p in parameters if p.requires_grad),
            "head": bool(case.pictures or case.train.shape[:2] == (1, 1)),
            "groups": {
                "train": len({*case.named[: len(case.train)]} - {""}),
                "held_out": len({*case.named[len(case.train) :]} - {""}),
            },
        },
        "images": {
            **counts,
            "mean": case.transform.words,
            "inputs": "" if case.pictures else centring(case.x),
            "notes": notes,
        },
        "fit": None if fit is None else asdict(fit) | {"why_not": fit.why_not},
        "exchangeability": {
            "near_copies": alike.copies,
            "p_value": alike.p,
            "why_not": alike.why_not,
            "compared": {"train": len(alike.train), "held_out": len(alike.held_out)},
            "groups": len(alike.groups.unique()),
        },
        "attacks_asked": list(settings.attacks),
        "seed": settings.seed,
        "profile": settings.profile,
        "device": device_name(settings.device),
        "versions": versions(),
        **dict.fromkeys(RESULTS),
    }


def centring(x: Tensor) -> str:
    """Whether inputs x (n, C, H, W) are centred, their mean less than a third of their deviation,
    and what would follow otherwise.
    """
    mean, deviation = x.mean().item(), x.std().item()
    what, otherwise = "Centred", "fewer images where they are raw pixels"
    if 3 * abs(mean) > deviation:
        what, otherwise = "Not centred", "more images where they are"
    inputs = f"inputs have mean {mean:.2f} and deviation {deviation:.2f}"
    return f"{what}: {inputs}. Separation recovers {otherwise}."
