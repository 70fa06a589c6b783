"""The quiz: who is in it, and that the fragment is self-contained; test_browser.py uses it."""

from html.parser import HTMLParser
from types import SimpleNamespace

import torch

from recon.chapters.decoreco_tuned.quiz import choose_options, quiz_html


def result():
    generator = torch.Generator().manual_seed(0)
    train = torch.randn(12, 3072, generator=generator)
    rank = torch.tensor([1, 40, 3, 2, 99, 10, 1, 1])
    arrays = {"x_train": train, "x_hat": train[:8] * 0.5, "mean": torch.zeros(3072), "rank": rank}
    return SimpleNamespace(array=arrays.__getitem__)


class Collect(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))


def test_four_true_and_one_odd_by_rank():
    options = choose_options(result())
    assert sorted(option.rank for option in options) == [1, 2, 3, 10, 40]
    assert all(option.image.min() >= 0 and option.image.max() <= 1 for option in options)


def test_fragment_is_self_contained_and_accessible():
    page = Collect()
    text = quiz_html(choose_options(result()))
    page.feed(text)
    cards = [attributes for tag, attributes in page.tags if attributes.get("class") == "card"]
    assert len(cards) == 5 and [card["data-odd"] for card in cards].count("true") == 1
    assert all(tag == "button" for tag, a in page.tags if a.get("class") in ("card", "again"))
    images = [attributes for tag, attributes in page.tags if tag == "img"]
    assert len(images) == 10 and all(i["alt"] and i["src"].startswith("data:image/png;base64,") for i in images)
    assert "http" not in text and "aria-live" in text and "<details" in text
