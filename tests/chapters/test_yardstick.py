"""The rule of recovery: numbers that pass each yardstick, and numbers that a blur has."""

from __future__ import annotations

import json

import pytest

from companion.chapters.yardstick import BLENDS, blend_share, in_words, preference, recovery
from recon.scoring.matching import ByYardstick, Competition
from recon.scoring.nulls import NullTable


def table(ssim, ncc_08, ncc_06=(0, 0)):
    """Matches and best null by SSIM, above NCC 0.8 and above 0.6; both columns of the others are
    zero.
    """
    matches, null = (
        ByYardstick(0, ncc_06[k], 0, ncc_08[k], 0, ssim[k])  # type: ignore[arg-type]
        for k in (0, 1)
    )
    names = ByYardstick(*["mixtures"] * 6)
    return NullTable(
        matches, {"mixtures": null}, null, names, matches.map(lambda a, b: a - b, null)
    )


def pair(targets, decoys):
    return Competition(targets, decoys, 1.0, 1.0)


@pytest.mark.parametrize(
    ("ssim", "ncc_08", "competed", "expected"),
    [
        ((28, 3), (5, 1), (46, 17), "reproduced"),  # the published recipe: by preference and SSIM
        ((27, 3), (4, 1), (39, 18), "reproduced"),  # in float32
        ((27, 3), (4, 1), (39, 19), "partly"),  # with one held-out image more
        ((5, 3), (20, 1), (46, 17), "reproduced"),  # by preference and NCC
        ((5, 3), (5, 1), (46, 17), "partly"),  # the preference alone
        ((28, 3), (20, 1), (46, 40), "partly"),  # no more preference than a blend has
        ((3, 4), (0, 1), (2, 0), "not reproduced"),
        # what blends of the training images themselves have
        ((5, 3), (5, 1), (103, 82), "not reproduced"),
    ],
)
def test_recovery_of_500_images(ssim, ncc_08, competed, expected):
    found = recovery(table(ssim, ncc_08), pair(*competed), 500)
    assert found.verdict == expected and (found.margin > 0) == found.by_preference
    assert found.shown == (expected == "reproduced") and found.excluded == (
        expected == "not reproduced"
    )


def test_a_count_above_06_decides_nothing_of_many_images_and_counts_of_few():
    plain = table((28, 3), (0, 0), ncc_06=(20, 4))
    assert recovery(plain, pair(10, 10), 50).shown and not recovery(plain, pair(10, 10), 51).shown
    assert not recovery(table((28, 3), (0, 0), ncc_06=(20, 19)), pair(20, 0), 50).shown
    assert recovery(plain, pair(10, 10), 50).margin > 0 > recovery(plain, pair(10, 10), 51).margin
    assert "NCC above 0.6: 20" in in_words(plain, pair(10, 10), 50)[0]
    ours, null = in_words(plain, pair(46, 17), 500)
    assert "46 : 17" in ours and "0.6" not in ours and "51% were trained on" in null


def test_no_blend_of_500_photographs_prefers_training_images():
    """Also with a thousand matches: a blur cannot buy the preference by more of it."""
    for by in json.loads(BLENDS.read_text(encoding="utf-8"))["by_n"]["500"].values():
        assert preference(pair(*by["ncc_0.6"]), blend_share(500)) > 0.05
    assert (
        preference(pair(600, 400), blend_share(500))
        < 1e-6
        < preference(pair(6, 4), blend_share(500))
    )


def test_the_share_is_that_of_the_largest_number_that_was_measured_below():
    assert blend_share(499) == blend_share(200) > blend_share(500) == blend_share(5000)
    assert blend_share(3) == blend_share(20)
