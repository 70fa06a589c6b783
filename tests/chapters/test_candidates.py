"""With candidates in hand: what the smoke runs must show whatever the numbers are, and how scores are judged."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score, roc_curve

from companion.chapters.candidates import MEMBERS, SETS
from companion.chapters.candidates.experiment_members import Pool, rates
from companion.chapters.candidates.names import FREE, KKT, NOISE, NOT_BLIND, PHOTOGRAPH, SHADOWED, TRUTH
from companion.chapters.catalogue import Row

APPENDIX = True  # its smoke runs are those of `make test-all`


@pytest.fixture
def sets(runs):
    return runs("counterfactual-sets")


@pytest.fixture
def members(runs):
    return runs("candidate-membership")


def test_nothing_that_a_paper_says_of_a_larger_network_is_judged_on_ours(members):
    """A ResNet-18 and rates of one in ten thousand are not ten small networks: these sentences are ours."""
    found = [Row(claim, members, MEMBERS.chapter, at_paper_size=True) for claim in members.claims]
    assert not [row for row in found if row.claim.section or row.claim.paper]
    assert {row.verdict for row in found} <= {"finding", "partly", "not reproduced"}
    assert {row.size for row in found} == {"n = 20, width = 64"}


def test_pairs_keep_every_condition_and_the_null_keeps_none(sets):
    rows = sets.metrics.sets
    truth, null = rows[TRUTH], rows[NOT_BLIND]
    for name in (NOISE, PHOTOGRAPH):
        assert rows[name].difference < 1e-12 and rows[name].margin_change < 1e-12
        assert rows[name].images == 2 * truth.images and rows[name].smallest_multiplier >= 0
    assert null.difference > 1e-3 and null.margin_change > 1e-3
    assert truth.difference == 0 and truth.ncc == pytest.approx(1)
    assert sets.metrics.freedom.blind == 3072 - 64 - truth.images


def test_all_pixels_of_the_pairs_are_between_black_and_white(sets):
    x, mean = sets.array("x_train"), sets.array("mean")
    for name in (NOISE, PHOTOGRAPH, NOT_BLIND):
        v = sets.array(f"move_{name}")
        for sign in (1, -1):
            pixels = x + mean + sign * v
            assert pixels.min() > -1e-6 and pixels.max() < 1 + 1e-6


def test_the_photograph_is_approached(sets):
    x, v, target = sets.array("x_train"), sets.array(f"move_{PHOTOGRAPH}"), sets.array("x_held_out")
    assert ((x + v - target).norm(dim=1) <= (x - target).norm(dim=1)).all()
    noise = sets.array(f"move_{NOISE}")
    assert ((x + noise - target).norm(dim=1) > (x + v - target).norm(dim=1)).all()


def test_the_way_to_the_pairs(sets):
    for way in sets.metrics.slides.values():
        assert len(way.ncc) == 11 and way.ncc[0] == pytest.approx(1)
        assert (np.diff(way.ncc) < 0).all() and way.edges[0] > way.edges[-1]


def test_the_pool_holds_the_training_images_first(members):
    ratio = members.metrics.ratio
    for cell in members.metrics.cells:
        member = np.arange((1 + ratio) * cell.n_train) < cell.n_train
        for name, told in cell.scores.items():
            score = np.nan_to_num(members.array(f"{cell.recipe}: {name}").double().numpy(), neginf=-1e300)
            assert told.many.auc == pytest.approx(roc_auc_score(member, score))
        assert set(cell.scores) == {*KKT, *SHADOWED, *FREE}
        assert cell.shadows == 2 * (1 + ratio) and cell.scores[KKT[0]].many.auc > 0.6


def test_the_span_tells_where_the_layer_is_a_mixture(members):
    """After a small start the layer is one; PyTorch's own has to be known."""
    small_start, default = (members.metrics.cell(recipe) for recipe in ("small start", "default start"))
    assert small_start.scores["span of W1"].many.auc > 0.99
    assert default.scores["span of W1, start known"].many.auc > 0.99 > default.scores["span of W1"].many.auc


def test_rates_are_those_of_scikit_learn():
    generator = np.random.default_rng(0)
    member = np.arange(400) < 100
    score = torch.from_numpy(generator.normal(size=400) + 1.5 * member)
    score[7] = -torch.inf
    found = rates(score, member, 0, 100)
    values = np.nan_to_num(score.numpy(), neginf=-1e9)
    false, true, _ = roc_curve(member, values, drop_intermediate=False)
    assert found.auc == pytest.approx(roc_auc_score(member, values))
    assert found.tpr_1 == pytest.approx(true[false <= 0.01].max())
    assert found.tpr_1_interval[0] <= found.tpr_1 <= found.tpr_1_interval[1]
    assert Pool(torch.zeros(5, 2), torch.zeros(5), 2).member.tolist() == [True, True, False, False, False]


def test_figures(sets, members):
    for chosen, result in ((SETS, sets), (MEMBERS, members)):
        for draw in chosen.figures.values():
            figure = draw(result)
            assert min(figure.get_facecolor()) > 0.99
            plt.close(figure)
