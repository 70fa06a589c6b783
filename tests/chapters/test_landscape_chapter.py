"""The landscape chapter: images of every seed, starts and distances."""

from __future__ import annotations

import torch

from companion.chapters.base import Context
from companion.chapters.landscape.experiment_bilevel import SIZES, crossing
from companion.chapters.landscape.shared import (
    DIFFERENT,
    EVERY,
    SeedImages,
    set_distances,
)
from recon.images.registry import load_pool
from recon.scoring.metrics import ssim

CONTEXT = Context(load_pool("photos"), torch.device("cpu"), 0, None, None)


def images_of(seed=0, seeds=1, dtype=torch.float64):
    return SeedImages.drawn(CONTEXT, SIZES["smoke"].n_train, dtype, seed, seeds)


def test_every_seed_has_images_of_its_own():
    first, second = (images_of(seed, seeds=2) for seed in range(2))
    n = SIZES["smoke"].n_train
    assert len(first.train_index.unique()) == len(second.train_index.unique()) == n
    assert not torch.isin(first.train_index, second.train_index).any()
    assert first.y.tolist() == second.y.tolist() == [0.0] * (n // 2) + [1.0] * (n // 2)
    assert not torch.equal(first.random, second.random)


def test_starts_are_on_the_grid_with_lambda_1_the_slower_index():
    images = images_of()
    starts = images.starts()
    torch.testing.assert_close(starts[-1], images.train)
    torch.testing.assert_close(starts[4], images.init)
    torch.testing.assert_close(starts[5], images.random)
    half_way = 0.5 * (0.25 * images.train + 0.75 * images.init) + 0.5 * images.random
    torch.testing.assert_close(starts[1 * 5 + 2], half_way)
    few = starts[DIFFERENT]  # equal starts are searched once
    assert len(few) == len(few.unique(dim=0)) == 21
    assert torch.equal(few[EVERY], starts)


def test_crossings_by_hand():
    """Two seeds; only rows with λ₂ = 1, every fifth, count."""

    def along(*values):
        rows = torch.full((5, 5), 99.0)
        rows[:, -1] = torch.tensor(values)
        return rows.flatten()

    partition = along(2.0, 3.0, 3.0, 4.0, 5.0)
    swaps = {"truth": along(6.0, 5.0, 4.0, 3.0, 1.0), "partition": partition}
    stays = {"truth": along(6.0, 6.0, 6.0, 6.0, 6.0), "partition": partition}
    # 4 against 3 at a half becomes 3 against 4 at three quarters: they swap in the middle
    assert crossing([swaps, stays]) == {"per_seed": [0.625, None], "mean": None, "sd": None}
    assert crossing([swaps, swaps]) == {"per_seed": [0.625, 0.625], "mean": 0.625, "sd": 0.0}


def test_set_distances_by_a_loop():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(2, 3, 3072, generator=generator)
    members = torch.rand(4, 3072, generator=generator)
    distances = set_distances(x, {"truth": members}, (3, 32, 32))["truth"]
    for start, distance in zip(x, distances, strict=True):
        alike = [members[ssim(image[None], members, (3, 32, 32))[0].argmax()] for image in start]
        torch.testing.assert_close(distance, (start - torch.stack(alike)).norm(dim=1).mean())
