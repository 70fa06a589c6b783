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
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.heads.attackers import (
    alignment,
    inverse_hessian,
    lira_offline,
    lira_online,
    log_odds,
    loss_quantile,
)
from companion.chapters.heads.experiment import ADAMW, BASE, RECIPES, SGD, steps_of
from companion.chapters.heads.stacked import Heads, passed, train_heads
from companion.chapters.tables import packed, unpacked
from companion.store.record import Record
from recon.attacks.heads import SIGNED, Public, matched_filter, span_test, toward_label
from recon.attacks.separation import FirstLayer
from recon.images.features import backbone, features
from recon.images.partitions import partition
from recon.images.pool import PARTS
from recon.images.registry import load_pool
from recon.optim.rng import named
from recon.scoring.membership import intervals, rmia
from recon.scoring.roc import auc, true_rate
from recon.training.recipes import Recipe

FILTER, SPAN = "matched filter", "span test"
UNLABELLED = "filter without labels"
FEW, FOREIGN = "filter, 50 public images", "filter, public images of another kind"
CONFIDENCE, LOSS, ENERGY = "confidence", "low loss", "response without the filter"
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
KIND = ("recipe", "classes", "balanced")
DRAWS = 200  # of a bootstrap
TOGETHER = 2  # heads with all coordinates, trained at once: more leave the processor's cache


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


PRIVATE = tuple(f"DP-SGD, ε = {epsilon}" for epsilon in (8, 3, 1))
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


class Metrics(Record):
    """cells: heads of one kind, with the accuracy of each set's head, and attacks by name.
    attacks: auc, and counts of each set: at_1pct and at_01pct, of the members above all but 1 % and
    0.1 % of the held-out images, and the least and most in 95 % of bootstraps over images ·
    false_alarms: of fresh images, which the head asked about was not trained on, above that 1 % ·
    milliseconds.
    """

    def at(self, **of: object) -> Record | None:
        """The first cell with these fields, not the balanced one, None where there is none."""
        wanted = {"balanced": False, "classes": 10, **of}
        return next((cell for cell in self.cells if cell.only(*wanted) == wanted), None)


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

    @property
    def known(self) -> Public:
        """The adversary's public images."""
        return Public(self.x[self.public])


@dataclass(frozen=True)
class Released:
    """A head: its parts (of `stacked`), initial weights of the first layer, and recipe."""

    parts: Heads
    initial: Tensor
    recipe: Recipe

    @property
    def w1(self) -> Tensor:
        """(h, d)."""
        return self.parts[0][0]

    @property
    def bias(self) -> Tensor:
        """(h,) of the first layer."""
        return self.parts[1][0]

    def outputs(self, x: Tensor) -> Tensor:
        """(m, c) for x (m, d)."""
        return passed(self.parts, x[None], torch.zeros(1, len(x), dtype=torch.int64))[0][0]


@dataclass(frozen=True)
class Shadows:
    """Log odds φ (k, N) of all images by all heads, whether they were trained on them (k, N), and
    the rows asked about.
    """

    phi: Tensor
    inside: Tensor
    asked: np.ndarray

    def of(self, k: int, sets: int) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """φ (N,) of head k, and what the shadows say: all but the first `sets`."""
        return self.phi[k], (self.phi[sets:], self.inside[sets:])

    def without(self, k: int) -> tuple[Tensor, Tensor]:
        """What all heads but k say."""
        others = torch.arange(len(self.phi)) != k
        return self.phi[others], self.inside[others]


