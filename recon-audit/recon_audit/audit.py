"""How much of its training set does *your* network give away? Attack its weights, then compare with
your images.

Attacks on images (`recon_audit.attacks`) are given the weights, the shape and the number of
the images, never an image. Only when they are done do images enter (`recon_audit.scoring`): those
the network was trained on, as many that it never saw, and mixtures of the former, which nobody
recovered. Membership inference (`recon_audit.membership`) needs images from the start. Both are
tried on networks of which we know the truth, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from math import inf
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import recon
from recon.errors import ReconError, one_reason
from recon.store.machine import check_seed, device_name, resolve_device, versions
from recon_audit import words
from recon_audit.aggregates import aggregates
from recon_audit.attacks import RECONSTRUCTIONS
from recon_audit.comparison import Comparison, Settings, save_attempts
from recon_audit.exchange import Exchangeability, compare_sets
from recon_audit.files import digest
from recon_audit.places import FOLDER, fresh_place
from recon_audit.prepare import PREDICTED, Case, prepare, whole
from recon_audit.report import SCHEMA, Leaked, Report, page
from recon_audit.scoring import Json
from recon_audit.shadows import Recipe, tell
from recon_audit.verdict import INFERRED, Verdict, attack_states, decide, lines, power_words
from recon_audit.words import say

ATTACKS = (*RECONSTRUCTIONS, "membership")
#: profile -> shadows, canaries, seconds
NETWORKS = {"smoke": (4, 1, 300.0), "laptop": (8, 2, inf), "paper": (32, 4, inf)}
SMALL = 3_000_000  # numbers of a network for which one thread is enough
SPENT = 0.8  # of the time on networks: the rest is for what comes after them


def audit(
    model: nn.Module | str | Path,
    train: Any,
    held_out: Any = None,
    *,
    attacks: Sequence[str] | None = None,
    out: str | Path | None = None,
    seed: int = 0,
    device: str = "auto",
    profile: str = "laptop",
    recipe: Recipe | Mapping[str, Any] | None = None,
    shadows: int | None = None,
    canaries: int | None = None,
    time: float | None = None,
    claimed_epsilon: Any = None,
    aggregates_only: bool = False,
    **inputs: Any,
) -> Report:
    """Attack `model`, compare with the images, and say whether it leaks.

    Everything is checked before the attack starts. In `out`, what earlier audits wrote is replaced
    in the end, and goes where this one fails; nothing else there is touched. ReconError for a
    network, images or settings that do not fit, and for a folder where another audit is at work.

    Args:
        model: any `nn.Module` that classifies images, or a file of weights (safetensors, .pt,
            .pth).
        train: the images it was trained on, held_out: images from the same source that it never
            saw; tensors, arrays, data sets, folders, .npz, see `recon_audit.images.load_images`.
        labels: a pair of sequences, a CSV file, or those of the images.
        theta_init: the network before training, where an adversary may know it.
        start: of a fine-tune, where training began (see `public_start`).
        base: the network that `model`, a file or folder of PEFT's with LoRA, adapts.
        transform: what training did to pixels, see `transform_of`; None or "auto" to infer it, see
            `recon_audit.fit`.
        resize, crop: pixels of pictures' shorter side, then of a square in their middle.
        groups: of images that belong together, as of one patient: everything goes by group. A pair
            of sequences, a CSV file of name,group, or "folders".
        trust_labels: labels hold for both sets, as from one source: membership is inferred by them.
        attacks: of ATTACKS, by default all.
        out: where the report goes, None for nowhere.
        arch: of a file, see `subject_of`.
        recipe: how it was trained, None to infer that.
        shadows, canaries: how many networks are trained to compare with, and how many of them are
            attacked, by default as the profile says; 0 canaries leave the power unmeasured.
        time: seconds that it may take: fewer shadows and steps, and the report says so; by default
            300 at profile smoke, else as many as it takes.
        claimed_epsilon: ε that is claimed for the training, or (ε, δ), to compare with.
        aggregates_only: no image, no name of one and no recovered picture in the report or in
            `out`, and numbers for names.
    """
    if profile not in NETWORKS:
        raise ReconError(f"unknown profile '{profile}': choose one of {', '.join(NETWORKS)}")
    usual = NETWORKS[profile]
    shadows = whole(usual[0] if shadows is None else shadows, "shadows")
    canaries = whole(usual[1] if canaries is None else canaries, "canaries")
    with one_reason("attacks must be names"):
        names = attacks.split(",") if isinstance(attacks, str) else [*(attacks or ATTACKS)]
    if unknown := [name for name in names if name not in ATTACKS]:
        raise ReconError(f"unknown attack '{unknown[0]}': choose from {', '.join(ATTACKS)}")
    if min(shadows, canaries) < 0 or ("membership" in names and shadows < 2):
        raise ReconError(
            "the numbers of shadows and canaries must not be negative, and membership needs two"
            " shadows"
        )
    if recipe is not None:
        with one_reason("recipe must be a recon_audit.shadows.Recipe, or have its fields"):
            recipe = Recipe(**(recipe if isinstance(recipe, Mapping) else asdict(recipe)))
    check_seed(seed := whole(seed, "seed"))
    settings = Settings(
        tuple(name for name in ATTACKS if name in names),
        seed,
        profile,
        resolve_device(f"cuda:{device}" if isinstance(device, int) else str(device)),
        shadows,
        canaries,
        recipe,
        monotonic() + SPENT * (usual[2] if time is None else positive(time, "time")),
        claim_of(claimed_epsilon),
    )
    for name in ("resize", "crop"):
        if (pixels := inputs.get(name)) is not None and whole(pixels, name) < 1:
            raise ReconError(f"{name} must be a number of pixels, not {pixels}")
    torch.set_flush_denormal(True)
    with one_reason("out must be a path"):
        folder = None if out is None else Path(out)
    with fresh_place(folder) as fresh, ExitStack() as after:
        try:
            case = prepare(model, train, held_out, **inputs)
        except OSError as error:
            raise ReconError(f"{error.filename} cannot be read: {error.strerror}") from error
        after.callback(torch.set_num_threads, torch.get_num_threads())
        # beside a busy process several threads wait for each other
        if sum(p.numel() for p in case.subject.module.parameters()) < SMALL:
            torch.set_num_threads(1)
        report = audit_case(case, settings, fresh, aggregates_only)
        if fresh:
            report.save(fresh)
    return report


def positive(value: Any, name: str) -> float:
    """As a float; ReconError for what is no positive number."""
    with one_reason(f"{name} must be a positive number, not {value}"):
        if not 0 < float(value) < inf:
            raise ValueError("out of range")
        return float(value)


def claim_of(source: Any) -> tuple[float, float] | None:
    """(ε, δ) as claimed: of one number, δ = 0; of a text, two of them joined by a comma."""
    if source is None:
        return None
    parts = source.split(",") if isinstance(source, str) else np.ravel(source)
    with one_reason(f"claimed_epsilon must be ε or (ε, δ), not {source}"):
        claim = [positive(part, "ε and δ") for part in parts]
        epsilon, delta = claim if len(claim) > 1 else (*claim, 0.0)
        return epsilon, delta


def audit_case(
    case: Case, settings: Settings, folder: Path | None = None, aggregates_only: bool = False
) -> Report:
    """Of what was prepared;

    Args:
        folder: for what attacks recover.
        aggregates_only: without images and names.
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
        case.named,
    )
    compared = case if alike.why_not else case.among(alike)
    report = _about_inputs(case, compared, alike, settings)
    report["aggregates_only"] = aggregates_only
    leaked: list[Leaked] = []
    pictures: Tensor | None = None
    n = 0
    if alike.why_not is None:
        compare = Comparison(compared, settings)
        n = compare.n
        if compare.asked:
            tell(", ".join(compare.asked))
            result, leaked, pictures, tried = compare.images()
            report |= result
            if folder is not None and not aggregates_only:
                save_attempts(tried, folder / FOLDER)
        if compare.needs_shadows:
            inferred, named = compare.with_shadows()
            report, leaked = report | inferred, leaked + named
    # {} where the sets cannot be compared, for the question
    members = report["membership"] or ({} if "membership" in settings.attacks else None)
    verdict = decide(
        report["result"],
        n,
        report["power"],
        members,
        alike.why_not,
        case.fit.why_not if case.fit else None,
        case.unchecked,
    )
    report |= {"verdict": verdict.images, "membership_verdict": verdict.membership}
    report["leaked"] = [asdict(image) for image in _given_away(leaked, verdict, members)]
    report["images"]["scored"] = n
    if aggregates_only:
        report, pictures = aggregates(report), None
    told = lines(report, verdict)
    report |= {
        "lines": told,
        "summary": " ".join(told),
        "tried": attack_states(report),
        "power_words": power_words(report),
        "seconds": round(perf_counter() - began, 2),
    }
    return Report(
        verdict.images,
        verdict.membership,
        told,
        [Leaked(**image) for image in report["leaked"]],
        report,
        page(report, pictures),
    )


