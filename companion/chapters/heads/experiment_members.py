"""Who was trained on? The matched filter and the span test beside the attacks of others, on the
same heads.

Shadow heads are trained by the recipe of the head in question, on images drawn from those that are
asked about: the members of all sets and the held-out images. So n · shadows / (members + held out)
of them were trained on any one image, three of 64 at n = 100: hardly any for LiRA, which
pools the variance of all images then, as its authors advise, and whose mean in these heads is drawn
towards the common one (`lira_online`). In the balanced cell every image asked about is in about
half of the heads, and each head takes its turn to be asked. Nothing here was chosen on these sets.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from companion.chapters.base import Context, Outcome
from companion.chapters.heads.attackers import (
    alignment,
    inverse_hessian,
    lira_offline,
    lira_online,
    loss_quantile,
)
from companion.chapters.heads.experiment import ADAMW, BASE, PRIVATE, SGD, Head, recipe_of
from companion.chapters.members import Cells, judged, labels_of, table
from companion.store.record import Record
from recon.attacks.heads import SIGNED, Public, matched_filter, span_test, toward_label
from recon.attacks.multipliers import confidence
from recon.attacks.separation import FirstLayer
from recon.images.features import backbone, features
from recon.images.partitions import partition
from recon.images.pool import PARTS
from recon.images.registry import load_pool
from recon.optim.rng import named
from recon.scoring.membership import rmia
from recon.training.recipes import Recipe, accuracy

FILTER = "matched filter"
SPAN = "span test"
UNLABELLED = "filter without labels"
FEW = "filter, 50 public images"
FOREIGN = "filter, public images of another kind"
CONFIDENCE = "confidence"
LOSS = "low loss"
ENERGY = "response without the filter"
#: attack -> what it needs beside the weights, candidates and their labels
NEEDS = {
    FILTER: "2,000 public images of the kind",
    FEW: "50 of them",
    FOREIGN: "public images of another kind",
    UNLABELLED: "2,000 public images, no label",
    SPAN: "nothing; SGD, and initial weights gone",
    "LiRA, online": "shadow heads, trained on the candidates too; answers only",
    "LiRA, offline": "shadow heads; answers only",
    "RMIA": "shadow heads; answers only",
    "IHA": "all training images but one, the step size",
    "loss quantile": "2,000 public images; answers only",
    "gradient alignment": "the initial weights",
    CONFIDENCE: "nothing, no label; answers only",
    LOSS: "nothing; answers only",
    ENERGY: "nothing, no label",
}
SHADOW = ("LiRA, online", "LiRA, offline", "RMIA")
OTHER_POOLS = {"photos": "digits"}  # pool -> the other one, where it is not the bundled photographs
DRAWS = 200  # of a bootstrap


@dataclass(frozen=True, kw_only=True)
class Members:
    """Heads of one kind: n training images, classes, a recipe of `RECIPES`, shadow heads; balanced:
    see above.
    """

    n: int = 100
    recipe: str = ADAMW
    classes: int = 10
    shadows: int = 16
    balanced: bool = False

    @property
    def name(self) -> str:
        """For checkpoints and people."""
        return f"{self.recipe}, n = {self.n}, {self.classes} classes" + ", balanced" * self.balanced


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """
    Attributes:
        sets: of images, at the run's seed and those that follow it.
        side: of the images that the backbone is given.
        epochs, base, width: as in `companion.chapters.heads.experiment`.
    """

    cells: tuple[Members, ...]
    sets: int = 3
    side: int = 128
    epochs: int = 1000
    base: Recipe = BASE
    width: int = 512


SIZES = {
    "smoke": Sizes(
        cells=(
            Members(n=20, shadows=3),
            *(Members(n=20, recipe=name, shadows=2) for name in (SGD, PRIVATE[0])),
            Members(n=20, classes=2, shadows=2),
            Members(n=20, shadows=4, balanced=True),
        ),
        sets=1,
        side=64,
        epochs=100,
        base=replace(BASE, batch=10),
        width=64,
    ),
    "laptop": Sizes(cells=(Members(shadows=8),), sets=1),
    # in the order in which a run that is cut short would miss them least
    "paper": Sizes(
        cells=(
            Members(shadows=64),
            *(Members(n=n, recipe=SGD, shadows=64) for n in (10, 100, 30)),
            *(Members(n=n, recipe=name, shadows=64) for name in PRIVATE for n in (100, 10, 30)),
            Members(balanced=True, shadows=64),
            Members(classes=2, shadows=64),
            *(Members(n=n, shadows=64) for n in (10, 30, 500, 300)),
            Members(recipe=SGD, classes=2, shadows=64),
            Members(n=500, classes=2, shadows=64),
            *(Members(n=n, recipe=SGD, shadows=64) for n in (300, 500)),
        )
    ),
}


class Metrics(Cells):
    """cells: heads of one kind, with the accuracy of each set's head, and attacks by name.
    attacks: auc, and counts of each set: at_1pct and at_01pct, of the members above all but 1 % and
    0.1 % of the held-out images, and the least and most in 95 % of bootstraps over images ·
    false_alarms: of fresh images, which the head asked about was not trained on, above that 1 % ·
    milliseconds.
    """

    usual = {"balanced": False, "classes": 10}


@dataclass(frozen=True)
class Images:
    """All images of the pool: features (N, d), labels and class of two (N,); rows that are public,
    held out, of the part that is trained on, and members of each set; features of another pool.
    """

    x: Tensor
    labels: Tensor
    two: np.ndarray
    public: np.ndarray
    held_out: np.ndarray
    fresh: np.ndarray
    members: list[np.ndarray]
    foreign: Tensor


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Every cell."""
    return Outcome(Metrics(cells=table(_cell, sizes, context, "members")), {})


