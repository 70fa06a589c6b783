"""The attacks on one network and on its canaries, and what they are compared with: all that an
audit computes.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from recon.attacks import Candidates
from recon.attacks.heads import Public
from recon.attacks.multipliers import confidence
from recon.attacks.separation import FirstLayer
from recon.errors import ReconError
from recon.optim.rng import named
from recon.scoring.matching import one_to_one, padded
from recon.scoring.membership import probability
from recon.scoring.roc import auc
from recon.store.tensors import save_tensors
from recon.training.recipes import loss_of
from recon_audit.adapters import adapter_scores, scores_of
from recon_audit.anatomy import examine
from recon_audit.attacks import KINDS, RECONSTRUCTIONS, Attempt, Released, Task, attempts
from recon_audit.exchange import TOLD_APART, UNLIKE, draw_rows
from recon_audit.fine_tunes import SPANS, spans
from recon_audit.membership import (
    beside_claim,
    fit_multipliers,
    infer,
    label_filter,
    signed_filter,
    unseen,
    why_no_multipliers,
)
from recon_audit.prepare import PREDICTED, Case
from recon_audit.report import Leaked, Row, rows_of
from recon_audit.scoring import DECISIVE, LEVEL, Json, Nulls, matches, score
from recon_audit.shadows import (
    Recipe,
    Shadows,
    infer_recipe,
    shadow_start,
    tell,
    train_network,
    train_shadows,
)
from recon_audit.words import say

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
        until: a time of `time.monotonic` at which it should have ended.
        claimed: (ε, δ) of the training, as it is claimed.
    """

    attacks: tuple[str, ...]
    seed: int
    profile: str
    device: torch.device
    shadows: int
    canaries: int
    recipe: Recipe | None
    until: float = math.inf
    claimed: tuple[float, float] | None = None


@dataclass(frozen=True)
class Findings:
    """What one kind of attack found.

    Attributes:
        report: its parts of report.json.
        leaked: training images given away, were the verdict that they are.
        pairs: the k-th best match among training images, and among held-out ones.
        attempts: of the attacks on images.
    """

    report: Json
    leaked: list[Leaked]
    pairs: list[tuple[Row, Row]] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)


