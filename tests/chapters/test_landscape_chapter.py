"""The landscape chapter: images, starts and distances."""

from __future__ import annotations

import torch

from companion.chapters.base import Context
from companion.chapters.landscape.shared import (
    DIFFERENT,
    EVERY,
    LAMBDAS,
    SeedImages,
    set_distances,
)
from companion.chapters.landscape.story import crossing_text
from companion.store.record import Record
from recon.images.registry import load_pool
from recon.scoring.metrics import ssim

CONTEXT = Context(load_pool("photos"), torch.device("cpu"), 0, None, None)


def test_images_are_as_many_of_each_class():
    images, n = SeedImages.drawn(CONTEXT, 10, torch.float64), 10
    assert len(images.train_index.unique()) == n
    assert images.y.tolist() == [0.0] * (n // 2) + [1.0] * (n // 2)


def test_starts_are_on_the_grid_with_lambda_1_the_slower_index():
    images = SeedImages.drawn(CONTEXT, 10, torch.float64)
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
    """Only λ₂ = 1, the last column, counts."""

    def along(*values):
        return [[99.0, value] for value in values]

    def swap(*truth):
        distance = Record(truth=along(*truth), partition=along(2.0, 3.0, 3.0, 4.0, 5.0))
        return crossing_text(Record(distance=distance, lambda1=list(LAMBDAS)))

    # 4 against 3 at a half becomes 3 against 4 at three quarters: they swap in the middle
    assert swap(6.0, 5.0, 4.0, 3.0, 1.0).endswith("= 0.62")
    assert swap(6.0, 6.0, 6.0, 6.0, 6.0) == "they do not swap"


def test_set_distances_by_a_loop():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(2, 3, 3072, generator=generator)
    members = torch.rand(4, 3072, generator=generator)
    distances = set_distances(x, {"truth": members}, (3, 32, 32))["truth"]
    for start, distance in zip(x, distances, strict=True):
        alike = [members[ssim(image[None], members, (3, 32, 32))[0].argmax()] for image in start]
        torch.testing.assert_close(distance, (start - torch.stack(alike)).norm(dim=1).mean())
