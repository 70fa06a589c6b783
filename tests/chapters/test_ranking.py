"""Figs. 6 to 8: what is more like a training image than chance explains; held-out images in their
place fail.
"""

from __future__ import annotations

import pytest
import torch

from companion.chapters.decoreco.experiment_published import most_similar, ranking
from recon.images.registry import load_pool

SHAPE = (3, 32, 32)
PIXELS = load_pool("photos").pixels(range(290)).flatten(1)
MEAN = PIXELS.mean(0)


@pytest.fixture(scope="module")
def photographs():
    """Trained on, held out, others; centred."""
    x = PIXELS - MEAN
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    return x[order[:20]], x[order[20:40]], x[order[20:]]


def reconstructions(train, others):
    """By contribution: three copies of training images, one of another photograph, a copy; then
    blends of many.
    """
    generator = torch.Generator().manual_seed(1)
    blends = torch.randn(35, len(train), generator=generator) @ train
    clear = torch.stack([train[3], train[5], train[7], others[-1], train[9]])
    return torch.cat([clear + 0.02 * torch.randn(clear.shape, generator=generator), blends])


def listed(x_hat, train, others, seed=2):
    generator = torch.Generator().manual_seed(seed)
    blends = torch.randn(200, len(train), generator=generator) @ train
    return ranking(x_hat, train, others, blends, MEAN, SHAPE, generator)[0]


@pytest.fixture(scope="module")
def found(photographs):
    train, _, others = photographs
    return listed(reconstructions(train, others), train, others)


def test_what_counts_is_above_the_lists_and_the_blends(found):
    """Four copies of training images; of 35 blends one in a hundred by the rule, more or less."""
    assert found.top40 == 40 and 4 <= found.top40_true <= 7


def test_the_rows_in_the_order_of_similarity_are_of_all_reconstructions(photographs):
    """By SSIM with the training images as the rule takes it; noise looks like no photograph and has
    no rank.
    """
    train, _, others = photographs
    noise = torch.randn(2, 3072, generator=torch.Generator().manual_seed(0))
    x_hat = torch.cat([noise, 0.5 * (train[:2] + train[2:4]), train[4:6] + 0.0])
    blends = train[:4] - train[4:8]
    _, arrays = ranking(x_hat, train, others, blends, MEAN, SHAPE, torch.Generator().manual_seed(2))
    rows = arrays["similar_rows"].tolist()
    assert set(rows[:2]) == {4, 5} and set(rows[2:]) <= {2, 3}


def test_a_copy_of_another_photograph_does_not_count(photographs):
    train, _, others = photographs
    assert listed(others[-5:] + 0.0, train, others[:-5]).top40_true == 0
    assert listed(train[:5] + 0.0, train, others).top40_true == 5


@pytest.mark.parametrize("seed", range(5))
def test_held_out_images_in_the_place_of_the_training_images_fail(photographs, seed):
    """The same reconstructions, judged as if the held-out images had been trained on."""
    train, held_out, others = photographs
    x_hat = reconstructions(train, others)[[*range(3), *range(4, 40)]]
    # without the one that was copied, with those that nobody knows of
    others = torch.cat([train, others[20:-1]])
    found = listed(x_hat, held_out, others, seed)
    assert found.top40_true <= 3 and found.similar.true <= 1


def test_the_most_similar_by_hand():
    lists = torch.full((100, 3), 0.2)
    lists[0, 2] = 0.95
    found, order, _ = most_similar(
        PIXELS[:3], SHAPE, torch.tensor([0.1, 0.8, 0.9]), lists, torch.tensor(0.5)
    )
    assert order.tolist() == [2, 1, 0]
    assert found == {
        **{"natural": 3, "top": 3, "true": 2, "held_out_true": 0.01, "p_value": 1 / 101},
        **{"false": 0, "as_realistic": 0},
    }


def test_what_is_false_comes_after_the_first_fifty_and_looks_like_the_first_ten():
    """Sixty in a shuffled order, all like a training image but three: one of the first fifty, and
    of the last ten a photograph among the first ten's range, and noise.
    """
    x, lists = PIXELS[:60] - MEAN, torch.full((100, 60), 0.2)
    similarity = torch.linspace(0.9, 0.6, 60)
    bar = torch.full((60,), 0.2)
    bar[[20, 55, 57]] = 0.95
    x[55], x[57] = x[6], torch.randn(3072, generator=torch.Generator().manual_seed(0))
    order = torch.randperm(60, generator=torch.Generator().manual_seed(1))
    found, ranked, realistic = most_similar(
        x[order], SHAPE, similarity[order], lists * 0 + bar[order], torch.tensor(0.5)
    )
    assert (found.natural, found.true, found.false, found.as_realistic) == (60, 10, 2, 1)
    assert torch.equal(order[ranked], torch.arange(60)) and realistic.tolist() == [55]


def test_where_nothing_looks_natural_there_is_an_answer():
    found, *ranked = most_similar(
        torch.zeros(0, 3072), SHAPE, torch.zeros(0), torch.zeros(100, 0), torch.tensor(0.5)
    )
    assert [len(each) for each in ranked] == [0, 0]
    assert (found.top, found.true, found.p_value, found.as_realistic) == (0, 0, 1.0, 0)
