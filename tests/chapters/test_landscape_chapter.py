"""The landscape chapter: images of every seed, both sweeps in small, and how they are judged."""

from __future__ import annotations

import pytest
import torch

from companion.chapters.base import Context
from companion.chapters.landscape.experiment_bilevel import BOXED, FREE, _crossing
from companion.chapters.landscape.experiment_bilevel import SIZES as BILEVEL_SIZES
from companion.chapters.landscape.experiment_decoreco import METHODS, _around, _geometry
from companion.chapters.landscape.experiment_decoreco import SIZES as DECORECO_SIZES
from companion.chapters.landscape.shared import (
    SeedImages,
    affine_released,
    bilevel_ends,
    different_starts,
    every_cell,
    set_distances,
)
from companion.chapters.landscape.story import claims as bilevel_claims
from companion.chapters.landscape.story import crossing_text, decoreco_claims
from companion.store.record import Record
from recon.images.registry import load_pool
from recon.scoring.metrics import ssim
from tests.records import replace

SIZES = BILEVEL_SIZES
LAMBDAS = [0.0, 0.25, 0.5, 0.75, 1.0]


def in_this_process(unit, names, label):
    return {name: unit(name) for name in names}


@pytest.fixture
def context(tmp_path):
    return Context(load_pool("photos"), torch.device("cpu"), 0, tmp_path, in_this_process)


def verdicts(claims):
    return {claim.id.removeprefix("landscape-"): claim.verdict for claim in claims}


# -------------------------------------------------------------------------------------- the numbers


def test_every_seed_has_images_of_its_own(context):
    n = SIZES["smoke"].n_train
    drawn = [SeedImages.of(context, n, torch.float32, k, seeds=2) for k in range(2)]
    indices = [set(images.train_index.tolist()) for images in drawn]
    assert all(len(each) == n for each in indices) and not indices[0] & indices[1]
    for images in drawn:
        half = n // 2
        assert images.y.tolist() == [0.0] * half + [1.0] * half
    assert not torch.equal(drawn[0].random, drawn[1].random)


def test_starts_are_on_the_grid_with_lambda_1_the_slower_index(context):
    images = SeedImages.of(context, SIZES["smoke"].n_train, torch.float64)
    starts = images.starts(LAMBDAS)
    torch.testing.assert_close(starts[-1], images.truth)
    torch.testing.assert_close(starts[4], images.partition)
    torch.testing.assert_close(starts[5], images.random)
    half_way = 0.5 * (0.25 * images.truth + 0.75 * images.partition) + 0.5 * images.random
    torch.testing.assert_close(starts[1 * 5 + 2], half_way)


def test_crossings_by_hand():
    """Two seeds, λ₁ and λ₂ in {0, 1}: rows are (0, 0), (0, 1), (1, 0), (1, 1)."""
    base = {
        "truth": torch.tensor([8.0, 6.0, 0.0, 1.0]),
        "partition": torch.tensor([0.0, 2.0, 0.0, 5.0]),
    }
    found = _crossing([base, {**base, "truth": torch.tensor([8.0, 6.0, 0.0, 6.0])}], (0.0, 1.0))
    # along λ₁ at λ₂ = 1: truth 6 → 1 against 2 → 5 swaps at a half; 6 → 6 against 2 → 5 does not
    assert found.per_seed == [pytest.approx(0.5), None] and found.mean is found.sd is None
    assert _crossing([base, base], (0.0, 1.0)) == {"per_seed": [0.5, 0.5], "mean": 0.5, "sd": 0.0}


def test_set_distances_by_a_loop():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(2, 3, 3072, generator=generator)
    sets = {
        "truth": torch.rand(4, 3072, generator=generator),
        "random": torch.rand(2, 3072, generator=generator),
    }
    found = set_distances(x, sets, (3, 32, 32))
    for name, members in sets.items():
        for start in range(2):
            alike = [
                members[ssim(image[None], members, (3, 32, 32))[0].argmax()] for image in x[start]
            ]
            by_ssim = torch.stack(
                [(image - other).norm() for image, other in zip(x[start], alike, strict=True)]
            )
            torch.testing.assert_close(found[name][start], by_ssim.mean())


