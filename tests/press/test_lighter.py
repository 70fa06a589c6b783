"""Lighter pictures look the same, keep their size and dots, and are never heavier."""

from __future__ import annotations

import base64
import io

import nbformat
import numpy as np
import pytest
from PIL import Image

from companion.press.runner import lighten, lighter


def png(image: Image.Image, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", **options)
    return buffer.getvalue()


def chart() -> Image.Image:
    """Few colours, soft edges."""
    x = np.linspace(0, 1, 300)
    return Image.fromarray(
        np.uint8(255 * np.stack([np.outer(x > k / 4, x > 0.5) for k in range(3)], -1))
    )


def noise() -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (60, 60, 3), dtype=np.uint8))


@pytest.mark.parametrize("image", [chart(), noise()])
def test_nobody_sees_the_difference(image):
    old = png(image, dpi=(200, 200))
    new = lighter(old)
    with Image.open(io.BytesIO(new)) as found:
        assert found.size == image.size and len(new) <= len(old)
        assert found.info["dpi"][0] == pytest.approx(200, abs=1)
        assert (
            np.square(np.asarray(found.convert("RGB"), float) - np.asarray(image, float)).mean()
            < 6.6
        )


def test_a_picture_of_many_colours_stays_as_it_is():
    with Image.open(io.BytesIO(lighter(png(noise())))) as found:
        assert np.array_equal(np.asarray(found.convert("RGB")), np.asarray(noise()))


def test_all_pictures_of_a_page_are_lightened():
    data = {"image/png": base64.b64encode(png(chart().convert("RGBA"), compress_level=0)).decode()}
    cell = nbformat.v4.new_code_cell("x", outputs=[nbformat.v4.new_output("display_data", data)])
    nb = nbformat.v4.new_notebook(cells=[cell, nbformat.v4.new_markdown_cell("text")])
    lighten(nb)
    assert len(nb.cells[0].outputs[0].data["image/png"]) < len(data["image/png"]) / 10
