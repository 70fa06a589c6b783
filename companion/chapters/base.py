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
from recon.images.partitions import Dataset, partition
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


#: The older experiments' random streams, name -> number, to which index i adds i times its stride
#: in `STRIDES`.  The prefix says whose draws must not collide.  Numbers are arbitrary, but fixed:
#: published results depend on them, so the table does not grow; newer experiments draw by name
#: alone, see `recon.optim.rng.named`.
STREAMS = {
    "collapse.weights": 1,
    "collapse.noise": 2,
    "affine.start": 1,
    "hidden.weights": 100,
    "hidden.inner_start": 200,
    "hidden.start": 300,
    "kkt.weights": 1,
    "kkt.attack": 2,
    "kkt.nulls": 7000,
    "separation.nulls": 70,
    "separation.attack": 71,
    "separation.others": 72,
    "separation.weights": 80,
    "separation.noise": 81,
    "landscape.start": 1,
    "landscape.weights": 10,
}
#: of those that are drawn several times: what an index adds to the number
STRIDES = {"hidden.weights": 1, "hidden.inner_start": 1, "kkt.weights": 10}
SPACING = 1000  # between streams, so that small seeds do not meet each other's


def stream(seed: int, name: str, index: int = 0) -> torch.Generator:
    """A fresh generator on the CPU for the draw `name`, or its `index`-th repetition (≥ 0) where
    there are several.

    Draws do not depend on each other's order, nor on how many there are.

    >>> first, again = stream(0, "kkt.weights"), stream(0, "kkt.weights")
    >>> torch.equal(torch.rand(3, generator=first), torch.rand(3, generator=again))
    True
    """
    if index and name not in STRIDES:
        raise ValueError(f"the random stream '{name}' has one draw only")
    number = STREAMS[name] + STRIDES.get(name, 0) * index
    return torch.Generator().manual_seed(seed + SPACING * number)


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


@dataclass(frozen=True)
class Outcome(Generic[M]):
    """What an experiment computes: metrics, a record of its own type, and arrays (tensors) by
    name.
    """

    metrics: M
    arrays: Tensors


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
    selected: Callable[[M, Tensors], Tensors] = lambda *_: {}  # of figures of metrics alone
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
