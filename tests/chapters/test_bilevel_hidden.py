"""Bilevel reconstruction of the one-hidden-layer net: its batch, its nulls, and how it is judged."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import permutations

import pytest
import torch

from recon.chapters.bilevel_common import Reconstructed
from recon.chapters.bilevel_hidden.claims import claims
from recon.chapters.bilevel_hidden.compute import aligned_distance, mean_and_sd
from recon.chapters.bilevel_hidden.metrics import AtDecay, ByInnerStart, ByStart, Metrics, Null, NullAtWidth
from recon.chapters.bilevel_hidden.sizes import SIZES
from recon.chapters.run import run
from recon.nets.mlp import one_hidden

#: smaller than smoke: seconds
TINY = {"width": 8, "steps": 4, "inner_first": 40, "train_iterations": 200, "null_widths": (8, 12)}
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
    row = Reconstructed(**{each.name: 0.0 for each in fields(Reconstructed)} | values)
    return mean_and_sd([row, row])


def metrics(uniform, theta_star=None):
    inner = {"uniform": uniform, "theta_star": theta_star or uniform}
    at_decay = AtDecay(**inner, weight_decay=1e-3, train_grad_norm=1e-4, null=NULL)
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
        null=NULL,
        weight_decays={1e-3: at_decay},
    )


GOOD = ByStart(
    random=ended(distance_sum=1.0, nn_train_l2=17.0),
    truth=ended(distance_sum=1.0, nn_train_l2=1.0),
    partition=ended(distance_sum=1.0, nearer_to_partition=1.0),
)


def verdicts(uniform, theta_star=None):
    return {
        claim.id.removeprefix("hidden-"): claim.verdict
        for claim in claims(metrics(uniform, theta_star), SIZES["smoke"])
    }


@pytest.mark.parametrize("start", ["random", "truth", "partition"])
def test_a_distance_is_judged_by_two_seeds(start):
    """Small: a tenth of what two seeds are apart, 20."""
    for distance, expected in ((2.0, "reproduced"), (2.01, "not reproduced")):
        found = verdicts(replace(GOOD, **{start: ended(distance_sum=distance)}))
        assert found[f"distance-{start}"] == expected


def test_images_are_judged_by_held_out_ones():
    good = verdicts(GOOD)
    assert {good[name] for name in ("random-noise", "truth-resembles", "partition-is-start")} == {"reproduced"}
    assert verdicts(replace(GOOD, random=ended(nn_train_l2=13.0)))["random-noise"] == "not reproduced"
    assert verdicts(replace(GOOD, truth=ended(nn_train_l2=6.5)))["truth-resembles"] == "not reproduced"
    worse = replace(GOOD, partition=ended(nearer_to_partition=0.94))
    assert verdicts(worse, GOOD)["partition-is-start"] == "not reproduced"
    assert verdicts(GOOD, worse)["partition-is-start"] == "not reproduced"


def test_widths_are_named_in_order():
    """A stored result gives its keys in the order of their texts."""
    claim = next(claim for claim in claims(metrics(GOOD), SIZES["smoke"]) if claim.id == "hidden-average-is-null")
    assert claim.null.endswith("by width: 64: 1.0e-04, 256: 2.0e-05")


def test_mean_and_sd():
    rows = [replace(ended(moved_l2=value)) for value in (1.0, 2.0, 6.0)]
    found = mean_and_sd(rows)
    assert found.moved_l2 == pytest.approx(3.0) and found.moved_l2_sd == pytest.approx(7**0.5)
    assert found.distance_sum == found.distance_sum_sd == 0.0


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
    assert (found.seeds, found.width, found.n_params) == (3, 8, 8 * 3072 + 8 + 8 + 1)
    assert found.random == found.inner_start.uniform.random == found.weight_decays[1e-3].uniform.random
    assert set(found.null_by_width) == {8, 12}
    assert found.null_by_width[8].other_seed_mean == found.null_by_width[8].other_seed_sum / found.n_params
    informed = found.inner_start.theta_star
    assert informed.truth.moved_l2 <= 1e-3 and informed.truth.distance_sum < 1e-2 < informed.random.distance_sum
    assert 0 < found.null.other_seed_aligned_sum <= found.null.other_seed_sum * (1 + 1e-6)
    for inner, suffix in (("uniform", ""), ("theta_star", "_from_theta_star")):
        first = {"uniform": 0, "theta_star": 9}[inner]
        energy = result.array("energy")[-1]
        for k, start in enumerate(("random", "truth", "partition")):
            rows = energy[first + 3 * k : first + 3 * k + 3]
            reached = found.inner_start.inner_starts()[inner].starts()[start]
            assert reached.distance_sum == pytest.approx(rows.mean().item(), rel=1e-5)
            assert reached.distance_sum_sd == pytest.approx(rows.std().item(), rel=1e-3, abs=1e-8)
            assert result.array(f"x_hat_{start}{suffix}").shape == (20, 3072)
    assert torch.equal(result.array("x_init_truth"), result.array("x_train"))
    assert torch.equal(result.array("x_init_partition_from_theta_star"), result.array("x_partition"))
