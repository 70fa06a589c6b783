"""What an experiment runs with: images and generators by its seed."""

from __future__ import annotations

import pytest
import torch

from companion.chapters.base import Context, stream
from companion.store.checkpoints import Checkpoints
from recon.images.partitions import partition
from recon.images.registry import load_pool


@pytest.mark.parametrize("seed", [0, 1, 5])
def test_an_experiment_draws_by_its_seed(seed, tmp_path):
    pool = load_pool("photos")
    context = Context(
        pool, torch.device("cpu"), seed, Checkpoints(tmp_path), lambda unit, names, label: {}
    )
    drawn, expected = context.dataset(40, 20), partition(pool, 40, n_held_out=20, seed=seed)
    for part in ("train", "init", "held_out"):
        assert torch.equal(getattr(drawn, part).index, getattr(expected, part).index)
    numbers = torch.rand(5, generator=context.stream("kkt.weights", 3))
    assert torch.equal(numbers, torch.rand(5, generator=stream(seed, "kkt.weights", 3)))
    # a fresh one at each call
    assert torch.equal(numbers, torch.rand(5, generator=context.stream("kkt.weights", 3)))
