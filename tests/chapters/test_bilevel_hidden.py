"""Bilevel reconstruction of the one-hidden-layer net: its rows, its nulls, how it is judged; the hypergradient."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import permutations
from types import SimpleNamespace

import pytest
import torch

from recon.attacks.bilevel_span import SpanWeights, quasi_newton
from recon.chapters.bilevel_hidden.claims import claims, hypergradient_claims, slope_claims
from recon.chapters.bilevel_hidden.compute import aligned_distance, converged, mean_and_sd
from recon.chapters.bilevel_hidden.compute_hypergradient import Case, exact_inverse
from recon.chapters.bilevel_hidden.compute_slopes import _slope, _slopes, measured_slopes
from recon.chapters.bilevel_hidden.metrics import (
    AtDecay,
    ByInnerStart,
    ByStart,
    Cosines,
    Ended,
    HypergradientMetrics,
    Metrics,
    Null,
    NullAtWidth,
    SameStart,
    Slope,
    SlopeMetrics,
    Slopes,
)
from recon.chapters.bilevel_hidden.readings import readings
from recon.chapters.bilevel_hidden.sizes import HYPERGRADIENT_SIZES, PATH_SIZES, SIZES, SLOPE_SIZES, Quotient
from recon.chapters.bilevel_hidden.tables import cosine_table, ends_table, reading_table, run_table, slope_table
from recon.chapters.run import run
from recon.nets.mlp import one_hidden

#: smaller than smoke: seconds
TINY = {"width": 8, "steps": 4, "inner_first": 40, "train_iterations": 100, "null_widths": (8, 12), "seeds": 2}
NULL = Null(
    held_out_nn_l2=13.0,
    held_out_nn_ncc=0.4,
    held_out_nn_ssim=0.2,
    other_seed_sum=20.0,
    other_seed_mean=1e-4,
    other_seed_aligned_sum=0.3,
    other_data_sum=20.0,
    zero_sum=10.0,
)


def ended(**values):
    """A start's end, the same in two seeds, 0 where nothing else is said."""
    zeros = {each.name: 0.0 for each in fields(Ended)} | {"converged": 1.0}
    row = Ended(**zeros | {"settled_sum": values.get("distance_sum", 0.0)} | values)
    return mean_and_sd([row, row])


def metrics(uniform, theta_star=None, other_seed=None, **null):
    inner = {"uniform": uniform, "theta_star": theta_star or uniform, "other_seed": other_seed or uniform}
    nulls = replace(NULL, **null)
    at_decay = AtDecay(**inner, weight_decay=1e-3, train_grad_norm=1e-4, train_energy=6e-3, null=nulls)
    return Metrics(
        **uniform.starts(),
        n_train=40,
        width=64,
        n_params=200_000,
        seeds=2,
        null_by_width={
            256: NullAtWidth(other_seed_sum=20.0, other_seed_mean=2e-5),
            64: NullAtWidth(other_seed_sum=20.0, other_seed_mean=1e-4),
        },
        weight_decay=1e-3,
        inner_start=ByInnerStart(**inner),
        null=nulls,
        weight_decays={1e-3: at_decay},
    )


GOOD = ByStart(
    random=ended(distance_sum=1.0, nn_train_l2=17.0),
    truth=ended(distance_sum=1.0, nn_train_l2=1.0),
    partition=ended(distance_sum=1.0, nearer_to_partition=1.0),
)
FAR = replace(GOOD, random=ended(distance_sum=11.0))


def verdicts(*args, **null):
    found = claims(metrics(*args, **null), SIZES["smoke"])
    return {claim.id.removeprefix("hidden-"): claim.verdict for claim in found}


@pytest.mark.parametrize("start", ["random", "truth", "partition"])
def test_a_distance_is_judged_by_two_seeds(start):
    """Small: a tenth of what two seeds are apart, 20, after the inner solver has settled."""
    for settled, expected in ((2.0, "reproduced"), (2.01, "not reproduced")):
        found = verdicts(replace(GOOD, **{start: ended(distance_sum=0.0, settled_sum=settled)}))
        assert found[f"distance-{start}"] == expected
    falling = ended(distance_sum=9.0, converged=0.5)
    assert verdicts(replace(GOOD, **{start: falling}))[f"distance-{start}"] == "undecided"


def test_readings_of_runs_that_still_fall_are_left_out():
    near = ByStart(
        random=ended(distance_sum=6.1e-5), truth=ended(distance_sum=1.7e-3), partition=ended(distance_sum=6.4e-3)
    )
    falling = replace(near, truth=replace(near.truth, converged=0.5))
    assert verdicts(FAR, near)["no-reading-fits"] == "not reproduced"
    claim = next(c for c in claims(metrics(FAR, falling), SIZES["smoke"]) if c.id == "hidden-no-reading-fits")
    assert claim.verdict == "finding" and claim.ours.endswith("; 1 of 3 runs still falling, not judged")
    assert verdicts(falling)["no-reading-fits"] == "undecided"


