"""Our scores of membership against the formulas of others, on the same numbers: where they are one,
and where not.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from recon.scoring.membership import lira, rmia

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from membership import lira_as_published, rmia_as_metered  # noqa: E402


@pytest.fixture
def drawn():
    """φ (N,), shadows (4, N) of two pairs, and who was trained on whom: two shadows in and two out
    of each image.
    """
    generator = torch.Generator().manual_seed(0)
    halves = [torch.randperm(40, generator=generator) < 20 for _ in range(2)]
    inside = torch.stack([halves[0], ~halves[0], halves[1], ~halves[1]])
    shadows = (
        torch.randn(4, 40, generator=generator).double() + 1.5 * inside + torch.arange(40) / 10
    )
    return torch.randn(40, generator=generator).double() + torch.arange(40) / 10, shadows, inside


def test_lira_with_two_shadows_a_side_is_as_published_but_for_the_variance(drawn):
    """Means of two are their medians. The published code takes the spread of all confidences, over
    images too; we take it around each image's own mean, inside and outside apart. With images that
    do not differ in their means, and the same spread on both sides, the two are one.
    """
    phi, _, inside = drawn
    sides = torch.tensor([[-1.0], [1.0]]).double()
    alike = torch.zeros(4, 40).double()
    for members, mean in ((inside, 2.0), (~inside, 0.0)):
        alike.mT[members.mT] = (mean + sides).flatten().repeat(40)
    published = lira_as_published(phi.numpy(), alike.numpy(), inside.numpy(), fixed=True)
    ours = lira(phi, alike, inside).numpy()
    np.testing.assert_allclose(ours * 2, published)  # 1/s² of two by n − 1 = 1, and by n = 2


def test_rmia_is_as_metered_where_both_mean_the_same(drawn):
    """With a = 1 and no image in any shadow, both divide by the mean over all shadows; we count the
    image itself, and divide by the number of the others.
    """
    phi, shadows, inside = drawn
    p = torch.sigmoid(phi).numpy()
    nobody = np.zeros_like(inside.numpy())
    # their code keeps the larger half of those that are out
    largest_half = np.sort(torch.sigmoid(shadows).numpy(), axis=0)[2:]
    shadowed = np.concatenate([largest_half, 0 * largest_half])
    metered = rmia_as_metered(p, shadowed, nobody, (p, shadowed), 1.0)
    ours = rmia(phi, torch.logit(torch.from_numpy(largest_half))).numpy()
    np.testing.assert_allclose(ours, (40 * metered + 1) / 39)
