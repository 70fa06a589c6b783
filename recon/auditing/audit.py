"""How much of its training set does *your* network give away?  Attack its weights, then compare with your images.

Three attacks on images (`recon.auditing.attacks`) are given the weights, the shape and the number of the images, never
an image.  Only when they are done do images enter (`recon.auditing.scoring`): those the network was trained on, as many
that it never saw, and mixtures of the former, which nobody recovered.  Membership inference
(`recon.auditing.membership`) needs images from the start.  Both are tried on networks of which we know the truth, too.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from recon.auditing import membership as membership_attack
from recon.auditing.attacks import RECONSTRUCTIONS, Attempt, Released, attempts, check_profile
from recon.auditing.exchangeable import Exchangeability, compared
from recon.auditing.inputs import (
    MIN_IMAGES,
    Expected,
    Images,
    Transform,
    classes_of,
    load_images,
    transform_of,
)
from recon.auditing.networks import (
    Anatomy,
    Subject,
    anatomy,
    first_layer_of,
    logits_of,
    loss_of,
    printable,
    start_of,
    subject_of,
)
from recon.auditing.page import Picture, Row, page
from recon.auditing.report import FILES, SCHEMA, Leaked, Report, as_data
from recon.auditing.scoring import DECISIVE, LEVEL, Nulls, first_layer, matches, score
from recon.auditing.shadows import Recipe, Shadows, inferred, shadow_start, train_shadows
from recon.auditing.verdict import INFERRED, LEAKS, Power, decide
from recon.chapters.run import check_seed
from recon.errors import ReconError
from recon.scoring.matching import one_to_one, padded
from recon.store.files import one_sentence, only_one
from recon.store.machine import device_name, resolve_device, versions

ATTACKS = (*RECONSTRUCTIONS, "membership")
SHADOWS = {"smoke": 4, "laptop": 8, "paper": 32}
CANARIES = {"smoke": 1, "laptop": 2, "paper": 4}
NEAR = 0.5  # share of what can be explained of layer 1: training images that reach it are "near stationarity"
SHOWN = 12
FOLDER = "audit-attack"  # in the output folder, whose own files (another program's checkpoints?) are left alone
LEFTOVERS = tuple(f".{name}.*" for name in (*FILES, "report.xml")) + (f"{FOLDER}/.*",)


@dataclass(frozen=True)
class Settings:
    """attacks: of ATTACKS · seed, profile, device · shadows, canaries: numbers of networks · recipe: None to infer."""

    attacks: tuple[str, ...]
    seed: int
    profile: str
    device: torch.device
    shadows: int
    canaries: int
    recipe: Recipe | None


@dataclass(frozen=True)
class Case:
    """What is audited: subject, seen (its anatomy), released (what attacks are given), start (the module before
    training, where it is known), train and held_out images and their inputs x (n, C, H, W), the transform."""

    subject: Subject
    seen: Anatomy
    released: Released
    start: nn.Module | None
    train: Images
    held_out: Images
    x: Tensor
    x_held_out: Tensor
    transform: Transform


def audit(
    model: nn.Module | str | Path,
    train: Any,
    held_out: Any = None,
    *,
    labels: Any = None,
    theta_init: Any = None,
    transform: Any = None,
    attacks: Sequence[str] = ATTACKS,
    out: str | Path | None = None,
    seed: int = 0,
    device: str = "auto",
    profile: str = "laptop",
    arch: str | None = None,
    recipe: Recipe | None = None,
    shadows: int | None = None,
    canaries: int | None = None,
) -> Report:
    """Attack `model`, compare with the images, and say whether it leaks.

    model: any `nn.Module` that classifies images, or a file of weights (safetensors, .pt, .onnx) · train: the images it
    was trained on, held_out: images from the same source that it never saw; tensors, arrays, data sets, folders, .npz,
    see `recon.auditing.inputs.load_images` · labels: a pair of sequences, a CSV file, or those of the images ·
    theta_init: the network before training, where an adversary may know it · transform: what training did to pixels,
    see `transform_of` · attacks: of ATTACKS · out: where the report goes, None for nowhere · arch: of a file, see
    `subject_of` · recipe: how it was trained, None to infer that · shadows, canaries: how many networks are trained to
    compare with, and how many of them are attacked, by default as the profile says; 0 canaries leave the power
    unmeasured.

    Everything is checked before the attack starts; older reports in `out` go first.  ReconError for a network, images
    or settings that do not fit, and for a folder where another audit is at work.
    """
    check_seed(seed)
    check_profile(profile)
    attacks = attacks.split(",") if isinstance(attacks, str) else attacks
    unknown = [name for name in attacks if name not in ATTACKS]
    if unknown or not attacks:
        raise ReconError(f"unknown attack '{''.join(unknown[:1])}': choose from {', '.join(ATTACKS)}")
    chosen = tuple(name for name in ATTACKS if name in attacks)
    counts = (SHADOWS[profile] if shadows is None else shadows, CANARIES[profile] if canaries is None else canaries)
    if min(counts) < 0 or ("membership" in chosen and counts[0] < 2):
        raise ReconError("the numbers of shadows and canaries must not be negative, and membership needs two shadows")
    settings = Settings(chosen, seed, profile, resolve_device(device), *counts, recipe)
    torch.set_flush_denormal(True)
    with _folder(out) as folder:
        case = prepared(model, train, held_out, theta_init, transform, arch)
        report = audited(case, labels, settings, folder)
        if out is not None:
            report.save(folder)
    return report


@contextmanager
def _folder(out: str | Path | None) -> Iterator[Path]:
    """A folder that this audit has to itself, without an older report; a temporary one for None."""
    if out is None:
        with tempfile.TemporaryDirectory(prefix="recon-audit-") as name:
            yield Path(name)
        return
    folder = Path(out)
    with ExitStack() as held:
        with one_sentence(f"the report cannot be written to {folder}"):
            held.enter_context(only_one(folder, *LEFTOVERS))
            if not os.access(folder, os.W_OK):
                raise PermissionError(0, "no permission to write there")
            for name in FILES:  # a failed audit must not leave the answer of another
                (folder / name).unlink(missing_ok=True)
        yield folder


def prepared(model: Any, train: Any, held_out: Any, theta_init: Any, transform: Any, arch: str | None) -> Case:
    """Everything read and checked; ReconError for what does not fit."""
    subject = subject_of(model, arch)
    pair = load_images(train, held_out, Expected(subject.dim, subject.channels))
    done = transform_of(transform, pair[0])
    x, x_held_out = (done(part.scaled) for part in pair)
    seen = anatomy(subject.module, pair[0].shape)
    start = None if theta_init is None else start_of(subject, theta_init, arch)
    w1 = w1_init = None
    if seen.first is not None:
        w1 = first_layer_of(subject.module, seen.first)
        w1_init = None if start is None else first_layer_of(start, seen.first)
    released = Released(w1, w1_init, seen.first_why_not, seen.mlp, seen.theta, seen.mlp_why_not)
    return Case(subject, seen, released, start, *pair, x, x_held_out, done)


def audited(case: Case, labels: Any, settings: Settings, folder: Path) -> Report:
    """The whole audit of what was prepared."""
    began = time.perf_counter()
    alike = compared(case.train.scaled, case.held_out.scaled, settings.seed)
    notes = [part.note for part in (case.train, case.held_out) if part.note]
    if alike.copies:
        notes.append(
            f"compared with {len(alike.kept)} of {len(case.held_out)} held-out images, because {len(alike.copies)} are "
            f"near-copies of training images (the first: {case.held_out.names[alike.copies[0][0]]} of "
            f"{case.train.names[alike.copies[0][1]]}, NCC {alike.copies[0][2]:.3f})"
        )
    why_not = alike.why_not
    if why_not is None and len(alike.kept) < MIN_IMAGES:
        why_not = f"only {len(alike.kept)} held-out images are left"
    report: dict[str, Any] = {
        "schema": SCHEMA,
        **dict.fromkeys(("verdict", "membership_verdict", "summary")),
        "leaked": [],
        **_about_inputs(case, alike, notes, settings),
        **dict.fromkeys(
            ("settings", "multiplier_scale", "first_layer", "recipe", "result", "power", "membership", "matches")
        ),
    }
    pairs: list[tuple[Row, Row]] = []
    leaked: list[Leaked] = []
    n, power = 0, None
    if why_not is None:
        held_out = case.held_out.take(alike.kept)
        compare = Comparison(case, held_out, case.x_held_out[alike.kept], settings, folder)
        n = compare.n
        if compare.reconstructions:
            report |= compare.images()
            pairs = compare.pairs
        if compare.needs_shadows:
            known = classes_of(case.train, case.held_out, labels, case.seen.outputs)
            report |= compare.shadowed(known, alike.kept)
            power = compare.power
        leaked = compare.leaked(report)
    verdict = decide(report["result"], n, power, _membership(report, settings), why_not)
    report |= {"verdict": verdict.images, "membership_verdict": verdict.membership, "summary": verdict.sentence}
    if verdict.images != LEAKS:
        leaked = [each for each in leaked if each.how == "membership"]
    if verdict.membership != INFERRED:
        leaked = [each for each in leaked if each.how != "membership"]
    leaked.sort(key=lambda each: (-each.probability, -each.score))
    report["leaked"] = as_data(leaked)
    report["images"]["scored"] = n
    report["seconds"] = round(time.perf_counter() - began, 2)
    words = "" if report["first_layer"] is None else regime(report["first_layer"])
    return Report(verdict.images, verdict.membership, verdict.sentence, leaked, report, page(report, pairs, words))


def _membership(report: dict[str, Any], settings: Settings) -> dict[str, Any] | None:
    """The table of membership; without one, where the sets cannot be compared, an empty one stands for the question."""
    return (
        report["membership"] if report["membership"] is not None else ({} if "membership" in settings.attacks else None)
    )


def _about_inputs(case: Case, alike: Exchangeability, notes: list[str], settings: Settings) -> dict[str, Any]:
    subject = case.subject
    return {
        "weights": {"file": subject.file, "sha256": subject.sha256, "arch": subject.arch},
        "tensors": subject.tensors,
        "images": {
            "train": len(case.train),
            "held_out": len(case.held_out),
            "mean": case.transform.words,
            "notes": notes,
        },
        "exchangeability": {"near_copies": len(alike.copies), "p_value": alike.p, "why_not": alike.why_not},
        "attacks_asked": list(settings.attacks),
        "seed": settings.seed,
        "profile": settings.profile,
        "device": device_name(settings.device),
        "versions": versions(),
    }


class Comparison:
    """The attacks on one network, and what they are compared with."""

    def __init__(self, case: Case, held_out: Images, x_held_out: Tensor, settings: Settings, folder: Path) -> None:
        self.case, self.held_out, self.settings, self.folder = case, held_out, settings, folder
        self.x, self.x_held_out = case.x, x_held_out
        self.shape = case.train.shape
        self.n = min(len(case.train), len(held_out))
        self.reconstructions = tuple(name for name in RECONSTRUCTIONS if name in settings.attacks)
        self.power: Power | None = None
        self.pairs: list[tuple[Row, Row]] = []
        self.tried: list[Attempt] = []
        self.inferred: membership_attack.Inferred | None = None
        self.centred: dict[str, Tensor] = {}
        self.parts: dict[str, Images] = {}

    @property
    def applicable(self) -> tuple[str, ...]:
        """Attacks on images that this architecture allows."""
        released = self.case.released
        given = {"separation": released.w1, "rows": released.w1, "decoreco": released.theta}
        return tuple(name for name in self.reconstructions if given[name] is not None)

    @property
    def needs_shadows(self) -> bool:
        """For membership, or to measure what the attacks on images would have found."""
        return "membership" in self.settings.attacks or bool(self.settings.canaries and self.applicable)

    @property
    def looks(self) -> int:
        """Tests of this audit, over which the error is held."""
        asked = len(self.applicable) * len(DECISIVE) + 2 * ("membership" in self.settings.attacks)
        return max(asked, 1)

    # -------------------------------------------------------------------------------------------------- on images

    def images(self) -> dict[str, Any]:
        """Attack, then compare: `result`, `first_layer`, `matches` and what belongs to them."""
        settings, case = self.settings, self.case
        released = moved(case.released, settings.device)
        self.tried = attempts(
            released,
            self.shape,
            len(case.train),
            settings.profile,
            settings.seed,
            self.folder / FOLDER,
            self.reconstructions,
        )
        rows = {
            "train": _subset(len(case.train), self.n, settings.seed),
            "held_out": _subset(len(self.held_out), self.n, settings.seed),
        }
        self.parts = {"train": case.train.take(rows["train"]), "held_out": self.held_out.take(rows["held_out"])}
        inputs = {"train": self.x[rows["train"]], "held_out": self.x_held_out[rows["held_out"]]}
        self.centred = {name: part.flatten(1).to(settings.device) for name, part in inputs.items()}
        result = self._scored(self.tried, self.centred["train"], self.centred["held_out"], released)
        for attempt in self.tried:
            result["attacks"][attempt.name] |= _about(attempt)
        x_hat = next(attempt.x_hat for attempt in self.tried if attempt.name == result["attack"]).to(settings.device)
        pairs = {name: matches(x_hat, x, SHOWN) for name, x in self.centred.items()}
        shown = [
            _pictures(x_hat, case.transform, inputs[name], self.parts[name], found) for name, found in pairs.items()
        ]
        self.pairs = list(zip(*shown, strict=True))
        self.rows = rows["train"]
        return {
            "result": result,
            "matches": {
                name: [{"candidate": c, "image": self.parts[name].names[i], "ncc": value} for c, i, value in found]
                for name, found in pairs.items()
            },
            **_of_decoreco(released, self.tried, self.x.flatten(1), self.x_held_out.flatten(1)),
        }

    def _scored(self, tried: list[Attempt], train: Tensor, held_out: Tensor, released: Released) -> dict[str, Any]:
        device = self.settings.device
        update = train.new_zeros(1, train.shape[1]) if released.update is None else released.update.to(device)
        shape = self.shape if self.case.transform.function is None else ()
        nulls = Nulls.of(update, train, held_out, self.settings.seed, shape)
        mean, std = (
            each.expand(self.shape).flatten().to(device) for each in (self.case.transform.mean, self.case.transform.std)
        )
        return score({attempt.name: attempt.x_hat.to(device) for attempt in tried}, nulls, mean, self.looks, std)

    # ------------------------------------------------------------------------------------------------ with shadows

    def shadowed(self, known: tuple[Tensor, Tensor, str] | None, kept: list[int]) -> dict[str, Any]:
        """Shadow networks, membership and power: `recipe`, `membership`, `power`.

        known: classes of training and of all held-out images, None for the network's own predictions · kept: the rows
        of the held-out images that are compared.
        """
        settings, case = self.settings, self.case
        module = case.subject.module.to(settings.device)
        x = torch.cat([self.x, self.x_held_out])
        logits = logits_of(module, case.seen, x)
        said = (logits[:, 0] > 0).long() if case.seen.outputs == 1 else logits.argmax(1)
        named = case.train.labels is not None and case.held_out.labels is not None
        reason = "the images' labels do not fit its outputs" if named else "no labels were given"
        y, origin = said, f"the network's own predictions, since {reason}"
        if known is not None:
            y, origin = torch.cat([known[0], known[1][kept]]), known[2]
            if case.seen.outputs <= 2 and (y == said)[: len(self.x)].double().mean() < 0.5:
                y, origin = 1 - y, f"{origin}, the other way round, as the network has them"
        n = len(self.x)
        recipe = settings.recipe or inferred(module, case.seen, x, y, n, settings.seed, case.start)
        count = max(settings.shadows if "membership" in settings.attacks else 0, settings.canaries)
        found = train_shadows(module, case.seen, x, y, recipe, count, settings.seed, case.start)
        report: dict[str, Any] = {
            "recipe": {
                **asdict(recipe),
                "words": recipe.words,
                "given": settings.recipe is not None,
                "loss": loss_of(logits[:n], y[:n]).item(),
                "shadow_loss": found.loss.tolist(),
            }
        }
        if "membership" in settings.attacks:
            self.inferred = membership_attack.infer(logits, y, n, found, settings.seed)
            p = min(1.0, min(each["p_value"] for each in self.inferred.table.values()) * self.looks)
            report["membership"] = {
                "scores": self.inferred.table,
                "best": self.inferred.name,
                "p_value": p,
                "looks": self.looks,
                "shadows": len(found),
                "labels": origin,
                "accuracy": {
                    "train": (y == said)[:n].double().mean().item(),
                    "held_out": (y == said)[n:].double().mean().item(),
                },
                "power": {name: None if math.isnan(value) else value for name, value in self.inferred.power.items()},
            }
        if settings.canaries and self.applicable:
            self.power = self._canaries(found, x, recipe)
            report["power"] = asdict(self.power)
        case.subject.module.cpu()
        return report

    def _canaries(self, shadows: Shadows, x: Tensor, recipe: Recipe) -> Power:
        """Some of the shadows attacked as the network itself was, and scored by the same rule."""
        leaking, counts, size = 0, [], 0
        canaries = min(self.settings.canaries, len(shadows))
        for k in range(canaries):
            inside = shadows.inside[k]
            size = int(min(inside.sum(), (~inside).sum()))
            released = moved(self._released_of(shadows.modules[k], k, recipe), self.settings.device)
            with tempfile.TemporaryDirectory(prefix="recon-canary-") as folder:
                tried = attempts(
                    released,
                    self.shape,
                    int(inside.sum()),
                    self.settings.profile,
                    self.settings.seed,
                    Path(folder),
                    self.applicable,
                )
            train, held_out = (x[part].flatten(1)[:size].to(self.settings.device) for part in (inside, ~inside))
            result = self._scored(tried, train, held_out, released)
            leaking += result["leak"]
            counts.append(result["targets"] if result["leak"] else 0)
        return Power(canaries, leaking, float(np.mean(counts)) if counts else 0.0, size)

    def _released_of(self, module: nn.Module, k: int, recipe: Recipe) -> Released:
        """What is known of shadow k: its start, drawn once more, where that of the audited network is known."""
        seen = anatomy(module.cpu(), self.shape)
        w1 = None if seen.first is None else first_layer_of(module, seen.first)
        w1_init = None
        if self.case.start is not None and seen.first is not None:
            start = shadow_start(self.case.subject.module, recipe, k, self.settings.seed, self.case.start)
            w1_init = first_layer_of(start, seen.first)
        return Released(w1, w1_init, seen.first_why_not, seen.mlp, seen.theta, seen.mlp_why_not)

    # ------------------------------------------------------------------------------------------------------ leaked

    def leaked(self, report: dict[str, Any]) -> list[Leaked]:
        """Training images given away, by reconstruction and by membership, were the verdict that they are."""
        found = []
        if report["result"] is not None and report["result"]["leak"]:
            found += self._recovered(report["result"])
        if self.inferred is not None:
            member = np.arange(len(self.inferred.score)) < len(self.x)
            sure = membership_attack.probability(self.inferred.score, member)
            for row in np.flatnonzero(sure > 0.5):
                value = float(self.inferred.score[row])
                found.append(Leaked(self.case.train.names[row], int(row), "membership", value, float(sure[row])))
        return found

    def _recovered(self, result: dict[str, Any]) -> list[Leaked]:
        x_hat = next(attempt.x_hat for attempt in self.tried if attempt.name == result["attack"]).to(
            self.settings.device
        )
        images = torch.cat([self.centred["train"], self.centred["held_out"]])
        values = one_to_one(images, padded(x_hat, len(images))).score.cpu()
        inner, outer = values[: self.n], values[self.n :]
        found = []
        for row in torch.nonzero(inner > result["threshold"])[:, 0].tolist():
            value = inner[row].item()
            chance = min(1.0, (int((outer >= value).sum()) + 1) / int((inner >= value).sum()))
            # the best images alone are few, and the share of chance among few is never small: all above the threshold
            # are at least as sure as those
            whole = min(1.0, (int((outer > result["threshold"]).sum()) + 1) / int((inner > result["threshold"]).sum()))
            index = self.rows[row]
            name = self.case.train.names[index]
            found.append(Leaked(name, index, result["attack"], value, 1 - min(chance, whole)))
        return found


def moved(released: Released, device: torch.device) -> Released:
    """On a device."""
    tensors = {name: getattr(released, name) for name in ("w1", "w1_init", "theta")}
    there = {name: None if tensor is None else tensor.to(device) for name, tensor in tensors.items()}
    return Released(
        there["w1"], there["w1_init"], released.w1_why_not, released.network, there["theta"], released.theta_why_not
    )


def _of_decoreco(released: Released, tried: list[Attempt], train: Tensor, held_out: Tensor) -> dict[str, Any]:
    """What the report says of DecoReco's own condition; nothing where it does not apply."""
    decoreco = next((attempt for attempt in tried if attempt.name == "decoreco"), None)
    if decoreco is None or released.network is None or released.theta is None:
        return {"settings": None, "multiplier_scale": None, "first_layer": None}
    images = (train.to(released.theta), held_out.to(released.theta))
    return {
        "settings": asdict(decoreco.settings) if decoreco.settings else None,
        "multiplier_scale": decoreco.tensors["multiplier_scale"].item() if decoreco.tensors else None,
        "first_layer": first_layer(released.network, released.theta, decoreco.tensors, decoreco.settings, *images),
    }


