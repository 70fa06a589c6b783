"""The attacks on one network and on its canaries, and what they are compared with: all that an audit computes."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from recon.attacks.heads import Public
from recon.attacks.separation import FirstLayer
from recon.auditing import membership as membership_attack
from recon.auditing.anatomy import Anatomy, anatomy, first_layer_of, logits_of, loss_of
from recon.auditing.attacks import KINDS, RECONSTRUCTIONS, Attempt, Released, Task, attempts
from recon.auditing.fit import Fit
from recon.auditing.heads import SPANS, spans
from recon.auditing.images import Images, printable
from recon.auditing.networks import Subject
from recon.auditing.page import Picture, Row
from recon.auditing.report import Leaked
from recon.auditing.scoring import DECISIVE, Nulls, first_layer, matches, score
from recon.auditing.shadows import Recipe, Shadows, inferred, shadow_start, train_shadows
from recon.auditing.starts import Start
from recon.auditing.transforms import Transform
from recon.auditing.verdict import Power
from recon.errors import ReconError
from recon.scoring.matching import one_to_one, padded
from recon.scoring.membership import probability
from recon.store.files import scratch

SHOWN = 12
MOST_COMPARED = 1000  # images of each set that candidates are assigned to: the cost is cubic
FOLDER = "audit-attack"  # in the output folder, whose own files (another program's checkpoints?) are left alone


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
    training, where it is known), train and held_out images and their inputs x (n, C, H, W), the transform, and how
    the network fits what is read (None without labels).

    Of a head on a frozen backbone, images and inputs are features; public (k, d): those that attacks are given ·
    pictures: the images themselves · notes: what else the report says of the inputs."""

    subject: Subject
    seen: Anatomy
    released: Released
    start: Start | None
    train: Images
    held_out: Images
    x: Tensor
    x_held_out: Tensor
    transform: Transform
    fit: Fit | None = None
    public: Tensor | None = None
    pictures: tuple[Images, Images] | None = None
    notes: tuple[str, ...] = ()


