"""Figs. 6 to 8: places in the list of reconstructions; and held-out images in the place of the training images fail."""

from __future__ import annotations

import pytest
import torch

from companion.chapters.decoreco_tuned.ranking import places, ranking, shown_ranks
from recon.images.registry import load_pool
from recon.scoring.matching import rescale
from recon.scoring.metrics import ncc, ssim
from tests.records import replace

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
    """By contribution: three copies of training images, one of another photograph, a copy; then blends of many."""
    generator = torch.Generator().manual_seed(1)
    blends = torch.randn(35, len(train), generator=generator) @ train
    clear = torch.stack([train[3], train[5], train[7], others[-1], train[9]])
    return torch.cat([clear + 0.02 * torch.randn(clear.shape, generator=generator), blends])


def listed(x_hat, train, others, seed=2):
    generator = torch.Generator().manual_seed(seed)
    blends = torch.randn(200, len(train), generator=generator) @ train
    return ranking(x_hat, train, others, blends, MEAN, SHAPE, generator)


@pytest.fixture(scope="module")
def found(photographs):
    train, _, others = photographs
    return listed(reconstructions(train, others), train, others)


def test_places_count_what_is_more_similar():
    assert places(torch.tensor([[0.3, 0.9, 0.1, 0.9], [1.0, 2.0, 3.0, 4.0]])).tolist() == [[3, 1, 4, 1], [4, 3, 2, 1]]


def test_a_reconstruction_has_a_place_among_reconstructions(found, photographs):
    train, _, others = photographs
    similarity = ncc(reconstructions(train, others), train).amax(1)
    torch.testing.assert_close(found.similarity, similarity)
    assert found.rank.tolist() == [1 + int((similarity > each).sum()) for each in similarity]
    assert set(found.rank[[0, 1, 2, 4]].tolist()) == {1, 2, 3, 4}
    by_ssim = ssim(rescale(reconstructions(train, others) + MEAN), train + MEAN, SHAPE).amax(1)
    assert found.rank_ssim.tolist() == [1 + int((by_ssim > each).sum()) for each in by_ssim]
    assert found.rank_lists.shape == (500, 40) and (found.rank_lists >= 1).all() and (found.rank_lists <= 40).all()


def test_what_counts_is_above_the_lists_and_the_blends(found):
    assert found.true[[0, 1, 2, 4]].all() and not found.true[3]
    assert found.true_lists.double().mean() <= 0.01
    assert (found.bar <= 1).all() and (found.bar >= found.bar.min()).all()
    blends = found.true[5:]
    assert blends.double().mean() < 0.1  # one in a hundred by the rule, more or less


def test_four_of_five_are_beyond_chance(found):
    shown = shown_ranks(replace(found, natural=torch.arange(40) < 5))
    assert shown.true == [True, True, True, False, True] and shown.count == 4 and shown.p_value <= 0.01
    assert shown.rank == found.rank[:5].tolist() and shown.high == sum(rank <= 10 for rank in shown.rank)
    assert shown.held_out_rank[3] == found.rank_lists[:, 3].double().median()
    assert shown.top40 == 40 and shown.top40_true == int(found.true.sum())


def test_where_nothing_looks_natural_there_is_an_answer(found):
    shown = shown_ranks(replace(found, natural=torch.zeros(40, dtype=torch.bool)))
    assert shown.rank == shown.held_out_rank == [] and shown.natural == shown.count == 0 and shown.p_value == 1.0


@pytest.mark.parametrize("seed", range(5))
def test_held_out_images_in_the_place_of_the_training_images_fail(photographs, seed):
    """The same reconstructions, judged as if the held-out images had been trained on."""
    train, held_out, others = photographs
    others = torch.cat([train, others[20:-1]])  # without the one that was copied, with those that nobody knows of
    found = listed(reconstructions(train, photographs[2])[[*range(3), *range(4, 40)]], held_out, others, seed)
    shown = shown_ranks(replace(found, natural=torch.arange(39) < 5))
    assert shown.count > 0 or shown.p_value == 1.0  # every list has as many
    assert shown.count <= 1
