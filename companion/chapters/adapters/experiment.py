"""Train low-rank adapters on the features of few images, and ask their factors who was trained
on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.tables import packed, unpacked
from companion.store.record import Record
from recon.attacks import by_adapter_nullspace
from recon.attacks.adapters import Adapter, Inputs
from recon.images.features import backbone, features
from recon.images.partitions import partition
from recon.optim.rng import named
from recon.scoring.membership import intervals
from recon.scoring.roc import auc, true_rate
from recon.training.recipes import Dropout, Recipe, accuracy, build, loss_of, train

LINEAR, BLOCK = "linear layer", "MLP block"
NEW, KNOWN = "new classes", "known classes"  # whether the public weights tell them apart already
WIDTH = 512  # of the block
CLASSES = 10
BASE = Recipe(lr=0.02, weight_decay=0.0, batch=25, cosine=False, steps=400, classes=CLASSES)
#: of the public weights
TAUGHT = Recipe(optimiser="adamw", lr=1e-3, batch=100, cosine=False, steps=200, classes=CLASSES)
ADAMW = {"optimiser": "adamw", "lr": 1e-3, "weight_decay": 1e-2}
HALF = "SGD, float16"  # as it is published
RECIPES: dict[str, dict[str, Any]] = {
    "SGD": {},
    "AdamW": ADAMW,
    "SGD, decay 5e-4": {"weight_decay": 5e-4},
    HALF: {},
    "SGD, dropout 0.1": {"dropout": 0.1},
    "AdamW, dropout 0.1": ADAMW | {"dropout": 0.1},
    "AdamW, 50 steps": ADAMW | {"steps": 50},
}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One adapter: n images, rank, layers, classes, what the public weights know, a recipe of
    `RECIPES`.
    """

    n: int
    rank: int = 16
    layers: str = BLOCK
    classes: int = CLASSES
    public: str = NEW
    recipe: str = "SGD"

    @property
    def outputs(self) -> int:
        """Of the first adapted layer."""
        return WIDTH if self.layers == BLOCK else 1 if self.classes == 2 else self.classes

    @property
    def fits(self) -> bool:
        """Whether there are fewer images than the rank, and than outputs, one less where a softmax
        follows.
        """
        return self.n < min(self.rank, self.outputs - (self.layers == LINEAR))

    @property
    def exact(self) -> bool:
        """Whether steps are multiples of the gradient, at inputs that stay the same."""
        return not {"optimiser", "dropout"} & set(RECIPES[self.recipe])

    @property
    def group(self) -> str:
        """Of cells with the same public weights."""
        return f"{self.layers} {self.classes} {self.public}".replace(" ", "-")


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """
    Attributes:
        n_train: images, of which a cell has the first of a fixed order.
        side: of the images that the backbone is given.
        public, others: images, at most; of the former the last n_train are for adapters that never
            saw a candidate.
    """

    cells: tuple[Cell, ...]
    n_train: int = 100
    side: int = 128
    public: int = 2034
    others: int = 2034


def grid(**of: tuple[Any, ...]) -> tuple[Cell, ...]:
    """All cells with one value of each field."""
    return tuple(Cell(**dict(zip(of, row, strict=True))) for row in product(*of.values()))


N, BOTH, LAYERS = (6, 12, 30, 100), ("SGD", "AdamW"), (LINEAR, BLOCK)
PAPER = (
    *grid(layers=LAYERS, recipe=BOTH, rank=(4, 16, 64), n=N),
    *grid(layers=LAYERS, recipe=BOTH, rank=(64,), n=N, public=(KNOWN,)),
    *grid(layers=LAYERS, recipe=BOTH, n=N, classes=(2,)),
    *grid(recipe=tuple(RECIPES)[2:], n=(12, 100)),
)
SMOKE = (
    *grid(layers=(LINEAR,), recipe=BOTH, n=(6,)),
    *grid(layers=(LINEAR,), recipe=("AdamW",), n=(6,), public=(KNOWN,)),
    Cell(n=6),
)
SIZES = {
    "smoke": Sizes(cells=SMOKE, n_train=20, side=64, public=100, others=60),
    "laptop": Sizes(
        cells=(
            *grid(layers=LAYERS, recipe=BOTH, n=N),
            *grid(layers=LAYERS, recipe=BOTH, rank=(64,), n=(30, 100), public=(KNOWN,)),
        )
    ),
    "paper": Sizes(cells=PAPER),
}


