"""The slider of chapter 1 and its places; for its strip in a browser see
tests/press/test_elements.py.
"""

import pytest
import torch

from companion.chapters.landscape.walk import place, walk_html


def test_the_slider_has_a_place_a_frame_and_a_tile_an_image():
    html = walk_html(torch.rand(5, 3, 3072), [k * 1e-14 for k in range(5)], 40)
    assert html.count("data:image/webp") == 1 and 'max="4"' in html and "at most 4e-14" in html
    # at one place; on paper at all of five
    assert html.count('class="tile"') == 3 * html.count('class="stage"') == 3 * (1 + 5)


@pytest.mark.parametrize(("k", "words"), [
    (0, "0% of the way from the training set to other photographs"),
    (2, "100% of the way from the training set"),
    (3, "50% of the way from there to noise"),
])  # fmt: skip
def test_places_in_words(k, words):
    assert place(k, 5, 2e-13).startswith(words) and "2e-13" in place(k, 5, 2e-13)
