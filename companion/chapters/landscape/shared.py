"""What both landscapes share: images of every seed, what is measured around the end points, and its means over seeds.

A run's tensors have names, since a sweep stores them as a file: those of `measure`, and more from each method.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from companion.chapters.base import Context, Tensors
from companion.chapters.landscape.distances import crossing, different_starts, random_pairs, set_distances
from companion.store.record import Record
from recon.analysis.landscape import barrier, curvature, mixed_starts, roughness, segment
from recon.images.bundle import Bundle
from recon.nets.mlp import affine
from recon.optim.subspace import Subspace
from recon.released import Weights
from recon.training.inner_problem import Objective, solve_affine

Grid = list[list[float]]  # [i][j] is the start with λ₁[i], λ₂[j]
SETS = ("truth", "partition", "random")
#: arrays that a result keeps of every seed
PER_SEED = (*SETS, *(f"start_{name}" for name in SETS), "barrier", "line_partition", "line_random")
DIRECTIONS, RADIUS = 8, 0.5  # of the curvature: random directions, L2 length per image


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """§4.5, eq. (10). n_train: images per seed · seeds: each with images, noise and network of its own · steps,
    step_size, momentum, tol: of the bilevel descent, as in chapter 3 · pairs, points: segments between end points, and
    points on each · line_points: on the lines from the truth · lambdas: λ₁ and λ₂."""

    n_train: int
    seeds: int
    steps: int
    pairs: int = 40
    points: int = 11
    line_points: int = 101
    weight_decay: float = 1e-2
    step_size: float = 0.3
    momentum: float = 0.5
    tol: float = 1e-8
    lambdas: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class SeedImages:
    """Flat images (n, d) in [0, 1] of one seed: truth, partition, random ~ U(0, 1), held out; labels y of the truth;
    shape (C, H, W).

    Rows are sorted by label, 0 first; the partition has the same labels row by row.
    """

    truth: Tensor
    partition: Tensor
    random: Tensor
    held_out: Tensor
    y: Tensor
    train_index: Tensor
    shape: tuple[int, ...]

    @staticmethod
    def of(context: Context, sizes: Sizes, seed: int, dtype: torch.dtype) -> SeedImages:
        """Images of seed 0, 1, … of the run: disjoint slices of its partitions, as large as the data allow; which
        partitions, the run's own seed says."""
        wanted = sizes.n_train * sizes.seeds
        data = context.dataset(wanted, wanted)
        half = min(sizes.n_train, min(map(len, (data.train, data.init, data.held_out))) // sizes.seeds) // 2
        images = Bundle.of(data, context.device, dtype, centred=False).take(seed * half, (seed + 1) * half)
        generator = context.stream("landscape.start", seed)
        noise = torch.rand(images.train.shape, generator=generator, dtype=torch.float64).to(images.train)
        kept = (images.held_out, images.y, images.train_index, images.shape)
        return SeedImages(images.train, images.init, noise, *kept)

    def sets(self) -> dict[str, Tensor]:
        """The three sets by name."""
        return {"truth": self.truth, "partition": self.partition, "random": self.random}

    def starts(self, lambdas: Sequence[float]) -> Tensor:
        """Eq. (10) on the grid of λ₁ × λ₂, in pixels; (a·b, n, d), λ₁ the slower index."""
        grid = torch.tensor(lambdas)
        return mixed_starts(self.truth, self.partition, self.random, grid, grid).flatten(0, 1)

    def null_distance(self) -> Tensor:
        """Distance to the truth of images that no training saw."""
        return set_distances(self.held_out[None].float(), self.sets(), self.shape)["truth"]


@dataclass(frozen=True)
class Problem:
    """One seed's attack: images, the start's offset (the mean that DecoReco subtracts), and its energy of images
    x (S, n, d), relative, as the attack sees them (offset subtracted)."""

    images: SeedImages
    offset: Tensor
    energy: Callable[[Tensor], Tensor]

    def placed(self, images: Tensor) -> Tensor:
        """Pixels -> what the attack sees."""
        return images - self.offset


def affine_released(images: SeedImages, sizes: Sizes) -> Weights:
    """θ* of the affine net, exactly trained on one seed's images."""
    network = affine(images.truth.shape[1])
    objective = Objective(network, images.y, sizes.weight_decay)
    theta_star = solve_affine(objective, images.truth[None]).theta[0]
    return Weights(network, theta_star, y=images.y, weight_decay=sizes.weight_decay)


def different(starts: Tensor, lambdas: Sequence[float]) -> tuple[Tensor, Tensor]:
    """Those of the grid's starts (a·b, n, d) that differ, and for every cell its row among them (a·b,): at λ₂ = 0 all
    are the same noise."""
    rows = different_starts(lambdas)
    place = {row: k for k, row in enumerate(rows)}
    side = len(lambdas)
    every = [place[row if row in place else row % side] for row in range(len(starts))]
    return starts[rows], torch.tensor(every, device=starts.device)


def corner_rows(sizes: Sizes) -> list[int]:
    """Rows of the grid at (λ₁, λ₂) = (1, 1), (0, 1), (0, 0): ends from the truth, the partition, noise."""
    side = len(sizes.lambdas)
    return [side * side - 1, side - 1, 0]


# -------------------------------------------------------------------------------------------------- of one run


def measure(problem: Problem, x_hat: Tensor, starts: Tensor, energy: Tensor, sizes: Sizes, seed: int) -> Tensors:
    """Distances and energies of the end points x_hat (S, n, d) in pixels; and the landscape between them."""
    sets = problem.images.sets()
    found = {**set_distances(x_hat.float(), sets, problem.images.shape), "energy": energy}
    begin, every = different(starts, sizes.lambdas)
    found["start_energy"] = problem.energy(problem.placed(begin))[every]
    for name in ("partition", "random"):
        line = segment(problem.placed(sets["truth"]), problem.placed(sets[name]), sizes.line_points)
        found[f"line_{name}"] = problem.energy(line)
    noise = found["line_random"][-1] - found["line_random"][0]  # what separates noise from the truth
    ends = problem.placed(x_hat)
    rows = different_starts(sizes.lambdas)
    generator = torch.Generator().manual_seed(seed)  # the same pairs and directions for every method and every run
    pairs = random_pairs(len(rows), sizes.pairs, generator)
    paths = [problem.energy(segment(ends[rows[i]], ends[rows[j]], sizes.points)) for i, j in pairs]
    found["barrier"] = barrier(torch.stack(paths)) / noise
    basis = Subspace.spanned_by(*(problem.placed(members).double() for members in sets.values())).basis
    curved = [_curvature(problem, ends[row], basis, generator) for row in corner_rows(sizes)]
    found["curvature"] = torch.stack(curved) / noise
    return found


def _curvature(problem: Problem, x: Tensor, basis: Tensor, generator: torch.Generator) -> Tensor:
    """Mean second difference of the energy at x (n, d), in random directions within the span of the three sets."""
    origin, basis = x, basis.to(x)

    def energy(change: Tensor) -> Tensor:
        return problem.energy(origin + change @ basis)

    zero = torch.zeros(len(x), len(basis), dtype=x.dtype, device=x.device)
    return curvature(energy, zero, RADIUS * math.sqrt(len(x)), DIRECTIONS, generator)


# ------------------------------------------------------------------------------------------------ over all seeds


def table(values: list[Tensor], side: int) -> tuple[Grid, Grid]:
    """Mean and standard deviation over seeds of (a·b,) values, as a × b lists."""
    stacked = torch.stack([value.double() for value in values]).unflatten(1, (side, side))
    spread = stacked.std(0) if len(stacked) > 1 else torch.zeros_like(stacked[0])
    return stacked.mean(0).tolist(), spread.tolist()


def summarise(runs: list[Tensors], lambdas: Sequence[float]) -> Record:
    """One method's runs, one a seed."""
    side = len(lambdas)

    def of_sets(prefix: str = "", suffix: str = "") -> tuple[Record, Record]:
        tables = {name: table([run[f"{prefix}{name}{suffix}"] for run in runs], side) for name in SETS}
        means, spreads = ({name: each[k] for name, each in tables.items()} for k in (0, 1))
        return Record(**means), Record(**spreads)

    distance, distance_sd = of_sets()
    energy, energy_sd = table([run["energy"] for run in runs], side)
    return Record(
        distance=distance,
        distance_sd=distance_sd,
        distance_l2=of_sets(suffix="_l2")[0],
        start_distance=of_sets("start_")[0],
        energy=energy,
        energy_sd=energy_sd,
        start_energy=table([run["start_energy"] for run in runs], side)[0],
        cells_converged=table([run["converged"] for run in runs], side)[0],
        crossing=Record(
            truth_partition=_crossing(runs, "partition", lambdas), truth_random=_crossing(runs, "random", lambdas)
        ),
        geometry=_geometry(runs),
    )


def _crossing(runs: list[Tensors], rival: str, lambdas: Sequence[float]) -> Record:
    """Where truth and rival swap: the partition along λ₁ at λ₂ = 1, noise along λ₂ at λ₁ = 1."""
    side = len(lambdas)
    values: list[float | None] = []
    for run in runs:
        truth, other = (run[name].unflatten(0, (side, side)) for name in ("truth", rival))
        along = (truth[:, -1], other[:, -1]) if rival == "partition" else (truth[-1], other[-1])
        values.append(crossing(lambdas, *along))
    swaps = torch.tensor([value for value in values if value is not None])
    everywhere = len(swaps) == len(values)  # a mean over some seeds only would mislead
    return Record(
        per_seed=values,
        mean=swaps.mean().item() if everywhere else None,
        sd=swaps.std().item() if everywhere and len(swaps) > 1 else None,
    )


def _geometry(runs: list[Tensors]) -> Record:
    barriers = torch.stack([run["barrier"] for run in runs])
    curved = torch.stack([run["curvature"] for run in runs])
    truth, partition, random = curved.mean(0).tolist()
    lines = {name: roughness(torch.stack([run[f"line_{name}"] for run in runs])) for name in ("partition", "random")}
    return Record(
        barrier_mean=barriers.mean().item(),
        barrier_mean_per_seed=barriers.mean(1).tolist(),
        barrier_share_above_1_percent=(barriers > 0.01).double().mean().item(),
        curvature=Record(truth=truth, partition=partition, random=random),
        curvature_per_seed=curved.tolist(),
        variation_to_partition=lines["partition"][0].mean().item(),
        minima_to_partition=lines["partition"][1].double().mean().item(),
        variation_to_random=lines["random"][0].mean().item(),
        minima_to_random=lines["random"][1].double().mean().item(),
    )
