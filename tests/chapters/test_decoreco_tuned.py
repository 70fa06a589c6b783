"""Chapter 9: the smoke run can be matched again by anyone; each verdict in both directions; the kept run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import torch

from recon.chapters import kept, load
from recon.chapters.decoreco_tuned import DECORECO_SIZE, DECORECO_TUNED
from recon.chapters.decoreco_tuned.claims import against_truth
from recon.chapters.decoreco_tuned.compute import gallery
from recon.chapters.decoreco_tuned.figures import plot_size
from recon.chapters.tables import in_words
from recon.images.registry import load_pool
from recon.scoring.matching import one_to_one

PUBLISHED = Path(__file__).parents[2] / "book" / "executed" / "results"


@pytest.fixture(scope="module")
def smoke(runs):
    return runs("decoreco-tuned")


@pytest.fixture(scope="module")
def by_size(runs):
    return runs("decoreco-size")


@pytest.fixture
def metrics():
    return load(PUBLISHED / "decoreco-tuned", arrays=False).metrics


def judged(metrics):
    return {claim.id: claim for claim in DECORECO_TUNED.claims(metrics, DECORECO_TUNED.sizes["laptop"])}


def test_anyone_can_match_again_from_the_arrays(smoke):
    metrics, m = smoke.metrics, smoke.made.config["attack"]["m"]
    assert smoke.array("x_hat").shape == (m, 3072) and smoke.array("multipliers").shape == (m,)
    assert (smoke.array("multipliers") >= 0).all()
    assert len(smoke.array("train_index")) == len(smoke.array("heldout_index")) == metrics.n_train
    pool = load_pool("photos")
    row = {int(index): k for k, index in enumerate(pool.index)}
    images = torch.stack([torch.from_numpy(pool.images[row[int(i)]]) for i in smoke.array("train_index")])
    centred = images.flatten(1).float() / 255
    centred = centred - centred.mean(0)
    found = one_to_one(centred, smoke.array("x_hat"), "ncc").score
    assert int((found > 0.6).sum()) == metrics.matches.ncc_06 > metrics.null.ncc_06
    assert metrics.competition.ncc_06.targets > metrics.competition.ncc_06.decoys


def test_the_best_null_is_the_largest(smoke):
    metrics = smoke.metrics
    assert set(metrics.nulls) == {"span", "mixtures", "rows", "directions", "means", "held_out"}
    assert metrics.nulls["held_out"] == metrics.null
    nulls = {name: in_words(counts) for name, counts in metrics.nulls.items()}
    for key, best in in_words(metrics.best_null).items():
        assert best == max(counts[key] for counts in nulls.values())
        assert best == nulls[in_words(metrics.best_null_name)[key]][key]
        assert in_words(metrics.excess)[key] == in_words(metrics.matches)[key] - best
    curves = [smoke.array(f"null_ncc_{name}") for name in nulls if name != "held_out"]
    assert all(curve.shape == (metrics.n_train,) and (curve.diff() <= 0).all() for curve in curves)


def test_a_gallery_is_the_pool_without_these_images():
    pool, mean = load_pool("photos"), torch.full((3072,), 0.25)
    found = gallery(pool, torch.from_numpy(pool.index[[0, 2]]), mean)
    assert found.shape == (len(pool.index) - 2, 3072)
    torch.testing.assert_close(found[0] + mean, torch.from_numpy(pool.images[1]).flatten() / 255)


@pytest.mark.parametrize("energy", [1.9, 2.1])
def test_below_the_search_from_the_training_images_is_said_and_is_no_verdict(smoke, energy):
    """That one has half as many candidates."""
    found = replace(smoke.metrics.from_truth, energy=2.0, energy_from_noise=energy)
    claims = judged(replace(smoke.metrics, converged=False, from_truth=found)).values()
    assert {claim.verdict for claim in claims} == {"undecided"}
    assert all(f"energy {energy}, from the training images, with half as many" in claim.ours for claim in claims)
    text = against_truth(replace(smoke.metrics, from_truth=found))
    assert ("not lower" in text) == (energy > 2.0)


def test_from_the_training_images_the_search_stays_near_them(smoke):
    """Its start is theirs, class by class: from any other order few would be left."""
    found, metrics = smoke.metrics.from_truth, smoke.metrics
    assert found.energy_from_noise == metrics.energy_by_layer[0]
    assert found.matches.ncc_06 > max(metrics.matches.ncc_06, found.best_null.ncc_06)


@pytest.mark.parametrize(("shared", "expected"), [(31, "finding"), (30, "not reproduced")])
def test_counting_flatters_where_it_counts_more(metrics, shared, expected):
    changed = replace(metrics, matches=replace(metrics.matches, ncc_06=30), per_image_ncc_06=shared, converged=True)
    assert (
        judged(replace(changed, converged=False, from_truth=None))["decoreco-counting-flatters"].verdict == "undecided"
    )
    assert judged(changed)["decoreco-counting-flatters"].verdict == expected


def test_how_the_searches_of_each_size_ended_is_said(by_size):
    rows = [replace(row, converged=row.n_train == 10, multiplier_scale=0.003) for row in by_size.metrics.sizes]
    edge = DECORECO_SIZE.sizes["laptop"].attack.multiplier_scales[-1]
    rows[0] = replace(rows[0], multiplier_scale=edge)
    said = DECORECO_SIZE.claims(replace(by_size.metrics, sizes=rows), DECORECO_SIZE.sizes["laptop"])[0].ours
    assert f"scale of λ {edge:g} (edge of the grid), 0.003; 1 of 2 searches converged: undecided" in said


def test_shares_by_size(by_size):
    rows = by_size.metrics.sizes
    assert by_size.array("n_trains").tolist() == [row.n_train for row in rows] == [10, 20]
    for row, share, null in zip(rows, by_size.array("share"), by_size.array("best_null"), strict=True):
        assert share.item() == pytest.approx(row.matches.ncc_06 / row.n_train)
        assert null.item() == pytest.approx(row.best_null.ncc_06 / row.n_train)
        assert (row.train_steps, row.attack_steps) == (7.5 * row.n_train, 10 * row.n_train)
        assert 0 < row.truth_share < 1 and row.converged == (row.fell < 0.01)


def test_a_table_of_nulls_is_whole_or_none(metrics):
    assert metrics.null_table().excess == metrics.excess
    assert replace(metrics, nulls=None).null_table() is None


def test_figures_draw(smoke, by_size):
    figures = [draw(smoke) for draw in DECORECO_TUNED.figures.values()]
    figures += [draw(by_size) for draw in DECORECO_SIZE.figures.values()]
    stored = kept("decoreco-tuned")
    figures.append(plot_size(by_size, stored and stored[0]))
    for figure in figures:
        assert min(figure.get_facecolor()) > 0.99  # also on dark pages: the build inverts charts
        plt.close(figure)
