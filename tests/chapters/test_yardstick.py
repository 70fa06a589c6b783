"""The rule of recovery: numbers that pass each yardstick, and numbers that a blur has."""

from __future__ import annotations

import json

import pytest

from companion.chapters.yardstick import BLENDS, blend_share, preference, recovery
from recon.scoring.matching import ByYardstick, Competition
from recon.scoring.nulls import NullTable


def table(ssim, ncc_08, ncc_06=(0, 0), best=99):
    """Matches with training and held-out images by SSIM, above NCC 0.8 and above 0.6, and what the
    best null matches.
    """
    matches, held_out = (
        ByYardstick(0, ncc_06[k], 0, ncc_08[k], 0, ssim[k])  # type: ignore[arg-type]
        for k in (0, 1)
    )
    null = ByYardstick(*[best] * 6)
    nulls = {"photographs": null, "held_out": held_out}
    names = ByYardstick(*["photographs"] * 6)
    return NullTable(matches, nulls, null, names, matches.map(lambda a, b: a - b, null))


def pair(targets, decoys):
    return Competition(targets, decoys, 1.0, 1.0)


@pytest.mark.parametrize(
    ("ssim", "ncc_08", "competed", "expected"),
    [
        ((27, 0), (4, 0), (39, 18), "reproduced"),  # the published recipe: by preference and SSIM
        ((27, 0), (4, 0), (39, 19), "partly"),  # with one held-out image more
        ((5, 3), (20, 1), (46, 17), "reproduced"),  # by preference and NCC
        ((5, 3), (5, 1), (46, 17), "partly"),  # the preference alone
        ((28, 3), (20, 1), (46, 40), "partly"),  # no more preference than a blend has
        ((3, 0), (0, 1), (2, 0), "not reproduced"),
        # what other photographs have, and blends of the training images themselves
        ((25, 27), (9, 5), (126, 131), "not reproduced"),
        ((3, 2), (5, 1), (103, 82), "not reproduced"),
    ],
)
def test_recovery_of_500_images(ssim, ncc_08, competed, expected):
    judgement = recovery(table(ssim, ncc_08), pair(*competed), 500)
    assert judgement.verdict == expected and (judgement.margin > 0) == judgement.by_preference


def test_a_count_above_06_decides_nothing_of_many_images_and_counts_of_few():
    plain, near = (table((28, 3), (0, 0), (20, 4), best) for best in (4, 19))
    few, many = (recovery(plain, pair(10, 10), n) for n in (50, 51))
    assert few.verdict == "reproduced" != many.verdict and few.margin > 0 > many.margin
    assert recovery(near, pair(20, 0), 50).verdict != "reproduced"
    assert blend_share(499) == blend_share(200) > blend_share(500) == blend_share(5000)


def test_no_blend_of_500_photographs_prefers_training_images():
    """Also with a thousand matches: a blur cannot buy the preference by more of it."""
    for by in json.loads(BLENDS.read_text(encoding="utf-8"))["by_n"]["500"].values():
        assert preference(*by["ncc_0.6"], blend_share(500)) > 0.05
