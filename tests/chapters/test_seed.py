"""Chapter 19: what is known of the start, random features whose update is a sum of tangents, errors of the law."""

from __future__ import annotations

import math
from dataclasses import replace

import matplotlib.pyplot as plt
import pytest
import torch

from recon.attacks.tangent import TangentMatching, unit_of
from recon.chapters import kept
from recon.chapters.base import Context
from recon.chapters.seed.claims import by_size, ends_of, only
from recon.chapters.seed.compute import known_of, nearest_of, noise_edge
from recon.chapters.seed.compute_law import LAST_LAYER, error
from recon.chapters.seed.figures import DRAWN, plot_knowledge
from recon.chapters.seed.metrics import LawCell, Net
from recon.chapters.seed.training import random_features, trained_from
from recon.images.registry import load_pool
from recon.nets.mlp import MLP
from recon.optim.streams import named
from recon.store.checkpoints import Checkpoints


def no_sweep(unit, names, label):
    """Nothing here sweeps."""
    raise AssertionError


@pytest.fixture
def small(tmp_path):
    """Six photographs of 4 × 4 pixels, and where they come from."""
    context = Context(load_pool("photos"), torch.device("cpu"), 0, Checkpoints(tmp_path), no_sweep)
    return context, context.images(6).at_side(4)


def test_the_noise_of_a_default_start_ends_at_its_edge():
    theta = MLP((3072, 500, 1)).init(named(0, "edge"))
    assert torch.linalg.svdvals(theta["w1"])[0].item() == pytest.approx(noise_edge(500, 3072), rel=0.02)


def test_what_is_known_has_an_error_of_the_size_that_is_said(small):
    context, images = small
    weights, trained = trained_from(context, images, 40, 3, "gd", 50)
    assert known_of(weights, None, context).theta_init is None
    assert torch.equal(known_of(weights, 0.0, context).theta_init, weights.theta_init)
    wrong = known_of(weights, 0.3, context).theta_init - weights.theta_init
    assert (wrong.norm() / weights.theta_init.norm()).item() == pytest.approx(0.3, rel=0.05)
    assert torch.equal(weights.params_init["w1"], trained.w1_init)
    assert torch.equal(weights.params["w1"], trained.w1)


def test_random_features_fit_their_labels_and_move_by_tangents_alone(small):
    context, images = small
    weights, loss = random_features(context, images, 100)
    assert loss < 1e-10
    said = weights.network(weights.params, images.train)
    assert torch.allclose(said, 2 * images.y - 1, atol=1e-3)
    moved = weights.params["w2"][0] - weights.params_init["w2"][0]
    features = (images.train @ weights.params["w1"].mT).relu()
    c = torch.linalg.lstsq(features.mT, moved[:, None]).solution[:, 0]
    attack = TangentMatching(weights, c[None], 1, layer_weights=LAST_LAYER, box_weight=0.0)
    whole = moved.square().sum()
    assert attack.energy(images.train[None], c[None], 1e4)[0] < 1e-4 * whole
    assert attack.energy(images.train[None], -c[None], 1e4)[0] > 3 * whole
    assert torch.equal(weights.params["w1"], weights.params_init["w1"])


def test_the_unit_is_the_size_of_equal_coefficients(small):
    context, images = small
    weights, _ = random_features(context, images, 100)
    features = (images.train @ weights.params["w1"].mT).relu()
    moved = (weights.params["w2"] - weights.params_init["w2"]).norm()
    wanted = moved / (6**0.5 * features.square().sum(1).mean().sqrt())
    assert unit_of(weights, images.train, LAST_LAYER) == pytest.approx(wanted.item(), rel=1e-4)


def test_the_nearest_candidate_has_the_images_sign_and_size():
    own = torch.Generator().manual_seed(0)
    images, others = torch.randn(2, 48, generator=own), torch.randn(3, 48, generator=own)
    candidates = torch.cat([others, -3 * images[:1], 0.1 * images[1:]])
    assert torch.allclose(nearest_of(images, candidates), images, atol=1e-5)
    assert not nearest_of(images, candidates[:0]).any()


def test_the_error_is_zero_for_the_images_and_one_for_none():
    images = torch.randn(3, 48, generator=torch.Generator().manual_seed(1))
    assert error(images, torch.cat([images[:0], -2 * images])) == pytest.approx(0, abs=1e-5)
    assert error(images, images[:0]) == 1.0
    third = error(images, images[:1])
    assert 0.5 < third < 0.7


def test_the_law_is_judged_at_its_two_ends():
    cell = LawCell(
        model="one hidden layer",
        n_train=10,
        dim=100,
        width=1,
        parameters=100,
        loss=0.0,
        error=0.9,
        separation_error=None,
        null_error=0.5,
        left=0.0,
    )
    cells = [replace(cell, parameters=p) for p in (100, 400, 1000, 10_000, 30_000)]
    assert [each.parameters for each in ends_of(cells) if each] == [400, 10_000]
    assert ends_of(cells[2:3]) == (None, None)
    assert math.isclose(cells[3].equations_per_unknown, 10)


def test_networks_of_one_size_are_told_together():
    def net(n_train, width, optimiser):
        numbers = {"loss": 0.0, "accuracy": 1.0, "moved": 0.1, "directions": 1, "directions_by_distribution": 1}
        return Net(n_train=n_train, width=width, optimiser=optimiser, rungs=[], **numbers)

    rows = [
        (net(20, 250, "gd"), "0 and 19", ""),
        (net(20, 1000, "gd"), "0 and 18", ""),
        (net(20, 250, "adam"), "9", "x"),
    ]
    said = by_size(rows)
    assert said == "0 and 19, 0 and 18 of 20 (width 250, 1000, gradient descent); 9 of 20 (width 250, Adam), x"
    assert only([net for net, _, _ in rows]) == "n = 20 and width = 250, 1000 only"


def test_the_distribution_of_the_start_is_a_tick_of_its_own():
    whole, drawn = (kept(name)[0] for name in ("seed", "seed-distribution"))
    alone, both = plot_knowledge(whole), plot_knowledge(whole, drawn)
    plain, more = ([text.get_text() for text in figure.axes[-1].get_xticklabels()] for figure in (alone, both))
    assert more == [plain[0], DRAWN, *plain[1:]]
    at_tick = {
        ax.get_title(): sorted(line.get_ydata()[0] for line in ax.lines if line.get_marker() == "D") for ax in both.axes
    }
    assert at_tick == {
        f"{n} training images": sorted(
            net.distribution.matches.ncc_07 / n for net in drawn.metrics.nets if net.n_train == n
        )
        for n in (20, 100, 500)
    }
    lines = [
        (one.lines[0].get_xdata(), other.lines[0].get_xdata()) for one, other in zip(alone.axes, both.axes, strict=True)
    ]
    assert all(list(x) == [0, 1, 2, 3, 4, 5, 6] and list(moved) == [0, 2, 3, 4, 5, 6, 7] for x, moved in lines)
    plt.close("all")