def test_geometry_by_hand():
    found = _geometry(
        {
            "barrier": torch.tensor([0.0, 0.02]),
            "curvature": torch.tensor([1.0, 2.0, 3.0]),
            "line": torch.tensor([0.0, 2.0, 1.0, 3.0]),
        }
    )
    assert found.barrier_mean == pytest.approx(0.01) and found.minima_to_partition == 1.0
    assert found.curvature == {"truth": 1.0, "partition": 2.0, "random": 3.0}


def test_energies_are_relative_to_that_of_noise():
    """E = ‖x‖² bends by 2 r² everywhere, and is convex: no barriers."""
    truth, ends = torch.zeros(4, 6, dtype=torch.float64), torch.rand(21, 4, 6, dtype=torch.float64)
    sets = [truth, truth + 1, truth + 3]
    found = _around(
        lambda x: x.square().sum((1, 2)),
        ends,
        sets,
        replace(DECORECO_SIZES["smoke"], line_points=3),
    )
    torch.testing.assert_close(
        found["curvature"], torch.full((3,), 2 * 0.5**2 * 4 / (9 * 24), dtype=torch.float64)
    )
    assert found["barrier"].max() == 0 and found["line"].tolist() == [0.0, 6.0, 24.0]


def test_bilevel_sweep(runs, context):
    result = runs("landscape-bilevel")
    found, sizes = result.metrics, SIZES["smoke"]
    assert found.distance.truth[-1][-1] < 1e-6 and found.start_distance.truth[-1][-1] < 1e-6
    # noise
    assert all(
        row[0] == pytest.approx(found.distance.truth[0][0], rel=1e-6)
        for row in found.distance.truth
    )
    assert found.start_distance.partition[0][-1] == 0.0 == found.start_distance.random[2][0]
    seeds = [SeedImages.of(context, sizes.n_train, torch.float64, k, seeds=2) for k in range(2)]
    ends = [
        bilevel_ends(affine_released(images, 1e-2), images.starts(LAMBDAS)[[-2]], sizes).x_hat
        for images in seeds
    ]
    by_seed = [
        images.distances(x_hat)["truth"].item() for images, x_hat in zip(seeds, ends, strict=True)
    ]
    assert found.distance.truth[-1][-2] == pytest.approx(sum(by_seed) / 2, rel=1e-5)
    assert found.null_distance_to_truth == pytest.approx(
        sum(each.null_distance().item() for each in seeds) / 2
    )


def test_walks(runs):
    result = runs("landscape-bilevel")
    found = result.metrics.connection
    for route in found.only(*FREE, *BOXED).values():
        assert route.solved and route.error < 1e-10 < 1e-3 < route.straight_error
    assert found.level > found.sufficient > 0.55
    first, second = (result.array(f"walk_{name}_frames") for name in BOXED)
    assert first.shape == second.shape and first.shape[0] == 5 and torch.equal(first[-1], second[0])
    assert 0 <= min(first.min(), second.min()) < max(first.max(), second.max()) <= 1


def test_comparison_of_searches(runs):
    result = runs("landscape-decoreco")
    searches = result.metrics.variants
    assert set(searches) == set(METHODS)
    for found in searches.values():
        shape = found.geometry
        assert (
            shape.barrier_mean >= 0 and shape.curvature.truth > 0 and shape.minima_to_partition >= 0
        )


# ------------------------------------------------------------------------------------- the verdicts


@pytest.fixture
def bilevel(runs):
    return runs("landscape-bilevel").metrics


@pytest.fixture
def compared(runs):
    return runs("landscape-decoreco").metrics


def grid(start, end):
    """[i][j] from `start` at λ₁ = 0 to `end` at λ₁ = 1, whatever λ₂."""
    return [[start + (end - start) * one] * 5 for one in LAMBDAS]


#: the paper's picture: the truth is left, the partition reached, as λ₁ falls; and its opposite
SWAPS = Record(truth=grid(16.0, 0.0), partition=grid(0.0, 16.0), random=grid(20.0, 20.0))
NEVER = Record(truth=grid(16.0, 10.0), partition=grid(0.0, 5.0), random=grid(20.0, 20.0))
TRUTH_EVERYWHERE = Record(truth=grid(1.0, 0.0), partition=grid(5.0, 16.0), random=grid(20.0, 20.0))
ALL_CELLS = [[1.0] * 5 for _ in LAMBDAS]
NO_CELL = [[0.5] * 5 for _ in LAMBDAS]


