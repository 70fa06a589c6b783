"""What both landscapes share: images of every seed, distances to the nearest of each set, crossings, paths."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from recon.analysis.landscape import mixed_starts
from recon.chapters.base import Context
from recon.chapters.profiles import Landscape
from recon.images.pools import Partition
from recon.scoring.matching import nearest

SETS = ("truth", "partition", "random")


@dataclass(frozen=True)
class SeedImages:
    """Flat images (n, d) in [0, 1] of one seed: truth, partition, random ~ U(0, 1), held out; labels y of the truth.

    Rows are sorted by label, 0 first; the partition has the same labels row by row.
    """

    truth: Tensor
    partition: Tensor
    random: Tensor
    held_out: Tensor
    y: Tensor
    train_index: Tensor

    @staticmethod
    def of(context: Context, config: Landscape, seed: int, dtype: torch.dtype) -> SeedImages:
        """Images of seed 0, 1, … of the run: disjoint slices of its partitions, as large as the data allow; which
        partitions, the run's own seed says."""
        wanted = config.n_train * config.seeds
        data = context.dataset(wanted, wanted)
        half = min(config.n_train, min(map(len, (data.train, data.init, data.held_out))) // config.seeds) // 2
        rows = torch.arange(seed * half, (seed + 1) * half)

        def take(part: Partition) -> Tensor:  # both classes have as many images
            return torch.cat([rows, rows + len(part) // 2])

        images = [part.flat[take(part)].to(context.device, dtype) for part in (data.train, data.init, data.held_out)]
        noise = torch.rand(2 * half, images[0].shape[1], generator=context.generator(1 + seed), dtype=torch.float64)
        y = data.train.y[take(data.train)].to(context.device, dtype)
        index = data.train.index[take(data.train)]
        return SeedImages(images[0], images[1], noise.to(images[0]), images[2], y, index)

    def sets(self) -> dict[str, Tensor]:
        """The three sets by name."""
        return {name: getattr(self, name) for name in SETS}

    def starts(self, lambdas: tuple[float, ...]) -> Tensor:
        """Eq. (10) on the grid of λ₁ × λ₂, in pixels; (a·b, n, d), λ₁ the slower index."""
        grid = torch.tensor(lambdas)
        return mixed_starts(self.truth, self.partition, self.random, grid, grid).flatten(0, 1)


def distances(x_hat: Tensor, images: SeedImages) -> dict[str, Tensor]:
    """Mean L2 distance of x_hat (S, n, d) to its neighbour in each set: the most alike by SSIM, as in the paper, and
    the nearest by L2 (keys "truth", "truth_l2", …); (S,) each."""
    rows, shape = x_hat.flatten(0, 1), x_hat.shape[:2]
    found = {}
    for name, members in images.sets().items():
        members = members.to(rows)
        neighbour = members[nearest(rows, members, "ssim").index]
        found[name] = (rows - neighbour).norm(dim=-1).unflatten(0, shape).mean(-1)
        found[f"{name}_l2"] = nearest(rows, members, "l2").score.unflatten(0, shape).mean(-1)
    return found


def null_distance(images: SeedImages) -> float:
    """The same to the truth, of images that no training saw."""
    return distances(images.held_out[None].float(), images)["truth"].item()


def table(values: list[Tensor], side: int) -> tuple[list, list]:
    """Mean and standard deviation over seeds of (a·b,) values, as a × b lists."""
    stacked = torch.stack([value.double() for value in values]).unflatten(1, (side, side))
    spread = stacked.std(0) if len(stacked) > 1 else torch.zeros_like(stacked[0])
    return stacked.mean(0).tolist(), spread.tolist()


def summarise(runs: list[dict[str, Tensor]], side: int) -> dict:
    """The metrics of one method: distances, their spread, distances of the starts, energies; [i][j] is λ₁[i], λ₂[j]."""
    found: dict = {"distance": {}, "distance_sd": {}, "distance_l2": {}, "start_distance": {}}
    for name in SETS:
        found["distance"][name], found["distance_sd"][name] = table([run[name] for run in runs], side)
        found["distance_l2"][name], _ = table([run[f"{name}_l2"] for run in runs], side)
        found["start_distance"][name], _ = table([run[f"start_{name}"] for run in runs], side)
    found["energy"], found["energy_sd"] = table([run["energy"] for run in runs], side)
    found["start_energy"], _ = table([run["start_energy"] for run in runs], side)
    return found


def crossing(lambdas: tuple[float, ...], falling: Tensor, rising: Tensor) -> float | None:
    """λ at which `falling` (k,) first gets below `rising`, by linear interpolation; None if it does not."""
    gap = (falling - rising).double()
    for k in range(1, len(lambdas)):
        if gap[k - 1] > 0 >= gap[k]:
            share = (gap[k - 1] / (gap[k - 1] - gap[k])).item()
            return lambdas[k - 1] + share * (lambdas[k] - lambdas[k - 1])
    return None


def crossings(runs: list[dict[str, Tensor]], lambdas: tuple[float, ...]) -> dict:
    """Where truth and partition swap along λ₁ at λ₂ = 1, truth and noise along λ₂ at λ₁ = 1: per seed, mean, sd."""
    side, found = len(lambdas), {}
    for name, line in (("partition", (slice(None), -1)), ("random", (-1, slice(None)))):
        values = []
        for run in runs:
            truth, rival = (run[key].unflatten(0, (side, side)) for key in ("truth", name))
            values.append(crossing(lambdas, truth[line], rival[line]))
        swaps = torch.tensor([value for value in values if value is not None])
        everywhere = len(swaps) == len(values)  # a mean over some seeds only would mislead
        found[f"truth_{name}"] = {
            "per_seed": values,
            "mean": swaps.mean().item() if everywhere else None,
            "sd": swaps.std().item() if everywhere and len(swaps) > 1 else None,
        }
    return found


def random_pairs(count: int, wanted: int, generator: torch.Generator) -> list[tuple[int, int]]:
    """`wanted` different pairs of 0 … count − 1, or all of them."""
    pairs = list(combinations(range(count), 2))
    return [pairs[k] for k in torch.randperm(len(pairs), generator=generator)[:wanted].tolist()]


def different_starts(lambdas: tuple[float, ...]) -> list[int]:
    """Rows of the grid whose starts differ: all of λ₂ > 0, and one of those with λ₂ = 0, which are the same noise."""
    side = len(lambdas)
    return [i * side + j for i in range(side) for j in range(side) if lambdas[j] > 0 or i == 0]
