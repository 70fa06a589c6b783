"""Train low-rank adapters on the features of few images, and ask their factors who was trained
on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.members import Cells, judged, labels_of, rates, table
from companion.store.record import Record
from recon.attacks import by_adapter_nullspace
from recon.attacks.adapters import Adapter, Inputs, response
from recon.images.features import backbone, features
from recon.images.pool import PARTS
from recon.optim.rng import named
from recon.training.recipes import Dropout, Recipe, accuracy, build, loss_of, train

LINEAR = "linear layer"
BLOCK = "MLP block"
# whether the public weights tell them apart already
NEW = "new classes"
KNOWN = "known classes"
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

    @property
    def name(self) -> str:
        """For checkpoints and random streams."""
        return f"{self.group} {self.recipe} {self.rank} {self.n}"


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


N = (6, 12, 30, 100)
BOTH = ("SGD", "AdamW")
LAYERS = (LINEAR, BLOCK)
PAPER = (
    *grid(layers=LAYERS, recipe=BOTH, rank=(4, 16, 64), n=N),
    *grid(layers=LAYERS, recipe=BOTH, rank=(64,), n=N, public=(KNOWN,)),
    *grid(layers=LAYERS, recipe=BOTH, n=N, classes=(2,)),
    *grid(recipe=tuple(RECIPES)[2:], n=(12, 100)),
)
SMOKE = (
    Cell(n=6),
    *grid(layers=(LINEAR,), recipe=("AdamW",), n=(6,), public=(KNOWN,)),
    *grid(layers=(LINEAR,), recipe=BOTH, n=(6,)),
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


class Metrics(Cells):
    """All cells.

    cells.seen: Rank of B as the adversary sees it, gap: the fall of its singular values there,
    holds: whether the adversary believes the certificate, condition: whether it is true.
    cells.inside: The largest residual of a member, outside: the smallest of another image.
    cells.attack: Rates by the score of the attack; certificate and filter: by its parts; merged:
    without the factors; simple: by what the answers tell. The area under the ROC curve, and the
    share of members found at 1 % and 0.1 % of false alarms; interval: of the attack's at 1 %, 95 %.
    cells.strangers: Share of the images identified at 1 % in an adapter that never saw them.
    """

    usual = {"layers": BLOCK, "classes": CLASSES, "public": NEW}


class Adapted(nn.Linear):
    """W0 + B A: W0 and its bias frozen, B = 0 at first, A of U(±1/√d), as PEFT draws it."""

    def __init__(
        self, base: nn.Linear, rank: int, generator: torch.Generator, dropout: float = 0.0
    ) -> None:
        d = base.in_features
        m = base.out_features
        super().__init__(d, m, device="meta")  # where nothing is drawn
        self.weight = base.weight
        self.bias = base.bias
        self.requires_grad_(False)
        drawn = torch.empty(rank, d).uniform_(-(d**-0.5), d**-0.5, generator=generator)
        self.a = nn.Parameter(drawn)
        self.b = nn.Parameter(torch.zeros(m, rank))
        self.dropout = Dropout(dropout, generator)

    def forward(self, x: Tensor) -> Tensor:
        """The layer's answers, and the adapter's."""
        return super().forward(x) + self.dropout(x) @ self.a.mT @ self.b.mT


@dataclass(frozen=True)
class Task:
    """Features and labels of "train", "public", "strangers" and "others".

    Attributes:
        candidates: all training images, then the others; y (N,) their labels.
    """

    x: Tensors
    y: Tensors
    candidates: Inputs


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Every cell."""
    return Outcome(Metrics(cells=table(_attacked, sizes, context, "adapters")), {})


def _task(sizes: Sizes, context: Context, cell: Cell) -> Task:
    """Training images are drawn as the others are, and not balanced: else the classes tell."""
    pool = context.pool
    of = backbone("lite0", sizes.side)
    n = sizes.n_train
    drawn, public, others = (np.flatnonzero(pool.part == part) for part in PARTS)
    order = np.random.default_rng(0).permutation(drawn)
    rows = {
        "train": np.roll(order, -n * context.seed)[:n],  # other ones for each seed
        "public": public[: sizes.public][:-n],
        "strangers": public[: sizes.public][-n:],
        "others": others[: sizes.others],
    }
    x = {name: features(pool.pixels(part), of) for name, part in rows.items()}
    y = {name: labels_of(pool, cell.classes)[part] for name, part in rows.items()}
    return Task(x, y, Inputs(torch.cat([x["train"], x["others"]]), x["public"]))