class Comparison:
    """The attacks on one network, and what they are compared with."""

    def __init__(self, case: Case, held_out: Images, x_held_out: Tensor, settings: Settings, folder: Path) -> None:
        self.case, self.held_out, self.settings, self.folder = case, held_out, settings, folder
        self.x, self.x_held_out = case.x, x_held_out
        self.shape = case.train.shape
        self.n = min(len(case.train), len(held_out), MOST_COMPARED)
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
        return tuple(name for name in self.reconstructions if getattr(released, KINDS[name].needs) is not None)

    @property
    def needs_shadows(self) -> bool:
        """For membership, or to measure what the attacks on images would have found."""
        return "membership" in self.settings.attacks or bool(self.settings.canaries and self.applicable)

    @property
    def looks(self) -> int:
        """Tests of this audit, over which the error is held."""
        about_members = 0
        if "membership" in self.settings.attacks:
            about_members = 2 + (self.no_multipliers is None) + (len(SPANS) if self.case.public is not None else 0)
        return max(len(self.applicable) * len(DECISIVE) + about_members, 1)

    @property
    def no_multipliers(self) -> str | None:
        """Why membership is not inferred from the weights themselves, where it is not."""
        return membership_attack.why_no_multipliers(self.case.subject.module, len(self.x) + len(self.x_held_out))

    # -------------------------------------------------------------------------------------------------- on images

    def images(self) -> dict[str, Any]:
        """Attack, then compare: `result`, `first_layer`, `matches` and what belongs to them."""
        settings, case = self.settings, self.case
        released = moved(case.released, settings.device)
        folder = self.folder / FOLDER
        task = Task(released, self.shape, len(case.train), settings.profile, settings.seed, folder)
        self.tried = attempts(task, self.reconstructions)
        rows = {
            "train": _subset(len(case.train), self.n, settings.seed),
            "held_out": _subset(len(self.held_out), self.n, settings.seed),
        }
        self.parts = {"train": case.train.take(rows["train"]), "held_out": self.held_out.take(rows["held_out"])}
        inputs = {"train": self.x[rows["train"]], "held_out": self.x_held_out[rows["held_out"]]}
        self.centred = {name: self._compared(part) for name, part in inputs.items()}
        result = self._scored(self.tried, self.centred["train"], self.centred["held_out"], released)
        for attempt in self.tried:
            result["attacks"][attempt.name] |= _about(attempt)
        x_hat = next(attempt.x_hat for attempt in self.tried if attempt.name == result["attack"]).to(settings.device)
        pairs = {name: matches(x_hat, x, SHOWN) for name, x in self.centred.items()}
        shown = (
            []
            if case.public is not None
            else [
                _pictures(x_hat, case.transform, inputs[name], self.parts[name], found) for name, found in pairs.items()
            ]
        )
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

    def _compared(self, x: Tensor) -> Tensor:
        """Inputs (n, d) as candidates are compared with them: features standardised by the public ones."""
        x = x.flatten(1)
        x = x if self.case.public is None else Public(self.case.public).standardised(x)
        return x.to(self.settings.device)

    def _scored(self, tried: list[Attempt], train: Tensor, held_out: Tensor, released: Released) -> dict[str, Any]:
        device = self.settings.device
        update = train.new_zeros(1, train.shape[1]) if released.update is None else released.update.to(device)
        if self.case.public is not None:
            update = update / Public(self.case.public).scale.to(device)
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
        found = train_shadows(
            module, case.seen, x, y, recipe, count, settings.seed, case.start, keep=max(1, settings.canaries)
        )
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
            accuracy = {
                "train": (y == said)[:n].double().mean().item(),
                "held_out": (y == said)[n:].double().mean().item(),
            }
            report["membership"] = self._membership(module, logits, x, y, found, recipe) | {
                "labels": origin,
                "accuracy": accuracy,
            }
        if settings.canaries and self.applicable:
            self.power = self._canaries(found, x, recipe)
            report["power"] = asdict(self.power)
        case.subject.module.cpu()
        return report

    def _membership(
        self, module: nn.Module, logits: Tensor, x: Tensor, y: Tensor, found: Shadows, recipe: Recipe
    ) -> dict[str, Any]:
        """The table of membership by all scores; p is that of the best, times the number of looks."""
        seen, start, why_not, weights, reach = self.case.seen, self.case.start, self.no_multipliers, None, math.nan
        if why_not is None:
            try:
                whole = None if start is None or not start.whole else start.module
                weights = membership_attack.explained(module, seen, x, y, whole)
                began = whole and shadow_start(module, recipe, 0, self.settings.seed, start)
                reach = membership_attack.reach_of_multipliers(seen, x, y, found, began)
            except ReconError as error:
                why_not = f"Multipliers were not fitted: {error}."
        more = {} if weights is None else {"multipliers": weights.score}
        more |= self._spans(module, x)
        self.inferred = membership_attack.infer(logits, y, len(self.x), found, self.settings.seed, more)
        table, power = self.inferred.table, self.inferred.power | {"multipliers_auc": reach}
        if weights is not None:
            table["multipliers"]["residual"] = weights.residual
        return {
            "scores": table,
            "best": self.inferred.name,
            "p_value": min(1.0, min(each["p_value"] for each in table.values()) * self.looks),
            "looks": self.looks,
            "shadows": len(found),
            "multipliers_why_not": why_not,
            "power": {name: None if math.isnan(value) else value for name, value in power.items()},
        }

    def _spans(self, module: nn.Module, x: Tensor) -> dict[str, Tensor]:
        """Of a head: how far features lie in what its first layer remembers."""
        released, first = self.case.released, self.case.seen.first
        if self.case.public is None or released.w1 is None or first is None:
            return {}
        bias = getattr(module.get_submodule(first), "bias", None)
        bias = bias.detach().cpu() if isinstance(bias, Tensor) else None
        layer = FirstLayer(released.w1, released.w1_init)
        return spans(layer, bias, x.flatten(1), Public(self.case.public), len(self.x))

    def _canaries(self, shadows: Shadows, x: Tensor, recipe: Recipe) -> Power:
        """Some of the shadows attacked as the network itself was, and scored by the same rule."""
        leaking, counts, size = 0, [], 0
        canaries = min(self.settings.canaries, len(shadows.modules))
        for k in range(canaries):
            inside = shadows.inside[k]
            size = int(min(inside.sum(), (~inside).sum()))
            released = moved(self._released_of(shadows.modules[k], k, recipe), self.settings.device)
            with scratch(self.folder, ".canary-") as folder:
                how = (self.settings.profile, self.settings.seed, folder)
                tried = attempts(Task(released, self.shape, int(inside.sum()), *how), self.applicable)
            train, held_out = (self._compared(x[part][:size]) for part in (inside, ~inside))
            result = self._scored(tried, train, held_out, released)
            leaking += result["leak"]
            counts.append(result["targets"] if result["leak"] else 0)
        return Power(canaries, leaking, float(np.mean(counts)) if counts else 0.0, size)

    def _released_of(self, module: nn.Module, k: int, recipe: Recipe) -> Released:
        """What is known of shadow k: its start, drawn once more, where that of the audited network is known."""
        seen = anatomy(module.cpu(), self.shape)
        w1 = None if seen.first is None else first_layer_of(module, seen.first, self.shape)
        w1_init = None
        if self.case.start is not None and seen.first is not None:
            start = shadow_start(self.case.subject.module, recipe, k, self.settings.seed, self.case.start)
            w1_init = first_layer_of(start, seen.first, self.shape)
        found = Released(w1, w1_init, seen.first_why_not, seen.mlp, seen.theta, seen.mlp_why_not)
        return found if self.case.public is None else of_features(found, self.case.public)

    # ------------------------------------------------------------------------------------------------------ leaked

    def leaked(self, report: dict[str, Any]) -> list[Leaked]:
        """Training images given away, by reconstruction and by membership, were the verdict that they are."""
        found = []
        if report["result"] is not None and report["result"]["leak"]:
            found += self._recovered(report["result"])
        if self.inferred is not None:
            member = np.arange(len(self.inferred.score)) < len(self.x)
            sure = probability(self.inferred.score, member)
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
    tensors = {name: getattr(released, name) for name in ("w1", "w1_init", "theta", "public")}
    there = {name: None if tensor is None else tensor.to(device) for name, tensor in tensors.items()}
    return replace(released, **there)


def of_features(released: Released, public: Tensor) -> Released:
    """What attacks on a head are given: DecoReco is not among them."""
    why_not = "It is not tried on features: separation reads those."
    return replace(released, public=public, network=None, theta=None, theta_why_not=why_not)


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
