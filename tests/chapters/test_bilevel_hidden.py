"""Bilevel reconstruction of the one-hidden-layer net: its rows, its nulls, how it is judged."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch

from companion.chapters.bilevel_common import STARTS
from companion.chapters.bilevel_hidden.experiment import (
    INNER_STARTS,
    SIZES,
    Metrics,
    aligned_distance,
    converged,
    mean_and_sd,
)
from companion.chapters.bilevel_hidden.experiment_path import SIZES as PATH_SIZES
from companion.chapters.bilevel_hidden.story import claims
from companion.chapters.run import run
from companion.store.record import Record
from recon.nets.mlp import one_hidden
from tests.records import replace

#: smaller than smoke: seconds
TINY = {"width": 8, "steps": 4, "inner_first": 40, "train_iterations": 100, "null_widths": (8, 12), "seeds": 2}
NULL = Record(
    held_out_nn_l2=13.0,
    held_out_nn_ncc=0.4,
    held_out_nn_ssim=0.2,
    other_seed_sum=20.0,
    other_seed_mean=1e-4,
    other_seed_aligned_sum=0.3,
    other_data_sum=20.0,
    zero_sum=10.0,
)


#: what `measured` and `ended` of the chapter say of a run
ENDED = (
    *("distance_sum", "distance_mean", "distance_relative", "moved_l2", "nn_train_l2", "nn_partition_l2"),
    *("nn_train_ssim", "nearer_to_partition", "own_start_is_nearest", "settled_sum", "inner_grad_norm"),
    *("first_sum", "steps", "converged"),
)


def ended(**values):
    """A start's end, the same in two seeds, 0 where nothing else is said."""
    zeros = dict.fromkeys(ENDED, 0.0) | {"converged": 1.0}
    row = Record(**zeros | {"settled_sum": values.get("distance_sum", 0.0)} | values)
    return mean_and_sd([row, row])


def metrics(uniform, theta_star=None, other_seed=None, **null):
    inner = {"uniform": uniform, "theta_star": theta_star or uniform, "other_seed": other_seed or uniform}
    nulls = replace(NULL, **null)
    at_decay = Record(**inner, weight_decay=1e-3, train_grad_norm=1e-4, train_energy=6e-3, null=nulls)
    return Metrics(
        **uniform.only(*STARTS),
        n_train=40,
        width=64,
        n_params=200_000,
        seeds=2,
        null_by_width={
            256: Record(other_seed_sum=20.0, other_seed_mean=2e-5),
            64: Record(other_seed_sum=20.0, other_seed_mean=1e-4),
        },
        weight_decay=1e-3,
        inner_start=Record(**inner),
        null=nulls,
        weight_decays={1e-3: at_decay},
    )


GOOD = Record(
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


@pytest.mark.parametrize(("aligned", "expected"), [(5.0, "finding"), (10.0, "partly"), (10.1, "not reproduced")])
def test_the_order_of_units(aligned, expected):
    assert verdicts(GOOD, other_seed_aligned_sum=aligned)["seeds-agree-up-to-order"] == expected


def test_convergence_looks_at_the_last_quarter():
    falling = torch.cat([torch.ones(12), torch.linspace(1.0, 0.98, 5)])
    assert converged(torch.ones(8), 0.0) and not converged(falling, 0.0) and converged(falling, 0.98)
    assert converged(torch.tensor([5.0, 1.0, 0.999, 0.998]), 0.0)


def test_mean_and_sd():
    one = Record(dict.fromkeys(ENDED, 0.0))
    found = mean_and_sd([replace(one, moved_l2=value) for value in (1.0, 2.0, 6.0)])
    assert found.moved_l2 == pytest.approx(3.0) and found.moved_l2_sd == pytest.approx(7**0.5)
    assert found.distance_sum == found.distance_sum_sd == 0.0
    assert mean_and_sd([replace(one, moved_l2=2.0)]).moved_l2_sd == 0.0


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
    assert found.random == found.inner_start.uniform.random == found.weight_decays["0.001"].uniform.random
    assert set(found.null_by_width) == {"8", "12"}
    assert found.null_by_width["8"].other_seed_mean == found.null_by_width["8"].other_seed_sum / found.n_params
    assert found.null_by_width["8"].other_seed_sum == found.null.other_seed_sum
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
            reached = found.inner_start.only(*INNER_STARTS)[inner].only(*STARTS)[start]
            assert reached.distance_sum == pytest.approx(rows.mean().item(), rel=1e-5)
            assert reached.distance_sum_sd == pytest.approx(rows.std().item(), rel=1e-3, abs=1e-8)
            assert result.array(f"x_hat_{start}{suffix}").shape == (len(result.array("x_train")), 3072)
    assert torch.equal(result.array("x_init_truth"), result.array("x_train"))
    assert torch.equal(result.array("x_init_partition_from_theta_star"), result.array("x_partition"))


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
