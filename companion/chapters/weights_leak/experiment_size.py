"""Chapter 8, the limits: separation against the number of images, the width of the network, and the pixels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.packing import packed, unpacked
from companion.chapters.separation_common import is_true
from companion.chapters.tables import flat
from companion.chapters.weights_leak.attack import attacked
from companion.chapters.weights_leak.images import photograph_images
from companion.store.record import Record
from recon.attacks.separation import FirstLayer, Separated, SeparationSettings
from recon.nets.mlp import three_layer
from recon.training.kkt import KKTSettings, train_to_kkt


class Metrics(Record):
    """The map; n_train: the largest number of images in it.

    cells: One network of the map: source "cifar" or "photographs", images side × side, n_train of them, width of
    the layers, log of the loss at the end of training.
    cells: The same, and rank: directions that stood out of the layer and were searched.
    cells: What an attack finds and what costs nothing, one-to-one. matches: of the candidates with the training
    images · null: with held-out images · span_null: the larger of mixtures of the layer's span and of the training
    images · best_null: the largest of all that costs nothing · excess: matches minus best_null.
    cells.certainty: How well sparsity alone tells true candidates from false ones; None for an AUC where one kind
    is missing.
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
    attack: SeparationSettings
    sides: tuple[int, ...]
    side_ns: tuple[int, ...]
    photograph_sides: tuple[int, ...]
    photograph_n: int
    steps_per_image: int = 6


SIZES = {
    "smoke": MapSizes(
        ns=(10, 20),
        widths=(32, 64),
        attack=SeparationSettings(first_rank=8, iterations=40),
        sides=(16,),
        side_ns=(20,),
        photograph_sides=(16, 32),
        photograph_n=20,
    ),
    "laptop": MapSizes(
        ns=(20, 50, 100),
        widths=(100, 400),
        attack=SeparationSettings(),
        sides=(16,),
        side_ns=(50, 100),
        photograph_sides=(16, 32),
        photograph_n=100,
    ),
    "paper": MapSizes(
        ns=(20, 50, 100, 150, 200, 300, 500),
        widths=(100, 400, 1000),
        attack=SeparationSettings(),
        sides=(16,),
        side_ns=(20, 50, 100, 150, 200, 300),
        photograph_sides=(16, 32, 64, 96),
        photograph_n=100,
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
    return Outcome(Metrics(n_train=max(sizes.ns), cells=cells), {"widths": torch.tensor(sizes.widths)})


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
    found, table = attacked(images, FirstLayer(w1), context, sizes.attack)
    cell = Record(
        **flat(table),
        source=source,
        side=side,
        pixels=side * side,
        n_train=len(images),
        width=width,
        log_loss=trained.log_loss,
        certainty=by_sparsity(found, is_true(found, images.train, images.init)),
    )
    return packed(cell)


def by_sparsity(found: Separated, true: Tensor) -> Record:
    """How well sparsity alone tells true candidates (r,) from false ones."""
    both = bool(true.any() and not true.all())
    auc = float(roc_auc_score(true.cpu().numpy(), found.sparsity.cpu().numpy())) if both else None
    return Record(candidates=len(true), true=int(true.sum()), auc_of_sparsity=auc)
