"""Fine-tune a whole pretrained network on few images, and tell from its weights who was trained
on.
"""

from __future__ import annotations

import time
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, cross_entropy, interpolate
from torchvision.transforms import v2

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.tables import packed, unpacked
from companion.store.record import Record
from recon.attacks.fine_tunes import at_head, label_filter, re_estimated
from recon.attacks.heads import Public, matched_filter, span_of, span_test
from recon.attacks.separation import FirstLayer
from recon.images.features import Backbone, backbone, features
from recon.images.partitions import Partition, partition
from recon.images.pool import ImagePool
from recon.optim.rng import named
from recon.optim.trace import note_step
from recon.scoring.membership import intervals
from recon.scoring.roc import auc, true_rate
from recon.training.recipes import OPTIMISERS, Recipe, build

WIDTH, CLASSES, BATCH = 512, 10, 25
SETS = 3  # of images, at each seed
SGD, ADAMW = "SGD", "AdamW"
FAST, LAYERWISE = "AdamW, one rate", "AdamW, rates by layer"
AGAIN = " re-estimated"  # batch norm's statistics were, on public images
LABEL, FILTER, LOSS = "label filter", "matched filter", "loss"
ATTACK, PUBLIC_BODY = LABEL + AGAIN, "matched filter, public features"
SPAN = "span test, head's initial weights known"
SHOWN = ("recipe", "n", "images", "frozen_statistics", "augment", "epochs")  # of a cell


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One fine-tune.

    Attributes:
        recipe: its name, for people.
        n: training images.
        images: which of `SETS` sets of them.
        lr, body_lr: of head and backbone.
        layerwise: factor of the rate from each block to the one before it.
        frozen_statistics: batch norm in evaluation mode, and nothing of the backbone is dropped.
        augment: by flips and crops.
    """

    recipe: str
    n: int = 100
    images: int = 0
    optimiser: str = "adamw"
    lr: float = 1e-3
    body_lr: float = 1e-4
    weight_decay: float = 1e-2
    epochs: int = 30
    layerwise: float = 1.0
    frozen_statistics: bool = False
    augment: bool = False

    @property
    def name(self) -> str:
        """For people and checkpoints."""
        how = ", batch norm frozen" * self.frozen_statistics + ", augmented" * self.augment
        return f"{self.recipe}{how}, n = {self.n}, set {self.images}"


BY_SGD = Cell(recipe=SGD, optimiser="sgd", lr=0.02, body_lr=0.002, weight_decay=5e-4, epochs=60)
BY_ADAMW = Cell(recipe=ADAMW)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """
    Attributes:
        n_train: images of the first cell.
        side: of the images that the network is given.
        public, others, unseen: images at most: of the adversary, held out, and of the range of
            training images.
    """

    n_train: int
    cells: tuple[Cell, ...]
    side: int
    public: int
    others: int
    unseen: int


SIZES = {
    "smoke": Sizes(
        n_train=20,
        cells=(replace(BY_ADAMW, n=20, epochs=12, body_lr=3e-4),),
        side=64,
        public=60,
        others=60,
        unseen=20,
    ),
    "laptop": Sizes(
        n_train=100,
        cells=(BY_ADAMW, replace(BY_SGD, epochs=30)),
        side=64,
        public=500,
        others=500,
        unseen=100,
    ),
    "paper": Sizes(
        n_train=100,
        cells=(
            *(replace(cell, images=k) for k in range(SETS) for cell in (BY_SGD, BY_ADAMW)),
            Cell(recipe=FAST, body_lr=1e-3),
            Cell(recipe=LAYERWISE, body_lr=1e-3, layerwise=0.8),
            replace(BY_ADAMW, augment=True),
            replace(BY_ADAMW, frozen_statistics=True),
            Cell(recipe="AdamW, 10 epochs", epochs=10),
            Cell(recipe="AdamW, backbone at 1e-5", body_lr=1e-5),
            replace(BY_ADAMW, n=300),
            replace(BY_SGD, n=300),
            replace(BY_SGD, recipe="SGD, no decay", weight_decay=0.0),
            replace(BY_ADAMW, recipe="AdamW, decay 0.1", weight_decay=0.1),
        ),
        side=96,
        public=1000,
        others=2000,
        unseen=1000,
    ),
}


class Metrics(Record):
    """cells: A fine-tune and the attacks on it, with fields of its `Cell`. moved: mean cosine of a
    held-out feature with the one that the public backbone gives · attacks: by name, how well scores
    tell the n members from others: area under the ROC curve, share of members found at 1 % and
    0.1 % of false alarms, with 95 % intervals, and `false_alarms`, the share above the first
    threshold of images of the training range that no network was trained on · seconds: of all.
    """

    def of(self, *recipes: str) -> list[Record]:
        """Cells of these recipes as they are, of as many images as the first."""
        plain = {"n": self.n_train, "frozen_statistics": False, "augment": False}
        cells = [cell for cell in self.cells if cell.recipe in recipes]
        return [cell for cell in cells if cell.only(*plain) == plain]


class Network(nn.Module):
    """A head with initial weights of its own on a backbone that gives it features."""

    def __init__(self, of: Backbone, generator: torch.Generator) -> None:
        super().__init__()
        self.side, self.mean, self.std = of.side, of.mean, of.std
        self.body = deepcopy(of.module)
        with torch.no_grad():
            width = of.module(torch.zeros(1, 3, of.side, of.side)).shape[1]
        self.head = build(Recipe(depth=2, width=WIDTH, classes=CLASSES), width, generator)

    @property
    def first(self) -> nn.Linear:
        """The head's first layer."""
        layer = self.head[0]
        assert isinstance(layer, nn.Linear)
        return layer

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, K) of images (n, C, H, W) in [0, 1]."""
        x = interpolate(x.expand(-1, 3, -1, -1), size=(self.side, self.side), mode="bicubic")
        x = ((x - self.mean) / self.std).contiguous(memory_format=torch.channels_last)
        return self.head(self.body(x))


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """All networks, then all attacks."""
    cells = {cell.name: cell for cell in sizes.cells}
    names = list(cells)
    networks = context.sweep(partial(_trained, sizes, context, cells), names, label="networks")
    attack = partial(_attacked, sizes, context, cells, networks)
    rows = context.sweep(attack, names, label="attacks")
    found = [unpacked(rows[name]) for name in names]
    return Outcome(Metrics(n_train=sizes.n_train, cells=found), {})


# ----------------------------------------------------------------------------------------- training
def _groups(cell: Cell, network: Network) -> list[dict[str, Any]]:
    """Parameters with their rates: the head's, and those of the backbone by block."""
    parts: list[nn.Module] = []
    for child in network.body.net.children():  # type: ignore[union-attr, operator]
        parts += child if isinstance(child, nn.ModuleList) else [child]
    blocks = [block for part in parts if (block := list(part.parameters()))]
    rates = [cell.body_lr * cell.layerwise**k for k in range(len(blocks))]
    return [
        {"params": list(network.head.parameters()), "lr": cell.lr},
        *({"params": b, "lr": rate} for b, rate in zip(reversed(blocks), rates, strict=True)),
    ]


