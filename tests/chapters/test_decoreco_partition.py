"""Where results end, against brute force."""

from __future__ import annotations

import pytest
import torch

from companion.chapters.reference_common import where_ended
from tests.records import bundle_of


def test_where_results_end_by_counting():
    generator = torch.Generator().manual_seed(0)
    train, start, held_out, noise = (torch.randn(4, 3072, generator=generator) for _ in range(4))
    images = bundle_of(train, start, held_out, (3, 32, 32))
    x_hat = torch.stack([start[0], train[2], held_out[1], start[1]]) + 0.2 * noise
    end = where_ended(x_hat, start, images)
    assert end.nearest_is_own_start == 1  # the last is nearest to another's start
    assert end.nearest_is_start_partition >= 2
    assert end.moved_to_training == end.moved_to_held_out == 1
    by_hand = [max(torch.corrcoef(torch.stack([x, t]))[0, 1].item() for t in train) for x in x_hat]
    assert end.ncc_to_training == pytest.approx(sum(by_hand) / 4, abs=1e-5)
