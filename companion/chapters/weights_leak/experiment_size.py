"""Chapter 8, the limits: separation against the number of images, the width of the network, and the pixels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.packing import packed, unpacked
from companion.chapters.weights_leak.attack import attacked, photograph_images
from companion.store.record import Record
from recon.attacks.separation import FirstLayer, SeparationSettings
from recon.nets.mlp import three_layer
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
