"""Bilevel reconstruction of the affine net: pinned at smoke size, and how it is judged."""

from __future__ import annotations

import pytest
import torch

from companion.chapters.bilevel.common import (
    BOX,
    PAPER_AFFINE,
    STARTS,
    converged,
    held_out_distance,
    measured,
    start_of,
)
from companion.chapters.bilevel.experiment_affine import SIZES, Metrics
from companion.chapters.bilevel.story import claims
from companion.store.record import Record
from tests.records import bundle_of, replace

REACHED = Record(
    distance_sum=1e-6,
    moved_l2=1.0,
    nn_train_l2=12.0,
    nearer_to_partition=1.0,
    own_start_is_nearest=1.0,
    converged=True,
)
ENDS = {
    "random": replace(REACHED, nn_train_l2=17.0),
    "truth": replace(REACHED, nn_train_l2=0.0),
    "partition": REACHED,
}
METRICS = Metrics(
    n_train=40,
    steps=600,
    **ENDS,
    null=Record(held_out_nn_l2=13.0, other_data_sum=17.0),
)
#: at smoke size on the bundled photographs
PINNED = {
    "random": {"distance_sum": 0.0490269, "moved_l2": 5.69777, "nn_train_l2": 17.14878},
    "truth": {"nn_train_l2": 0.0, "own_start_is_nearest": 0.1},
    "partition": {"distance_sum": 8.42441e-4, "moved_l2": 3.04944},
}


def verdicts(metrics):
    return {
        claim.id.removeprefix("affine-"): claim.verdict for claim in claims(metrics, SIZES["smoke"])
    }


def changed(start, **fields):
    """The verdicts where one start ended otherwise."""
    return verdicts(replace(METRICS, **{start: replace(METRICS[start], **fields)}))


@pytest.mark.parametrize("start", ["random", "truth", "partition"])
def test_a_distance_is_judged_by_the_papers(start):
    name = f"distance-{start}"
    assert changed(start, distance_sum=PAPER_AFFINE[start])[name] == "reproduced"
    assert changed(start, distance_sum=1.001 * PAPER_AFFINE[start])[name] == "not reproduced"


def test_images_are_judged_by_held_out_ones():
    assert verdicts(METRICS)["random-noise"] == "reproduced"
    assert changed("random", nn_train_l2=12.9)["random-noise"] == "not reproduced"
    assert verdicts(METRICS)["truth-perfect"] == "reproduced"
    assert changed("truth", nn_train_l2=2e-3)["truth-perfect"] == "not reproduced"
    assert verdicts(METRICS)["partition-is-start"] == "reproduced"
    assert changed("partition", nearer_to_partition=0.975)["partition-is-start"] == "not reproduced"
    # below 0.9 × 13
    assert changed("partition", nn_train_l2=11.6)["partition-is-start"] == "not reproduced"


def test_measures_by_hand():
    """Images of one colour each: every distance is a difference of colours times √3072."""
    root = 3072**0.5

    def flat(*values):
        return torch.tensor(values, dtype=torch.float64)[:, None].expand(-1, 3072).clone()

    images = bundle_of(flat(0.1, 0.3), flat(0.8, 0.6), flat(0.2, 0.5), (3, 32, 32))
    found = measured(flat(0.2, 0.7), images.init, images)
    assert found.moved_l2 == pytest.approx((0.6 + 0.1) / 2 * root)
    assert found.nn_train_l2 == pytest.approx((0.1 + 0.4) / 2 * root)
    assert found.nearer_to_partition == 0.5 and found.own_start_is_nearest in (0.0, 0.5)
    assert held_out_distance(images) == pytest.approx((0.1 + 0.2) / 2 * root)


def test_starts():
    images = bundle_of(*(torch.full((2, 3), value) for value in (0.1, 0.2, 0.3)), (3,))
    assert start_of(images, "truth", torch.Generator()) is images.train
    assert start_of(images, "partition", torch.Generator()) is images.init
    noise = start_of(images, "random", torch.Generator().manual_seed(0))
    assert noise.shape == (2, 3) and 0 <= noise.min() < noise.max() <= 1


def test_convergence_looks_at_the_last_quarter():
    falling = torch.cat([torch.ones(12), torch.linspace(1.0, 0.98, 5)])
    assert (
        converged(torch.ones(8), 0.0) and not converged(falling, 0.0) and converged(falling, 0.98)
    )
    assert converged(torch.tensor([5.0, 1.0, 0.999, 0.998]), 0.0)


def test_smoke_run(runs):
    result = runs("bilevel-affine")
    found = result.metrics
    assert found.truth.moved_l2 <= 1e-3 and found.truth.nn_train_l2 <= 1e-3
    assert found.partition.distance_sum <= 1e-2 * found.null.other_data_sum
    assert found.partition.own_start_is_nearest == 1.0
    assert (
        result.array("x_hat_random").min() >= BOX[0]
        and result.array("x_hat_random").max() <= BOX[1]
    )
    for name, reached in found.only(*STARTS).items():
        for field, value in PINNED[name].items():
            assert getattr(reached, field) == pytest.approx(value, rel=1e-4), (name, field)
    moved = (
        (result.array("x_hat_partition") - result.array("x_partition")).norm(dim=1).mean().item()
    )
    assert moved == pytest.approx(found.partition.moved_l2, rel=1e-5)
