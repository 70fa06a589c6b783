"""What the chapters on weights share: tables against brute force, and that they read and write one
JSON.
"""

from __future__ import annotations

import json
from itertools import permutations

import pytest
import torch

from companion.chapters.base import Context
from companion.chapters.common import (
    match_table,
    n_photographs,
    nulls_of,
    nulls_without_weights,
)
from companion.chapters.separation_common import other_photographs
from companion.store.record import record
from recon.images.registry import load_pool
from recon.nets.mlp import three_layer
from recon.scoring.matching import target_decoy
from tests.records import bundle_of, replace

KEYS = ("ncc_0.5", "ncc_0.6", "ncc_0.7", "ncc_0.8", "ncc_channel_0.6", "ssim_0.4")
DIM = 3072


def ncc(a, b):
    return torch.corrcoef(torch.stack([a, b]))[0, 1].item()


def normal(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def images():
    """Three training and three held-out images, noise."""
    train, held_out = normal(3, DIM, seed=1), normal(3, DIM, seed=2)
    return bundle_of(train, normal(3, DIM, seed=3), held_out, (3, 32, 32))


@pytest.fixture(scope="module")
def x_hat(images):
    """Candidates: training image 0, well; the same again, worse; training image 1, badly; held-out
    2; noise.
    """
    noise = normal(5, DIM, seed=4)
    near = torch.stack(
        [images.train[0], images.train[0], images.train[1], images.held_out[2], torch.zeros(DIM)]
    )
    return near + noise * torch.tensor([0.3, 1.0, 1.6, 0.5, 1.0])[:, None]


@pytest.fixture(scope="module")
def table(images, x_hat):
    photographs, mixtures = normal(5, DIM, seed=5), images.train[:2].repeat(2, 1)
    return match_table(x_hat, images, {"photographs": photographs, "mixtures": mixtures})


def scores(part, x_hat):
    return [[ncc(image, x) for x in x_hat] for image in part]


def assigned(part, x_hat):
    """NCC of the best of all assignments of the images to different candidates."""
    all_scores = scores(part, x_hat)
    chosen = max(
        permutations(range(len(x_hat)), len(part)),
        key=lambda p: sum(all_scores[i][k] for i, k in enumerate(p)),
    )
    return [all_scores[i][k] for i, k in enumerate(chosen)]


THRESHOLDS = {"ncc_0.5": 0.5, "ncc_0.6": 0.6, "ncc_0.7": 0.7, "ncc_0.8": 0.8}


@pytest.mark.parametrize("part", ["train", "held_out"])
def test_counts_are_those_of_the_best_assignment(table, images, x_hat, part):
    counts = table.matches if part == "train" else table.null
    scores = assigned(getattr(images, part), x_hat)
    for name, threshold in THRESHOLDS.items():
        assert counts[name] == sum(score > threshold for score in scores)


def test_nulls_excess_and_competition(table, images, x_hat):
    assert set(table.nulls) == {"photographs", "mixtures", "held_out"}
    assert table.nulls["held_out"] == table.null
    assert table.best_null.ncc_06 == table.nulls["mixtures"].ncc_06 == 2
    assert table.best_null_name.ncc_06 == "mixtures"
    assert table.excess.ncc_06 == table.matches.ncc_06 - 2
    for name in ("ncc_0.5", "ncc_0.6", "ncc_0.7"):
        competition = target_decoy(x_hat, images.train, images.held_out, THRESHOLDS[name])
        assert table.competition[name] == record(competition)


def test_a_table_reads_what_it_writes(table):
    as_json = json.loads(json.dumps(table))
    assert record(as_json) == table
    assert set(as_json["matches"]) == set(as_json["best_null_name"]) == set(KEYS)
    assert {"competition", "excess"} <= set(as_json)


def test_means_of_each_class_of_the_starting_images_are_among_the_baselines(images):
    """The mean of all three, then that of each class: the second is one image."""
    classes = torch.tensor([0.0, 0.0, 1.0])
    network = three_layer(4, DIM)
    theta = normal(network.n_params, seed=6)
    context = Context(load_pool("photos"), torch.device("cpu"), 0, None, None)
    nulls = nulls_of(context, replace(images, init_y=classes), network, theta, 6)
    wanted = torch.stack([images.init.mean(0), images.init[:2].mean(0), images.init[2]])
    torch.testing.assert_close(nulls["means"][::2], wanted)
    without = nulls_without_weights(context, replace(images, init_y=classes), 4, 6)
    assert all(torch.equal(x, nulls[name]) for name, x in without.items())
    assert n_photographs(without) == 6


def test_other_photographs_are_in_no_set_and_centred_alike_and_as_many_as_there_are():
    """Six candidates have two draws; a hundred more than the pool has left."""
    pool = load_pool("photos")
    context = Context(pool, torch.device("cpu"), 0, None, None)
    images = context.images(60)
    x = other_photographs(images, context, 6) + images.mean
    rows = torch.cdist(x, pool.pixels(range(len(pool))).flatten(1)).min(1)
    used = torch.cat([images.train_index, images.init_index, images.held_out_index])
    assert len(x) == 12 and rows.values.max() < 0.1
    assert not torch.isin(torch.from_numpy(pool.index)[rows.indices], used).any()
    left = len(pool) - len(used.unique())
    assert len(other_photographs(images, context, len(pool))) == left