def test_an_inner_start_that_still_falls_decides_nothing():
    falling = replace(FAR, random=replace(FAR.random, converged=0.5))
    assert verdicts(falling, GOOD, FAR)["inner-start-decides"] == "undecided"
    partition = replace(GOOD, partition=replace(GOOD.partition, converged=0.0))
    claim = next(
        c for c in claims(metrics(FAR, partition, FAR), SIZES["smoke"]) if c.id == "hidden-inner-start-decides"
    )
    assert claim.verdict == "finding" and claim.ours.endswith("1 from θ* (still falling)")


def test_the_inner_start_decides_only_where_the_others_fail():
    assert verdicts(FAR, GOOD, FAR)["inner-start-decides"] == "finding"
    assert verdicts(FAR, FAR, FAR)["inner-start-decides"] == "partly"
    assert verdicts(GOOD, GOOD, FAR)["inner-start-decides"] == "partly"
    assert verdicts(GOOD, FAR, FAR)["inner-start-decides"] == "not reproduced"


@pytest.mark.parametrize(("mean", "expected"), [(1.2e-4, "finding"), (1.3e-4, "partly"), (7e-4, "not reproduced")])
def test_the_average_is_held_against_two_seeds(mean, expected):
    assert verdicts(GOOD, other_seed_mean=mean)["average-is-null"] == expected


@pytest.mark.parametrize(("aligned", "expected"), [(5.0, "finding"), (10.0, "partly"), (10.1, "not reproduced")])
def test_the_order_of_units(aligned, expected):
    assert verdicts(GOOD, other_seed_aligned_sum=aligned)["seeds-agree-up-to-order"] == expected


def test_a_reading_that_fits_is_found():
    """As a mean per parameter of 200 000: the paper's values, twice as large."""
    fits = ByStart(
        random=ended(distance_sum=2 * 6.1157e-5 * 200_000),
        truth=ended(distance_sum=2 * 1.7055e-3 * 200_000),
        partition=ended(distance_sum=2 * 6.3629e-3 * 200_000),
    )
    best = min(readings(metrics(fits)), key=lambda each: each.factor)
    assert best.reading == "mean per parameter" and best.factor == pytest.approx(2.0)
    assert verdicts(fits)["no-reading-fits"] == "not reproduced" and verdicts(GOOD)["no-reading-fits"] == "finding"
    relative = next(each for each in readings(metrics(GOOD)) if each.reading.startswith("relative"))
    assert relative.random == pytest.approx(0.1)
    assert next(iter(readings(metrics(replace(GOOD, truth=ended()))))).factor == float("inf")


def test_widths_are_named_in_order():
    """A stored result gives its keys in the order of their texts."""
    claim = next(claim for claim in claims(metrics(GOOD), SIZES["smoke"]) if claim.id == "hidden-average-is-null")
    assert claim.null.endswith("by width: 64: 1.0e-04, 256: 2.0e-05")


def test_convergence_looks_at_the_last_quarter():
    falling = torch.cat([torch.ones(12), torch.linspace(1.0, 0.98, 5)])
    assert converged(torch.ones(8), 0.0) and not converged(falling, 0.0) and converged(falling, 0.98)
    assert converged(torch.tensor([5.0, 1.0, 0.999, 0.998]), 0.0)


def test_mean_and_sd():
    one = Ended(**{each.name: 0.0 for each in fields(Ended)})
    found = mean_and_sd([replace(one, moved_l2=value) for value in (1.0, 2.0, 6.0)])
    assert found.moved_l2 == pytest.approx(3.0) and found.moved_l2_sd == pytest.approx(7**0.5)
    assert found.distance_sum == found.distance_sum_sd == 0.0
    assert mean_and_sd([replace(one, moved_l2=2.0)]).moved_l2_sd == 0.0


def test_tables():
    results = [SimpleNamespace(metrics=metrics(GOOD)), SimpleNamespace(metrics=metrics(FAR))]
    runs = run_table(results)
    assert runs.loc[(1e-3, "uniform", "random"), "settled"] == "1 … 11" and len(runs) == 9
    table = reading_table(results)
    assert table.loc[("sum", "0.001", "uniform"), "random"] == "1.0e+00 … 1.1e+01"
    assert table.loc[("relative to ‖θ*‖²", "0.001", "null: two seeds"), "truth"] == "2.0e+00"
    assert table.loc[("", "", "paper, Table 1"), "partition"] == "6.4e-03"


