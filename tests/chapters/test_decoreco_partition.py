"""The start from other photographs: where results end, against brute force; each verdict in both
directions.
"""

from __future__ import annotations

import pytest
import torch

from companion.chapters.decoreco import PARTITION
from companion.chapters.reference_common import where_ended
from tests.records import bundle_of, replace


@pytest.fixture(scope="module")
def smoke(runs):
    return runs("decoreco-partition")


@pytest.fixture
def metrics(smoke):
    """As if the recipe had run with its full budget."""
    variants = smoke.metrics.variants
    return replace(
        smoke.metrics,
        variants=replace(variants, reference=replace(variants.reference, steps=50_000)),
    )


def with_reference(metrics, **changed):
    reference = replace(metrics.variants.reference, **changed)
    return replace(metrics, variants=replace(metrics.variants, reference=reference))


def judged(metrics):
    claims = PARTITION.claims(metrics, PARTITION.sizes["laptop"])
    return {claim.id.removeprefix("decoreco-partition-"): claim.verdict for claim in claims}


@pytest.mark.parametrize(("stayed", "expected"), [(81, "reproduced"), (80, "not reproduced")])
def test_most_are_more_than_twice_what_chance_has(metrics, stayed, expected):
    """Twice as many start images as training images: chance has 2 to 1, so 4 to 1 is asked for."""
    metrics = with_reference(replace(metrics, n_train=50), m=100, nearest_is_start_partition=stayed)
    assert judged(metrics)["start"] == expected
    claims = PARTITION.claims(metrics, PARTITION.sizes["laptop"])
    assert claims[0].null_value == pytest.approx(2 / 3) and "by chance 67%" in claims[0].null


def test_a_run_that_was_stopped_has_no_verdict(smoke):
    assert judged(smoke.metrics) == {"start": "undecided", "moved": "undecided"}
    assert all("100 of 50,000 steps: undecided" in claim.ours for claim in smoke.claims)


def test_the_recipe_starts_from_twice_as_many_other_images(smoke):
    start = smoke.array("x_init_partition")
    assert len(start) == smoke.metrics.variants.reference.m == 40 and len(start.unique(dim=0)) == 40
    pixels = start + smoke.array("mean")
    assert pixels.min() > -1e-5 and pixels.max() < 1 + 1e-5
    to_training = torch.cdist(start, smoke.array("x_train"))
    assert to_training.min() > 1.0 and torch.cdist(start, smoke.array("x_held_out")).min() > 1.0


def test_where_results_end_by_counting():
    generator = torch.Generator().manual_seed(0)
    train, start, held_out, noise = (torch.randn(4, 3072, generator=generator) for _ in range(4))
    images = bundle_of(train, start, held_out, (3, 32, 32))
    x_hat = torch.stack([start[0], train[2], held_out[1], start[1]]) + 0.2 * noise
    found = where_ended(x_hat, start, images)
    assert found.nearest_is_own_start == 1  # the last is nearest to another's start
    assert (
        found.nearest_is_start_partition >= 2
        and found.moved_to_training == found.moved_to_held_out == 1
    )
    by_hand = [max(torch.corrcoef(torch.stack([x, t]))[0, 1].item() for t in train) for x in x_hat]
    assert found.ncc_to_training == pytest.approx(sum(by_hand) / 4, abs=1e-5)
