"""How far a layer moved: what is left of its start, told from what was added."""

from __future__ import annotations

import pytest
import torch

from companion.chapters.weights_leak.experiment_recipes import displacement, noisy
from recon.scoring.metrics import ncc


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*size, seed=0):
    return torch.randn(*size, generator=seeded(seed))


def test_motion_tells_what_is_left_from_what_was_added():
    start, added = normal(30, 100, seed=1), 5 * normal(30, 2, seed=2) @ normal(2, 100, seed=3)
    left, size = displacement(0.25 * start + added, start)
    assert left == pytest.approx(0.25, abs=0.03)
    assert size == pytest.approx((added.norm() / start.norm()).item(), rel=0.01)


def test_noisy_by_a_share_of_the_root_mean_square():
    w1 = 0.01 * normal(60, 100)
    noise = noisy(w1, seeded(1), 0.3) - w1
    assert (
        noise.std().item() == pytest.approx(0.003, rel=0.03) and abs(ncc(noise, w1).mean()) < 0.02
    )
