"""Bilevel reconstruction of the one-hidden-layer net: its rows, its nulls, its path."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch

from companion.chapters.bilevel.experiment_hidden import (
    PATH_SIZES,
    aligned_distance,
)
from recon.nets.mlp import one_hidden


def test_aligned_distance_is_that_of_the_best_permutation():
    network = one_hidden(width=4, dim=3)
    generator = torch.Generator().manual_seed(0)
    a, b = (network.flatten(network.init(generator, dtype=torch.float64)) for _ in range(2))

    def renumbered(theta, order):
        p = network.unflatten(theta)
        return network.flatten(
            {**p, "w1": p["w1"][order], "b1": p["b1"][order], "w2": p["w2"][:, order]}
        )

    best = min(
        (renumbered(a, list(order)) - b).square().sum().item() for order in permutations(range(4))
    )
    assert aligned_distance(network, a, b) == pytest.approx(best, rel=1e-12)
    assert aligned_distance(network, renumbered(a, [2, 0, 3, 1]), a) == pytest.approx(
        0.0, abs=1e-12
    )


def test_two_seeds_stay_apart_when_their_units_are_aligned(runs):
    null = runs("bilevel-hidden").metrics.null
    assert 1e-3 * null.other_seed_sum < null.other_seed_aligned_sum <= null.other_seed_sum


def test_a_path_begins_at_its_start_and_ends_elsewhere(runs):
    """Short steps: the images are their start's at first; each trace is as long as the run."""
    result, steps = runs("bilevel-hidden-path"), PATH_SIZES["smoke"].steps
    for inner, by_start in result.metrics.paths.items():
        for start, path in by_start.items():
            trace = result.array(f"trace_{start}_from_{inner}")
            assert trace.shape == (steps, 2) and not trace.isnan().any()
            assert trace[0, 1].item() == pytest.approx(1.0, abs=1e-5)
            assert path.alike.ncc_with_start >= 0.9 and trace[-1, 1] < trace[0, 1]
            assert path.end.distance_sum <= path.first_sum
            assert path.alike.step <= path.end.step == steps
            begun = result.array("x_train" if start == "truth" else "x_partition")
            way, whole = (
                (result.array(f"{name}_{start}_from_{inner}") - begun).norm()
                for name in ("alike", "x_hat")
            )
            assert way <= whole
