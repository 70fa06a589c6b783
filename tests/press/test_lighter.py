"""Lighter pictures look the same, keep their size and dots, and are never heavier."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from companion.press.runner import lighter

FEW_COLOURS = np.zeros((60, 60, 3), dtype=np.uint8)
FEW_COLOURS[20:] = 255
NO_GROUND = np.dstack([FEW_COLOURS, FEW_COLOURS[..., 0]])  # clear where it is black
NOISE = np.random.default_rng(0).integers(0, 256, (60, 60, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    "pixels", [FEW_COLOURS, NOISE, NO_GROUND], ids=["few colours", "noise", "no ground"]
)
def test_nobody_sees_the_difference(pixels):
    heavy = io.BytesIO()
    Image.fromarray(pixels).save(heavy, "PNG", dpi=(200, 200), compress_level=0)
    light = lighter(heavy.getvalue())
    assert len(light) <= len(heavy.getvalue())
    with Image.open(io.BytesIO(light)) as picture, Image.open(heavy) as before:
        assert picture.info["dpi"][0] == pytest.approx(200, abs=1)
        seen, shown = (np.asarray(each.convert("RGBA")) for each in (picture, before))
        assert np.array_equal(seen[..., 3], shown[..., 3])
        assert np.array_equal(seen[seen[..., 3] > 0], shown[seen[..., 3] > 0])