Attacks = dict[str, Callable[[], Tensor]]


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Every cell."""
    cells = {cell.name: cell for cell in sizes.cells}
    unit = partial(_unit, sizes, context, cells)
    units = context.sweep(unit, list(cells), label="members")
    return Outcome(Metrics(cells=[unpacked(units[name]) for name in cells]), {})


def _unit(sizes: Sizes, context: Context, cells: dict[str, Members], name: str) -> Tensors:
    return packed(_cell(sizes, context, cells[name]))


def _images(sizes: Sizes, context: Context, cell: Members) -> Images:
    pool, of = context.pool, backbone("lite0", sizes.side)
    parts = {name: np.flatnonzero(pool.part == name) for name in PARTS}
    made = torch.cat([features(pool.pixels(rows), of) for rows in parts.values()])
    order = np.argsort(np.concatenate(list(parts.values())))
    sets = [partition(pool, cell.n, 2, context.seed + k).train.index for k in range(sizes.sets)]
    members = [np.flatnonzero(np.isin(pool.index, index)) for index in sets]
    foreign = load_pool(OTHER_POOLS.get(pool.name, "photos"))
    return Images(
        x=made[order],
        labels=torch.from_numpy(pool.y if cell.classes == 2 else pool.labels).long(),
        two=pool.y,
        public=np.setdiff1d(parts["init"], np.concatenate(members)),
        held_out=parts["held_out"],
        fresh=parts["train"],
        members=members,
        foreign=features(foreign.pixels(np.arange(min(len(foreign.y), 2034))), of),
    )


def _cell(sizes: Sizes, context: Context, cell: Members) -> Record:
    """Heads asked about and shadows, all attacks on them."""
    images, generator = _images(sizes, context, cell), named(context.seed, f"members {cell.name}")
    random = np.random.default_rng([context.seed, cell.n, cell.balanced])
    asked = np.union1d(np.concatenate(images.members), images.held_out)
    if cell.balanced:
        others = random.permutation(np.setdiff1d(images.held_out, images.members[0]))
        asked = np.union1d(images.members[0], others[: cell.n])
    n = len(images.members[0])
    drawn = [_drawn(asked, images.two, n, random) for _ in range(cell.shadows)]
    rows = np.stack(([] if cell.balanced else images.members) + drawn)
    changes = RECIPES[cell.recipe].changes
    recipe = replace(sizes.base, width=sizes.width, classes=cell.classes, **changes)
    recipe = replace(recipe, steps=steps_of(recipe, n, sizes.epochs * RECIPES[cell.recipe].epochs))
    heads: list[Released] = []
    phi: list[Tensor] = []
    together = len(rows) if recipe.optimiser == "sgd" else TOGETHER
    for at in torch.from_numpy(rows).split(together):
        trained, initial = train_heads(recipe, images.x[at], images.labels[at], generator)
        for k in range(len(at)):
            head = Released([part[k : k + 1] for part in trained], initial[k], recipe)
            if cell.balanced or len(heads) < sizes.sets:
                heads.append(head)
            phi.append(log_odds(head.outputs(images.x), images.labels))
    shadows = Shadows(torch.stack(phi), _inside(rows, len(images.x)), asked)
    table = (_turns if cell.balanced else _sets)(images, heads, shadows, context.seed)
    return Record(
        n_train=n, **{name: getattr(cell, name) for name in KIND}, shadows=cell.shadows, **table
    )


def _drawn(asked: np.ndarray, two: np.ndarray, n: int, random: np.random.Generator) -> np.ndarray:
    """n of the images asked about, as many of each of the two classes, as `partition` has them."""
    parts = [random.permutation(asked[two[asked] == label])[: n // 2] for label in (0, 1)]
    return np.sort(np.concatenate(parts))


def _inside(rows: np.ndarray, count: int) -> Tensor:
    inside = torch.zeros(len(rows), count, dtype=torch.bool)
    return inside.scatter_(1, torch.from_numpy(rows), True)


def _sets(images: Images, heads: list[Released], shadows: Shadows, seed: int) -> Record:
    """Every attack on the head of each set: its members, held-out images, and fresh ones."""
    rates, accuracy, sets = [], [], len(heads)
    for k, head in enumerate(heads):
        members = images.members[k]
        held_out = np.setdiff1d(images.held_out, members)
        fresh = np.setdiff1d(images.fresh, members)
        at = np.concatenate([members, held_out, fresh])
        kind = np.repeat([1, 0, 2], [len(members), len(held_out), len(fresh)])
        scores = _attacks(images, head, shadows.of(k, sets), at, kind == 1)
        rates.append({name: _rates(score, kind, seed, ms) for name, (score, ms) in scores.items()})
        answers, labels = head.outputs(images.x[held_out]), images.labels[held_out]
        given = answers.argmax(1) if answers.shape[1] > 1 else answers[:, 0] > 0
        accuracy.append(round((given == labels).float().mean().item(), 3))
    lists = {
        name: Record({key: [row[name][key] for row in rates] for key in rates[0][name]})
        for name in rates[0]
    }
    return Record(accuracy=accuracy, attacks=lists)


def _turns(images: Images, heads: list[Released], shadows: Shadows, seed: int) -> Record:
    """The filter and attacks by shadow heads; every head is asked about once, and a shadow of the
    others.
    """
    every: dict[str, list[Tensor]] = {}
    at = shadows.asked
    for k, head in enumerate(heads):
        scores = _by_shadows(shadows.phi[k], shadows.without(k), at)
        scores[FILTER] = partial(_filter, head, images, at, images.known)
        for name, score in scores.items():
            every.setdefault(name, []).append(score())
    kind = shadows.inside[:, at].flatten().numpy().astype(int)
    rates = {name: _rates(torch.cat(score), kind, seed, 0) for name, score in every.items()}
    return Record(attacks={name: {key: [v] for key, v in r.items()} for name, r in rates.items()})


def _by_shadows(phi: Tensor, shadows: tuple[Tensor, Tensor], at: np.ndarray) -> Attacks:
    """Those that compare φ (N,) at the rows `at` with that of shadow heads."""
    others, inside = (part[:, at] for part in shadows)
    return {
        "LiRA, online": lambda: lira_online(phi[at], others, inside),
        "LiRA, offline": lambda: lira_offline(phi[at], others, inside),
        "RMIA": lambda: rmia(phi[at], others),
        LOSS: lambda: phi[at],
    }


def _filter(head: Released, images: Images, at: np.ndarray, public: Public) -> Tensor:
    toward = toward_label(head.parts[2][0], images.labels[at])
    return matched_filter(head.w1, head.bias, images.x[at], public, SIGNED, toward)


def _attacks(
    images: Images,
    head: Released,
    shadows: tuple[Tensor, tuple[Tensor, Tensor]],
    at: np.ndarray,
    member: np.ndarray,
) -> dict[str, tuple[Tensor, int]]:
    """Scores of images at these rows by every attack, and milliseconds of one core."""
    x, y, public, phi = images.x[at], images.labels[at], images.known, shadows[0]
    response = partial(matched_filter, head.w1, head.bias, x, public)
    answers = head.outputs(x)
    two = torch.cat([answers, torch.zeros_like(answers)], 1) if answers.shape[1] == 1 else answers
    best = two.topk(2).values
    linear = head.recipe.optimiser == "sgd"
    trained, right = images.x[at[member]], y[member]
    attacks: Attacks = {
        FILTER: lambda: _filter(head, images, at, public),
        FEW: lambda: _filter(
            head, images, at, Public(public.features[:: len(public.features) // 50])
        ),
        FOREIGN: lambda: _filter(head, images, at, Public(images.foreign)),
        UNLABELLED: lambda: response(),
        ENERGY: lambda: response(ridge=1e6),
        SPAN: lambda: span_test(
            FirstLayer(head.w1), x, public, min(len(trained), len(head.w1)), not linear
        ),
        **_by_shadows(phi, shadows[1], at),
        # members come first, and are left out themselves
        "IHA": lambda: inverse_hessian(
            head.parts, x, y, trained, right, torch.arange(len(x)) % len(trained), head.recipe.lr
        ),
        "loss quantile": lambda: loss_quantile(phi[at], x, phi[images.public], public),
        "gradient alignment": lambda: alignment(head.parts, x, y, head.w1 - head.initial),
        CONFIDENCE: lambda: best[:, 0] - best[:, 1],
    }
    scores = {}
    for name, attack in attacks.items():
        began = time.process_time()
        scores[name] = attack(), round(1000 * (time.process_time() - began))
    return scores


def _rates(score: Tensor, kind: np.ndarray, seed: int, milliseconds: int) -> Record:
    """`cells.attacks` of `Metrics`, of scores of members (kind 1), held-out images (0) and fresh
    ones (2).
    """
    s = score.double().numpy()
    known, fresh = kind < 2, kind != 1
    member = kind[known] == 1
    spread, n = intervals(s[known], member, seed, draws=DRAWS), int(member.sum())
    row = Record(auc=auc(s[known], member), of=n, milliseconds=milliseconds)
    for name, rate in (("1pct", 0.01), ("01pct", 0.001)):
        row[f"at_{name}"] = round(n * true_rate(s[known], member, rate))
        row[f"between_{name}"] = [round(n * share) for share in spread[f"tpr_{rate:g}"]]
    if (kind == 2).any():
        row["fresh"] = int((kind == 2).sum())
        row["false_alarms"] = round(row.fresh * true_rate(s[fresh], kind[fresh] == 2, 0.01))
    return row