def _images(sizes: Sizes, context: Context, cell: Members) -> Images:
    pool = context.pool
    of = backbone("lite0", sizes.side)
    parts = {name: np.flatnonzero(pool.part == name) for name in PARTS}
    made = torch.cat([features(pool.pixels(rows), of) for rows in parts.values()])
    sets = [partition(pool, cell.n, 2, context.seed + k).train.index for k in range(sizes.sets)]
    members = [np.flatnonzero(np.isin(pool.index, index)) for index in sets]
    foreign = load_pool(OTHER_POOLS.get(pool.name, "photos"))
    return Images(
        x=made[np.argsort(np.concatenate(list(parts.values())))],
        labels=labels_of(pool, cell.classes),
        two=pool.y,
        public=np.setdiff1d(parts["init"], np.concatenate(members)),
        held_out=parts["held_out"],
        fresh=parts["train"],
        members=members,
        foreign=features(foreign.pixels(np.arange(min(len(foreign.y), 2034))), of),
    )


def _cell(sizes: Sizes, context: Context, cell: Members) -> list[Record]:
    """Heads asked about and shadows, all attacks on them."""
    images = _images(sizes, context, cell)
    seed = context.seed
    random = np.random.default_rng([seed, cell.n, cell.balanced])
    sets = images.members
    held_out = images.held_out
    fresh = images.fresh
    first = sets[0]
    asked = np.union1d(np.concatenate(sets), held_out)
    if cell.balanced:
        others = random.permutation(np.setdiff1d(held_out, first))
        held_out = asked = np.union1d(first, others[: cell.n])
        fresh = fresh[:0]
        sets = []
    drawn = [drawn_from(asked, images.two, len(first), random) for _ in range(cell.shadows)]
    rows = torch.from_numpy(np.stack(sets + drawn))
    inside = torch.zeros(len(rows), len(images.x), dtype=torch.bool).scatter_(1, rows, True)
    recipe = recipe_of(sizes, cell.recipe, len(first), sizes.width, cell.classes)
    generator = named(seed, f"members {cell.name}")
    heads = [Head.of(recipe, images.x[row], images.labels[row], generator) for row in rows]
    outputs = torch.stack([head.module(images.x) for head in heads])
    phi = confidence(outputs, images.labels)
    scores = []
    kinds = []
    right = []
    for k, head in enumerate(heads[: len(sets) or None]):  # where balanced, others are shadows
        members = sets[k] if sets else asked[inside[k, asked].numpy()]
        parts = [members, *(np.setdiff1d(part, members) for part in (held_out, fresh))]
        kinds.append(np.repeat([1, 0, 2], [len(part) for part in parts]))
        shadow = torch.arange(len(rows)) >= len(sets)
        shadow[k] = False
        at = np.concatenate(parts)
        by_shadows = (phi[shadow], inside[shadow])
        attacks = _attacks(images, head, recipe, phi[k], by_shadows, at, len(members))
        if cell.balanced:
            attacks = {name: attacks[name] for name in (*SHADOW, LOSS, FILTER)}
        scores.append({name: _timed(attack) for name, attack in attacks.items()})
        right.append(accuracy(nn.Identity(), outputs[k, parts[1]], images.labels[parts[1]]))
    row = Record(n_train=len(first), shadows=cell.shadows)
    row |= {key: getattr(cell, key) for key in ("recipe", "classes", "balanced")}
    if cell.balanced:  # all heads together
        pooled = {key: torch.cat([scored[key][0] for scored in scores]) for key in scores[0]}
        scores = [{key: (score, 0) for key, score in pooled.items()}]
        kinds = [np.hstack(kinds)]
    else:
        row["accuracy"] = [round(share, 3) for share in right]
    row["attacks"] = Record()
    for name in scores[0]:
        told = [_rates(*of[name], kind, seed) for of, kind in zip(scores, kinds, strict=True)]
        row.attacks[name] = {key: [each[key] for each in told] for key in told[0]}
    return [row]


