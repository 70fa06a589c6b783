"""Chapter 8, the limits: separation against the number of images and the width of the network."""

from dataclasses import dataclass
from functools import partial

from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.common import kkt_network, n_photographs
from companion.chapters.separation_common import counts, other_photographs
from companion.chapters.tables import packed, unpacked
from companion.store.record import Record
from recon.attacks.separation import FirstLayer, SeparationSettings, separate
from recon.images.bundle import Bundle
from recon.scoring.nulls import null_candidates


class Metrics(Record):
    """The map; n_train: the largest number of images in it.

    cells: One network of the map: n_train images, width of the layers, log of the loss at the end
    of training, rank: directions that stood out of the layer and were searched · matches: of the
    candidates with the training images, one-to-one · null: with held-out images · best_null: the
    largest of all that costs nothing · excess: matches minus best_null.
    """

    def widest(self) -> list[Record]:
        """The cells of the widest network."""
        width = max(cell.width for cell in self.cells)
        return [cell for cell in self.cells if cell.width == width]


@dataclass(frozen=True, kw_only=True)
class MapSizes:
    """The limits: numbers of images and widths of the map, trained for `steps_per_image` times as
    many steps.
    """

    ns: tuple[int, ...]
    widths: tuple[int, ...]
    attack: SeparationSettings = SeparationSettings()
    steps_per_image: int = 6


SIZES = {
    "smoke": MapSizes(
        ns=(10, 20), widths=(32, 64), attack=SeparationSettings(first_rank=8, iterations=40)
    ),
    "laptop": MapSizes(ns=(20, 50, 100), widths=(100, 400)),
    "paper": MapSizes(ns=(20, 50, 100, 150, 200, 300, 500), widths=(100, 400, 1000)),
}


def compute(sizes: MapSizes, context: Context) -> Outcome[Metrics]:
    """The map over images and widths."""
    names = [f"{n}-{width}" for width in sizes.widths for n in sizes.ns]
    runs = context.sweep(partial(size_unit, sizes, context), names, "sizes")
    cells = [unpacked(runs[name]) for name in names]
    return Outcome(Metrics(n_train=max(sizes.ns), cells=cells), {})


def size_unit(sizes: MapSizes, context: Context, name: str) -> Tensors:
    """One cell, "N-WIDTH": train to the KKT regime, separate, count."""
    n, width = map(int, name.split("-"))
    images = context.images(n)
    start = context.stream("separation.weights")
    network, trained = kkt_network(images, width, sizes.steps_per_image * n, start)
    w1 = network.unflatten(trained.theta_star)["w1"]
    table = separation_counts(images, FirstLayer(w1), context, sizes.attack)
    return packed({**table, "n_train": len(images), "width": width, "log_loss": trained.log_loss})


def separation_counts(
    images: Bundle, released: FirstLayer, context: Context, settings: SeparationSettings
) -> Record:
    """The `count_table` of what `separate` finds, and rank: directions that stood out of the
    layer.
    """
    update = released.update  # once: κ takes a singular value decomposition
    generator = context.stream("separation.attack")
    sources = separate(FirstLayer(update), images.shape, settings, generator)
    table = count_table(sources.x_hat, images, update, context)
    return Record(**table, rank=len(sources.basis))


def count_table(x_hat: Tensor, images: Bundle, w1: Tensor, context: Context) -> Record:
    """The counts of candidates (m, d), and of `null_candidates` of the layer (h, d): as many as
    candidates or images, whichever are more.
    """
    m = max(len(x_hat), len(images.train))
    public = other_photographs(images, context, m)
    draws = context.stream("separation.nulls")
    candidates = null_candidates(w1, images.train, images.init, public, m, draws)
    nulls = {name: counts(x, images.train) for name, x in candidates.items()}
    matches = counts(x_hat, images.train)
    null = counts(x_hat, images.held_out)
    best = best_of(null, *nulls.values())
    return Record(
        matches=matches,
        null=null,
        best_null=best,
        excess={name: matches[name] - best[name] for name in best},
        photographs=best_of(nulls["photographs"], nulls["photographs_2"]),
        n_photographs=n_photographs(candidates),
    )


def best_of(*nulls: Record) -> Record:
    """The largest count at every threshold."""
    return Record({name: max(null[name] for null in nulls) for name in nulls[0]})
