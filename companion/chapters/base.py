"""What every experiment is: sizes in, metrics and arrays out; claims and figures are made from
those alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Generic, Protocol, TypeVar

import torch
from matplotlib.figure import Figure
from torch import Tensor

from companion.store.record import Record
from companion.store.results import Claim, Result
from recon.images.bundle import Bundle
from recon.images.partitions import Dataset, partition, partitions
from recon.images.pool import ImagePool
from recon.optim.loop import Checkpoints

S = TypeVar("S")
M = TypeVar("M", bound=Record)
Tensors = dict[str, Tensor]


class Sweep(Protocol):
    """Many independent runs: what `unit` makes of every name, by name; see
    `companion.store.sweep`.
    """

    def __call__(
        self,
        unit: Callable[[str], Tensors],
        names: list[str],
        label: str,
    ) -> dict[str, Tensors]: ...


#: The older experiments' random streams, name -> (number, stride): index i of a stream is number +
#: stride · i.  The prefix says whose draws must not collide.  Numbers are arbitrary, but fixed:
#: published results depend on them, so the table does not grow; newer experiments draw by name
#: alone, see `recon.optim.rng.named`.
STREAMS: dict[str, tuple[int, int]] = {
    "collapse.weights": (1, 0),
    "collapse.noise": (2, 0),
    "affine.start": (1, 0),
    "hidden.weights": (100, 1),
    "hidden.inner_start": (200, 1),
    "hidden.start": (300, 1),
    "kkt.weights": (1, 10),
    "kkt.attack": (2, 0),
    "kkt.attack_again": (20_000, 10),
    "kkt.nulls": (7000, 0),
    "separation.nulls": (70, 0),
    "separation.attack": (71, 0),
    "separation.others": (72, 0),
    "separation.weights": (80, 0),
    "separation.noise": (81, 0),
    "landscape.start": (1, 1),
    "landscape.weights": (10, 1),
}
SPACING = 1000  # between streams, so that small seeds do not meet each other's


def stream(seed: int, name: str, index: int = 0) -> torch.Generator:
    """A fresh generator on the CPU for the draw `name`, or its `index`-th repetition (≥ 0) where
    there are several.

    Draws do not depend on each other's order, nor on how many there are.

    >>> first, again = stream(0, "kkt.weights"), stream(0, "kkt.weights")
    >>> torch.equal(torch.rand(3, generator=first), torch.rand(3, generator=again))
    True
    """
    number, stride = STREAMS[name]
    if index and not stride:
        raise ValueError(f"the random stream '{name}' has one draw only")
    return torch.Generator().manual_seed(seed + SPACING * (number + stride * index))


@dataclass(frozen=True)
class Context:
    """What an experiment runs with: images, device, seed, a place for checkpoints of unfinished
    work, and a way to do many independent runs. The seed draws everything: images, starts and
    weights.
    """

    pool: ImagePool
    device: torch.device
    seed: int
    checkpoints: Checkpoints
    sweep: Sweep

    def stream(self, name: str, index: int = 0) -> torch.Generator:
        """A fresh generator of this run's seed: see `stream`."""
        return stream(self.seed, name, index)

    def dataset(self, n_train: int, n_held_out: int = 200) -> Dataset:
        """The partitions of this experiment, drawn by its seed."""
        return partition(self.pool, n_train, n_held_out=n_held_out, seed=self.seed)

    def images(self, n_train: int, swapped: bool = False) -> Bundle:
        """Those images on this device, minus the training mean, as many held out as trained on.

        Args:
            swapped: training and start partition change places, for a shadow network.
        """
        data = self.dataset(n_train, n_train)
        return Bundle.of(data.swapped() if swapped else data, self.device)

    def datasets(self, n_train: int, sets: int, n_held_out: int = 200) -> list[Dataset]:
        """`sets` of them with training images of their own."""
        return partitions(self.pool, n_train, sets, n_held_out=n_held_out, seed=self.seed)


@dataclass(frozen=True)
class Outcome(Generic[M]):
    """What an experiment computes: metrics, a record of its own type, and arrays (tensors) by
    name.
    """

    metrics: M
    arrays: Tensors


def _none(metrics: Any, arrays: Tensors) -> Tensors:
    """Of figures that show metrics alone."""
    return {}


@dataclass(frozen=True)
class Experiment(Generic[S, M]):
    """What computes, judges and draws; experiments.yml says where in the book it belongs.

    Attributes:
        sizes: per profile.
        metrics: their type.
        compute: sizes and context to metrics and arrays.
        claims: from metrics and sizes.
        figures: file stem -> figure of a result.
        selected: from metrics and arrays, those few that figures show, which a kept run holds
            (`Result.figure`).
        on_gpu: whether it computes on a GPU where there is one.
        shape: (C, H, W) of the images that it needs, None for any.
        version: raised when the same sizes and seed give other numbers, which `recon replay`
            notices; part of a key.
        rescored: those of the metrics that images and kept reconstructions give, for experiments
            that keep them.
    """

    name: str
    sizes: Mapping[str, S]
    metrics: type[M]
    compute: Callable[[S, Context], Outcome[M]]
    claims: Callable[[M, S], list[Claim]]
    figures: Mapping[str, Callable[[Result[M]], Figure]]
    selected: Callable[[M, Tensors], Tensors] = _none
    on_gpu: bool = True
    shape: tuple[int, int, int] | None = None
    version: int = 1
    rescored: Callable[[S, Context, Tensor], Mapping[str, Any]] | None = None

    @classmethod
    def of(cls, experiment: ModuleType, story: ModuleType, **more: Any) -> "Experiment":
        """From its two files: `SIZES`, `Metrics`, `compute` and `rescored` of one, `claims`,
        `FIGURES` and `selected` of the other, or what `more` has in their place.
        """
        there = {**vars(story), **vars(experiment)}
        names = ("SIZES", "Metrics", "compute", "rescored", "claims", "FIGURES", "selected")
        fields: dict[str, Any] = {name.lower(): there[name] for name in names if name in there}
        return cls(**fields | more)
