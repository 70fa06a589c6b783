"""The attacks on one network and on its canaries, and what they are compared with: all that an
audit computes.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from recon.attacks.heads import Public
from recon.attacks.multipliers import confidence
from recon.attacks.separation import FirstLayer
from recon.optim.rng import named
from recon.released import Weights
from recon.scoring.matching import one_to_one, padded
from recon.scoring.membership import permutation_p, probability
from recon.store.tensors import save_tensors
from recon.training.recipes import loss_of
from recon_audit.adapters import adapter_scores, scores_of
from recon_audit.anatomy import examine, first_layer_of
from recon_audit.attacks import RECONSTRUCTIONS, Attempt, Task, attempts
from recon_audit.exchange import by_group, draw_rows
from recon_audit.images import PARTS
from recon_audit.membership import (
    beside_claim,
    feature_scores,
    infer,
    label_filter,
)
from recon_audit.prepare import Case
from recon_audit.report import Leaked
from recon_audit.scoring import DECISIVE, Json, score
from recon_audit.shadows import (
    Recipe,
    Shadows,
    fresh,
    infer_recipe,
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
        self.x = case.x
        inner = int((case.first < len(case.train)).sum())
        self.sizes = inner, len(case.first) - inner
        self.n = min(*self.sizes, MOST_COMPARED)
        self.asked = [name for name in RECONSTRUCTIONS if name in settings.attacks]
        self.applicable = [] if case.first_layer is None else self.asked
        members = "membership" in settings.attacks
        self.needs_shadows = members or bool(settings.canaries and self.applicable)
        scores = 2 + len(adapter_scores(case.classifier.module))
        scores += case.public is not None or case.sample is not None
        self.looks = max(len(self.applicable) * len(DECISIVE) + scores * members, 1)

    # ------------------------------------------------------------------------------------ on images

    def images(self) -> tuple[Json, list[Leaked], Tensor, list[Attempt]]:
        """Attack, then compare: `result` of the report, images given away, pictures of the best
        matches (see `page`), and what the attacks brought home.
        """
        case, device = self.case, self.settings.device
        rows, others = (
            part[draw_rows(len(part), self.n, self.settings.seed)]
            for part in case.first.split(self.sizes)
        )
        tried, result = self._attack(case.first_layer, case.n_train, self.asked, rows, others)
        result["features"] = case.public is not None
        for attempt in tried:
            about = {"how": attempt.how, "why_not": attempt.why_not}
            result["attacks"][attempt.name] |= about
        x_hat = next(part.x_hat for part in tried if part.name == result["attack"]).to(device)
        both = torch.cat([rows, others])
        x, pixels = self._comparable(both), torch.cat([case.train.scaled, case.held_out.scaled])
        candidates = padded(x_hat, len(x))
        match = one_to_one(x, candidates)
        pictures, result["best"] = [], {}
        for part, at in zip(PARTS, (0, self.n), strict=True):
            order = match.score[at : at + self.n].argsort(descending=True)
            best = at + order[: 0 if case.public is not None else SHOWN]
            found = candidates[match.index[best]].unflatten(1, case.train.shape)
            pictures += [found.cpu(), pixels[both[best.cpu()]]]
            result["best"][part] = match.score[best].tolist()
        likeness = match.score.cpu().numpy()
        names = [case.train.names[row] for row in rows]
        leaked = self._leaked(likeness, rows, names, result["attack"], result["threshold"])
        return {"result": result}, leaked if result["leak"] else [], torch.cat(pictures), tried

    def _attack(
        self, first: Weights | None, n: int, names: list[str], rows: Tensor, others: Tensor
    ) -> tuple[list[Attempt], Json]:
        """What a first layer tells of n training images, beside these rows and as many others."""
        case, settings = self.case, self.settings
        public = None if case.public is None else case.public.to(settings.device)
        first = first and first.to(settings.device)
        tried = attempts(Task(first, public, case.train.shape, n, settings.seed), names)
        train, held_out = self._comparable(rows), self._comparable(others)
        update = train.new_zeros(1, train.shape[1])
        if first is not None:
            update = FirstLayer.of(first).update.to(update)
        if public is not None:
            update = update / Public(public).scale.to(update)
        candidates = {attempt.name: attempt.x_hat.to(settings.device) for attempt in tried}
        return tried, score(candidates, update, (train, held_out), self.looks, settings.seed)

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
        index = self.case.rows[rows]
        return [
            Leaked(names[k], int(index[k]), how, float(score[k]), float(likely[k]))
            for k in np.flatnonzero(away)
        ]

    def _comparable(self, rows: Tensor) -> Tensor:
        """Inputs (n, d) as candidates are compared with them: features standardised by the public
        ones.
        """
        x, public = self.x[rows].flatten(1), self.case.public
        return (x if public is None else Public(public).standardised(x)).to(self.settings.device)

    # --------------------------------------------------------------------------------- with shadows

    def with_shadows(self) -> tuple[Json, list[Leaked]]:
        """Shadow networks, membership and power: `recipe`, `membership`, `power` of the report, and
        images given away.
        """
        settings, case, x, n = self.settings, self.case, self.x, len(self.case.train)
        network, y, seed, start = case.classifier, case.member_classes, settings.seed, case.start
        network.module.to(settings.device)
        members, keep = "membership" in settings.attacks, max(1, settings.canaries)
        count = max(settings.shadows * members, settings.canaries)
        count += count % 2
        began, few = time.monotonic(), Recipe(steps=3)
        train_network(network, x, y, few, named(seed, "audit.pace"), start)
        pace, until = (time.monotonic() - began) / few.steps, settings.until
        most = f"at most {Recipe.steps} steps of {pace:.2g} s, fewer where the loss is reached"
        tell(f"{count} shadow networks, up to 5 ordinary recipes, each of {most}")
        recipe = settings.recipe or infer_recipe(
            network, x, y, n, seed, start, case.groups, began + (until - began) / 3
        )
        shadows = train_shadows(network, x, y, recipe, count, seed, start, keep, case.groups, until)
        report: Json = {
            "recipe": asdict(recipe)
            | {
                "words": recipe.words,
                "given": settings.recipe is not None,
                "asked": count,
                "shadows": len(shadows),
                "shadow_loss": shadows.loss.tolist(),
                "loss": loss_of(network.logits(x[:n]), y[:n]).item(),
            }
        }
        leaked = []
        if members:
            tell("who was trained on")
            told, score = self._membership(shadows, recipe)
            rows = case.first[: self.sizes[0]]
            report["membership"] = told
            leaked = self._leaked(score, rows, case.names, "membership", None)
        if settings.canaries and self.applicable:
            tell("attacks on shadow networks")
            report["power"] = self._canaries(shadows, recipe)
        network.module.cpu()
        return report, leaked

    def _membership(self, shadows: Shadows, recipe: Recipe) -> tuple[Json, np.ndarray]:
        """The table of membership by all scores, and the best of them; p is that of the best, times
        the number of looks.

        What the network answers stands for labels: those of held-out images may not hold, and then
        a network that saw neither set would tell the sets apart. Where labels alone do, `decide`
        leaves it open; where somebody says that they hold, they are used.
        """
        case, seed, x, y = self.case, self.settings.seed, self.x, self.case.member_classes
        network, (n, others), start = case.classifier, self.sizes, case.start
        logits = network.logits(x)
        scores = feature_scores(case) | label_filter(case) | scores_of(network.module, x)
        told = infer(logits, y, n, shadows, seed, scores, case.groups)
        best = told.table[told.name]
        sure, parts = confidence(logits, case.y), [len(case.train), len(case.held_out)]
        right = (sure > 0).double().split(parts)
        bounds, member = [*told.scores.values()], np.arange(n + others) < n
        by_labels = by_group(sure, case.groups).numpy()
        first = fresh(network.module, recipe, named(seed, "audit.shadow", 0), start)
        loss, goal = loss_of(network.of(first).logits(x), y).item(), recipe.target_loss
        report = {
            "scores": told.table,
            "best": told.name,
            "p_value": min(1.0, best["p_value"] * self.looks),
            "looks": self.looks,
            "shadows": len(shadows),
            "power": told.power,
            "p_by_labels": permutation_p(by_labels, member, seed),
            "why_not": None if goal is None or loss > goal else say("untrained", loss, goal),
            "groups": len(case.groups) > n + others,
            "epsilon": beside_claim(bounds, n, seed, self.settings.claimed, case.size),
            "labels": case.labels,
            "trusted": case.trusted,
            "accuracy": dict(zip(PARTS, (part.mean().item() for part in right), strict=True)),
        }
        return report, told.score

    def _canaries(self, shadows: Shadows, recipe: Recipe) -> Json:
        """Some of the shadows attacked as the network itself was, and scored by the same rule: how
        many, how many of them were found to leak, training images found, 0 for one that is not
        found to leak, and training images.
        """
        case, seed, counts, size = self.case, self.settings.seed, [], 0
        for k, shadow in enumerate(shadows.classifiers[: self.settings.canaries]):
            seen = shadows.inside[k]
            inside = seen[case.first]
            size = int(min(inside.sum(), (~inside).sum()))
            # known where the audited network's is: the same draw again
            start = None
            if case.start is not None:
                drawn = named(seed, "audit.shadow", k)  # as in `train_shadows`
                start = fresh(case.subject.module, recipe, drawn, case.start)
            there = examine(shadow.module.cpu(), case.train.shape)
            rows = (case.first[part][:size] for part in (inside, ~inside))
            first = first_layer_of(there, start)
            result = self._attack(first, int(seen.sum()), self.applicable, *rows)[1]
            counts.append(result["targets"] * result["leak"])
        leaking = sum(count > 0 for count in counts)
        found = {"leaking": leaking, "found": float(np.mean(counts)), "n": size}
        return {"canaries": len(counts), **found}


def save_attempts(tried: list[Attempt], folder: Path) -> None:
    """What the attacks brought home, a file each."""
    for attempt in tried:
        if len(attempt.x_hat):
            save_tensors({"x_hat": attempt.x_hat}, folder / f"{attempt.name}.safetensors")