def _timed(attack: Callable[[], Tensor]) -> tuple[Tensor, int]:
    """Scores, and milliseconds of one core."""
    began = time.process_time()
    return attack(), round(1000 * (time.process_time() - began))


def drawn_from(
    asked: np.ndarray, two: np.ndarray, n: int, random: np.random.Generator
) -> np.ndarray:
    """n of the images asked about, as many of each of the two classes, as `partition` has them."""
    parts = [random.permutation(asked[two[asked] == label])[: n // 2] for label in (0, 1)]
    return np.sort(np.concatenate(parts))


def _attacks(
    images: Images,
    head: Head,
    recipe: Recipe,
    phi: Tensor,
    shadows: tuple[Tensor, Tensor],
    at: np.ndarray,
    n: int,
) -> dict[str, Callable[[], Tensor]]:
    """Scores of images at these rows, of which the first n are members, by every attack; φ (N,) are
    log odds of all images by the head, and shadows those by shadow heads (k, N), and whether these
    were trained on them.
    """
    public_phi = phi[images.public]
    others, inside = (part[:, at] for part in shadows)
    x = images.x[at]
    y = images.labels[at]
    public = Public(images.x[images.public])
    phi = phi[at]
    w, bias, outer, _ = head.parts
    response = partial(matched_filter, w, bias, x)
    labelled = partial(response, ridge=SIGNED, toward=toward_label(outer, y))
    answers = head.module(x)
    best = (pad(answers, (0, 1)) if answers.shape[1] == 1 else answers).topk(2).values
    few = Public(public.features[:: len(public.features) // 50])
    return {
        "LiRA, online": partial(lira_online, phi, others, inside),
        "LiRA, offline": partial(lira_offline, phi, others, inside),
        "RMIA": partial(rmia, phi, others),
        LOSS: lambda: phi,
        FILTER: partial(labelled, public),
        FEW: partial(labelled, few),
        FOREIGN: lambda: labelled(Public(images.foreign)),
        UNLABELLED: partial(response, public),
        ENERGY: partial(response, public, 1e6),
        SPAN: partial(
            span_test, FirstLayer(w), x, public, min(n, len(w)), recipe.optimiser != "sgd"
        ),
        "IHA": partial(inverse_hessian, head.parts, x, y, n, recipe.lr),
        "loss quantile": partial(loss_quantile, phi, x, public_phi, public),
        "gradient alignment": partial(alignment, head.parts, x, y, w - head.w1_init),
        CONFIDENCE: lambda: best[:, 0] - best[:, 1],
    }


def _rates(score: Tensor, milliseconds: int, kind: np.ndarray, seed: int) -> Record:
    """`cells.attacks` of `Metrics`, of scores of members (kind 1), held-out images (0) and fresh
    ones (2).
    """
    told = judged(score, kind, seed, DRAWS)
    _, n, fresh = np.bincount(kind, minlength=3).tolist()
    shares = {
        "at_1pct": told.tpr_at_1pct,
        "between_1pct": told.from_to_at_1pct,
        "at_01pct": told.tpr_at_01pct,
        "between_01pct": told.from_to_at_01pct,
    }
    row = Record(auc=told.auc, of=n, milliseconds=milliseconds)
    for name, share in shares.items():
        row[name] = np.rint(n * np.array(share)).astype(int).tolist()
    if fresh:
        row |= {"fresh": fresh, "false_alarms": round(fresh * told.false_alarms)}
    return row
