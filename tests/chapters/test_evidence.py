"""What an adversary without practice can tell of results, and which of them are true."""

from __future__ import annotations

import pytest
import torch

from companion.chapters.base import Context
from companion.chapters.evidence import Outside, describe, is_true, judged_plainly
from recon.images.registry import load_pool
from tests.records import bundle_of, replace


def context(seed):
    return Context(load_pool("photos"), torch.device("cpu"), seed, None, None)


def noise(n, seed):
    return torch.randn(n, 3072, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("trained_first", [True, False])
def test_results_are_judged_in_the_order_of_what_they_explain(trained_first):
    """Training images are true and other photographs are not, and noise does not look natural."""
    here = context(0)
    images = here.images(20)
    others = Outside.without(here, images.train_index).others[:30] - images.mean
    parts = [images.train, others]
    x = torch.cat([*(parts if trained_first else parts[::-1]), noise(9, 0)])
    judged = judged_plainly(x, images, here)
    assert len(images) / 2 < judged.true <= len(images) < judged.natural <= len(images) + 30
    by_order = judged.evidence.contribution
    wanted = (judged.true, 1.0) if trained_first else (0, 0.0)
    assert (by_order.right, by_order.precision) == wanted
    nothing = judged_plainly(noise(9, 0), images, here)
    assert nothing.natural == nothing.true == nothing.evidence.edges.right == 0


def test_true_is_near_a_training_image_and_nearer_than_to_any_other():
    train, other, noises = noise(3, 0), noise(3, 1), noise(3, 2)
    images = bundle_of(train, train, other, (3, 32, 32))
    outside = Outside(noise(9, 3), other)
    blends = [2 * train[1] + 1.9 * other[1], train[1] + 2 * other[1], train[2] + 3 * noises[2]]
    x = torch.stack([train[0], *blends, -train[2]])
    about = describe(x, images, outside)
    assert is_true(about).tolist() == [True, True, False, False, False]
    copied = describe(x[:1], images, replace(outside, others=train))
    assert not is_true(copied).any()