def test_bilevel_corners_and_crossing(bilevel):
    expected = {
        "SWAPS": ("reproduced", "reproduced"),
        "NEVER": ("not reproduced", "reproduced"),
        "TRUTH_EVERYWHERE": ("not reproduced", "not reproduced"),
    }
    for name, (corners, crossing) in expected.items():
        found = verdicts(bilevel_claims(replace(bilevel, distance=globals()[name]), SIZES["smoke"]))
        assert (found["bilevel-corners"], found["bilevel-crossing"]) == (corners, crossing), name


def test_bilevel_noise_must_cost_at_every_step(bilevel):
    for last, expected in (
        ([20.0, 15.0, 10.0, 5.0, 0.0], "reproduced"),
        ([20.0, 15.0, 15.0, 5.0, 0.0], "not reproduced"),
    ):
        distance = replace(bilevel.distance, truth=[*bilevel.distance.truth[:-1], last])
        assert (
            verdicts(bilevel_claims(replace(bilevel, distance=distance), SIZES["smoke"]))[
                "bilevel-noise"
            ]
            == expected
        )


def test_an_error_or_a_jump_disconnects(bilevel):
    routes = bilevel.connection
    good = replace(routes.box_random, error=1e-13, largest_step=1.1, largest_double_step=1.09)

    def connected(first, second, level=5.0, sufficient=0.6):
        found = replace(
            routes, level=level, sufficient=sufficient, to_partition=first, to_random=second
        )
        return verdicts(bilevel_claims(replace(bilevel, connection=found), SIZES["smoke"]))[
            "bilevel-connected"
        ]

    assert connected(good, good) == "finding"
    assert connected(good, good, level=0.5) == "not reproduced"  # the theorem does not apply
    wrong = [replace(good, error=1e-9), replace(good, largest_step=1.6, largest_double_step=1.6)]
    for bad in (*wrong, replace(good, largest_double_step=0.6)):
        assert connected(bad, good) == connected(good, bad) == "partly"
        assert connected(bad, bad) == "not reproduced"


def test_crossing_text(bilevel):
    at = bilevel.crossing.truth_partition
    for changed, expected in (
        (replace(at, mean=0.5, sd=0.1), "they swap at λ₁ = 0.50 ± 0.10"),
        (replace(at, mean=0.5, sd=None), "they swap at λ₁ = 0.50"),
        (
            replace(at, per_seed=[None, 0.4, None], mean=None, sd=None),
            "they do not swap in 2 of 3 seeds",
        ),
    ):
        assert (
            crossing_text(
                replace(bilevel, crossing=replace(bilevel.crossing, truth_partition=changed))
            )
            == expected
        )


def judged(compared, **methods):
    """With the geometry of some methods replaced."""
    variants = compared.variants
    changed = {
        name: replace(getattr(variants, name), geometry=own) for name, own in methods.items()
    }
    return verdicts(
        decoreco_claims(
            replace(compared, variants=replace(variants, **changed)), DECORECO_SIZES["smoke"]
        )
    )


def test_smoothing_is_judged_on_three_counts(compared):
    def shape(barrier, curvature, minima):
        g = compared.variants.bilevel.geometry
        bent = replace(g.curvature, random=curvature)
        return replace(g, barrier_mean=barrier, curvature=bent, minima_to_partition=minima)

    base = shape(1.0, 1.0, 1.0)
    assert judged(compared, bilevel=base, affine=shape(0.1, 0.1, 0.5))["smoothed"] == "reproduced"
    # as many are no fewer
    for mixed in ((0.1, 0.1, 1.0), (0.1, 0.1, 1.5), (2.0, 0.1, 0.5), (0.1, 2.0, 0.5)):
        assert judged(compared, bilevel=base, affine=shape(*mixed))["smoothed"] == "partly"
    assert (
        judged(compared, bilevel=base, affine=shape(2.0, 2.0, 1.0))["smoothed"] == "not reproduced"
    )


# --------------------------------------------------------------------------------------- the starts


def test_equal_starts_are_searched_once(context):
    images = SeedImages.of(context, SIZES["smoke"].n_train, torch.float64)
    starts = images.starts(LAMBDAS)
    few = starts[different_starts(LAMBDAS)]
    assert len(few) == 21 and torch.equal(few[every_cell(LAMBDAS)], starts)
    assert len({tuple(row) for row in few.flatten(1)[:, :50].tolist()}) == 21
