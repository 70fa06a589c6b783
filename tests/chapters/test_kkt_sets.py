"""Splitting and merging: sums of gradients against autograd, what stays exact, and what does not where it may not."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from companion.chapters.candidates.kkt_sets import (
    Points,
    apart,
    cells,
    conditions,
    gates,
    merged,
    rank_of,
    split,
    summed,
)
from recon.errors import ReconError
from recon.nets.mlp import MLP, one_hidden, three_layer

F64 = torch.float64


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


@pytest.fixture
def case():
    """A net of width 5 on 12 inputs: seven directions are blind to the first layer."""
    network = three_layer(5, 12)
    theta = network.init(torch.Generator().manual_seed(1), dtype=F64)
    points = Points(drawn(6, 12), torch.tensor([1.0, 0, 1, 0, 1, 0], dtype=F64), drawn(6, seed=2).abs())
    blind = torch.linalg.svd(theta["w1"]).Vh[5:]
    return network, theta, points, drawn(6, 7, seed=3) @ blind


def by_autograd(network, theta, points):
    theta = {name: value.clone().requires_grad_() for name, value in theta.items()}
    total = (points.multipliers * (2 * points.y - 1) * network(theta, points.x)).sum()
    return dict(zip(theta, torch.autograd.grad(total, list(theta.values())), strict=True))


def test_the_sum_is_that_of_autograd(case):
    network, theta, points, _ = case
    found, expected = summed(network, theta, points), by_autograd(network, theta, points)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value)
    flipped = replace(points, y=1 - points.y)
    assert apart(summed(network, theta, flipped), found) == pytest.approx(2)
    with pytest.raises(ReconError, match="one logit"):
        summed(MLP((12, 5, 3)), theta, points)


@pytest.mark.parametrize("share", [0.5, 0.2])
def test_a_split_along_blind_directions_changes_nothing(case, share):
    network, theta, points, v = case
    pairs = split(points, v, share)
    assert len(pairs) == 12 and apart(summed(network, theta, pairs), summed(network, theta, points)) < 1e-14
    torch.testing.assert_close(pairs.x[:6], points.x + v)
    torch.testing.assert_close(network(theta, pairs.x), network(theta, points.x).repeat(2))
    before, after = (conditions(network, theta, each) for each in (points, pairs))
    assert after.stationarity == pytest.approx(before.stationarity, rel=1e-12)
    assert after.smallest_margin == pytest.approx(before.smallest_margin, rel=1e-12)
    # the wrong share moves the mean
    wrong = (
        replace(pairs, multipliers=pairs.multipliers.flip(0))
        if share != 0.5
        else split(points, v + drawn(6, 12, seed=4))
    )
    assert apart(summed(network, theta, wrong), summed(network, theta, points)) > 1e-3


def test_within_a_cell_any_small_direction_keeps_the_sum_but_not_the_margin(case):
    network, theta, points, _ = case
    v = 1e-4 * drawn(6, 12, seed=5)
    pairs = split(points, v)
    assert (cells(network, theta, pairs.x) == cells(network, theta, points.x).repeat(2, 1)).all()
    assert apart(summed(network, theta, pairs), summed(network, theta, points)) < 1e-14
    assert (network(theta, pairs.x) - network(theta, points.x).repeat(2)).abs().min() > 1e-9
    across = split(points, 50 * drawn(6, 12, seed=5))
    assert apart(summed(network, theta, across), summed(network, theta, points)) > 1e-2


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_share_is_between_nothing_and_all(case, share):
    with pytest.raises(ReconError, match="share"):
        split(case[2], case[3], share)


def test_merging_undoes_splitting_and_mixes_no_labels(case):
    network, theta, points, v = case
    for share in (0.5, 0.2):
        back = merged(network, theta, split(points, v, share))
        assert len(back) == 6
        order = torch.cdist(points.x, back.x).argmin(1)
        torch.testing.assert_close(back.x[order], points.x)
        torch.testing.assert_close(back.multipliers[order], points.multipliers)
        assert torch.equal(back.y[order], points.y)
    both = Points(points.x[:1].repeat(3, 1), torch.tensor([0.0, 1.0, 1.0]).double(), torch.tensor([1.0, 2, 3]).double())
    assert sorted(merged(network, theta, both).multipliers.tolist()) == [1, 5]


def test_without_multipliers_the_plain_mean_is_taken(case):
    network, theta, points, v = case
    silent = split(replace(points, multipliers=torch.zeros_like(points.multipliers)), v)
    back = merged(network, theta, silent)
    torch.testing.assert_close(back.x[torch.cdist(points.x, back.x).argmin(1)], points.x)


def test_cells_name_every_hidden_unit(case):
    network, theta, points, _ = case
    first = points.x @ theta["w1"].mT + theta["b1"]
    second = torch.relu(first) @ theta["w2"].mT
    assert torch.equal(cells(network, theta, points.x), torch.cat([first > 0, second > 0], 1))


def test_independent_gates_leave_one_set_with_an_image_in_each_cell():
    """Linear algebra of the uniqueness: with independent gates Σ λ_i δ_i and Σ λ_i δ_i x_iᵀ give λ and x back."""
    network = one_hidden(40, 6)
    theta = network.init(torch.Generator().manual_seed(0), dtype=F64)
    points = Points(drawn(5, 6), torch.tensor([1.0, 0, 1, 0, 1]).double(), drawn(5, seed=1).abs())
    delta = gates(network, theta, points.x)
    assert rank_of(delta) == 5 and rank_of(delta[[0, 0, 1]]) == 2
    total = summed(network, theta, points)
    signed = torch.linalg.lstsq(delta.mT, total["b1"][:, None]).solution[:, 0]
    torch.testing.assert_close(signed, points.signed)
    torch.testing.assert_close(torch.linalg.lstsq(delta.mT, total["w1"]).solution / signed[:, None], points.x)


def test_conditions_of_an_exact_kkt_point():
    """A linear net at its maximum margin: θ = Σ λ y x, margins 1, and an image inside that carries nothing."""
    network = MLP((2, 1), bias=(False,))
    theta = {"w1": torch.tensor([[1.0, 0.0]], dtype=F64)}
    x = torch.tensor([[1.0, 1.0], [-1.0, 1.0], [3.0, 0.0]], dtype=F64)
    points = Points(x, torch.tensor([1.0, 0, 1], dtype=F64), torch.tensor([0.5, 0.5, 0], dtype=F64))
    found = conditions(network, theta, points)
    assert found.stationarity == [0.0] and found.slack == 0 and found.smallest_margin == 1
    inside = conditions(network, theta, replace(points, multipliers=torch.tensor([0.5, 0.5, 1.0], dtype=F64)))
    assert inside.slack == pytest.approx(1.0) and inside.stationarity[0] == pytest.approx(3.0)
    negative = conditions(network, theta, replace(points, multipliers=torch.tensor([0.5, 0.5, -1.0], dtype=F64)))
    assert negative.smallest_multiplier == -1
    wrong = conditions(network, theta, replace(points, y=1 - points.y))
    assert wrong.slack != wrong.slack and wrong.smallest_margin < 0


def test_points_are_as_many_as_each_other():
    with pytest.raises(ReconError, match="as many"):
        Points(torch.zeros(2, 3), torch.zeros(3), torch.zeros(2))