def test_aligned_distance_is_that_of_the_best_permutation():
    network = one_hidden(width=4, dim=3)
    generator = torch.Generator().manual_seed(0)
    a, b = (network.flatten(network.init(generator, dtype=torch.float64)) for _ in range(2))

    def renumbered(theta, order):
        p = network.unflatten(theta)
        return network.flatten({**p, "w1": p["w1"][order], "b1": p["b1"][order], "w2": p["w2"][:, order]})

    best = min((renumbered(a, list(order)) - b).square().sum().item() for order in permutations(range(4)))
    assert aligned_distance(network, a, b) == pytest.approx(best, rel=1e-12)
    assert aligned_distance(network, renumbered(a, [2, 0, 3, 1]), a) == pytest.approx(0.0, abs=1e-12)


def test_tiny_run(tmp_path):
    result = run("bilevel-hidden", profile="smoke", data="photos", device="cpu", out=tmp_path, **TINY)
    found = result.metrics
    assert (found.seeds, found.width, found.n_params) == (2, 8, 8 * 3072 + 8 + 8 + 1)
    assert found.random == found.inner_start.uniform.random == found.weight_decays[1e-3].uniform.random
    assert set(found.null_by_width) == {8, 12}
    assert found.null_by_width[8].other_seed_mean == found.null_by_width[8].other_seed_sum / found.n_params
    assert found.null_by_width[8].other_seed_sum == found.null.other_seed_sum
    informed = found.inner_start.theta_star
    assert informed.truth.moved_l2 <= 1e-2 and informed.truth.distance_sum < 1e-2 < informed.random.distance_sum
    assert 0 < found.null.other_seed_aligned_sum <= found.null.other_seed_sum * (1 + 1e-6)
    energy = result.array("energy")
    assert energy.shape == (4, 18)
    for first, (inner, suffix) in enumerate(
        (("uniform", ""), ("other_seed", "_from_other_seed"), ("theta_star", "_from_theta_star"))
    ):
        for k, start in enumerate(("random", "truth", "partition")):
            rows = energy[-1, 6 * first + 2 * k : 6 * first + 2 * k + 2]
            reached = found.inner_start.inner_starts()[inner].starts()[start]
            assert reached.distance_sum == pytest.approx(rows.mean().item(), rel=1e-5)
            assert reached.distance_sum_sd == pytest.approx(rows.std().item(), rel=1e-3, abs=1e-8)
            assert result.array(f"x_hat_{start}{suffix}").shape == (len(result.array("x_train")), 3072)
    assert torch.equal(result.array("x_init_truth"), result.array("x_train"))
    assert torch.equal(result.array("x_init_partition_from_theta_star"), result.array("x_partition"))


COSINES = Cosines(case="a", kinks=3, exact=1.0, exact_error=1e-8, kkt=0.99, gauss_newton=0.95, quasi_newton=0.5)
CHECK = HypergradientMetrics(
    n_train=10,
    width=16,
    tried=4,
    relu=[COSINES, replace(COSINES, case="b", gauss_newton=0.97)],
    smooth=[COSINES],
    ends=[SameStart(case="a", first=9.0, gauss_newton=1.0, quasi_newton=3.0, kkt=1.0)],
)


def test_the_hypergradient_is_judged_by_finite_differences():
    def judged(**changes):
        return [c.verdict for c in hypergradient_claims(replace(CHECK, **changes), HYPERGRADIENT_SIZES["smoke"])]

    assert judged() == ["finding"] * 3
    assert judged(smooth=[replace(COSINES, exact=0.999)])[0] == "not reproduced"
    assert judged(relu=[replace(COSINES, gauss_newton=0.8)])[1] == "partly"
    assert judged(relu=[replace(COSINES, quasi_newton=0.96)])[1] == "partly"
    assert judged(relu=[replace(COSINES, exact=0.9)])[1] == judged(relu=[])[1] == "not reproduced"
    worse = replace(CHECK.ends[0], gauss_newton=1.3)
    assert judged(ends=[*CHECK.ends, worse])[2] == "partly" and judged(ends=[worse])[2] == "not reproduced"


def test_tables_of_the_hypergradient():
    result = SimpleNamespace(metrics=CHECK)
    assert cosine_table(result).loc[("ReLU", "b"), "Gauss–Newton"] == "0.970"
    assert ends_table(result).loc["a", "quasi-Newton (paper)"] == "3"


