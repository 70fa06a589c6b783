"""The landscape's run of the published recipe: its starts, its distances, and what it says where it
was cut short.
"""

from __future__ import annotations

import pytest

from companion.chapters.landscape.shared import set_distances
from companion.chapters.landscape.story import lead
from companion.store.record import Record


@pytest.fixture(scope="module")
def smoke(runs):
    return runs("landscape-recipe")


def distances(x, sets):
    """Of one start or end."""
    return {name: far.item() for name, far in set_distances(x[None], sets, (3, 32, 32)).items()}


def test_it_starts_where_eq_10_says(smoke):
    sets = {name: smoke.array(name) for name in ("truth", "partition", "random")}
    for cell in smoke.metrics.cells:
        image = cell.lambda1 * sets["truth"] + (1 - cell.lambda1) * sets["partition"]
        start = cell.lambda2 * image + (1 - cell.lambda2) * sets["random"]
        assert cell.start == pytest.approx(distances(start, sets), abs=1e-4)
    assert smoke.metrics.at(1, 1).start.truth == 0 == smoke.metrics.at(0, 1).start.partition


def test_a_start_that_was_not_run_is_named(smoke):
    with pytest.raises(KeyError, match=r"\(0, 0.5\)"):
        smoke.metrics.at(0, 0.5)


def test_distances_lead_over_the_nearest_other():
    end = Record(truth=3.0, partition=5.0, random=9.0)
    assert [lead(end, name) for name in end] == [2.0, -2.0, -6.0]
