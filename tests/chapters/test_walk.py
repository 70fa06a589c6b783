"""The slider of chapter 1: one strip of frames, self-contained, labelled, readable without
scripts.
"""

import base64
import io
import re
from html.parser import HTMLParser

import numpy as np
import torch
from PIL import Image

from companion.chapters.landscape.walk import place, walk_html


class Collect(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))


def fragment(frames=5, rows=3):
    pictures = torch.rand(frames, rows, 3072, generator=torch.Generator().manual_seed(0))
    return pictures, walk_html(pictures, [k * 1e-14 for k in range(frames)], 40)


def test_the_strip_has_a_column_a_frame_and_a_row_an_image():
    pictures, text = fragment()
    encoded = re.search(r"data:image/webp;base64,([^\"]+)", text).group(1)
    strip = np.asarray(Image.open(io.BytesIO(base64.b64decode(encoded))))
    assert strip.shape == (3 * 32, 5 * 32, 3)
    tiles = {
        (k, r): strip[32 * r : 32 * r + 32, 32 * k : 32 * k + 32].mean(2).ravel()
        for k in range(5)
        for r in range(3)
    }
    expected = pictures[4, 1].reshape(3, 32, 32).mean(0).flatten().numpy()
    # the strip is not exact
    alike = {place: np.corrcoef(tile, expected)[0, 1] for place, tile in tiles.items()}
    assert (
        max(alike, key=alike.get) == (4, 1) and alike[4, 1] > 0.8 > 0.3 > sorted(alike.values())[-2]
    )


def test_fragment_is_self_contained_and_labelled():
    page, (_, text) = Collect(), fragment()
    page.feed(text)
    tags = {tag: attributes for tag, attributes in page.tags}
    assert "://" not in text and text.count("data:image/webp") == 1
    assert (
        tags["img"]["alt"].startswith("5 training sets of one classifier")
        and "hidden" not in tags["img"]
    )
    assert "hidden" in tags["input"] and tags["input"]["aria-label"] and tags["input"]["max"] == "4"
    assert len(tags["input"]["data-said"].split("|")) == 5
    shown = [a.get("class") for _, a in page.tags]
    # at one place; on paper at all of five
    assert shown.count("tile") == 3 * shown.count("stage") == 3 * (1 + 5)
    assert "at most 4e-14" in text


def test_places_in_words():
    assert place(0, 5, 0).startswith("0% of the way from the training set to other photographs")
    assert place(2, 5, 0).startswith("100% of the way from the training set")
    assert place(3, 5, 2e-13).startswith("50% of the way from there to noise") and "2e-13" in place(
        3, 5, 2e-13
    )