def fine_tuned(
    cell: Cell, x: Tensor, y: Tensor, of: Backbone, generator: torch.Generator
) -> Network:
    """The network, trained on images x (n, C, H, W) with classes y (n,)."""
    network = Network(of, generator)
    more = {"momentum": 0.9} if cell.optimiser == "sgd" else {}
    optimiser = OPTIMISERS[cell.optimiser](
        _groups(cell, network), weight_decay=cell.weight_decay, fused=True, **more
    )
    vary = v2.Compose([v2.RandomHorizontalFlip(), v2.RandomCrop(x.shape[-1], padding=4)])
    step = 0
    with torch.random.fork_rng(devices=[]):  # what is dropped and varied is drawn from the global
        drawn = int(torch.randint(2**31, (), generator=generator))
        torch.set_rng_state(torch.Generator().manual_seed(drawn).get_state())
        for _ in range(cell.epochs):
            network.train()
            network.body.train(not cell.frozen_statistics)
            for rows in torch.randperm(len(x), generator=generator).split(BATCH):
                images = x[rows]
                if cell.augment:
                    images = torch.stack([vary(image) for image in images])
                loss = cross_entropy(network(images), y[rows])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                step += 1
                note_step("training", step, loss)
    return network.eval()


def _trained(sizes: Sizes, context: Context, cells: dict[str, Cell], name: str) -> Tensors:
    """Weights and buffers of a network."""
    data, of = _train_part(context, cells[name]), backbone("lite0", sizes.side)
    generator = named(context.seed, f"fine-tunes {name}")
    network = fine_tuned(cells[name], data.x, data.labels, of, generator)
    return {key: value.clone().contiguous() for key, value in network.state_dict().items()}