class Metrics(Record):
    """All cells.

    cells.seen: Rank of B as the adversary sees it, gap: the fall of its singular values there,
    holds: whether the adversary believes the certificate, condition: whether it is true.
    cells.inside: The largest residual of a member, outside: the smallest of another image.
    cells.attack: Rates by the score of the attack; certificate and filter: by its parts; merged:
    without the factors; simple: by what the answers tell. The area under the ROC curve, and the
    share of members found at 1 % and 0.1 % of false alarms; interval: of the attack's at 1 %, 95 %.
    cells.strangers: Share of the images identified at 1 % in an adapter that never saw them.
    """

    def at(self, **of: object) -> Record:
        """The first cell with these fields, of ten classes, new and in a block, by default."""
        wanted = {"layers": BLOCK, "classes": CLASSES, "public": NEW, **of}
        return next(cell for cell in self.cells if cell.only(*wanted) == wanted)


class Adapted(nn.Linear):
    """W0 + B A: W0 and its bias frozen, B = 0 at first, A of U(±1/√d), as PEFT draws it."""

    def __init__(
        self, base: nn.Linear, rank: int, generator: torch.Generator, dropout: float = 0.0
    ) -> None:
        # on "meta" nothing is drawn
        super().__init__(base.in_features, base.out_features, device="meta")
        self.weight, self.bias = base.weight, base.bias
        self.requires_grad_(False)
        self.a = nn.Parameter(torch.empty(rank, base.in_features))
        nn.init.uniform_(
            self.a, -1 / len(self.weight.T) ** 0.5, len(self.weight.T) ** -0.5, generator
        )  # noqa: E501
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))
        self.dropout = Dropout(dropout, generator)

    def forward(self, x: Tensor) -> Tensor:
        """The layer's answers, and the adapter's."""
        return super().forward(x) + self.dropout(x) @ self.a.mT @ self.b.mT