# ----------------------------------------------------------------------------------------- training
def _public_weights(cell: Cell, task: Task, seed: int) -> nn.Sequential:
    """As they are drawn, or trained on the public images."""
    generator = named(seed, f"adapters {cell.group}")
    recipe = replace(TAUGHT, depth=2, width=cell.outputs, classes=cell.classes)
    module = build(recipe, task.candidates.h.shape[1], generator)
    module = module if cell.layers == BLOCK else module[:1]
    if cell.public == KNOWN:
        train(recipe, task.x["public"], task.y["public"], generator, module=module)
    return module.requires_grad_(False)


def _adapter(
    cell: Cell, task: Task, public: nn.Sequential, images: str, seed: int
) -> nn.Sequential:
    """Trained on the first of these images."""
    generator = named(seed, f"adapters {cell.name}")
    recipe = replace(BASE, classes=cell.classes, **RECIPES[cell.recipe])
    layers = [
        Adapted(part, cell.rank, generator, recipe.dropout) if isinstance(part, nn.Linear) else part
        for part in public
    ]
    x = task.x[images][: cell.n]
    y = task.y[images][: cell.n]
    return train(recipe, x, y, generator, module=nn.Sequential(*layers)).module


# ------------------------------------------------------------------------------------------ attacks
def _attacked(sizes: Sizes, context: Context, cell: Cell) -> list[Record]:
    task = _task(sizes, context, cell)
    seed = context.seed
    public = _public_weights(cell, task, seed)
    known = len(task.y["train"])
    y = torch.cat([task.y["train"], task.y["others"]])
    n = min(cell.n, known)
    x = task.candidates.h
    inputs = replace(task.candidates, signal=_signal(public, x, y))
    module, stranger = (_adapter(cell, task, public, of, seed) for of in ("train", "strangers"))
    released = _factors(module[0], cell)
    attack = by_adapter_nullspace(released, inputs)
    seen = attack.diagnostics["certificate"]
    left = attack.diagnostics["residual"]
    with torch.no_grad():
        outputs = module(x)
        guess = (outputs[:, 0] > 0) if outputs.shape[1] == 1 else outputs.argmax(1)
        loss = loss_of(outputs, y, "none")
        fallen = loss_of(public(x), y, "none") - loss
    simple = {
        "confidence": -loss_of(outputs, guess, "none"),
        "low loss": -loss,
        "fallen loss": fallen,
    }
    scores = {
        "attack": attack.score,
        "certificate": -left,
        "filter": attack.diagnostics["filter"],
        "merged": response(released.merged, inputs),
    }
    others = by_adapter_nullspace(_factors(stranger[0], cell), inputs).score
    every = np.arange(len(y))
    asked = (every < n) | (every >= known)  # other training images are no candidates
    member = every[asked] < n
    told = {name: rates(score[asked], member) for name, score in (scores | simple).items()}
    row = Record(
        **vars(cell) | {"n": n},
        accuracy=accuracy(module, task.x["others"], task.y["others"]),
        seen=len(seen.rows),
        gap=seen.gap,
        holds=seen.holds,
        condition=cell.exact and cell.fits and len(seen.rows) == n,
        inside=left[:n].max().item(),
        outside=left[known:].min().item(),
        **{name: told[name] for name in scores},
        simple={name: told[name] for name in simple},
        interval=judged(attack.score[asked], member.astype(int), seed, 200).from_to_at_1pct,
        strangers=rates(others, every < known).tpr_at_1pct,
    )
    return [row]


def _factors(first: nn.Module, cell: Cell) -> Adapter:
    """Of the first layer, whose inputs do not move, as they are published."""
    assert isinstance(first, Adapted)
    kind = torch.float16 if cell.recipe == HALF else torch.float32
    return Adapter(*(part.detach().to(kind).float() for part in (first.a, first.b)))


def _signal(public: nn.Sequential, x: Tensor, y: Tensor) -> Tensor:
    """Minus the gradient of each loss at the outputs of the first layer (N, m)."""
    outputs = public[0](x).requires_grad_(True)
    return -torch.autograd.grad(loss_of(public[1:](outputs), y, "none").sum(), outputs)[0]
