"""Chapter 9's table on networks and starts: what the truth leaves, by hand; candidates; each verdict; the figure."""

from __future__ import annotations

from dataclasses import replace

import matplotlib.pyplot as plt
import pytest
import torch

from recon.chapters.decoreco_regimes import DECORECO_REGIMES
from recon.chapters.decoreco_regimes.claims import as_low
from recon.chapters.decoreco_regimes.compute import both_signs, predictor
from recon.chapters.decoreco_regimes.sizes import SIZES, Net


@pytest.fixture(scope="module")
def smoke(runs):
    return runs("decoreco-regimes")


def test_a_row_for_every_network_and_way(smoke):
    cells = smoke.metrics.cells
    sizes = SIZES["smoke"]
    assert [(c.train_steps, c.way) for c in cells] == [(net.steps, way) for net in sizes.nets for way in sizes.ways]
    assert [c.regime for c in smoke.metrics.of("noise")] == ["margin", "margin", "decay"]
    for cell in cells:
        assert cell.m == 2 * cell.n_train and all(0 <= share <= 1 for share in cell.truth_share)
        if cell.way == "separated":
            assert cell.energy is None and cell.scale is None
        else:
            assert cell.below_truth == (cell.energy < cell.truth_energy)
            assert cell.scale in cell.scales_tried and len(cell.scales_tried) >= 3
    for name, x in smoke.arrays.items():
        assert x.shape == (40, 3072), name


def test_longer_training_leaves_less_of_the_first_layer(smoke):
    long, short, _ = smoke.metrics.of("noise")
    assert predictor(long) < predictor(short) and long.loss < short.loss


def test_the_correlation_is_spearmans(smoke):
    rows = smoke.metrics.of("noise")
    ranks = [
        torch.tensor([f(c) for c in rows]).argsort().argsort().double() for f in (predictor, lambda c: c.excess_share)
    ]
    if len({c.excess_share for c in rows}) == 3:  # without ties it is Pearson's of the ranks
        expected = torch.corrcoef(torch.stack(ranks))[0, 1].item()
        assert smoke.metrics.rank_correlation == pytest.approx(expected)


def test_sources_come_with_both_signs_strongest_first(smoke):
    class Found:
        sources = torch.arange(6.0).view(3, 2)

    both = both_signs(Found)
    assert torch.equal(both[::2], Found.sources) and torch.equal(both[1::2], -Found.sources)


@pytest.mark.parametrize(
    ("found", "rho", "expected"),
    [
        (2, -0.6, ["partly", "finding"]),  # three networks have too few orders for more
        (1, -0.2, ["partly", "partly"]),
        (0, 0.3, ["not reproduced", "not reproduced"]),
    ],
)
def test_verdicts(smoke, found, rho, expected):
    cells = [
        replace(c, excess=replace(c.excess, ssim_04=found if k == 4 else -1), fell=0.0)
        for k, c in enumerate(smoke.metrics.cells)
    ]
    metrics = replace(smoke.metrics, cells=cells, rank_correlation=rho)
    claims = DECORECO_REGIMES.claims(metrics, SIZES["smoke"])
    assert [claim.verdict for claim in claims] == expected
    restless = [replace(cell, fell=0.02) if cell.way == "noise" else cell for cell in cells]
    unsettled = DECORECO_REGIMES.claims(replace(metrics, cells=restless), SIZES["smoke"])
    assert [claim.verdict for claim in unsettled] == ["undecided", "undecided"]
    small = replace(metrics, n_train=40, cells=[*cells[:-1], replace(cells[-1], n_train=40)])
    assert DECORECO_REGIMES.claims(small, SIZES["smoke"])[1].verdict == "not reproduced"  # the most images decide
    assert len(DECORECO_REGIMES.claims(replace(metrics, rank_correlation=None), SIZES["smoke"])) == 1


def test_an_order_that_chance_seldom_has_is_a_finding(smoke):
    """Six networks whose excess falls as the truth leaves more: one order of 720."""
    base, zero = smoke.metrics.of("noise")[0], smoke.metrics.of("noise")[0].excess
    rows = [replace(base, truth_share=[0.1 * k], excess=replace(zero, ncc_06=-k), fell=0.0) for k in range(1, 7)]
    assert as_low(rows) == pytest.approx(1 / 720) and as_low(rows[::-1]) == pytest.approx(1 / 720)
    up = [replace(row, excess=replace(zero, ncc_06=k)) for k, row in enumerate(rows)]
    assert as_low(up) == 1.0
    claim = DECORECO_REGIMES.claims(replace(smoke.metrics, cells=rows, rank_correlation=-1.0), SIZES["smoke"])[0]
    assert claim.verdict == "finding"


def test_the_settings_of_a_training_with_decay():
    decay = Net(n_train=20, width=8, steps=7, weight_decay=0.01).decay()
    assert (decay.weight_decay, decay.steps) == (0.01, 7)


def test_the_figure_draws(smoke):
    for draw in DECORECO_REGIMES.figures.values():
        figure = draw(smoke)
        assert min(figure.get_facecolor()) > 0.99
        figure.savefig("/dev/null", format="png")
        plt.close(figure)
