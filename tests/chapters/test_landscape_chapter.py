"""The landscape chapter: images of every seed, both sweeps in small, and how they are judged."""

from __future__ import annotations

import pytest
import torch

from companion.chapters.base import Context
from companion.chapters.landscape.experiment_bilevel import SIZES as BILEVEL_SIZES
from companion.chapters.landscape.experiment_bilevel import boxed, routes
from companion.chapters.landscape.experiment_decoreco import CONVERGED, DEEP, methods
from companion.chapters.landscape.experiment_decoreco import SIZES as DECORECO_SIZES
from companion.chapters.landscape.shared import SeedImages, different, summarise
from companion.chapters.landscape.story_bilevel import claims as bilevel_claims
from companion.chapters.landscape.story_bilevel import crossing_text
from companion.chapters.landscape.story_decoreco import claims as decoreco_claims
from companion.store.record import Record
from recon.images.registry import load_pool
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


# ---------------------------------------------------------------------------------------------------- the numbers


def test_every_seed_has_images_of_its_own(context):
    sizes = replace(SIZES["smoke"], seeds=2)
    drawn = [SeedImages.of(replace(context, seed=0), sizes, k, torch.float32) for k in range(sizes.seeds)]
    indices = [set(images.train_index.tolist()) for images in drawn]
    assert all(len(each) == sizes.n_train for each in indices) and not indices[0] & indices[1]
    for images in drawn:
        half = sizes.n_train // 2
        assert images.y.tolist() == [0.0] * half + [1.0] * half
    assert not torch.equal(drawn[0].random, drawn[1].random)


def test_starts_are_on_the_grid_with_lambda_1_the_slower_index(context):
    images = SeedImages.of(context, SIZES["smoke"], 0, torch.float64)
    starts = images.starts(LAMBDAS)
    torch.testing.assert_close(starts[-1], images.truth)
    torch.testing.assert_close(starts[4], images.partition)
    torch.testing.assert_close(starts[5], images.random)
    half_way = 0.5 * (0.25 * images.truth + 0.75 * images.partition) + 0.5 * images.random
    torch.testing.assert_close(starts[1 * 5 + 2], half_way)


def test_summary_by_hand():
    """Two seeds, λ₁ and λ₂ in {0, 1}: rows are (0, 0), (0, 1), (1, 0), (1, 1)."""
    names = [f"{prefix}{name}" for prefix in ("", "start_") for name in ("truth", "partition", "random")]
    names += ["truth_l2", "partition_l2", "random_l2", "energy", "start_energy"]
    base = {name: torch.tensor([1.0, 2.0, 3.0, 4.0]) for name in names}
    base["truth"] = torch.tensor([8.0, 6.0, 0.0, 1.0])
    base["partition"] = torch.tensor([0.0, 2.0, 0.0, 5.0])
    base["random"] = torch.tensor([0.0, 0.0, 3.0, 4.0])
    base |= {"converged": torch.tensor([True, False, True, True])}
    base |= {"barrier": torch.tensor([0.0, 0.02]), "curvature": torch.tensor([1.0, 2.0, 3.0])}
    base |= {"line_partition": torch.tensor([0.0, 2.0, 1.0, 3.0]), "line_random": torch.tensor([0.0, 1.0, 2.0, 4.0])}
    other = base | {
        "converged": torch.tensor([True, True, True, False]),
        "energy": base["energy"] + 2,
        "truth": torch.tensor([8.0, 6.0, 0.0, 6.0]),
    }
    found = summarise([base, other], (0.0, 1.0))
    assert found.energy == [[2.0, 3.0], [4.0, 5.0]] and found.cells_converged == [[1.0, 0.5], [1.0, 0.5]]
    assert found.energy_sd[0][0] == pytest.approx(2**0.5)
    assert found.distance.truth == [[8.0, 6.0], [0.0, 3.5]]
    # along λ₁ at λ₂ = 1: truth 6 → 1 against 2 → 5 swaps at a half; 6 → 6 against 2 → 5 does not
    assert found.crossing.truth_partition.per_seed == [pytest.approx(0.5), None]
    assert found.crossing.truth_partition.mean is None and found.crossing.truth_partition.sd is None
    # along λ₂ at λ₁ = 1: truth 0 → 1 is below noise 3 → 4 from the outset
    assert found.crossing.truth_random.per_seed == [None, None]
    shape = found.geometry
    assert shape.barrier_mean == pytest.approx(0.01) and shape.barrier_share_above_1_percent == 0.5
    assert (shape.curvature.truth, shape.curvature.partition, shape.curvature.random) == (1.0, 2.0, 3.0)
    assert shape.variation_to_partition == pytest.approx(5 / 3) and shape.minima_to_partition == 1.0
    assert shape.variation_to_random == 1.0 and shape.minima_to_random == 0.0


