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
    assert judgement.verdict == expected and (judgement.margin > 0) == (
        judgement.p_values[0] < 0.01
    )


def test_of_few_images_blends_prefer_the_training_images_themselves():
    """So that more is asked: eleven of twelve are enough for 500 and not for twenty."""
    many, few = (recovery(table((20, 0), (0, 0)), pair(11, 1), n) for n in (500, 20))
    assert many.verdict == "reproduced" and few.verdict == "not reproduced"
    assert blend_share(499) == blend_share(200) > blend_share(500) == blend_share(5000)


def test_no_blend_of_500_photographs_prefers_training_images():
    """Also with a thousand matches: a blur cannot buy the preference by more of it."""
    for by in json.loads(BLENDS.read_text(encoding="utf-8"))["by_n"]["500"].values():
        assert preference(pair(*by["ncc_0.6"]), blend_share(500)) > 0.05
