"""The places of the slider of chapter 1, in words."""

import pytest

from companion.chapters.landscape.walk import place


@pytest.mark.parametrize(("k", "words"), [
    (0, "0% of the way from the training set to other photographs"),
    (2, "100% of the way from the training set"),
    (3, "50% of the way from there to noise"),
])  # fmt: skip
def test_places_in_words(k, words):
    assert place(k, 5, 2e-13).startswith(words) and "2e-13" in place(k, 5, 2e-13)
