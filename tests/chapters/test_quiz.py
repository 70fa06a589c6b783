"""The quiz: who is in it, and that the fragment is self-contained; test_browser.py uses it."""

from html.parser import HTMLParser
from types import SimpleNamespace

import torch

from recon.chapters.decoreco_tuned.quiz import choose_options, quiz_html


def result(natural=(1, 1, 0, 1, 1, 1, 1, 1), true=(1, 0, 1, 1, 0, 1, 1, 1)):
    generator = torch.Generator().manual_seed(0)
    train = torch.randn(12, 3072, generator=generator)
    arrays = {
        "x_train": train,
        "x_hat": train[:8] * 0.5,
        "mean": torch.zeros(3072),
        "rank": torch.tensor([1, 8, 2, 4, 7, 3, 5, 6]),
        "natural": torch.tensor(natural, dtype=torch.bool),
        "true": torch.tensor(true, dtype=torch.bool),
    }
    return SimpleNamespace(array=arrays.__getitem__)


class Collect(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))


def test_four_true_and_one_false_that_all_look_natural_and_contribute_most():
    options = choose_options(result())
    assert sorted(option.rank for option in options if option.true) == [1, 3, 4, 5]  # row 2 does not look natural
    assert [option.rank for option in options if not option.true] == [8]  # row 1 contributes more than row 4
    assert all(option.image.min() >= 0 and option.image.max() <= 1 and option.among == 8 for option in options)


def test_a_small_group_is_no_fault():
    assert [option.true for option in choose_options(result(true=(1,) * 8))] == [True] * 4
    assert [option.true for option in choose_options(result(true=(0,) * 8))] == [False]
    assert choose_options(result(natural=(0,) * 8)) == []


def test_fragment_is_self_contained_and_accessible():
    page = Collect()
    text = quiz_html(choose_options(result()))
    page.feed(text)
    cards = [attributes for tag, attributes in page.tags if attributes.get("class") == "card"]
    assert len(cards) == 5 and [card["data-odd"] for card in cards].count("true") == 1
    odd = next(k for k, option in enumerate(choose_options(result())) if not option.true)
    assert cards[odd]["data-odd"] == "true" and f"{odd + 1}: rank 8 of 8 (the odd one)" in text
    assert all(tag == "button" for tag, a in page.tags if a.get("class") in ("card", "again"))
    images = [attributes for tag, attributes in page.tags if tag == "img"]
    assert len(images) == 10 and all(i["alt"] and i["src"].startswith("data:image/webp;base64,") for i in images)
    assert "://" not in text and "aria-live" in text and "<details" in text
