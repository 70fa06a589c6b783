"""What the leakage chapters share: the networks of Table 1, the victims' images, metrics with rows
of networks.

Chen & Campbell attack two named images of CIFAR-10 with networks of one named seed. To be compared
with their numbers these stay what they are, whatever the run's seed: nothing here obeys it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from scipy.stats import sem
from scipy.stats import t as student
from torch import Tensor

from companion.chapters.base import Experiment
from companion.chapters.published import PRE_TRAINED
from companion.store.record import Record
from recon.errors import ReconError
from recon.images.pool import ImagePool
from recon.nets.conv import Conv, ConvNet, Params
from recon.released import Gradient

#: CIFAR-10 train indices of the paper's truck and deer: 3 by hybrid.py:952 of its code; 1 is in no
#: file, but of 6,187 images it is the nearest to the truck of assets/sample_output.jpg (0.98)
VICTIMS = (1, 3)
CLASSES = 10
FOUND = 1 / 510  # half a grey level
LEAST = 1e-12  # errors below this are rounding
PRIOR = 1 / 12  # variance of U(−½, ½), what is known of an entry without the gradient
PRE_TRAINING_CLASSES = (1, 2)  # automobile, bird: what the paper trains the networks of two rows on
# Appendix F: Adam with PyTorch's other defaults
BATCH = 64
STEP_SIZE = 1e-3
EPOCHS = 300


#: Table 1 of Chen & Campbell: Conv(kernel, channels, stride, padding)
TABLE_1 = {
    "CNN2 V1": ConvNet((Conv(3, 6),)),
    "CNN2 V2": ConvNet((Conv(4, 6, 2),)),
    "CNN3 V1": ConvNet((Conv(3, 6), Conv(4, 3, 2))),
    "CNN3 V2": ConvNet((Conv(4, 6, 2), Conv(3, 3, 2))),
    "CNN3 V3": ConvNet((Conv(3, 6), Conv(3, 9))),
    "CNN3 V4": ConvNet((Conv(3, 1), Conv(3, 6))),
    "CNN4 V1": ConvNet((Conv(3, 6), Conv(4, 5, 2), Conv(4, 3))),
    "CNN4 V2": ConvNet((Conv(5, 16), Conv(5, 6, 2), Conv(5, 32, 1, 2))),
}
SEED = 10  # of the published networks, and of the starts of their attacks: hybrid.py:966, 983, 994
#: an experiment of part two: on the processor, with the images that these networks see
gradient_experiment = partial(Experiment.of, on_gpu=False, shape=TABLE_1["CNN2 V1"].shape)


@dataclass(frozen=True)
class Victims:
    """Images minus 0.5 (B, 3, 32, 32), float64, labels (B,) in 0 … 9, indices;

    The same at every seed of a run: they are the paper's.

    Attributes:
        exact: the paper's images.
    """

    x: Tensor
    labels: Tensor
    index: list[int]
    exact: bool

    @property
    def grey(self) -> list[float]:
        """Mean squared error of a grey image, for each."""
        return self.x.square().flatten(1).mean(1).tolist()

    @staticmethod
    def of(pool: ImagePool, wanted: Sequence[int] = VICTIMS) -> "Victims":
        """By CIFAR-10 train index; on other data as many training images."""
        exact = pool.name == "cifar10"
        train = np.flatnonzero(pool.part == "train")
        rows = train[np.linspace(0, len(train) - 1, len(wanted)).round().astype(int)]
        if exact:
            row_of = {int(i): row for row, i in enumerate(pool.index)}
            rows = np.array([row_of[i] for i in wanted])
        labels = torch.from_numpy(pool.labels[rows])
        return Victims(inputs(pool, rows), labels, pool.index[rows].tolist(), exact)

    @staticmethod
    def of_all_classes(pool: ImagePool, count: int) -> "Victims":
        """The paper's two images and, up to `count`, the first others of every class in turn."""
        if count <= len(VICTIMS):
            return Victims.of(pool, VICTIMS[:count])
        named = set(VICTIMS) if pool.name == "cifar10" else set()
        by_class = [
            [int(i) for i in pool.index[pool.labels == k] if int(i) not in named]
            for k in range(CLASSES)
        ]
        in_turn = [index[k] for k in range(count) for index in by_class if k < len(index)]
        return Victims.of(pool, (*VICTIMS, *in_turn)[:count])


class Networks(Record):
    """Metrics with a row for every network of Table 1, beside others."""

    @property
    def networks(self) -> dict[str, Record]:
        """By name."""
        return {
            name: row for name, row in self.items() if name.removesuffix(PRE_TRAINED) in TABLE_1
        }


