"""The seed draws images: balanced, disjoint, the same again."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recon.images import cifar
from recon.images.partitions import partition, partitions

PARTS = ("train", "init", "held_out")
SEEDED = settings(max_examples=40, deadline=None)


@pytest.mark.parametrize("n", [0, 3, -2])
def test_bad_counts_and_seeds_are_refused(photo_pool, n, one_sentence):
    one_sentence(lambda: partition(photo_pool, n), "even and positive")
    one_sentence(lambda: partition(photo_pool, 20, n_held_out=n), "even and positive")
    one_sentence(lambda: partition(photo_pool, 20, seed=-1), "must not be negative")


def sets(drawn):
    return [set(getattr(drawn, part).index.tolist()) for part in PARTS]


def all_disjoint(indices):
    return len(set().union(*indices)) == sum(map(len, indices))


@pytest.mark.parametrize("n", [2, 20, 100, 500, 5000])
def test_seed_0_takes_the_first_of_each_part_and_class(cifar_pool, photo_pool, n):
    for pool in (cifar_pool, photo_pool):
        drawn = partition(pool, n, n_held_out=n)
        for part in PARTS:
            index = getattr(drawn, part).index
            first = [
                pool.index[(pool.part == part) & (pool.y == label)][: len(index) // 2]
                for label in (0, 1)
            ]
            assert np.array_equal(index, np.concatenate(first))


def test_other_seeds_train_on_other_images(cifar_pool, photo_pool):
    for pool, n, seeds in (
        (cifar_pool, 100, 8),
        (cifar_pool, 200, 3),
        (cifar_pool, 500, 4),
        (photo_pool, 20, 3),
    ):
        drawn = [sets(partition(pool, n, seed=seed)) for seed in range(seeds)]
        assert all_disjoint([train for train, _, _ in drawn])
    for part in range(3):  # as long as no seed has used up its part, all parts are disjoint
        assert all_disjoint(
            [sets(partition(cifar_pool, 100, seed=seed))[part] for seed in range(4)]
        )


def test_training_images_come_from_other_ranges_only_when_their_own_are_used_up(cifar_pool):
    home = set(cifar.INDEX_RANGES["train"][0])
    first = sets(partition(cifar_pool, 500))
    used = set()
    for seed in range(4):
        train = sets(partition(cifar_pool, 500, seed=seed))[0]
        used |= train
        assert seed > 0 or train <= home
        # the start and held-out images of seed 0 are never trained on
        assert not train & (first[1] | first[2])
        for label in (0, 1):  # nothing is borrowed while a whole image is left
            of_class = set(cifar_pool.index[cifar_pool.y == label].tolist())
            assert home & of_class <= used or train & of_class <= home
    assert used - home


def check_partition(pool, n, seed):
    drawn, again, first = (partition(pool, n, seed=s) for s in (seed, seed, 0))
    assert all_disjoint(sets(drawn))
    label_of = dict(zip(pool.index.tolist(), pool.y.tolist(), strict=True))
    for part in PARTS:
        images = getattr(drawn, part)
        assert len(images) == len(getattr(first, part))  # the same number at every seed
        labels = [label_of[i] for i in images.index.tolist()]
        assert images.y.tolist() == labels == sorted(labels) and images.y.mean() == 0.5
        assert all((half.diff() > 0).all() for half in images.index.chunk(2))
        assert torch.equal(images.x, getattr(again, part).x)
        home = set(pool.index[pool.part == part].tolist())
        assert pool.interchangeable or home.issuperset(images.index.tolist())
    assert torch.equal(drawn.train.y, drawn.init.y)  # row i of init stands for row i of train


@SEEDED
@given(st.integers(1, 600), st.integers(0, 2**62 - 1) | st.integers(0, 60), st.booleans())
def test_sets_of_any_seed_are_disjoint_balanced_and_the_same_again(
    cifar_pool, photo_pool, half, seed, bundled
):
    check_partition(photo_pool if bundled else cifar_pool, 2 * half, seed)


@pytest.mark.parametrize(("n", "count"), [(100, 3), (500, 2)])
@pytest.mark.parametrize("seed", range(3))
def test_several_training_sets_are_disjoint_from_each_other_and_from_what_they_share(
    cifar_pool, n, count, seed
):
    drawn = partitions(cifar_pool, n, count, n_held_out=n, seed=seed)
    training = [sets(data)[0] for data in drawn]
    assert all_disjoint([*training, *sets(drawn[0])[1:]])
    assert all(torch.equal(data.init.x, drawn[0].init.x) for data in drawn)
    if seed == 0:
        assert torch.equal(drawn[0].train.index, partition(cifar_pool, n, n_held_out=n).train.index)
    if n == 100:
        following = partitions(cifar_pool, n, count, n_held_out=n, seed=seed + 1)
        assert all_disjoint([*training, *(sets(data)[0] for data in following)])


def test_several_training_sets_where_images_are_few(photo_pool):
    drawn = partitions(photo_pool, 500, 3)
    assert torch.equal(drawn[0].train.index, partition(photo_pool, 500).train.index)
    assert len({frozenset(data.train.index.tolist()) for data in drawn}) == 3
