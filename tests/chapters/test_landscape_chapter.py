"""The landscape chapter: images of every seed, both sweeps in small, and how they are judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from recon.chapters.base import Context
from recon.chapters.landscape.claims import bilevel_claims, crossing_text, decoreco_claims
from recon.chapters.landscape.metrics import BilevelMetrics, BySet, DecorecoMetrics
from recon.chapters.landscape.shared import SeedImages, summarise
from recon.chapters.landscape.sizes import SIZES
from recon.chapters.run import run
from recon.images.registry import load_pool
from recon.store.results import load_result

PUBLISHED = Path(__file__).parents[2] / "book" / "executed" / "results"
LAMBDAS = [0.0, 0.25, 0.5, 0.75, 1.0]
#: smaller than smoke: seconds
TINY = {"steps": 40, "width": 16, "train_steps": 40, "descent_steps": 10, "fine": 3, "fine_steps": 10, "pairs": 2}


def in_this_process(unit, names, label):
    return {name: unit(name) for name in names}


@pytest.fixture
def context(tmp_path):
    return Context(load_pool("photos"), torch.device("cpu"), 0, tmp_path, in_this_process)


def verdicts(claims):
    return {claim.id.removeprefix("landscape-"): claim.verdict for claim in claims}


# ---------------------------------------------------------------------------------------------------- the numbers


def test_every_seed_has_images_of_its_own(context):
    sizes = SIZES["smoke"]
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
    base |= {"barrier": torch.tensor([0.0, 0.02]), "curvature": torch.tensor([1.0, 2.0, 3.0])}
    base |= {"line_partition": torch.tensor([0.0, 2.0, 1.0, 3.0]), "line_random": torch.tensor([0.0, 1.0, 2.0, 4.0])}
    other = base | {"energy": base["energy"] + 2, "truth": torch.tensor([8.0, 6.0, 0.0, 6.0])}
    found = summarise([base, other], (0.0, 1.0))
    assert found.energy == [[2.0, 3.0], [4.0, 5.0]]
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


def test_tiny_bilevel_sweep(tmp_path):
    result = run("landscape-bilevel", profile="smoke", data="photos", device="cpu", out=tmp_path, **TINY)
    found = result.metrics
    assert found.distance.truth[-1][-1] < 1e-6 and found.start_distance.truth[-1][-1] < 1e-6
    assert found.energy[-1][-1] < 1e-20 and found.steps == [40, 40]
    for mine, starts in zip(found.energy, found.start_energy, strict=True):
        assert all(a <= b + 1e-12 for a, b in zip(mine, starts, strict=True))
    for rows in (found.distance.truth, found.energy):
        assert all(row[0] == pytest.approx(rows[0][0], rel=1e-6) for row in rows)  # λ₂ = 0: noise, whatever λ₁
    assert result.array("truth").shape == (2, 25) and result.array("fine_energy").shape == (9,)
    assert result.array("truth").mean(0)[-2].item() == pytest.approx(found.distance.truth[-1][-2], rel=1e-6)
    assert found.start_distance.partition[0][-1] == 0.0 == found.start_distance.random[2][0]


@pytest.mark.slow
def test_tiny_comparison(tmp_path):
    result = run("landscape-decoreco", profile="smoke", data="photos", device="cpu", out=tmp_path, **TINY)
    found, methods = result.metrics, result.metrics.variants.methods()
    assert found.distance == methods["pixels"].distance and found.ncc == methods["pixels"].ncc
    assert methods["span"].start_ncc and methods["bilevel"].ncc is methods["affine"].null_ncc is None
    assert methods["pixels"].null_ncc == methods["span"].null_ncc
    for name, each in methods.items():
        own = each.start_distance == methods["bilevel"].start_distance
        assert own == (name != "span")  # our attack begins at the projected start
        assert [row[-1] for row in each.noise_line_per_seed] == result.array(f"{name}_truth")[:, -1].tolist()
    assert methods["affine"].distance.truth[-1][-1] < 0.1 < methods["affine"].distance.truth[-1][-2]


# ---------------------------------------------------------------------------------------------------- the verdicts


@pytest.fixture
def bilevel():
    return load_result(PUBLISHED / "landscape-bilevel", BilevelMetrics, arrays=False).metrics


@pytest.fixture
def compared():
    return load_result(PUBLISHED / "landscape-decoreco", DecorecoMetrics, arrays=False).metrics


def grid(start, end):
    """[i][j] from `start` at λ₁ = 0 to `end` at λ₁ = 1, whatever λ₂."""
    return [[start + (end - start) * one] * 5 for one in LAMBDAS]


#: the paper's picture: the truth is left, the partition reached, as λ₁ falls; and its opposite
SWAPS = BySet(truth=grid(16.0, 0.0), partition=grid(0.0, 16.0), random=grid(20.0, 20.0))
NEVER = BySet(truth=grid(16.0, 10.0), partition=grid(0.0, 5.0), random=grid(20.0, 20.0))
TRUTH_EVERYWHERE = BySet(truth=grid(1.0, 0.0), partition=grid(5.0, 16.0), random=grid(20.0, 20.0))


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


def test_a_jump_or_a_rise_on_either_way_disconnects(bilevel):
    good = replace(bilevel.connection.random, curve=1e-20, largest_step=1.1)

    def connected(partition, random):
        connection = replace(bilevel.connection, partition=partition, random=random)
        claim = bilevel_claims(replace(bilevel, connection=connection), SIZES["smoke"])[-1]
        assert claim.id == "landscape-bilevel-connected" and claim.verdict == "finding"
        return claim.sentence.startswith("A curve at energy zero leads")

    assert connected(good, good)
    for bad in (replace(good, curve=1e-11), replace(good, largest_step=1.6)):
        assert not connected(bad, good) and not connected(good, bad)


def test_crossing_text(bilevel):
    at = bilevel.crossing.truth_partition
    for changed, expected in (
        (replace(at, mean=0.5, sd=0.1), "they swap at λ₁ = 0.50 ± 0.10"),
        (replace(at, mean=0.5, sd=None), "they swap at λ₁ = 0.50"),
        (replace(at, per_seed=[None, 0.4, None], mean=None, sd=None), "they do not swap in 2 of 3 seeds"),
    ):
        assert crossing_text(replace(bilevel, crossing=replace(bilevel.crossing, truth_partition=changed))) == expected


def judged(compared, **methods):
    """Verdicts with fields of some methods replaced: method name -> fields."""
    variants = compared.variants
    changed = {name: replace(getattr(variants, name), **fields) for name, fields in methods.items()}
    return verdicts(decoreco_claims(replace(compared, variants=replace(variants, **changed)), SIZES["smoke"]))


def test_decoreco_corners_and_crossing_of_both_searches(compared):
    for pixels, span, expected in (
        (SWAPS, SWAPS, "reproduced"),
        (SWAPS, TRUTH_EVERYWHERE, "partly"),
        (TRUTH_EVERYWHERE, TRUTH_EVERYWHERE, "not reproduced"),
    ):
        found = judged(compared, pixels={"distance": pixels}, span={"distance": span})
        assert found["decoreco-corners"] == found["decoreco-crossing"] == expected


def test_near_truth_needs_both_neighbours(compared):
    def around(value, other):
        truth = [[20.0] * 5 for _ in LAMBDAS]
        truth[-1][-2], truth[-2][-1] = value, other
        return {"distance": replace(SWAPS, truth=truth)}

    for pixels, span, expected in (
        ((1.3, 1.3), (1.3, 1.3), "reproduced"),
        ((1.3, 1.2), (1.3, 1.3), "partly"),
        ((1.2, 1.3), (1.2, 1.3), "not reproduced"),
    ):
        found = judged(compared, bilevel=around(1.0, 1.0), pixels=around(*pixels), span=around(*span))
        assert found["near-truth"] == expected


def test_degrading_is_judged_over_seeds(compared):
    def costs(*totals):  # of each seed, from λ₂ = 1 to 0
        return {"noise_line_per_seed": [[total, 0.0, 0.0, 0.0, 0.0] for total in totals]}

    steep, same = costs(19.9, 20.0, 20.1), costs(20.0, 19.9, 20.1)
    for pixels, span, expected in (
        (costs(10.0, 11.0, 9.0), costs(10.0, 10.0, 10.0), "reproduced"),
        (same, costs(10.0, 10.0, 10.0), "partly"),
        (same, costs(0.0, 20.0, 39.0), "not reproduced"),  # less on average, not by two standard errors
        (costs(30.0, 30.0, 30.0), same, "not reproduced"),
    ):
        assert judged(compared, bilevel=steep, pixels=pixels, span=span)["degrades"] == expected


def test_smoothing_is_judged_on_five_counts(compared):
    def shape(barrier, curvature, minima=1.0):
        g = compared.geometry
        bent = replace(g.curvature, random=curvature)
        return {"geometry": replace(g, barrier_mean=barrier, curvature=bent, minima_to_partition=minima)}

    flat, rough, base = shape(0.1, 0.1), shape(2.0, 2.0), shape(1.0, 1.0)
    assert judged(compared, bilevel=base, affine=flat, span=flat, pixels=base)["smoothed"] == "reproduced"
    assert judged(compared, bilevel=base, affine=flat, span=flat, pixels=shape(1, 1, 1.5))["smoothed"] == "partly"
    assert judged(compared, bilevel=base, affine=flat, span=rough, pixels=base)["smoothed"] == "partly"
    worst = judged(compared, bilevel=base, affine=rough, span=rough, pixels=shape(1, 1, 1.5))
    assert worst["smoothed"] == "not reproduced"


def test_what_did_not_converge_is_said(compared):
    for left, said in ((0.05, False), (0.2, True)):
        pixels = replace(compared.variants.pixels, energy=[[left] * 5 for _ in LAMBDAS])
        metrics = replace(compared, variants=replace(compared.variants, pixels=pixels))
        text = decoreco_claims(metrics, SIZES["smoke"])[0].ours
        assert ("not converged, up to 20% left" in text) == said