def _given_away(leaked: list[Leaked], verdict: Verdict, members: Any) -> list[Leaked]:
    """One entry an image, the most probable first: that it came back, or else that it was trained
    on, of as many as can be named.
    """
    leaked = sorted(leaked, key=lambda image: (-image.probability, -image.score))
    back = [image for image in leaked if image.how != "membership"]
    named = [image for image in leaked if image.how == "membership"]
    most = 0
    if verdict.membership == INFERRED:
        most = next(iter(members["scores"][members["best"]]["named"].values()))["count"]
    first = {image.index: image for image in named[:most] + back}
    return [image for image in leaked if first.get(image.index) is image]


def _about_inputs(case: Case, compared: Case, alike: Exchangeability, settings: Settings) -> Json:
    """The report before anything is attacked."""
    subject, fit, n, x = case.subject, case.fit, len(case.train), case.x[: len(case.train)]
    parameters = list(subject.module.parameters())
    # without the public sample
    left = alike if alike.why_not else compared
    return {
        "schema": SCHEMA,
        "weights": {"file": subject.file, "sha256": subject.sha256, "arch": subject.arch},
        "tensors": subject.tensors,
        "sha256": {
            "train": digest(case.train.scaled.numpy().tobytes()),
            "held_out": digest(case.held_out.scaled.numpy().tobytes()),
            "code": digest(
                *(
                    path.read_bytes()
                    for part in (recon, words)
                    for path in sorted(Path(str(part.__file__)).parent.rglob("*.py"))
                )
            ),
        },
        "network": {
            "outputs": case.classifier.outputs,
            "numbers": sum(p.numel() for p in parameters),
            "trained": sum(p.numel() for p in parameters if p.requires_grad),
            "head": bool(case.pictures or case.train.shape[:2] == (1, 1)),
            "groups": {
                "train": len({*case.named[:n]} - {""}),
                "held_out": len({*case.named[n:]} - {""}),
            },
        },
        "images": {
            "train": n,
            "held_out": len(case.held_out),
            "mean": case.transform.words,
            # whether they are centred, and what would follow otherwise
            "inputs": "" if case.pictures else say("centring", x.mean().item(), x.std().item()),
            "notes": [
                *filter(None, (case.train.note, case.held_out.note)),
                *compared.notes,
                *alike.notes,
            ],
        },
        "fit": fit and asdict(fit) | {"why_not": fit.why_not},
        "exchangeability": {
            "near_copies": alike.copies,
            "p_value": alike.p,
            "why_not": alike.why_not,
            "compared": {"train": len(left.train), "held_out": len(left.held_out)},
        },
        "attacks_asked": list(settings.attacks),
        "seed": settings.seed,
        "profile": settings.profile,
        "device": device_name(settings.device),
        "versions": versions(),
        **dict.fromkeys(("recipe", "result", "power", "membership")),
    }
