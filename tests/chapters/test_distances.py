"""Where descents end, and which starts and pairs are compared."""

from __future__ import annotations

import pytest
import torch

from companion.chapters.landscape.distances import crossing, different_starts, random_pairs, set_distances
from recon.scoring.metrics import ssim


def test_crossing_and_pairs():
    grid = (0.0, 0.5, 1.0)
    assert crossing(grid, torch.tensor([4.0, 1.0, 0.0]), torch.tensor([0.0, 3.0, 4.0])) == pytest.approx(1 / 3)
    assert crossing(grid, torch.tensor([1.0, 1.0, 1.0]), torch.tensor([2.0, 2.0, 2.0])) is None
    assert crossing(grid, torch.tensor([2.0, 2.0, 2.0]), torch.tensor([1.0, 1.0, 1.0])) is None
    assert different_starts(grid) == [0, 1, 2, 4, 5, 7, 8]
    pairs = random_pairs(5, 4, torch.Generator().manual_seed(0))
    assert len(set(pairs)) == 4 and all(i < j < 5 for i, j in pairs)
    assert len(random_pairs(3, 10, torch.Generator())) == 3


def test_set_distances_by_a_loop():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(2, 3, 3072, generator=generator)
    sets = {"truth": torch.rand(4, 3072, generator=generator), "random": torch.rand(2, 3072, generator=generator)}
    found = set_distances(x, sets, (3, 32, 32))
    for name, members in sets.items():
        for start in range(2):
            alike = [members[ssim(image[None], members, (3, 32, 32))[0].argmax()] for image in x[start]]
            by_ssim = torch.stack([(image - other).norm() for image, other in zip(x[start], alike, strict=True)])
            torch.testing.assert_close(found[name][start], by_ssim.mean())
