"""Pictures of executed pages, as light as they can be without a reader seeing it."""

from __future__ import annotations

import base64
import io

import numpy as np
from nbformat import NotebookNode
from PIL import Image

#: mean squared error of 8-bit values, above which fewer colours would be seen: 40 dB
SEEN = 255**2 / 10**4


def lighten(nb: NotebookNode) -> None:
    """In place: every PNG of a notebook's outputs through `lighter`."""
    for cell in nb.cells:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                png = base64.b64decode(output.data["image/png"])
                output.data["image/png"] = base64.b64encode(lighter(png)).decode() + "\n"


def lighter(png: bytes) -> bytes:
    """The same picture with a palette of 256 colours where nobody sees that, else packed better; its size and dots an
    inch stay.  The bytes as they are where neither is shorter."""
    with Image.open(io.BytesIO(png)) as picture:
        options = {"dpi": picture.info["dpi"]} if "dpi" in picture.info else {}
        flat = Image.new("RGB", picture.size, "white")
        flat.paste(picture, mask=picture.convert("RGBA").getchannel("A"))
    few = flat.quantize(256, dither=Image.Dither.NONE)
    error = np.square(np.asarray(few.convert("RGB"), float) - np.asarray(flat, float)).mean()
    packed = io.BytesIO()
    (few if error < SEEN else flat).save(packed, "PNG", optimize=True, **options)
    return min(png, packed.getvalue(), key=len)
