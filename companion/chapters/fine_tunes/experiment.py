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

from companion.chapters.base import Context, Outcome
from companion.chapters.members import judged, part_of, table
from companion.store.record import Record
from recon.attacks.fine_tunes import at_head, label_filter, re_estimated
from recon.attacks.heads import Public, matched_filter, span_of, span_test
from recon.attacks.separation import FirstLayer
from recon.images.features import Backbone, backbone, features
from recon.images.partitions import Partition, partition
from recon.optim.rng import named
from recon.optim.trace import note_step
from recon.training.recipes import OPTIMISERS, Recipe, build, first_weight

WIDTH = 512
CLASSES = 10
BATCH = 25
SETS = 3  # of images, at each seed
SGD = "SGD"
ADAMW = "AdamW"
AGAIN = " re-estimated"  # batch norm's statistics were, on public images
LABEL = "label filter"
FILTER = "matched filter"
LOSS = "loss"
ATTACK = LABEL + AGAIN
PUBLIC_BODY = "matched filter, public features"
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
            Cell(recipe="AdamW, one rate", body_lr=1e-3),
            Cell(recipe="AdamW, rates by layer", body_lr=1e-3, layerwise=0.8),
            replace(BY_ADAMW, augment=True),
            replace(BY_ADAMW, frozen_statistics=True),
            Cell(recipe="AdamW, 10 epochs", epochs=10),
            Cell(recipe="AdamW, backbone at 1e-5", body_lr=1e-5),
            replace(BY_ADAMW, n=300),
        ),
        side=96,
        public=1000,
        others=1000,
        unseen=300,
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
        self.of = of
        self.body = deepcopy(of.module)
        width = of(torch.zeros(1, 3, 8, 8)).shape[1]
        self.head = build(Recipe(depth=2, width=WIDTH, classes=CLASSES), width, generator)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, K) of images (n, C, H, W) in [0, 1]."""
        x = interpolate(x.expand(-1, 3, -1, -1), size=2 * [self.of.side], mode="bicubic")
        x = ((x - self.of.mean) / self.of.std).contiguous(memory_format=torch.channels_last)
        return self.head(self.body(x))


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """All networks, and the attacks on them."""
    rows = table(_attacked, sizes, context, "networks")
    return Outcome(Metrics(n_train=sizes.n_train, cells=rows), {})


# ----------------------------------------------------------------------------------------- training
def rates_by_layer(cell: Cell, network: Network) -> list[dict[str, Any]]:
    """Parameters with their rates: the head's, and those of the backbone by block."""
    children = network.body.net.children()  # type: ignore[union-attr, operator]
    parts = [[*child] if isinstance(child, nn.ModuleList) else [child] for child in children]
    blocks = [block for of in sum(parts, []) if (block := list(of.parameters()))]
    bodies = [
        {"params": block, "lr": cell.body_lr * cell.layerwise**k}
        for k, block in enumerate(reversed(blocks))
    ]
    return [{"params": list(network.head.parameters()), "lr": cell.lr}, *bodies]


def fine_tuned(
    cell: Cell, x: Tensor, y: Tensor, of: Backbone, generator: torch.Generator
) -> Network:
    """The network, trained on images x (n, C, H, W) with classes y (n,)."""
    network = Network(of, generator)
    step = 0
    more = {"momentum": 0.9} if cell.optimiser == "sgd" else {}
    optimiser = OPTIMISERS[cell.optimiser](
        rates_by_layer(cell, network), weight_decay=cell.weight_decay, fused=True, **more
    )
    vary = v2.Compose([v2.RandomHorizontalFlip(), v2.RandomCrop(x.shape[-1], padding=4)])
    with torch.random.fork_rng(devices=[]):  # what is dropped and varied is drawn from the global
        drawn = int(torch.randint(2**31, (), generator=generator))
        torch.set_rng_state(torch.Generator().manual_seed(drawn).get_state())
        network.train()
        network.body.train(not cell.frozen_statistics)
        for _ in range(cell.epochs):
            for rows in torch.randperm(len(x), generator=generator).split(BATCH):
                images = torch.stack([vary(im) for im in x[rows]]) if cell.augment else x[rows]
                loss = cross_entropy(network(images), y[rows])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                step += 1
                note_step("training", step, loss)
    return network.eval()


def _train_part(context: Context, cell: Cell) -> Partition:
    seed = SETS * context.seed + cell.images
    return partition(context.pool, cell.n, n_held_out=2, seed=seed).train


# ------------------------------------------------------------------------------------------ attacks
def _attacked(sizes: Sizes, context: Context, cell: Cell) -> list[Record]:
    """A network, and its row."""
    pool = context.pool
    of = backbone("lite0", sizes.side)
    data = _train_part(context, cell)
    began = time.process_time()
    used = torch.cat([_train_part(context, other).index for other in sizes.cells])
    free = ~np.isin(pool.index, used.numpy())
    sizes_of = {"held_out": sizes.others, "train": sizes.unseen, "init": sizes.public}
    *asked, known = [
        (data.x, data.labels),
        *(part_of(pool, k, free, m) for k, m in sizes_of.items()),
    ]
    kind = np.repeat([1, 0, 2], [len(labels) for _, labels in asked])
    images, y = map(torch.cat, zip(*asked, strict=True))
    frozen = features(images, of)
    public = features(known[0], of)

    stream = partial(named, context.seed, f"fine-tunes {cell.name}")
    network = fine_tuned(cell, data.x, data.labels, of, stream())
    initial = first_weight(Network(of, stream()).head).detach()
    # an adversary sees whether statistics moved; where they did not, training used those
    again = network if cell.frozen_statistics else re_estimated(network, known[0], BATCH)
    w, bias = (p.detach() for p in network.head[0].parameters())
    scores = {PUBLIC_BODY: matched_filter(w, bias, frozen, Public(public))}
    for module, suffix in ((network, ""), (again, AGAIN)):
        assert isinstance(module, Network)
        x, toward = at_head(module, module.head[0], images, y, BATCH)
        clutter = Public(at_head(module, module.head[0], *known, BATCH)[0])
        logits = network.head(x).detach()
        scores[LOSS + suffix] = -cross_entropy(logits, y, reduction="none")
        scores[FILTER + suffix] = matched_filter(w, bias, x, clutter)
        scores[LABEL + suffix] = label_filter(w, toward, x, clutter)
        if not suffix:
            right = logits.argmax(1) == y
            near = cosine_similarity(x, frozen)
    layer = FirstLayer(w, initial)
    bent = cell.optimiser != "sgd"
    rank = max(len(span_of(layer, clutter, None, bent)), 1)
    scores[SPAN] = span_test(layer, x, clutter, rank, bent)
    row = Record(
        **{key: value for key, value in vars(cell).items() if key in SHOWN},
        test_accuracy=right[kind == 0].double().mean().item(),
        moved=near[kind == 0].mean().item(),
        attacks={attack: judged(s, kind, context.seed) for attack, s in scores.items()},
        seconds=round(time.process_time() - began),
    )
    return [row]