def test_bilevel_sweep(runs):
    result = runs("landscape-bilevel")
    found = result.metrics
    assert found.distance.truth[-1][-1] < 1e-6 and found.start_distance.truth[-1][-1] < 1e-6
    assert found.energy[-1][-1] < 1e-20 and found.steps == [SIZES["smoke"].steps] * SIZES["smoke"].seeds
    for mine, starts in zip(found.energy, found.start_energy, strict=True):
        assert all(a <= b + 1e-12 for a, b in zip(mine, starts, strict=True))
    for rows in (found.distance.truth, found.energy):
        assert all(row[0] == pytest.approx(rows[0][0], rel=1e-6) for row in rows)  # λ₂ = 0: noise, whatever λ₁
    assert result.array("truth").shape == (SIZES["smoke"].seeds, 25) and result.array("fine_energy").shape == (
        SIZES["smoke"].fine ** 2,
    )
    for route in routes(found.connection).values():
        assert route.solved and route.error < 1e-10 < 1e-3 < route.straight_error and route.frames == 5
    assert all(0 <= route.lowest_pixel <= route.highest_pixel <= 1 for route in boxed(found.connection))
    assert found.connection.level > found.connection.sufficient > 0.55
    first, second = (result.array(f"walk_{name}_frames") for name in ("box_partition", "box_random"))
    assert first.shape == second.shape and first.shape[0] == 5 and torch.equal(first[-1], second[0])
    assert result.array("truth").mean(0)[-2].item() == pytest.approx(found.distance.truth[-1][-2], rel=1e-6)
    assert found.start_distance.partition[0][-1] == 0.0 == found.start_distance.random[2][0]


def test_comparison_of_searches(runs):
    result = runs("landscape-decoreco")
    found, searches = result.metrics, methods(result.metrics.variants)
    assert set(DEEP) < set(searches) and list(searches)[0] == "bilevel"
    for name in DEEP:
        ended = [[fall < CONVERGED for fall in row] for row in searches[name].further_fall]
        alike = [share in (0, 1) for row in searches[name].cells_converged for share in row]
        assert not all(alike) or ended == [[share == 1 for share in row] for row in searches[name].cells_converged]
    assert found.distance == searches["pixels"].distance and found.ncc == searches["pixels"].ncc
    assert searches["span"].start_ncc and searches["bilevel"].ncc is searches["affine"].null_ncc is None
    assert searches["pixels"].null_ncc == searches["span"].null_ncc == searches["recipe"].null_ncc
    for each in searches.values():
        assert all(row[0] == each.distance.truth[0][0] for row in each.distance.truth)  # λ₂ = 0: noise, whatever λ₁
    for name, each in searches.items():
        own = each.start_distance == searches["bilevel"].start_distance
        assert own == (name != "span")  # our attack begins at the projected start
        assert [row[-1] for row in each.noise_line_per_seed] == result.array(f"{name}_truth")[:, -1].tolist()
    assert searches["affine"].distance.truth[-1][-1] < 0.1 < searches["affine"].distance.truth[-1][-2]


# ---------------------------------------------------------------------------------------------------- the verdicts


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
            verdicts(bilevel_claims(replace(bilevel, distance=distance), SIZES["smoke"]))["bilevel-noise"] == expected
        )


def test_an_error_or_a_jump_disconnects(bilevel):
    routes = bilevel.connection
    good = replace(routes.box_random, error=1e-13, largest_step=1.1, largest_double_step=1.09)

    def connected(first, second, level=5.0, sufficient=0.6):
        found = replace(routes, level=level, sufficient=sufficient, to_partition=first, to_random=second)
        return verdicts(bilevel_claims(replace(bilevel, connection=found), SIZES["smoke"]))["bilevel-connected"]

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
        (replace(at, per_seed=[None, 0.4, None], mean=None, sd=None), "they do not swap in 2 of 3 seeds"),
    ):
        assert crossing_text(replace(bilevel, crossing=replace(bilevel.crossing, truth_partition=changed))) == expected


def judged(compared, **methods):
    """With fields of some methods replaced: method name -> fields; our attack converged unless they say otherwise."""
    variants = compared.variants
    fields = {**methods, "unprojected": {"cells_converged": ALL_CELLS, **methods.get("unprojected", {})}}
    changed = {name: replace(getattr(variants, name), **own) for name, own in fields.items()}
    return verdicts(decoreco_claims(replace(compared, variants=replace(variants, **changed)), DECORECO_SIZES["smoke"]))


def test_smoothing_is_judged_on_five_counts(compared):
    def shape(barrier, curvature, minima=1.0):
        g = compared.geometry
        bent = replace(g.curvature, random=curvature)
        return {"geometry": replace(g, barrier_mean=barrier, curvature=bent, minima_to_partition=minima)}

    flat, rough, base = shape(0.1, 0.1, 0.5), shape(2.0, 2.0, 0.5), shape(1.0, 1.0)
    rougher = shape(2.0, 2.0, 1.5)
    assert judged(compared, bilevel=base, affine=flat, unprojected=flat)["smoothed"] == "reproduced"
    for as_many in (1.0, 1.5):  # nought against nought is no fewer either
        assert judged(compared, bilevel=base, affine=flat, unprojected=shape(0.1, 0.1, as_many))["smoothed"] == "partly"
    assert judged(compared, bilevel=base, affine=flat, unprojected=rough)["smoothed"] == "partly"
    assert judged(compared, bilevel=base, affine=rough, unprojected=rougher)["smoothed"] == "not reproduced"
    unfinished = {**rough, "cells_converged": NO_CELL}  # its ends are not minima: only the line counts
    assert judged(compared, bilevel=base, affine=flat, unprojected=unfinished)["smoothed"] == "reproduced"


# ---------------------------------------------------------------------------------------------------- the starts


def test_equal_starts_are_searched_once(context):
    images = SeedImages.of(context, SIZES["smoke"], 0, torch.float64)
    starts = images.starts(LAMBDAS)
    few, every = different(starts, LAMBDAS)
    assert len(few) == 21 and torch.equal(few[every], starts)
    assert len({tuple(row) for row in few.flatten(1)[:, :50].tolist()}) == 21
