"""Chapter 8, the limits: separation against the number of images, the width of the network, and the pixels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.separation_common import counts
from companion.chapters.tables import packed, unpacked
from companion.store.record import Record
from recon.attacks.separation import FirstLayer, SeparationSettings, separate
from recon.images.bundle import Bundle
from recon.images.photos import at_side, patches
from recon.nets.mlp import three_layer
from recon.scoring.nulls import null_candidates
from recon.training.kkt import KKTSettings, train_to_kkt


class Metrics(Record):
    """The map; n_train: the largest number of images in it.

    cells: One network of the map: source "cifar" or "photographs", images side × side, n_train of them, width of
    the layers, log of the loss at the end of training, rank: directions that stood out of the layer and were searched ·
    matches: of the candidates with the training images, one-to-one · null: with held-out images · best_null: the
    largest of all that costs nothing · excess: matches minus best_null.
    """

    def of(self, source: str) -> list[Record]:
        """The cells of one source."""
        return [cell for cell in self.cells if cell.source == source]

    def widest(self) -> list[Record]:
        """CIFAR-10's cells of the widest network, whatever the side."""
        width = max(cell.width for cell in self.cells)
        return [cell for cell in self.of("cifar") if cell.width == width]


@dataclass(frozen=True, kw_only=True)
class MapSizes:
    """The limits: numbers of images and widths of the map, trained for `steps_per_image` times as many steps · sides,
    side_ns: images averaged down to these widths in pixels, at these numbers, with the map's last width ·
    photograph_sides, photograph_n: patches of the bundled photographs, the same scenes at several sizes."""

    ns: tuple[int, ...]
    widths: tuple[int, ...]
    side_ns: tuple[int, ...]
    photograph_sides: tuple[int, ...] = (16, 32)
    photograph_n: int = 100
    sides: tuple[int, ...] = (16,)
    attack: SeparationSettings = SeparationSettings()
    steps_per_image: int = 6


SIZES = {
    "smoke": MapSizes(
        ns=(10, 20),
        widths=(32, 64),
        side_ns=(20,),
        photograph_n=20,
        attack=SeparationSettings(first_rank=8, iterations=40),
    ),
    "laptop": MapSizes(ns=(20, 50, 100), widths=(100, 400), side_ns=(50, 100)),
    "paper": MapSizes(
        ns=(20, 50, 100, 150, 200, 300, 500),
        widths=(100, 400, 1000),
        side_ns=(20, 50, 100, 150, 200, 300),
        photograph_sides=(16, 32, 64, 96),
    ),
}


def compute(sizes: MapSizes, context: Context) -> Outcome[Metrics]:
    """The map over images and widths; then the same networks on images of fewer and of more pixels."""
    names = [f"cifar-{context.pool.shape[1]}-{n}-{width}" for width in sizes.widths for n in sizes.ns]
    widest = sizes.widths[-1]
    names += [f"cifar-{side}-{n}-{widest}" for side in sizes.sides for n in sizes.side_ns]
    names += [f"photographs-{side}-{sizes.photograph_n}-{widest}" for side in sizes.photograph_sides]
    found = context.sweep(partial(size_unit, sizes, context), names, "sizes")
    cells = [unpacked(found[name]) for name in names]
    return Outcome(Metrics(n_train=max(sizes.ns), cells=cells), {})


def size_unit(sizes: MapSizes, context: Context, name: str) -> Tensors:
    """One cell, "SOURCE-SIDE-N-WIDTH": train to the KKT regime, separate, count."""
    source, *numbers = name.split("-")
    side, n, width = map(int, numbers)
    pool = source == "cifar"
    images = context.images(n).at_side(side) if pool else photograph_images(n, side, context.device)
    network = three_layer(width, images.dim)
    theta_init = network.flatten(network.init(context.stream("separation.weights"), "small")).to(images.train)
    trained = train_to_kkt(network, images.train, images.y, theta_init, KKTSettings(sizes.steps_per_image * n))
    w1 = network.unflatten(trained.theta_star)["w1"]
    table = attacked(images, FirstLayer(w1), context, sizes.attack)
    about = {"source": source, "side": side, "n_train": len(images), "width": width, "log_loss": trained.log_loss}
    return packed({**table, **about})


def attacked(images: Bundle, released: FirstLayer, context: Context, settings: SeparationSettings) -> Record:
    """The `count_table` of what `separate` finds, and rank: directions that stood out of the layer."""
    update = released.update  # once: κ takes a singular value decomposition
    found = separate(FirstLayer(update), images.shape, settings, context.stream("separation.attack"))
    table = count_table(found.x_hat, images, update, context.stream("separation.nulls"))
    return Record(**table, rank=len(found.basis))


def count_table(x_hat: Tensor, images: Bundle, w1: Tensor, generator: torch.Generator) -> Record:
    """The counts of candidates (m, d), and of `null_candidates` of the layer (h, d): as many as candidates or images,
    whichever are more.  Needs no particular image size."""
    candidates = null_candidates(w1, images.train, images.init, max(len(x_hat), len(images.train)), generator)
    free = {name: counts(x, images.train) for name, x in candidates.items()}
    matches, null = counts(x_hat, images.train), counts(x_hat, images.held_out)
    best = Record({name: max(found[name] for found in (null, *free.values())) for name in null})
    excess = Record({name: matches[name] - best[name] for name in best})
    return Record(matches=matches, null=null, best_null=best, excess=excess)


def photograph_images(n: int, side: int, device: torch.device) -> Bundle:
    """n patches of the bundled photographs' first two thirds, alternating between the classes while both last, against
    those of the last third (fewer), which serve as others too."""
    x, y, held_out = patches()
    x = at_side(x, side)
    shape, x = tuple(x.shape[1:]), x.flatten(1)
    rows = (~held_out).nonzero()[:, 0]
    turn = torch.cat([torch.arange(int((y[rows] == label).sum())) for label in (0, 1)])
    rows = torch.cat([rows[y[rows] == label] for label in (0, 1)])[turn.argsort(stable=True)][:n]
    mean = x[rows].mean(0)
    train, others = ((part - mean).to(device) for part in (x[rows], x[held_out]))
    return Bundle.of_tensors(train, others, others, shape, (y[rows], y[held_out], y[held_out]), mean.to(device))