class Comparison:
    """The attacks on one network, and what they are compared with; nothing changes once it is made.

    Attributes:
        n: images of each kind that candidates are assigned to, one of each group.
        sizes: groups of training and of held-out images.
        asked: attacks on images; applicable: of them those that this architecture allows.
        needs_shadows: for membership, or to measure what the attacks on images would have found.
        looks: tests of this audit, over which the error is held.
    """

    def __init__(self, case: Case, settings: Settings) -> None:
        self.case, self.settings = case, settings
        self.released = case.released
        self.shape = case.train.shape
        self.x = torch.cat([case.x, case.x_held_out])
        inner = int((case.first < len(case.train)).sum())
        self.sizes = inner, len(case.first) - inner
        self.n = min(*self.sizes, MOST_COMPARED)
        self.asked = [name for name in RECONSTRUCTIONS if name in settings.attacks]
        self.applicable = [
            name for name in self.asked if getattr(self.released, KINDS[name].needs) is not None
        ]
        members = "membership" in settings.attacks
        self.needs_shadows = members or bool(settings.canaries and self.applicable)
        self.no_multipliers = why_no_multipliers(case.subject.module, len(self.x))
        about_members = 2 + (self.no_multipliers is None) + len(SPANS) * (case.public is not None)
        about_members += case.sample is not None
        about_members += len(adapter_scores(case.classifier.module))
        self.looks = max(len(self.applicable) * len(DECISIVE) + about_members * members, 1)

    # ------------------------------------------------------------------------------------ on images

    def images(self) -> Findings:
        """Attack, then compare: `result`."""
        case, seed = self.case, self.settings.seed
        rows, others = (
            part[sorted(draw_rows(len(part), self.n, seed))]
            for part in case.first.split(self.sizes)
        )
        tried, result = self._attack(self.released, case.n_train, self.asked, rows, others)
        result["features"] = case.public is not None
        for attempt in tried:
            result["attacks"][attempt.name] |= {
                "how": attempt.how,
                "why_not": attempt.why_not,
                "seconds": round(attempt.seconds, 2),
            }
        best = next(attempt for attempt in tried if attempt.name == result["attack"])
        x_hat = best.x_hat.to(self.settings.device)
        pairs: list[list[Row]] = []
        for part, at, kept in ((case.train, 0, rows), (case.held_out, len(case.train), others)):
            found = matches(x_hat, self._comparable(kept), SHOWN) if case.public is None else []
            images = part.take((kept - at).tolist())
            pairs.append(rows_of(x_hat, case.transform, self.x[kept], images, found))
        x = self._comparable(torch.cat([rows, others]))
        likeness = one_to_one(x, padded(x_hat, len(x))).score.cpu().numpy()
        names = [case.train.names[row] for row in rows]
        leaked = self._leaked(likeness, rows, names, result["attack"], result["threshold"])
        both = list(zip(*pairs, strict=True))
        return Findings({"result": result}, leaked if result["leak"] else [], both, tried)

    def _attack(
        self, released: Released, n: int, names: list[str], rows: Tensor, others: Tensor
    ) -> tuple[list[Attempt], Json]:
        """What is told of n training images, beside these rows of the images and as many others."""
        settings, public = self.settings, self.case.public
        released = released.to(settings.device)
        task = Task(released, self.shape, n, settings.profile, settings.seed)
        tried = attempts(task, names)
        train, held_out = self._comparable(rows), self._comparable(others)
        update = train.new_zeros(1, train.shape[1])
        if released.first is not None:
            update = FirstLayer.of(released.first).update.to(update)
        if public is not None:
            update = update / Public(public).scale.to(update)
        nulls = Nulls(update, train, held_out, settings.seed)
        candidates = {attempt.name: attempt.x_hat.to(settings.device) for attempt in tried}
        return tried, score(candidates, nulls, self.looks)

    def _leaked(
        self, score: np.ndarray, rows: Tensor, names: list[str], how: str, least: float | None
    ) -> list[Leaked]:
        """Training images, or their groups, given away by a score, theirs first: those above
        `least`, or more likely trained on than not.

        Args:
            rows: of their first images, names: theirs.
        """
        likely = probability(score, np.arange(len(score)) < len(rows))
        away = likely > 0.5 if least is None else score[: len(rows)] > least
        whole = [self.case.rows[row] for row in rows]
        return [
            Leaked(names[k], whole[k], how, float(score[k]), float(likely[k]))
            for k in np.flatnonzero(away).tolist()
        ]

    def _comparable(self, rows: Tensor) -> Tensor:
        """Inputs (n, d) as candidates are compared with them: features standardised by the public
        ones.
        """
        x = self.x[rows].flatten(1)
        x = x if self.case.public is None else Public(self.case.public).standardised(x)
        return x.to(self.settings.device)

    # --------------------------------------------------------------------------------- with shadows

    def with_shadows(self) -> Findings:
        """Shadow networks, membership and power: `recipe`, `membership`, `power`."""
        settings, case, n = self.settings, self.case, len(self.case.x)
        network, y, seed, start = case.classifier, case.y, settings.seed, case.start
        network.module.to(settings.device)
        logits = network.logits(self.x)
        members = "membership" in settings.attacks
        count = max(settings.shadows if members else 0, settings.canaries)
        count, keep = count + count % 2, max(1, settings.canaries)
        for _ in range(2):  # the first time is slower
            began = time.monotonic()
            few, drawn = Recipe(steps=3), named(seed, "audit.pace")
            train_network(network, self.x, y, few, drawn, start)
        pace = (time.monotonic() - began) / few.steps
        most = f"at most {Recipe.steps} steps of {pace:.2g} s, fewer where the loss is reached"
        tell(f"{count} shadow networks, up to 5 ordinary recipes, each of {most}")
        given, until = settings.recipe, settings.until
        third = began + (until - began) / 3
        recipe = given or infer_recipe(network, self.x, y, n, seed, start, case.groups, third)
        shadows = train_shadows(
            network, self.x, y, recipe, count, seed, start, keep, case.groups, until
        )
        about = {"words": recipe.words, "given": given is not None, "asked": count}
        about |= {"shadows": len(shadows), "shadow_loss": shadows.loss.tolist()}
        about["loss"] = loss_of(logits[:n], y[:n]).item()
        report: Json = {"recipe": asdict(recipe) | about}
        leaked = []
        if members:
            tell("who was trained on")
            report["membership"], score = self._membership(logits, shadows, recipe)
            leaked = self._leaked(
                score, case.first[: self.sizes[0]], case.names, "membership", None
            )
        if settings.canaries and self.applicable:
            tell("attacks on shadow networks")
            report["power"] = self._canaries(shadows, recipe)
        network.module.cpu()
        told = report.get("membership")
        if told and not case.labels.startswith(PREDICTED):
            # labels that do not hold for held-out images make alarms; without them there are none
            level = UNLIKE if told["p_value"] < LEVEL else TOLD_APART
            if told["unseen"]["p_value"] < level:
                tell("labels may not hold for both sets: once more without them")
                case = case.by_predictions(say("unlike", told["unseen"]))
                return Comparison(case, settings).with_shadows()
        return Findings(report, leaked)

    def _membership(
        self, logits: Tensor, shadows: Shadows, recipe: Recipe
    ) -> tuple[Json, np.ndarray]:
        """The table of membership by all scores, and the best of them; p is that of the best, times
        the number of looks.
        """
        case, settings, y = self.case, self.settings, self.case.y
        n, groups = self.sizes[0], case.groups
        scores = self._spans(self.x, y) | scores_of(case.classifier.module, self.x)
        fit, why_not, reach = self._multipliers(self.x, y, shadows, recipe)
        if fit is not None:
            scores = {"multipliers": fit.score, **scores}
        told = infer(logits, y, n, shadows, settings.seed, scores, groups)
        if fit is not None:
            told.table["multipliers"]["residual"] = fit.diagnostics["residual"]
        right = confidence(logits, y) > 0
        sets = {"train": right[: len(case.x)], "held_out": right[len(case.x) :]}
        alike = unseen(shadows, np.arange(sum(self.sizes)) < n, groups, settings.seed)
        report = {
            "scores": told.table,
            "best": told.name,
            "p_value": min(1.0, told.table[told.name]["p_value"] * self.looks),
            "looks": self.looks,
            "shadows": len(shadows),
            "multipliers_why_not": why_not,
            "power": told.power | {"multipliers_auc": reach},
            "unseen": alike,
            "why_not": self._why_not(recipe),
            "groups": len(groups) > sum(self.sizes),
            "epsilon": beside_claim(
                [*told.scores.values()], n, settings.seed, settings.claimed, case.size
            ),
            "labels": case.labels,
            "accuracy": {name: part.double().mean().item() for name, part in sets.items()},
        }
        return report, told.score

    def _why_not(self, recipe: Recipe) -> str | None:
        """Why nothing can be told of membership, in a clause."""
        case = self.case
        network = case.classifier
        began = shadow_start(network.module, recipe, 0, self.settings.seed, case.start)
        loss, goal = loss_of(network.of(began).logits(self.x), case.y).item(), recipe.target_loss
        return say("untrained", loss, goal) if goal is not None and loss <= goal else None

    def _multipliers(
        self, x: Tensor, y: Tensor, shadows: Shadows, recipe: Recipe
    ) -> tuple[Candidates | None, str | None, float | None]:
        """Multipliers, or why there are none; and the area that those of the first shadow reach,
        whose start is known, too.
        """
        network, start = self.case.classifier, self.case.start
        reach: float | None = None
        if self.no_multipliers is not None:
            return None, self.no_multipliers, None
        whole = None if start is None or not start.whole else start.module
        try:
            fit = fit_multipliers(network, x, y, whole)
        except ReconError as error:
            return None, f"Multipliers were not fitted: {error}.", None
        with suppress(ReconError):
            began = whole and shadow_start(network.module, recipe, 0, self.settings.seed, start)
            shadow = fit_multipliers(shadows.classifiers[0], x, y, began)
            reach = auc(shadow.score.cpu().numpy(), shadows.inside[0].numpy())
        return fit, None, reach

    def _spans(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Scores of membership of features, and in a whole fine-tune; none where inputs are
        images.
        """
        network, public, weights = self.case.classifier, self.case.public, self.released.first
        if self.case.sample is not None and self.case.start:
            return label_filter(network, x, y, self.case.sample, self.case.start.module)
        if public is None or weights is None or network.first is None:
            return {}
        bias = getattr(network.module.get_submodule(network.first), "bias", None)
        bias = None if bias is None else bias.detach().cpu()
        layer = FirstLayer.of(weights)
        scores = spans(layer, bias, x.flatten(1), Public(public), len(self.case.x))
        return scores | signed_filter(self.case, layer)

    def _canaries(self, shadows: Shadows, recipe: Recipe) -> Json:
        """Some of the shadows attacked as the network itself was, and scored by the same rule: how
        many, how many of them were found to leak, training images found, 0 for one that is not
        found to leak, and training images.
        """
        case, settings = self.case, self.settings
        counts, size = [], 0
        for k, shadow in enumerate(shadows.classifiers[: settings.canaries]):
            start, seen = None, shadows.inside[k]
            inside = seen[case.first]
            size = int(min(inside.sum(), (~inside).sum()))
            if case.start is not None:  # known where the audited network's is: the same draw again
                start = shadow_start(case.subject.module, recipe, k, settings.seed, case.start)
            released = Released.of(examine(shadow.module.cpu(), self.shape), start, case.public)
            rows = (case.first[part][:size] for part in (inside, ~inside))
            result = self._attack(released, int(seen.sum()), self.applicable, *rows)[1]
            counts.append(result["targets"] if result["leak"] else 0)
        return {
            "canaries": len(counts),
            "leaking": sum(count > 0 for count in counts),
            "found": float(np.mean(counts)),
            "n": size,
        }


def save_attempts(tried: list[Attempt], folder: Path) -> None:
    """What the attacks brought home, a file each, in the place of what earlier ones did."""
    for name in RECONSTRUCTIONS:
        (folder / f"{name}.safetensors").unlink(missing_ok=True)
    for attempt in tried:
        if len(attempt.x_hat):
            save_tensors({"x_hat": attempt.x_hat}, folder / f"{attempt.name}.safetensors")
