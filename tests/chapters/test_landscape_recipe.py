"""The landscape's run of the published recipe: its starts, its distances, and what it says where it
was cut short.
"""

from __future__ import annotations

import pytest
import torch

from companion.chapters.landscape.shared import set_distances
from companion.chapters.landscape.story import lead
from companion.store.record import Record
from recon.scoring.metrics import ncc


@pytest.fixture(scope="module")
def smoke(runs):
    return runs("landscape-recipe")


def test_it_starts_where_eq_10_says(smoke):
    sets = {name: smoke.array(name) for name in ("truth", "partition", "random")}
    for cell in smoke.metrics.cells:
        one, two = cell.lambda1, cell.lambda2
        start = (
            two * (one * sets["truth"] + (1 - one) * sets["partition"]) + (1 - two) * sets["random"]
        )
        found = set_distances(start[None], sets, (3, 32, 32))
        assert cell.start == pytest.approx({name: found[name].item() for name in sets}, abs=1e-4)
    assert smoke.metrics.at(1, 1).start.truth == 0 == smoke.metrics.at(0, 1).start.partition


def test_distances_are_those_of_the_ends(smoke):
    sets = {name: smoke.array(name) for name in ("truth", "partition", "random")}
    found = set_distances(smoke.array("x_hat"), sets, (3, 32, 32))
    assert torch.isfinite(smoke.array("x_hat")).all()
    for k, cell in enumerate(smoke.metrics.cells):
        assert cell.end == pytest.approx({name: found[name][k].item() for name in sets}, rel=1e-5)
        assert cell.moved > 0
    at_truth, (truth, x_hat) = smoke.metrics.at(1, 1), (sets["truth"], smoke.array("x_hat")[0])
    way = (x_hat - truth).norm(dim=1) / (truth - truth.mean(0)).norm(dim=1)
    assert at_truth.moved == pytest.approx(way.mean().item(), rel=1e-4)
    assert at_truth.bilevel.truth < 1e-6  # the bilevel attack has nothing to do there


def test_correlations_are_those_of_the_ends(smoke):
    sets = {name: smoke.array(name) for name in ("truth", "partition", "random")}
    mean = sets["truth"].mean(0)
    for x_hat, cell in zip(smoke.array("x_hat"), smoke.metrics.cells, strict=True):
        best = {
            name: ncc(x_hat - mean, images - mean).amax(1).mean().item()
            for name, images in sets.items()
        }
        assert cell.ncc == pytest.approx(best, rel=1e-5)


def test_a_start_that_was_not_run_is_named(smoke):
    with pytest.raises(KeyError, match=r"not run from \(0, 0.5\)"):
        smoke.metrics.at(0, 0.5)


def test_a_run_cut_short_says_so(smoke):
    assert all(claim.ours.endswith("60 of 50,000 steps: undecided") for claim in smoke.claims)
    assert {claim.verdict for claim in smoke.claims} == {"undecided"}


def test_distances_lead_over_the_nearest_other():
    found = Record(truth=3.0, partition=5.0, random=9.0)
    assert (lead(found, "truth"), lead(found, "partition"), lead(found, "random")) == (
        2.0,
        -2.0,
        -6.0,
    )
