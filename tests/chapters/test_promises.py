"""The thresholds that were set for results on CIFAR-10: of the run that a page shows, at laptop or
the paper's size.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from companion.chapters import kept, kept_seeds, kept_sets, load, published
from companion.chapters.landscape.experiment_bilevel import BOXED, FREE
from companion.chapters.leakage_attacks.story import as_published

PUBLISHED = Path(__file__).parents[2] / "book" / "executed" / "results"


@pytest.fixture
def metrics():
    def of(name):
        result = kept(name) if kept_seeds(name) else load(PUBLISHED / name, arrays=False)
        assert result.made.data.name == "cifar10" and result.made.profile in ("laptop", "paper")
        return result.metrics

    return of


@pytest.fixture
def sets():
    """Metrics at the paper's size on every image set that the book keeps; three at least."""

    def of(name):
        found = [result.metrics for result in kept_sets(name)]
        assert len(found) >= 3
        return found

    return of


def test_linear_and_collapse(metrics, sets):
    for kept_run in sets("linear"):
        moved = kept_run.counterfactual
        assert moved.n >= 500 and moved.relative_theta_error <= 1e-8 and moved.mean_change_l2 <= 0.5
        assert moved.solution_dim == moved.n * 3072 - moved.jacobian_rank
    collapse = metrics("collapse")
    assert (
        max(collapse.objective_repeated_train, collapse.objective_repeated_heldout)
        <= collapse.objective_true
    )


def test_bilevel(metrics, sets):
    affine = metrics("bilevel-affine")
    assert affine.n_train >= 40 and len(sets("bilevel-hidden")) >= 3
    assert affine.random.distance_sum <= 1.2e-3 and affine.partition.distance_sum <= 1.2e-3
    assert affine.truth.moved_l2 <= 1e-3 and affine.truth.nn_train_l2 <= 1e-3
    assert affine.partition.nearer_to_partition == 1.0
    assert affine.random.nn_train_l2 > affine.null.held_out_nn_l2


def test_decoreco(metrics):
    random, partition = (
        metrics(f"decoreco-{name}").variants.reference for name in ("random", "partition")
    )
    assert random.matches.ncc_06 - random.null.ncc_06 <= 3
    assert partition.nearest_is_start_partition > partition.m / 2
    assert partition.moved_to_training > 3 * partition.moved_to_held_out
    assert metrics("decoreco-adversary").networks >= 3


def test_separation(metrics):
    found = metrics("separation")
    assert found.n_train == 100 and found.matches.ncc_07 >= 90 and found.best_null.ncc_07 <= 10


def test_landscapes(metrics, sets):
    assert all(found.converged == 1.0 for found in sets("landscape-bilevel"))
    bilevel = metrics("landscape-bilevel")
    to_truth, ways = bilevel.distance.truth, bilevel.connection
    assert to_truth[-1][-1] < 1e-6 < to_truth[-1][-2]
    for way in ways.only(*FREE, *BOXED).values():
        assert (
            way.error < 1e-10 < 1e-2 < way.straight_error and way.largest_step < 1.5 and way.solved
        )
    assert ways.level > ways.sufficient


def test_leakage(metrics):
    ranks, attacks = metrics("leakage-rank").networks, metrics("leakage-attacks").networks
    for name, (deficiencies, c) in published.PUBLISHED_RANK.items():
        assert ranks[name].rd == ranks[name].generic_rd == list(deficiencies) and ranks[name].c == c
    for name, row in published.PUBLISHED.items():
        if not name.endswith(published.PRE_TRAINED):  # our own variant
            assert as_published(attacks[name].methods["rgap"], row["rgap"]), name
    verdicts = {claim.id: claim.verdict for claim in kept("leakage-attacks").claims}
    assert all(
        verdicts[f"leakage-{name}"] == "reproduced"
        for name in ("rgap", "dlg", "cosine-tv", "hybrid")
    )