def test_slopes_of_a_smooth_net_are_those_of_its_hessian():
    """Softplus, where eq. (7) is exact: length and sign of a central difference; then what the cosines are of."""
    generator = torch.Generator().manual_seed(0)
    network, y = one_hidden(width=5, dim=12, smoothing=10.0), torch.tensor([0.0, 1.0, 0.0, 1.0], dtype=torch.float64)
    x, way = torch.rand(2, 4, 12, generator=generator, dtype=torch.float64)
    star = SpanWeights.of(network, network.flatten(network.init(generator, dtype=torch.float64)), rank=4)
    case = Case("a", star, x, y, 0.05, replace(star, theta=star.theta + 0.1).onto, 400)
    basis, found = case.solved()
    exact = replace(case.attack, inverse=exact_inverse).energy_and_grad(x, basis, found)[1]
    way = way / way.norm()
    slope = _slope(case, basis, found, way, Quotient(step=1e-3, iterations=400))
    assert slope == pytest.approx((exact * way).sum().item(), rel=1e-3)

    sizes = replace(SLOPE_SIZES["smoke"], directions=20)
    rows = measured_slopes(case, sizes, generator)
    newton = case.attack.energy_and_grad(x, basis, found)[1]
    quasi = replace(case.attack, inverse=quasi_newton).energy_and_grad(x, basis, found)[1]
    assert rows[-2, 0].item() == pytest.approx(newton.norm().item())
    assert rows[-1, 0].item() == pytest.approx((quasi * newton).sum().item() / newton.norm().item())
    point = _slopes(sizes, "5 0.05", "random", rows)
    assert (point.width, point.weight_decay, point.repeated) == (5, 0.05, pytest.approx(1.0, abs=1e-3))
    assert 0.8 < point.quotients[0].along < 1.25 and point.quotients[0].gauss_newton > 0.9
    assert [(each.step, each.iterations) for each in point.quotients] == [(0.01, 100), (0.003, 100), (0.01, 10)]


def test_each_way_has_the_cosines_of_its_own_predictions():
    """Rows: three quotients, Gauss–Newton's predictions, the quasi-Newton matrix's; first along the former's own."""
    measured = [4.0, 1.0, 2.0]
    rows = torch.tensor([measured, measured, measured, [2.0, 1.0, 2.0], [1.0, -1.0, -2.0]], dtype=torch.float64)
    point = _slopes(SLOPE_SIZES["smoke"], "8 0.01", "truth", rows)
    assert point.start == "truth" and point.repeated == pytest.approx(1.0)
    for each in point.quotients:
        assert (each.along, each.gauss_newton, each.quasi_newton) == pytest.approx((2.0, 1.0, -1.0))


def test_slopes_are_judged_at_the_greatest_width():
    def judged(*cosines):
        points = [
            Slopes(
                width=width,
                weight_decay=1e-3,
                start="truth",
                repeated=1.0,
                quotients=[Slope(step=0.01, iterations=9, along=1.1, gauss_newton=newton, quasi_newton=quasi)],
            )
            for width, newton, quasi in cosines
        ]
        metrics = SlopeMetrics(n_train=4, width=64, directions=16, points=points)
        (claim,) = slope_claims(metrics, SLOPE_SIZES["smoke"])
        table = slope_table([SimpleNamespace(metrics=metrics)])
        assert len(table) == len({each.width for each in points})
        return claim.verdict

    assert judged((8, 0.0, 0.99), (64, 0.95, 0.2)) == "finding"
    assert judged((64, 0.95, 0.2), (64, 0.95, 0.95)) == judged((64, 0.5, 0.2)) == "partly"
    assert judged((64, 0.5, 0.5)) == judged((8, 0.99, 0.0), (64, -0.9, 0.2)) == "not reproduced"


def test_a_path_begins_at_its_start_and_ends_elsewhere(runs):
    """Short steps: the images are their start's at first; each trace is as long as the run."""
    found, steps = runs("bilevel-hidden-path"), PATH_SIZES["smoke"].steps
    for inner, by_start in found.metrics.paths.items():
        for start, path in by_start.items():
            trace = found.array(f"trace_{start}_from_{inner}")
            assert trace.shape == (steps, 2) and not trace.isnan().any()
            assert trace[0, 1].item() == pytest.approx(1.0, abs=1e-5)
            assert path.alike.ncc_with_start >= 0.9 and trace[-1, 1] < trace[0, 1]
            assert path.end.distance_sum <= path.first_sum and path.alike.step <= path.end.step == steps
            assert path.alike.moved_relative <= path.end.moved_relative
            alike = found.array(f"alike_{start}_from_{inner}")
            begun = found.array("x_train" if start == "truth" else "x_partition")
            assert (alike - begun).norm() / begun.norm() == pytest.approx(path.alike.moved_relative, abs=1e-5)
