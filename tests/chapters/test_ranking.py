"""Figs. 6 to 8: what is more like a training image than chance explains; held-out images in their
place fail.
"""

from __future__ import annotations

import pytest
import torch

from companion.chapters.decoreco.experiment_published import looks_realistic, most_similar, ranking
from recon.images.registry import load_pool

SHAPE = (3, 32, 32)
PIXELS = load_pool("photos").pixels(range(290)).flatten(1)
MEAN = PIXELS.mean(0)
X = (PIXELS - MEAN)[torch.randperm(290, generator=torch.Generator().manual_seed(0))]
TRAIN, HELD_OUT, OTHERS = X[:20], X[20:40], X[20:]


def reconstructions():
    """By contribution: three copies of training images, one of another photograph, a copy; then
    blends of many.
    """
    generator = torch.Generator().manual_seed(1)
    blends = torch.randn(35, len(TRAIN), generator=generator) @ TRAIN
    clear = torch.cat([TRAIN[[3, 5, 7]], OTHERS[-1:], TRAIN[9:10]])
    return torch.cat([clear + 0.02 * torch.randn(clear.shape, generator=generator), blends])


def ranked(x_hat, train=TRAIN, others=OTHERS, seed=2):
    generator = torch.Generator().manual_seed(seed)
    blends = torch.randn(200, len(train), generator=generator) @ train
    return ranking(x_hat, train, others, blends, MEAN, SHAPE, generator)


def test_the_rows_in_the_order_of_similarity_are_of_all_reconstructions():
    """By SSIM with the training images as the rule takes it; noise looks like no photograph and has
    no rank.
    """
    noise = torch.randn(2, 3072, generator=torch.Generator().manual_seed(0))
    x_hat = torch.cat([noise, 0.5 * (TRAIN[:2] + TRAIN[2:4]), TRAIN[4:6]])
    rows = ranked(x_hat)[1]["similar_rows"].tolist()
    assert set(rows[:2]) == {4, 5} and set(rows[2:]) <= {2, 3}


@pytest.mark.parametrize("seed", range(5))
def test_held_out_images_in_the_place_of_the_training_images_fail(seed):
    """The same reconstructions, judged as if the held-out images had been trained on."""
    x_hat = reconstructions()[[*range(3), *range(4, 40)]]
    # without the one that was copied, with those that nobody knows of
    counts, _ = ranked(x_hat, HELD_OUT, torch.cat([TRAIN, OTHERS[20:-1]]), seed)
    assert counts.similar.true <= 1


def test_the_most_similar_by_hand():
    lists = torch.full((100, 3), 0.2)
    lists[0, 2] = 0.95
    similarity = torch.tensor([0.1, 0.8, 0.9])
    looks = torch.tensor([True, False, True])
    counts, order, _ = most_similar(looks, similarity, lists, torch.tensor(0.5))
    assert order.tolist() == [2, 1, 0]
    by_chance = {"held_out_true": 0.01, "p_value": 1 / 101}
    of_them = {"natural": 3, "top": 3, "true": 2, "false": 0, "as_realistic": 0, "top_realistic": 2}
    assert counts == of_them | by_chance


def test_what_is_false_comes_after_the_first_fifty_and_looks_realistic():
    """Sixty in a shuffled order, all like a training image but three: one of the first fifty, and
    two of the last ten, of which one looks realistic.
    """
    bar, looks = torch.full((60,), 0.2), torch.arange(60) < 56
    bar[[20, 55, 57]] = 0.95
    order = torch.randperm(60, generator=torch.Generator().manual_seed(1))
    similarity, lists = torch.linspace(0.9, 0.6, 60)[order], bar[order].expand(100, -1)
    counts, rows, false = most_similar(looks[order], similarity, lists, torch.tensor(0.5))
    assert (counts.natural, counts.true, counts.false, counts.as_realistic) == (60, 10, 2, 1)
    assert counts.top_realistic == 10
    assert torch.equal(order[rows], torch.arange(60)) and false.tolist() == [55, 57]


def test_real_photographs_look_realistic_and_blends_of_them_do_not():
    """Nine in ten of those that the rule has never seen."""
    draws = torch.Generator().manual_seed(1)
    blends = torch.randn(40, 100, generator=draws) @ X[190:]
    both = torch.cat([X[190:], blends])
    looks = looks_realistic(both, X[:190], MEAN, SHAPE, draws).double()
    assert looks[:100].mean() >= 0.9 and looks[100:].mean() < 0.1


def test_where_nothing_looks_natural_there_is_an_answer():
    none, lists = torch.zeros(0), torch.zeros(100, 0)
    counts, *rows = most_similar(none.bool(), none, lists, torch.tensor(0.5))
    assert [*map(len, rows)] == [0, 0]
    assert (counts.top, counts.true, counts.p_value, counts.as_realistic) == (0, 0, 1.0, 0)