def _about(attempt: Attempt) -> dict[str, Any]:
    """What the report says of one attack besides its counts."""
    about = {"how": attempt.how, "why_not": attempt.why_not, "seconds": round(attempt.seconds, 2)}
    return about | {"candidates": len(attempt.x_hat)}


def regime(explained: dict[str, Any]) -> str:
    """Whether the network is where DecoReco works, in words; shares as in `first_layer`."""
    true, ceiling = explained["by_training"], explained["searched"]
    if true is None or ceiling is None:
        return "Whether the network is where DecoReco works was not measured: too many images, or no active unit."
    start = (
        f"Only {ceiling:.0%} of the first layer stands out from its random start, and the attacks looked there alone. "
        if ceiling < NEAR
        else ""
    )
    if true >= NEAR * ceiling:
        near = (
            "The training images account for most of what can be explained: this is close to the stationarity "
            "condition that DecoReco inverts."
        )
        return start + near + (" What lies under the random start, they cannot see." if start else "")
    return start + (
        "The training images themselves account for less than half of what can be explained: the network is far from "
        "the stationarity condition that DecoReco inverts (short training, weight decay, another mean or scale of the "
        "inputs). Its silence here says little; separation does not need that condition."
    )


def _subset(count: int, n: int, seed: int) -> list[int]:
    """n of `count` rows, drawn by `seed`, in their order: files are often sorted by class."""
    if count == n:
        return list(range(n))
    return sorted(torch.randperm(count, generator=torch.Generator().manual_seed(seed))[:n].tolist())


def _pictures(
    x_hat: Tensor, transform: Transform, inputs: Tensor, images: Images, rows: list[tuple[int, int, float]]
) -> list[Row]:
    """What the page shows: candidates brought to the contrast of their image, in pixels."""
    shown = []
    scaled = images.scaled
    low, high = min(0.0, scaled.min().item()), max(1.0, scaled.max().item())
    for candidate, image, value in rows:
        centred = (x_hat[candidate] - x_hat[candidate].mean()).cpu()
        target = inputs[image].flatten()
        drawn = target.mean() + centred * (target.std() / centred.std().clamp_min(1e-12))
        pixels = (transform.back(drawn.view(images.shape)) - low) / (high - low)
        array = (pixels.clamp(0, 1) * 255).round().to(torch.uint8).numpy()
        reconstruction = Picture(array.transpose(1, 2, 0), f"Reconstruction {candidate}")
        shown.append(Row(reconstruction, Picture(images.picture(image), printable(images.names[image])), value))
    return shown


__all__ = ["ATTACKS", "LEVEL", "Recipe", "Report", "audit"]