def inputs(pool: ImagePool, rows: Sequence[int] | np.ndarray) -> Tensor:
    """What the networks see: pixel/255 − 0.5, (B, 3, 32, 32) float64."""
    return torch.from_numpy(pool.images[rows]).double() / 255 - 0.5


def initial(network: ConvNet) -> Params:
    """PyTorch's default initialisation with seed 10, in float64."""
    return network.init(torch.Generator().manual_seed(SEED), torch.float64)


@dataclass(frozen=True)
class Attacked:
    """A network of Table 1, its parameters θ in float64, and how it came by them (pre-trained
    rows).
    """

    network: ConvNet
    theta: Params
    accuracy: float = math.nan
    n_train: int = 0

    @staticmethod
    def of(name: str, pool: ImagePool, epochs: int = EPOCHS) -> "Attacked":
        """PyTorch's default initialisation with seed 10; "… pre-trained" are then trained on all
        automobiles and birds of the pool (10 000 in the paper), the victims not among them; on
        other data on its init images.
        """
        network = TABLE_1[name.removesuffix(PRE_TRAINED)]
        theta = network.init(torch.Generator().manual_seed(SEED))
        accuracy = math.nan
        rows = np.empty(0)
        if name.endswith(PRE_TRAINED):
            rows = rows_to_train_on(pool)
            x = inputs(pool, rows).float()
            labels = torch.from_numpy(pool.labels[rows])
            theta = pretrain(network, theta, x, labels, epochs, torch.Generator().manual_seed(SEED))
            accuracy = (network(theta, x).argmax(1) == labels).float().mean().item()
        return Attacked(
            network, {key: tensor.double() for key, tensor in theta.items()}, accuracy, len(rows)
        )

    def gradients(self, victims: Victims) -> Gradient:
        """Of every image by itself."""
        return Gradient.each(self.network, self.theta, victims.x, victims.labels)


def rows_to_train_on(pool: ImagePool) -> np.ndarray:
    """Automobiles and birds; on other data the init images."""
    return np.flatnonzero(
        np.isin(pool.labels, PRE_TRAINING_CLASSES)
        if pool.name == "cifar10"
        else pool.part == "init"
    )


def pretrain(
    network: ConvNet,
    theta: Params,
    x: Tensor,
    labels: Tensor,
    epochs: int,
    generator: torch.Generator,
) -> Params:
    """θ after `epochs` of Adam on the mean cross-entropy of images x (n, c, h, w), reshuffled every
    epoch.
    """
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in theta.items()}
    adam = torch.optim.Adam(leaves.values(), lr=STEP_SIZE)
    for _ in range(epochs):
        for rows in torch.randperm(len(x), generator=generator).split(BATCH):
            adam.zero_grad()
            F.cross_entropy(network(leaves, x[rows]), labels[rows]).backward()
            adam.step()
    return {name: leaf.detach() for name, leaf in leaves.items()}


def pixels(x: Tensor) -> Tensor:
    """Back to [0, 1] as flat images, for showing; (B, d)."""
    return (x + 0.5).flatten(1).float()


def averaged_victims(pool: ImagePool, count: int, side: int) -> tuple[Tensor, Tensor]:
    """Images of all classes (B, 3, side, side), averaged down from 32 × 32, and labels (B,).

    ReconError unless side is a divisor of 32.
    """
    if side < 1 or 32 % side:
        raise ReconError(f"images of 32 × 32 are averaged down to a divisor of 32, not to {side}")
    victims = Victims.of_all_classes(pool, count)
    return F.avg_pool2d(victims.x, 32 // side), victims.labels


def count_found(x_hat: Tensor, truth: Tensor) -> int:
    """Images (B, …) of which every entry is within half a grey level of the truth."""
    return int(((x_hat - truth).abs().flatten(1).amax(1) <= FOUND).sum())


@dataclass(frozen=True)
class Ratio:
    """Geometric mean over images or networks, and its central 95 % by Student's t over them, honest
    for few, where a bootstrap is not; one has no interval.
    """

    mean: float
    low: float
    high: float

    @staticmethod
    def of(logs: np.ndarray) -> "Ratio":
        """From log10 of the ratio of every image or network, (n,)."""
        mean = logs.mean()
        half = math.inf
        n = len(logs)
        if n > 1:
            half = student.ppf(0.975, n - 1) * sem(logs)
        return Ratio(*(float(10**end) for end in (mean, mean - half, mean + half)))

    @property
    def lower(self) -> bool | None:
        """Whether the ratio is below 1; None where its interval does not tell."""
        return None if self.low <= 1 <= self.high else self.high < 1

    def __str__(self) -> str:
        return f"{self.mean:.2g} [{self.low:.2g}, {self.high:.2g}]"
