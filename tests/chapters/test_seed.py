"""Appendix G: what is known of the start, and what is said of it."""

from __future__ import annotations

import pytest
import torch

from companion.chapters.base import Context
from companion.chapters.seed.experiment import known_of, nearest_of, trained_from
from companion.chapters.seed.story import by_size, only
from companion.store.record import Record
from recon.images.registry import load_pool
from recon.store.checkpoints import Checkpoints


def no_sweep(unit, names, label):
    """Nothing here sweeps."""
    raise AssertionError


@pytest.fixture
def small(tmp_path):
    """Six photographs of 4 × 4 pixels, and where they come from."""
    context = Context(load_pool("photos"), torch.device("cpu"), 0, Checkpoints(tmp_path), no_sweep)
    return context, context.images(6).at_side(4)


def test_what_is_known_has_an_error_of_the_size_that_is_said(small):
    context, images = small
    weights, trained = trained_from(context, images, 40, "gd", 50)
    assert known_of(weights, None, context).theta_init is None
    assert torch.equal(known_of(weights, 0.0, context).theta_init, weights.theta_init)
    wrong = known_of(weights, 0.3, context).theta_init - weights.theta_init
    assert (wrong.norm() / weights.theta_init.norm()).item() == pytest.approx(0.3, rel=0.05)
    assert torch.equal(weights.params_init["w1"], trained.w1_init)
    assert torch.equal(weights.params["w1"], trained.w1)


def test_the_nearest_candidate_has_the_images_sign_and_size():
    own = torch.Generator().manual_seed(0)
    images, others = torch.randn(2, 48, generator=own), torch.randn(3, 48, generator=own)
    candidates = torch.cat([others, -3 * images[:1], 0.1 * images[1:]])
    assert torch.allclose(nearest_of(images, candidates), images, atol=1e-5)
    assert not nearest_of(images, candidates[:0]).any()


def test_networks_of_one_size_are_told_together():
    def net(n_train, width, optimiser):
        numbers = {"loss": 0.0, "accuracy": 1.0, "moved": 0.1}
        return Record(n_train=n_train, width=width, optimiser=optimiser, rungs=[], **numbers)

    rows = [
        (net(20, 250, "gd"), "0 and 19", ""),
        (net(20, 1000, "gd"), "0 and 18", ""),
        (net(20, 250, "adam"), "9", "x"),
    ]
    said = by_size(rows)
    assert said == "0 and 19, 0 and 18 of 20 (width 250, 1000, gradient descent); 9 of 20 (width 250, Adam), x"
    assert only([net for net, _, _ in rows]) == "n = 20 and width = 250, 1000 only"
