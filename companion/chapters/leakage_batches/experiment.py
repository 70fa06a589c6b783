"""Appendix C: the gradient of a batch, as one system."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.leakage_common import (
    CLASSES,
    count_found,
    initial,
    inputs,
    pixels,
)
from companion.chapters.tables import packed, unpacked
from companion.store.record import Record
from recon.attacks.batches import BatchSystem
from recon.attacks.gauss_newton import gauss_newton
from recon.attacks.gradient_system import CERTAIN
from recon.nets.conv import Conv, ConvNet
from recon.optim.rng import named
from recon.released import Gradient
from recon.scoring.metrics import mse


class Metrics(Record):
    """classes: of the networks.

    batches: One batch. unknowns, equations, missing: rank of the Jacobian at the truth minus
    unknowns, ≤ 0 · found: images within half a grey level, of the best start by residual · mse:
    mean over images, each with its own · residual: ‖h(x) − h*‖/‖h*‖ · certified: whether the
    adversary may be sure: the residual is rounding, and at x̂ nothing is missing.
    """


@dataclass(frozen=True, kw_only=True)
class Batch:
    """
    Attributes:
        side: of the images, 32 or averaged down to it.
        channels: of the one convolution (kernel 3).
        n: images.
        same: all of one label, else as many labels as possible.
    """

    side: int
    channels: int
    n: int
    same: bool = False


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """
    Attributes:
        batches: solved by Gauss–Newton from `starts` starts, until all images are found, in up to
            `iterations`.
        shown: the one whose images are shown.
    """

    batches: tuple[Batch, ...]
    shown: Batch
    starts: int = 5
    iterations: int = 100


def _grid(side: int, channels: int, ns: Sequence[int], same: Sequence[int]) -> tuple[Batch, ...]:
    other = [Batch(side=side, channels=channels, n=n) for n in ns]
    return (*other, *(Batch(side=side, channels=channels, n=n, same=True) for n in same))


SIZES = {
    "smoke": Sizes(
        batches=(*_grid(8, 6, (1, 2), (2,)), Batch(side=4, channels=2, n=4)),
        shown=Batch(side=8, channels=6, n=2),
        starts=1,
        iterations=20,
    ),
    "laptop": Sizes(
        batches=(*_grid(8, 6, (1, 2, 4, 8, 10, 16), (2, 4)), Batch(side=16, channels=6, n=4)),
        shown=Batch(side=16, channels=6, n=4),
        starts=2,
    ),
    "paper": Sizes(
        batches=(
            *_grid(8, 6, (1, 2, 4, 6, 8, 9, 10, 12, 16, 32, 64), (2, 4, 8)),
            *_grid(8, 24, (1, 2, 4, 6, 8, 9, 10, 12, 16, 32, 64), (2, 4, 8)),
            *_grid(32, 6, (1, 2, 4), (2,)),
        ),
        shown=Batch(side=32, channels=6, n=4),
    ),
}


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Every batch by itself."""
    units = [f"batch {k}" for k in range(len(sizes.batches))]
    runs = context.sweep(partial(solve_batch, sizes, context), units, "batches")
    arrays = {}
    if sizes.shown in sizes.batches:
        shown = runs[f"batch {sizes.batches.index(sizes.shown)}"]
        arrays = {name: pixels(shown[name]) for name in ("truth", "x_hat")}
    batches = [unpacked(found) for found in runs.values()]
    return Outcome(Metrics(classes=CLASSES, batches=batches), arrays)


def drawn(context: Context, count: int, same: bool) -> tuple[Tensor, Tensor]:
    """Images (count, 3, 32, 32) minus ½ and labels (count,): every label in turn, or all of the
    first; by the seed.
    """
    pool = context.pool
    generator = named(context.seed, "batches.images")
    order = torch.randperm(len(pool.labels), generator=generator).numpy()
    labels = pool.labels[order]
    by_class = [order[labels == label] for label in range(CLASSES) if label in labels]
    in_turn = [by_class[k % len(by_class)][k // len(by_class)] for k in range(count)]
    rows = by_class[0][:count] if same else in_turn
    return inputs(pool, rows), torch.from_numpy(pool.labels[rows])


def victims(batch: Batch, context: Context) -> tuple[ConvNet, dict[str, Tensor], Tensor, Tensor]:
    """Network, θ, images (n, 3, side, side), labels (n,)."""
    x, labels = drawn(context, batch.n, batch.same)
    network = ConvNet((Conv(3, batch.channels),), shape=(3, batch.side, batch.side))
    return network, initial(network), F.avg_pool2d(x, 32 // batch.side), labels


def solve_batch(sizes: Sizes, context: Context, unit: str) -> Tensors:
    """Gauss–Newton from several starts; the one with the least residual counts, and the adversary
    can see which.
    """
    batch = sizes.batches[int(unit.split()[1])]
    network, theta, x, labels = victims(batch, context)
    mean = Gradient.averaged(network, theta, x, labels)
    tries = []
    for start in range(sizes.starts):
        system = BatchSystem.of(mean, labels, seed=start)
        tol = 1e-26 * system.target.square().sum().item()
        tries.append(gauss_newton(system, steps=sizes.iterations, tol=tol))
        best = min(tries, key=lambda solved: solved.energy[-1].item())
        if (residual := relative(system, best.x)) <= CERTAIN:
            break
    x_hat = assigned(system.images(best.x), x)
    row = Record(
        **vars(batch),
        labels=len(labels.unique()),
        unknowns=x.numel(),
        equations=len(system.target),
        missing=missing(system, x.flatten()),
        found=count_found(x_hat, x),
        mse=mse(x_hat, x).mean().item(),
        residual=residual,
        certified=residual <= CERTAIN and missing(system, best.x) == 0,
    )
    return {**packed(row), "truth": x, "x_hat": x_hat}


def missing(system: BatchSystem, x: Tensor) -> int:
    """Rank of the Jacobian at x (n·c·h·w,) minus unknowns, by eigenvalues of JᵀJ above ε times
    their sum.
    """
    gram = system.gram(x)
    least = torch.finfo(gram.dtype).eps * gram.trace()
    return int(torch.linalg.matrix_rank(gram, atol=least, rtol=0.0, hermitian=True)) - len(gram)


def relative(system: BatchSystem, x: Tensor) -> float:
    """‖h(x) − h*‖ / ‖h*‖: the certificate."""
    return ((system(x) - system.target).norm() / system.target.norm()).float().item()


def assigned(x_hat: Tensor, truth: Tensor) -> Tensor:
    """x_hat (n, c, h, w) in the order of the truth, so that the sum of squared distances is
    least.
    """
    distances = torch.cdist(truth.flatten(1), x_hat.flatten(1)).square()
    return x_hat[linear_sum_assignment(distances.numpy())[1]]