@dataclass(frozen=True)
class Task:
    """Of "train", "public", "strangers" and "others": features, and rows in the pool.

    Attributes:
        candidates: all training images, then the others.
    """

    features: Tensors
    rows: dict[str, np.ndarray]
    candidates: Inputs


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Every cell, those of the same public weights at once."""
    groups = sorted({cell.group for cell in sizes.cells})
    units = context.sweep(partial(_unit, sizes, context), groups, label="adapters")
    return Outcome(Metrics(cells=[cell for name in groups for cell in unpacked(units[name])]), {})


def _unit(sizes: Sizes, context: Context, name: str) -> Tensors:
    task = _task(sizes, context)
    cells = [cell for cell in sizes.cells if cell.group == name]
    public = _public_weights(context, cells[0], task)
    return packed([_attacked(context, cell, task, public) for cell in cells])


def _task(sizes: Sizes, context: Context) -> Task:
    pool, of = context.pool, backbone("lite0", sizes.side)
    index = partition(pool, sizes.n_train, n_held_out=2, seed=context.seed).train.index
    order = torch.randperm(len(index), generator=named(context.seed, "adapters images"))
    train = np.array([np.flatnonzero(pool.index == k)[0] for k in index.numpy()])
    free = ~np.isin(pool.index, index.numpy())
    public, others = (np.flatnonzero((pool.part == part) & free) for part in ("init", "held_out"))
    rows = {"train": train, "public": public[: sizes.public], "others": others[: sizes.others]}
    known = {name: features(pool.pixels(part), of) for name, part in rows.items()}
    cut = len(rows["public"]) - len(train)  # computed at once, as other chapters have them
    parts: dict[str, tuple[str, Any]] = {
        "train": ("train", order.numpy()),
        "public": ("public", slice(cut)),
        "strangers": ("public", slice(cut, None)),
        "others": ("others", slice(None)),
    }
    held = {name: known[whole][part] for name, (whole, part) in parts.items()}
    rows = {name: rows[whole][part] for name, (whole, part) in parts.items()}
    candidates = Inputs(torch.cat([held["train"], held["others"]]), held["public"])
    return Task(held, rows, candidates)


def _labels(context: Context, cell: Cell, task: Task, *names: str) -> Tensor:
    """Of these images."""
    labels = context.pool.y if cell.classes == 2 else context.pool.labels
    return torch.from_numpy(np.concatenate([labels[task.rows[name]] for name in names])).long()


# ----------------------------------------------------------------------------------------- training
def _public_weights(context: Context, cell: Cell, task: Task) -> nn.Sequential:
    """As they are drawn, or trained on the public images."""
    generator = named(context.seed, f"adapters {cell.group}")
    recipe = replace(TAUGHT, depth=2, width=cell.outputs, classes=cell.classes)
    module = build(recipe, task.candidates.h.shape[1], generator)
    module = module if cell.layers == BLOCK else module[:1]
    if cell.public == KNOWN:
        y = _labels(context, cell, task, "public")
        train(recipe, task.features["public"], y, generator, module=module)
    return module.requires_grad_(False)


def _adapter(
    context: Context, cell: Cell, task: Task, public: nn.Sequential, images: str
) -> nn.Sequential:
    """Trained on the first of these images."""
    name = f"adapters {cell.group} {cell.recipe} {cell.rank} {cell.n}"
    generator = named(context.seed, name)
    recipe = replace(BASE, classes=cell.classes, **RECIPES[cell.recipe])
    layers = [
        Adapted(part, cell.rank, generator, recipe.dropout) if isinstance(part, nn.Linear) else part
        for part in public
    ]
    x, y = task.features[images][: cell.n], _labels(context, cell, task, images)[: cell.n]
    return train(recipe, x, y, generator, module=nn.Sequential(*layers)).module


# ------------------------------------------------------------------------------------------ attacks
def _attacked(context: Context, cell: Cell, task: Task, public: nn.Sequential) -> Record:
    known, y = len(task.rows["train"]), _labels(context, cell, task, "train", "others")
    n, every = min(cell.n, known), np.arange(len(y))
    asked = (every < n) | (every >= known)  # other training images are no candidates
    inputs = replace(task.candidates, signal=_signal(public, task.candidates.h, y))
    vars(inputs)["own"] = task.candidates.own  # which takes longest, and is the same for all
    module, stranger = (
        _adapter(context, cell, task, public, images) for images in ("train", "strangers")
    )
    released = _factors(module, cell)
    attack = by_adapter_nullspace(released, inputs)
    seen, left = (attack.diagnostics[name] for name in ("certificate", "residual"))
    scores = {
        "attack": attack.score,
        "certificate": -left,
        "filter": attack.diagnostics["filter"],
        "merged": by_adapter_nullspace(released.merged, inputs).score,
    }
    others = by_adapter_nullspace(_factors(stranger, cell), inputs).score.numpy()
    member = every[asked] < n
    rates = {
        name: _rates(score[asked].double().numpy(), member)
        for name, score in (scores | _answers(module, public, inputs.h, y)).items()
    }
    low, high = intervals(attack.score[asked].numpy(), member, context.seed)["tpr_0.01"]
    return Record(
        **vars(cell) | {"n": n},
        accuracy=accuracy(module, task.features["others"], y[known:]),
        seen=len(seen.rows),
        gap=seen.gap,
        holds=seen.holds,
        condition=cell.exact and cell.fits and len(seen.rows) == n,
        inside=left[:n].max().item(),
        outside=left[known:].min().item(),
        **{name: rates.pop(name) for name in scores},
        simple=rates,
        interval=[low, high],
        strangers=true_rate(others, every < known, 0.01),
    )


def _factors(module: nn.Sequential, cell: Cell) -> Adapter:
    """Of the first layer, whose inputs do not move, as they are published."""
    first, kind = module[0], torch.float16 if cell.recipe == HALF else torch.float32
    assert isinstance(first, Adapted)
    return Adapter(first.a.detach().to(kind).float(), first.b.detach().to(kind).float())


def _signal(public: nn.Sequential, x: Tensor, y: Tensor) -> Tensor:
    """Minus the gradient of each loss at the outputs of the first layer (N, m)."""
    outputs = public[0](x).requires_grad_(True)
    return -torch.autograd.grad(loss_of(public[1:](outputs), y, "none").sum(), outputs)[0]


@torch.no_grad()
def _answers(module: nn.Sequential, public: nn.Sequential, x: Tensor, y: Tensor) -> Tensors:
    """What simpler scores say of images x (N, d) with classes y (N,)."""
    outputs = module(x)
    loss, before = (loss_of(part, y, "none") for part in (outputs, public(x)))
    confidence = -loss_of(
        outputs, outputs[:, 0] > 0 if outputs.shape[1] == 1 else outputs.argmax(1), "none"
    )  # noqa: E501
    return {"confidence": confidence, "low loss": -loss, "fallen loss": before - loss}


def _rates(score: np.ndarray, member: np.ndarray) -> Record:
    shares = {f"tpr_at_{k}pct": true_rate(score, member, k / 100) for k in (1, 0.1)}
    return Record(shares | {"auc": auc(score, member)})
