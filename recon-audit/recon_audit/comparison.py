"""The attacks on one network and on its canaries, and what they are compared with: all that an
audit computes.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from recon.attacks.heads import Public
from recon.attacks.separation import FirstLayer
from recon.errors import ReconError
from recon.scoring.matching import one_to_one, padded
from recon.scoring.membership import probability
from recon.scoring.roc import auc
from recon.store.tensors import save_tensors
from recon_audit import membership as membership_attack
from recon_audit.anatomy import anatomy, logits_of, loss_of
from recon_audit.attacks import KINDS, RECONSTRUCTIONS, Attempt, Released, Task, attempts
from recon_audit.fine_tunes import SPANS, spans
from recon_audit.prepare import Case
from recon_audit.report import Leaked, Row, rows_of
from recon_audit.scoring import DECISIVE, Nulls, drawn, first_layer, matches, score
from recon_audit.shadows import Recipe, Shadows, inferred, shadow_start, train_shadows

SHOWN = 12
MOST_COMPARED = 1000  # images of each set that candidates are assigned to: the cost is cubic


@dataclass(frozen=True)
class Settings:
    """
    Attributes:
        attacks: of ATTACKS.
        seed, profile, device.
        shadows, canaries: numbers of networks.
        recipe: None to infer.
    """

    attacks: tuple[str, ...]
    seed: int
    profile: str
    device: torch.device
    shadows: int
    canaries: int
    recipe: Recipe | None


class Comparison:
    """The attacks on one network, and what they are compared with.

    n: images of each kind that candidates are assigned to · asked: attacks on images; applicable:
    of them those that this architecture allows · needs_shadows: for membership, or to measure what
    the attacks on images would have found · looks: tests of this audit, over which the error is
    held.
    """

    def __init__(self, case: Case, settings: Settings) -> None:
        self.case, self.settings = case, settings
        self.released = case.released
        self.shape = case.train.shape
        self.n = min(len(case.train), len(case.held_out), MOST_COMPARED)
        self.asked = [name for name in RECONSTRUCTIONS if name in settings.attacks]
        self.applicable = [
            name for name in self.asked if getattr(self.released, KINDS[name].needs) is not None
        ]
        members = "membership" in settings.attacks
        self.needs_shadows = members or bool(settings.canaries and self.applicable)
        count = len(case.x) + len(case.x_held_out)
        self.no_multipliers = membership_attack.why_no_multipliers(case.subject.module, count)
        about_members = 2 + (self.no_multipliers is None) + len(SPANS) * (case.public is not None)
        self.looks = max(len(self.applicable) * len(DECISIVE) + about_members * members, 1)
        self.pairs: list[tuple[Row, Row]] = []
        self.tried: list[Attempt] = []
        self.inferred: membership_attack.Inferred | None = None

    # ------------------------------------------------------------------------------------ on images

    def images(self) -> dict[str, Any]:
        """Attack, then compare: `result`, `first_layer`, `matches` and what belongs to them."""
        settings, case, device = self.settings, self.case, self.settings.device
        released = self.released.to(device)
        self.tried = attempts(self._task(released, len(case.train)), self.asked)
        kinds = {"train": (case.train, case.x), "held_out": (case.held_out, case.x_held_out)}
        self.rows = {
            name: sorted(drawn(len(x), self.n, settings.seed)) for name, (_, x) in kinds.items()
        }
        parts = {name: images.take(self.rows[name]) for name, (images, _) in kinds.items()}
        inputs = {name: x[self.rows[name]] for name, (_, x) in kinds.items()}
        self.centred = {name: self._compared(x) for name, x in inputs.items()}
        result = self._scored(self.tried, self.centred["train"], self.centred["held_out"], released)
        for attempt in self.tried:
            about = {
                "how": attempt.how,
                "why_not": attempt.why_not,
                "seconds": round(attempt.seconds, 2),
            }
            result["attacks"][attempt.name] |= about | {"candidates": len(attempt.x_hat)}
        self.x_hat = next(each.x_hat for each in self.tried if each.name == result["attack"]).to(
            device
        )
        pairs = {name: matches(self.x_hat, x, SHOWN) for name, x in self.centred.items()}
        if case.public is None:
            shown = [
                rows_of(self.x_hat, case.transform, inputs[name], parts[name], pairs[name])
                for name in pairs
            ]
            self.pairs = list(zip(*shown, strict=True))
        named = {
            kind: [
                {"candidate": c, "image": parts[kind].names[row], "ncc": value}
                for c, row, value in found
            ]
            for kind, found in pairs.items()
        }
        return {"result": result, "matches": named, **self._decoreco(released)}

    def save(self, folder: Path) -> None:
        """What the attacks brought home, a file each, in the place of what earlier ones did."""
        for name in RECONSTRUCTIONS:
            (folder / f"{name}.safetensors").unlink(missing_ok=True)
        for each in self.tried:
            if len(each.x_hat):
                save_tensors(
                    {"x_hat": each.x_hat, **each.tensors}, folder / f"{each.name}.safetensors"
                )

    def _task(self, released: Released, n: int) -> Task:
        return Task(released, self.shape, n, self.settings.profile, self.settings.seed)

    def _compared(self, x: Tensor) -> Tensor:
        """Inputs (n, d) as candidates are compared with them: features standardised by the public
        ones.
        """
        x = x.flatten(1)
        x = x if self.case.public is None else Public(self.case.public).standardised(x)
        return x.to(self.settings.device)

    def _scored(
        self, tried: list[Attempt], train: Tensor, held_out: Tensor, released: Released
    ) -> dict[str, Any]:
        device, transform = self.settings.device, self.case.transform
        update = (
            train.new_zeros(1, train.shape[1])
            if released.update is None
            else released.update.to(device)
        )
        if self.case.public is not None:
            update = update / Public(self.case.public).scale.to(device)
        shape = self.shape if transform.function is None else ()
        nulls = Nulls.of(update, train, held_out, self.settings.seed, shape)
        mean, std = (
            each.expand(self.shape).flatten().to(device) for each in (transform.mean, transform.std)
        )
        return score(
            {attempt.name: attempt.x_hat.to(device) for attempt in tried},
            nulls,
            self.looks,
            mean,
            std,
        )

    def _decoreco(self, released: Released) -> dict[str, Any]:
        """What the report says of DecoReco's own condition; nothing where it does not apply."""
        attempt = next((each for each in self.tried if each.name == "decoreco"), None)
        if attempt is None or released.network is None or released.theta is None:
            return {}
        images = (x.flatten(1).to(released.theta) for x in (self.case.x, self.case.x_held_out))
        scale = attempt.tensors.get("multiplier_scale")
        return {
            "settings": asdict(attempt.settings) if attempt.settings else None,
            "multiplier_scale": None if scale is None else scale.item(),
            "first_layer": first_layer(
                released.network, released.theta, attempt.tensors, attempt.settings, *images
            ),
        }

    # --------------------------------------------------------------------------------- with shadows

    def shadowed(self) -> dict[str, Any]:
        """Shadow networks, membership and power: `recipe`, `membership`, `power`."""
        settings, case, n = self.settings, self.case, len(self.case.x)
        module = case.subject.module.to(settings.device)
        x = torch.cat([case.x, case.x_held_out])
        logits = logits_of(module, case.seen, x)
        said = (logits[:, 0] > 0).long() if case.seen.outputs == 1 else logits.argmax(1)
        if case.classes is not None:
            y, origin = torch.cat(case.classes[:2]), case.classes[2]
            if case.seen.outputs <= 2 and (y == said)[:n].double().mean() < 0.5:
                y, origin = 1 - y, f"{origin}, the other way round, as the network has them"
        else:
            named = case.train.labels is not None and case.held_out.labels is not None
            reason = (
                "the images' labels do not fit its outputs" if named else "no labels were given"
            )
            y, origin = said, f"the network's own predictions, since {reason}"
        members = "membership" in settings.attacks
        recipe = settings.recipe or inferred(module, case.seen, x, y, n, settings.seed, case.start)
        count = max(settings.shadows if members else 0, settings.canaries)
        keep = max(1, settings.canaries)
        found = train_shadows(
            module, case.seen, x, y, recipe, count, settings.seed, case.start, keep
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
        if members:
            right = (y == said).double()
            accuracy = {"train": right[:n].mean().item(), "held_out": right[n:].mean().item()}
            table = self._membership(module, logits, x, y, found, recipe)
            report["membership"] = table | {"labels": origin, "accuracy": accuracy}
        if settings.canaries and self.applicable:
            report["power"] = self._canaries(found, x, recipe)
        module.cpu()
        return report

    def _membership(
        self,
        module: nn.Module,
        logits: Tensor,
        x: Tensor,
        y: Tensor,
        found: Shadows,
        recipe: Recipe,
    ) -> dict[str, Any]:
        """The table of membership by all scores; p is that of the best, times the number of
        looks.
        """
        seen, start, why_not, weights, reach = (
            self.case.seen,
            self.case.start,
            self.no_multipliers,
            None,
            math.nan,
        )
        if why_not is None:
            try:
                whole = None if start is None or not start.whole else start.module
                weights = membership_attack.explained(module, seen, x, y, whole)
                # the same of the first shadow, whose start is known then, too
                with suppress(ReconError):
                    began = whole and shadow_start(module, recipe, 0, self.settings.seed, start)
                    shadow = membership_attack.explained(found.modules[0], seen, x, y, began)
                    reach = auc(shadow.score.cpu().numpy(), found.inside[0].numpy())
            except ReconError as error:
                why_not = f"Multipliers were not fitted: {error}."
        more = {} if weights is None else {"multipliers": weights.score}
        public, first = self.case.public, seen.first
        if public is not None and self.released.w1 is not None and first is not None:
            bias = getattr(module.get_submodule(first), "bias", None)
            layer = FirstLayer(self.released.w1, self.released.w1_init)
            more |= spans(
                layer,
                None if bias is None else bias.detach().cpu(),
                x.flatten(1),
                Public(public),
                len(self.case.x),
            )
        self.inferred = membership_attack.infer(
            logits, y, len(self.case.x), found, self.settings.seed, more
        )
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

    def _canaries(self, shadows: Shadows, x: Tensor, recipe: Recipe) -> dict[str, Any]:
        """Some of the shadows attacked as the network itself was, and scored by the same rule: how
        many, how many of them were found to leak, training images found, 0 for one that is not
        found to leak, and training images.
        """
        leaking, counts, size = 0, [], 0
        canaries = min(self.settings.canaries, len(shadows.modules))
        for k in range(canaries):
            inside, module, start = shadows.inside[k], shadows.modules[k].cpu(), self.case.start
            size = int(min(inside.sum(), (~inside).sum()))
            # the start is known where that of the audited network is: the same draw again
            again = (self.case.subject.module, recipe, k, self.settings.seed, start)
            began = None if start is None else shadow_start(*again)
            released = Released.of(module, anatomy(module, self.shape), began, self.case.public)
            released = released.to(self.settings.device)
            tried = attempts(self._task(released, int(inside.sum())), self.applicable)
            train, held_out = (self._compared(x[part][:size]) for part in (inside, ~inside))
            result = self._scored(tried, train, held_out, released)
            leaking += result["leak"]
            counts.append(result["targets"] if result["leak"] else 0)
        return {
            "canaries": canaries,
            "leaking": leaking,
            "found": float(np.mean(counts)),
            "n": size,
        }

    # --------------------------------------------------------------------------------------- leaked

    def leaked(self, result: dict[str, Any] | None) -> list[Leaked]:
        """Training images given away, by reconstruction and by membership, were the verdict that
        they are.
        """
        found, names = [], self.case.train.names
        if result is not None and result["leak"]:
            images = torch.cat([self.centred["train"], self.centred["held_out"]])
            inner, outer = (
                one_to_one(images, padded(self.x_hat, len(images))).score.cpu().split(self.n)
            )

            def chance(least: float, strict: bool = False) -> float:
                """The estimated share of chance among the images that score as high, or higher."""
                above = [
                    int(((part > least) if strict else (part >= least)).sum())
                    for part in (inner, outer)
                ]
                return min(1.0, (above[1] + 1) / above[0])

            for row in torch.nonzero(inner > result["threshold"])[:, 0].tolist():
                value, index = inner[row].item(), self.rows["train"][row]
                # the best images alone are few, and the share of chance among few is never small:
                # all above the threshold are at least as sure as those
                sure = 1 - min(chance(value), chance(result["threshold"], strict=True))
                found.append(Leaked(names[index], index, result["attack"], value, sure))
        if self.inferred is not None:
            score = self.inferred.score
            likely = probability(score, np.arange(len(score)) < len(self.case.x))
            for row in np.flatnonzero(likely > 0.5).tolist():
                found.append(
                    Leaked(names[row], row, "membership", float(score[row]), float(likely[row]))
                )
        return found
