"""The attacks on one network and on its canaries, and what they are compared with: all that an
audit computes.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from recon.attacks import Candidates
from recon.attacks.heads import Public
from recon.attacks.separation import FirstLayer
from recon.errors import ReconError
from recon.scoring.matching import one_to_one, padded
from recon.scoring.membership import probability
from recon.scoring.roc import auc
from recon.store.tensors import save_tensors
from recon.training.recipes import loss_of
from recon_audit.anatomy import examine
from recon_audit.attacks import KINDS, RECONSTRUCTIONS, Attempt, Released, Task, attempts
from recon_audit.exchange import TOLD_APART, draw_rows
from recon_audit.fine_tunes import SPANS, spans
from recon_audit.membership import fit_multipliers, infer, unseen, why_no_multipliers
from recon_audit.prepare import PREDICTED, Case
from recon_audit.report import Leaked, Row, rows_of
from recon_audit.scoring import DECISIVE, Json, Nulls, matches, score
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
        inner = int((case.first < len(case.train)).sum())
        self.sizes = inner, len(case.first) - inner
        self.n = min(*self.sizes, MOST_COMPARED)
        self.asked = [name for name in RECONSTRUCTIONS if name in settings.attacks]
        self.applicable = [
            name for name in self.asked if getattr(self.released, KINDS[name].needs) is not None
        ]
        members = "membership" in settings.attacks
        self.needs_shadows = members or bool(settings.canaries and self.applicable)
        count = len(case.x) + len(case.x_held_out)
        self.no_multipliers = why_no_multipliers(case.subject.module, count)
        about_members = 2 + (self.no_multipliers is None) + len(SPANS) * (case.public is not None)
        self.looks = max(len(self.applicable) * len(DECISIVE) + about_members * members, 1)

    # ------------------------------------------------------------------------------------ on images

    def images(self) -> Findings:
        """Attack, then compare: `result`."""
        case, device = self.case, self.settings.device
        released = self.released.to(device)
        tried = attempts(self._task(released, case.n_train), self.asked)
        firsts = case.first.split(self.sizes)
        rows, held_out_rows = (
            part[sorted(draw_rows(len(part), self.n, self.settings.seed))].tolist()
            for part in (firsts[0], firsts[1] - len(case.train))
        )
        train, held_out = case.train.take(rows), case.held_out.take(held_out_rows)
        x, x_held_out = case.x[rows], case.x_held_out[held_out_rows]
        members, others = self._comparable(x), self._comparable(x_held_out)
        result = self._score(tried, members, others, released)
        result["features"] = case.public is not None
        for attempt in tried:
            result["attacks"][attempt.name] |= {
                "how": attempt.how,
                "why_not": attempt.why_not,
                "seconds": round(attempt.seconds, 2),
            }
        best = next(attempt for attempt in tried if attempt.name == result["attack"])
        x_hat = best.x_hat.to(device)
        pairs: list[tuple[Row, Row]] = []
        if case.public is None:
            left, right = (
                rows_of(x_hat, case.transform, inputs, images, matches(x_hat, compared, SHOWN))
                for inputs, images, compared in (
                    (x, train, members),
                    (x_held_out, held_out, others),
                )
            )
            pairs = list(zip(left, right, strict=True))
        leaked = []
        if result["leak"]:
            whole = [case.rows[row] for row in rows]
            leaked = leaked_images(x_hat, members, others, result, train.names, whole)
        return Findings({"result": result}, leaked, pairs, tried)

    def _task(self, released: Released, n: int) -> Task:
        return Task(released, self.shape, n, self.settings.profile, self.settings.seed)

    def _comparable(self, x: Tensor) -> Tensor:
        """Inputs (n, d) as candidates are compared with them: features standardised by the public
        ones.
        """
        x = x.flatten(1)
        x = x if self.case.public is None else Public(self.case.public).standardised(x)
        return x.to(self.settings.device)

    def _score(
        self, tried: list[Attempt], train: Tensor, held_out: Tensor, released: Released
    ) -> Json:
        device = self.settings.device
        update = train.new_zeros(1, train.shape[1])
        if released.first is not None:
            update = FirstLayer.of(released.first).update.to(device)
        if self.case.public is not None:
            update = update / Public(self.case.public).scale.to(device)
        nulls = Nulls.of(update, train, held_out, self.settings.seed)
        candidates = {attempt.name: attempt.x_hat.to(device) for attempt in tried}
        return score(candidates, nulls, self.looks)

    # --------------------------------------------------------------------------------- with shadows

    def with_shadows(self) -> Findings:
        """Shadow networks, membership and power: `recipe`, `membership`, `power`."""
        settings, case, n = self.settings, self.case, len(self.case.x)
        network = case.classifier
        network.module.to(settings.device)
        x, y, groups = torch.cat([case.x, case.x_held_out]), case.y, case.groups
        logits = network.logits(x)
        members = "membership" in settings.attacks
        seed, start, until = settings.seed, case.start, settings.until
        count = max(settings.shadows if members else 0, settings.canaries)
        count, keep = count + count % 2, max(1, settings.canaries)
        third = time.monotonic() + (until - time.monotonic()) / 3
        pace = self._pace(x, y, settings.recipe, count)
        recipe = settings.recipe or infer_recipe(
            network, x, y, n, seed, start, groups, third, (third - time.monotonic()) / pace
        )
        left = (until - time.monotonic()) / 2 / pace
        recipe = replace(recipe, steps=int(max(min(recipe.steps, left), 1)))
        shadows = train_shadows(network, x, y, recipe, count, seed, start, keep, groups, until)
        report: Json = {
            "recipe": {
                **asdict(recipe),
                "words": recipe.words,
                "given": settings.recipe is not None,
                "loss": loss_of(logits[:n], y[:n]).item(),
                "shadow_loss": shadows.loss.tolist(),
                "shadows": len(shadows),
                "asked": count,
            }
        }
        leaked = []
        if members:
            tell("who was trained on")
            table, score = self._membership(logits, x, y, shadows, recipe)
            predicted = (logits[:, 0] > 0).long() if network.outputs == 1 else logits.argmax(1)
            right = (y == predicted).double()
            accuracy = {"train": right[:n].mean().item(), "held_out": right[n:].mean().item()}
            report["membership"] = table | {"labels": case.labels, "accuracy": accuracy}
            leaked = leaked_members(
                score, case.names, [case.rows[row] for row in case.first[: self.sizes[0]]]
            )
        if settings.canaries and self.applicable:
            tell("attacks on shadow networks")
            report["power"] = self._canaries(shadows, x, recipe)
        network.module.cpu()
        return Findings(report, leaked)

    def _pace(self, x: Tensor, y: Tensor, recipe: Recipe | None, count: int) -> float:
        """Seconds that a step of a shadow network takes, with what is asked of it between steps;
        what all of them cost at most is told.
        """
        few = replace(recipe or Recipe(), steps=5, target_loss=None)
        half, took = len(x) // 2, 0.0
        for steps in (1, 5):  # the first time is slower
            began = time.monotonic()
            generator = torch.Generator().manual_seed(0)
            short = replace(few, steps=steps)
            train_network(
                self.case.classifier, x[:half], y[:half], short, generator, self.case.start
            )
            took = (time.monotonic() - began) / steps
        most, tried = (recipe or few).steps if recipe else Recipe.steps, 0 if recipe else 5
        pace = 1.5 * took
        told = f"{count} shadow networks" + f" and {tried} ordinary recipes" * bool(tried)
        tell(f"at most {(count + tried) * most * pace:.0f} s for {told} of {most} steps")
        return pace

    def _membership(
        self,
        logits: Tensor,
        x: Tensor,
        y: Tensor,
        shadows: Shadows,
        recipe: Recipe,
    ) -> tuple[Json, np.ndarray]:
        """The table of membership by all scores, and the best of them; p is that of the best, times
        the number of looks.
        """
        n, seed, groups = self.sizes[0], self.settings.seed, self.case.groups
        scores = self._spans(x)
        fit, why_not, reach = self._multipliers(x, y, shadows, recipe)
        if fit is not None:
            scores = {"multipliers": fit.score, **scores}
        inferred = infer(logits, y, n, shadows, seed, scores, groups, self._claim()[1])
        table = inferred.table
        if fit is not None:
            table["multipliers"]["residual"] = fit.diagnostics["residual"]
        alike = unseen(shadows, np.arange(sum(self.sizes)) < n, groups, seed)
        report = {
            "scores": table,
            "best": inferred.name,
            "p_value": min(1.0, min(row["p_value"] for row in table.values()) * self.looks),
            "looks": self.looks,
            "shadows": len(shadows),
            "multipliers_why_not": why_not,
            "power": inferred.power | {"multipliers_auc": reach},
            "unseen": alike,
            "why_not": self._why_not(alike, x, y, recipe),
            "groups": len(groups) > sum(self.sizes),
            "epsilon": inferred.epsilon | self._beside_claim(inferred.epsilon["lower"]),
        }
        return report, inferred.score

    def _claim(self) -> tuple[float, float]:
        """(ε, δ) as claimed of an image, for a group of k of them: (k ε, k e^((k − 1) ε) δ) (Dwork
        & Roth 2014); without a claim an infinite ε, and δ = 1/(10 n).
        """
        if self.settings.claimed is None:
            return math.inf, 1 / (10 * self.case.n_train)
        (epsilon, delta), size = self.settings.claimed, self.case.size
        return size * epsilon, min(1.0, size * math.exp(min((size - 1) * epsilon, 700)) * delta)

    def _beside_claim(self, lower: float) -> Json:
        epsilon, claimed = self._claim()[0], self.settings.claimed
        verdict = "violated" if lower > epsilon else "consistent"
        return {
            "claimed": claimed and claimed[0],
            "size": self.case.size,
            "verdict": claimed and verdict,
        }

    def _why_not(self, alike: Json, x: Tensor, y: Tensor, recipe: Recipe) -> str | None:
        """Why nothing can be told of membership, in a clause."""
        labelled = not self.case.labels.startswith(PREDICTED)
        if labelled and alike["p_value"] < TOLD_APART:
            return say("unlike", alike)
        network, start = self.case.classifier, self.case.start
        began = shadow_start(network.module, recipe, 0, self.settings.seed, start)
        loss, goal = loss_of(network.of(began).logits(x), y).item(), recipe.target_loss
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

    def _spans(self, x: Tensor) -> dict[str, Tensor]:
        """Scores of membership of features, none where inputs are images."""
        network, public, weights = self.case.classifier, self.case.public, self.released.first
        if public is None or weights is None or network.first is None:
            return {}
        bias = getattr(network.module.get_submodule(network.first), "bias", None)
        bias = None if bias is None else bias.detach().cpu()
        layer = FirstLayer.of(weights)
        return spans(layer, bias, x.flatten(1), Public(public), len(self.case.x))

    def _canaries(self, shadows: Shadows, x: Tensor, recipe: Recipe) -> Json:
        """Some of the shadows attacked as the network itself was, and scored by the same rule: how
        many, how many of them were found to leak, training images found, 0 for one that is not
        found to leak, and training images.
        """
        case, settings = self.case, self.settings
        leaking, counts, size = 0, [], 0
        canaries = min(settings.canaries, len(shadows.classifiers))
        for k in range(canaries):
            first = self.case.first
            inside, start = shadows.inside[k][first], None
            size = int(min(inside.sum(), (~inside).sum()))
            if case.start is not None:  # known where the audited network's is: the same draw again
                start = shadow_start(case.subject.module, recipe, k, settings.seed, case.start)
            canary = examine(shadows.classifiers[k].module.cpu(), self.shape)
            released = Released.of(canary, start, case.public).to(settings.device)
            seen = int(shadows.inside[k].sum())
            tried = attempts(self._task(released, seen), self.applicable)
            train, held_out = (
                self._comparable(x[first[part]][:size]) for part in (inside, ~inside)
            )
            result = self._score(tried, train, held_out, released)
            leaking += result["leak"]
            counts.append(result["targets"] if result["leak"] else 0)
        return {
            "canaries": canaries,
            "leaking": leaking,
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


# ------------------------------------------------------------------------------------------- leaked


def leaked_images(
    x_hat: Tensor,
    train: Tensor,
    held_out: Tensor,
    result: Json,
    names: list[str],
    rows: list[int],
) -> list[Leaked]:
    """Training images given away by reconstruction.

    Args:
        train, held_out (n, d): that were compared; names (n,) of those training images, and their
            rows among all.
    """
    images = torch.cat([train, held_out])
    scores = one_to_one(images, padded(x_hat, len(images))).score.cpu()
    inner, outer = scores.split(len(train))
    # the best images alone are few, and the share of chance among few is never small: all above the
    # threshold are at least as sure as those
    threshold = result["threshold"]
    most = _chance(inner > threshold, outer > threshold)
    leaked = []
    for row in torch.nonzero(inner > threshold)[:, 0].tolist():
        value = inner[row].item()
        sure = 1 - min(most, _chance(inner >= value, outer >= value))
        leaked.append(Leaked(names[row], rows[row], result["attack"], value, sure))
    return leaked


def _chance(inner: Tensor, outer: Tensor) -> float:
    """The estimated share of chance among the images that score so: which of either kind do."""
    return min(1.0, (int(outer.sum()) + 1) / int(inner.sum()))


def leaked_members(score: np.ndarray, names: list[str], rows: list[int]) -> list[Leaked]:
    """Groups of training images given away by a score (G,) of membership, theirs first; names, and
    the rows of their first images.
    """
    likely = probability(score, np.arange(len(score)) < len(names))
    return [
        Leaked(names[k], rows[k], "membership", float(score[k]), float(likely[k]))
        for k in np.flatnonzero(likely > 0.5).tolist()
    ]
