"""Lighter pictures look the same, keep their size and dots, and are never heavier."""

from __future__ import annotations

import base64
import io

import nbformat
import numpy as np
import pytest
from PIL import Image

from companion.press.runner import lighten

FEW_COLOURS = np.zeros((60, 60, 3), dtype=np.uint8)
FEW_COLOURS[20:] = 255
NO_GROUND = np.dstack([FEW_COLOURS, FEW_COLOURS[..., 0]])  # clear where it is black
NOISE = np.random.default_rng(0).integers(0, 256, (60, 60, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    "pixels", [FEW_COLOURS, NOISE, NO_GROUND], ids=["few colours", "noise", "no ground"]
)
def test_nobody_sees_the_difference(pixels):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", dpi=(200, 200), compress_level=0)
    heavy = base64.b64encode(buffer.getvalue()).decode()
    output = nbformat.v4.new_output("display_data", {"image/png": heavy})
    cells = [nbformat.v4.new_code_cell("x", outputs=[output]), nbformat.v4.new_markdown_cell("y")]
    nb = nbformat.v4.new_notebook(cells=cells)
    lighten(nb)
    light = nb.cells[0].outputs[0].data["image/png"]
    assert len(light) <= len(heavy) + 1
    with Image.open(io.BytesIO(base64.b64decode(light))) as picture:
        assert picture.info["dpi"][0] == pytest.approx(200, abs=1)
        seen = np.asarray(picture.convert("RGB" if pixels.shape[2] == 3 else "RGBA"))
        opaque = pixels[..., -1] > 0 if pixels.shape[2] == 4 else np.full(pixels.shape[:2], True)
        assert np.array_equal(seen[opaque], pixels[opaque])
        assert (seen[~opaque, -1] == 0).all()
