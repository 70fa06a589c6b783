"""The quiz: who is in it, that it works without a kernel, and that its parts can be reached."""

import shutil
import subprocess
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest
import torch

from recon.plots.quiz import choose_options, quiz_html


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


BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def after_click(card: int, tmp_path) -> str:
    """The page's DOM after a real browser ran the quiz and a click on one card."""
    page = tmp_path / "quiz.html"
    click = f"document.querySelectorAll('.card')[{card}].click()"
    page.write_text(f"<!doctype html><meta charset=utf-8>{quiz_html(choose_options(result()))}<script>{click}</script>")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    shown = subprocess.run([*command, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=120)
    return shown.stdout


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_quiz_reveals_ranks_in_a_browser(tmp_path):
    odd = next(k for k, option in enumerate(choose_options(result())) if option.rank > 10)
    right, wrong = after_click(odd, tmp_path), after_click((odd + 1) % 5, tmp_path)
    assert f"Right: number {odd + 1} has no training image" in right
    assert f"No: number {odd + 1} has no training image" in wrong
    for dom in (right, wrong):
        assert 'class="recon-quiz open"' in dom and dom.count('class="answer" hidden') == 0
        assert dom.count('aria-pressed="true"') == 1
