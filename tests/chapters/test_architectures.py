"""Chapter 22: what counts as found, as explained and as sure; labels of candidates; the networks that are built."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from recon.chapters import ROOT, load
from recon.chapters.architectures.claims import LEARNT, inverted, judged, learnt, more_classes, stuck
from recon.chapters.architectures.compute_dense import candidate_labels
from recon.chapters.architectures.compute_simulated import build, found_of, images_of, inputs
from recon.chapters.architectures.metrics import DECORECO, NOTHING, SimulatedNet
from recon.chapters.architectures.sizes import DENSE_SIZES, SIMULATED_SIZES
from recon.chapters.base import Context
from recon.errors import ReconError
from recon.images.registry import load_pool
from recon.nets.small_convolutional import count
from recon.store.checkpoints import Checkpoints

NET = SimulatedNet(
    name="net",
    kind="convolutions",
    activation="tanh",
    pooled=False,
    by_batch=False,
    parameters=200,
    unknowns=100,
    loss_init=2.3,
    loss=1.0,
    moved=0.1,
    residual_matched=0.1,
    residual=1e-4,
    found_matched=3,
    found=4,
    nulls={"held-out images": 0, "one step": 2, "mean images": 2},
    mse=1e-4,
    grey_mse=0.05,
    rank=100,
    expected_error=0.01,
)


@pytest.fixture
def context(tmp_path):
    """Photographs on the CPU."""

    def no_sweep(unit, names, label):
        raise AssertionError

    return Context(load_pool("photos"), torch.device("cpu"), 0, Checkpoints(tmp_path), no_sweep)


def test_sure_needs_weights_that_are_explained_full_rank_and_a_small_step():
    assert NET.sure and NET.explained and NET.determined and NET.enough
    for change in ({"residual": 0.1}, {"rank": 99}, {"expected_error": 0.2}, {"rank": None, "expected_error": None}):
        assert not replace(NET, **change).sure
    assert replace(NET, rank=None).determined is None
    assert not replace(NET, parameters=99).enough


def test_the_answer_is_the_one_nearer_to_the_weights_and_the_null_the_largest():
    assert NET.best == 4 and replace(NET, residual=0.2).best == 3
    assert (NET.best_null, NET.best_null_name) == (2, "one step")


def test_a_network_that_hardly_trained_is_evidence_of_nothing():
    idle = replace(NET, name="idle", loss=0.96 * NET.loss_init, found=0, residual=0.3)
    relu, idle_relu = replace(NET, residual=0.3), replace(idle, activation="relu")
    assert not learnt(idle) and not learnt(replace(NET, loss=float("nan"))) and learnt(NET)
    assert learnt(replace(NET, loss=LEARNT * NET.loss_init))
    assert judged([idle, NET]) == [NET] and judged([idle]) == [idle]
    both = inverted([replace(NET, found=8, nulls={"one step": 0}), idle], n=8)
    assert both.verdict == "finding" and both.value == 1.0 and "0 (idle, not trained" in both.ours
    assert stuck([idle_relu], [NET], n=4).verdict == stuck([relu], [idle], n=4).verdict == "undecided"
    assert stuck([relu], [NET, idle], n=4).verdict == "finding"


def test_every_candidate_serves_one_image():
    images = torch.randn(3, 48, generator=torch.Generator().manual_seed(0))
    assert found_of(images[[2, 0, 1]], images) == 3
    assert found_of(images[[0, 0, 0]], images) == 1
    assert found_of(-images, images) == 0


def test_labels_of_candidates_are_in_equal_shares():
    assert candidate_labels(1, 4).tolist() == [-1, -1, 1, 1]
    assert candidate_labels(5, 100).bincount().tolist() == [20] * 5


def test_networks_see_pixels_minus_a_half(context):
    sizes = SIMULATED_SIZES["smoke"]
    images = images_of(sizes, context)
    x = inputs(images.train, images)
    assert x.shape == (sizes.n_train, 3, sizes.side, sizes.side)
    assert -0.5 <= x.min() < 0 < x.max() <= 0.5
    for net in sizes.nets:
        assert build(net, sizes, context, images)(x).shape == (sizes.n_train, 10)


def test_balanced_images_are_as_many_of_each_class(context):
    sizes = replace(SIMULATED_SIZES["smoke"], n_train=10, balanced=True)
    labels, counts = images_of(sizes, context).train_labels.unique(return_counts=True)
    assert len(labels) > 1 and set(counts.tolist()) == {1}
    with pytest.raises(ReconError, match="cannot be balanced"):
        images_of(replace(sizes, n_train=4), context)


def test_only_one_network_of_a_run_has_too_few_parameters(context):
    for profile in ("laptop", "paper"):
        sizes = SIMULATED_SIZES[profile]
        small = replace(sizes, n_train=4, balanced=False)
        images = images_of(small, context)
        unknowns = sizes.n_train * 3 * sizes.side**2
        enough = [count(build(net, small, context, images)) >= unknowns for net in sizes.nets]
        assert enough == [True, True, True, True, False, True, True][: len(enough)], profile


def test_depths_and_classes_are_those_of_the_page():
    for profile in ("laptop", "paper"):
        assert DENSE_SIZES[profile].depths == (3, 4, 5, 6)
        assert max(DENSE_SIZES[profile].classes) == 10


@pytest.mark.parametrize(("least", "found", "null", "expected"), [
    (14, 38, 1, "finding"), (0, 16, 2, "finding"), (0, 14, 2, "undecided"), (0, 8, 2, "undecided"),
    (0, 10, 2, "undecided"), (13, 38, 38, "not reproduced"), (0, 10, 6, "not reproduced"), (0, 11, 6, "undecided"),
    (40, 38, 1, "partly"), (31, 38, 1, "partly"), (26, 38, 1, "undecided"), (16, 38, 1, "undecided"),
    (9, 10, 6, "not reproduced"), (9, 10, 4, "undecided"), (0, 0, 0, "not reproduced"), (0, 1, 9, "not reproduced"),
])  # fmt: skip
def test_whether_more_classes_give_more(least, found, null, expected):
    """least, found: images with the fewest and the most classes; null: the best null with the most."""
    nets = [
        net for net in load(ROOT / "book/paper-size/architectures-dense", arrays=False).metrics.nets if net.depth == 3
    ]
    few, *_, many = sorted(nets, key=lambda net: net.classes)
    claim = more_classes([with_counts(few, least, null), with_counts(many, found, null)], 100)
    assert claim.verdict == expected and (claim.value, claim.null_value) == (found / 100, max(least, null) / 100)


def with_counts(net, found, null):
    """A network of which DecoReco finds so many, and the best null."""
    attack = net.of(DECORECO, NOTHING)
    given = {"matches": replace(attack.matches, ncc_07=found), "best_null": replace(attack.best_null, ncc_07=null)}
    others = [each for each in net.attacks if each is not attack]
    return replace(net, attacks=[*others, replace(attack, **given)])