def _train_part(context: Context, cell: Cell) -> Partition:
    seed = SETS * context.seed + cell.images
    return partition(context.pool, cell.n, n_held_out=2, seed=seed).train


# ------------------------------------------------------------------------------------------ attacks
def _part(pool: ImagePool, part: str, free: np.ndarray, most: int) -> tuple[Tensor, Tensor]:
    """Images and labels of a part of the pool."""
    rows = np.flatnonzero((pool.part == part) & free)[:most]
    return pool.pixels(rows), torch.from_numpy(pool.labels[rows]).long()


def _attacked(
    sizes: Sizes,
    context: Context,
    cells: dict[str, Cell],
    networks: dict[str, Tensors],
    name: str,
) -> Tensors:
    """The row of a network."""
    cell, pool, of = cells[name], context.pool, backbone("lite0", sizes.side)
    data = _train_part(context, cell)
    used = torch.cat([_train_part(context, other).index for other in sizes.cells])
    free = ~np.isin(pool.index, used.numpy())
    public = _part(pool, "init", free, sizes.public)
    others, unseen = (
        _part(pool, part, free, most)
        for part, most in (("held_out", sizes.others), ("train", sizes.unseen))
    )
    asked = [(data.x, data.labels), others, unseen]
    counts = [len(labels) for _, labels in asked]

    before = Network(of, named(context.seed, f"fine-tunes {name}")).eval()
    network = deepcopy(before)
    network.load_state_dict(networks[name])
    began = time.process_time()
    # an adversary sees whether they moved; where they did not, training used those
    moved = running(before) != running(network)
    again = re_estimated(network, public[0], BATCH) if moved else network
    scores: dict[str, Tensor] = {}
    y = torch.cat([labels for _, labels in asked])
    w, bias = (p.detach() for p in network.first.parameters())
    frozen = [features(x, of) for x, _ in [*asked, public]]
    scores[PUBLIC_BODY] = matched_filter(w, bias, torch.cat(frozen[:-1]), Public(frozen[-1]))
    for module, suffix in ((network, ""), (again, AGAIN)):
        assert isinstance(module, Network)
        seen = [at_head(module, module.first, *images, BATCH) for images in [*asked, public]]
        x, toward = (torch.cat(parts[:-1]) for parts in zip(*seen, strict=True))
        known = Public(seen[-1][0])
        logits = network.head(x).detach()
        scores[LOSS + suffix] = -cross_entropy(logits, y, reduction="none")
        scores[FILTER + suffix] = matched_filter(w, bias, x, known)
        scores[LABEL + suffix] = label_filter(w, toward, x, known)
        if not suffix:
            right = logits.argmax(1) == y
            near = cosine_similarity(x, torch.cat(frozen[:-1]))
    layer, bent = FirstLayer(w, before.first.weight.detach()), cell.optimiser != "sgd"
    rank = max(len(span_of(layer, known, None, bent)), 1)
    scores[SPAN] = span_test(layer, x, known, rank, bent)
    held_out = slice(counts[0], counts[0] + counts[1])
    row = Record(
        **{key: value for key, value in vars(cell).items() if key in SHOWN},
        test_accuracy=right[held_out].double().mean().item(),
        moved=near[held_out].mean().item(),
        attacks={attack: _rates(s, counts, context.seed) for attack, s in scores.items()},
        seconds=round(time.process_time() - began),
    )
    return packed(row)


def running(module: nn.Module) -> list[float]:
    """A number for each buffer."""
    return [value.double().norm().item() for value in module.buffers()]


def _rates(score: Tensor, counts: list[int], seed: int) -> Record:
    """`attacks` of `Metrics`, of scores of members, others and unseen images, in this order."""
    n, others, _ = counts
    s, unseen = np.split(score.double().numpy(), [n + others])
    member = np.arange(n + others) < n
    threshold = np.sort(s[n:])[::-1][int(0.01 * others)]
    between = intervals(s, member, seed)
    return Record(
        {
            "auc": auc(s, member),
            "tpr_at_1pct": true_rate(s, member, 0.01),
            "tpr_at_0.1pct": true_rate(s, member, 0.001),
            "from_to_at_1pct": list(between["tpr_0.01"]),
            "from_to_at_0.1pct": list(between["tpr_0.001"]),
            "false_alarms": float((unseen > threshold).mean()),
        }
    )
