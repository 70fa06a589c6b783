"""Elements to play with, each on a page of its own in a browser: by mouse, keyboard, touch, and
without scripts.
"""

from __future__ import annotations

import math
import re
from types import SimpleNamespace

import pytest
import torch

from companion.chapters.collapse.picking import picking
from companion.chapters.decoreco.sorting import distinct, sorting
from companion.chapters.elements import bytes_of, element
from companion.chapters.leakage_rank.story import drawing
from companion.chapters.separation.elements import threshold, unmixing
from companion.chapters.separation.guess import deal, guess

pytestmark = pytest.mark.slow  # a browser opens each
PHONE = {"width": 375, "height": 800}
#: red pixels of a canvas, and of an image
RED = """canvas => [...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data]
  .filter((_, i) => i % 4 === 0)"""
RED_OF_IMAGE = """img => { const c = document.createElement('canvas'); c.width = c.height = 32;
  const d = c.getContext('2d'); d.drawImage(img, 0, 0);
  return [...d.getImageData(0, 0, 32, 32).data].filter((_, i) => i % 4 === 0); }"""


def images(n: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(n, 3072, generator=torch.Generator().manual_seed(seed))


class Arrays:
    """A result, as far as the elements ask for one."""

    def __init__(self, **arrays):
        self.arrays, self.metrics = arrays, SimpleNamespace()

    def array(self, name: str) -> torch.Tensor:
        return self.arrays[name]


@pytest.fixture
def opened(own_tab, tmp_path):
    """Opens a page that holds one fragment and nothing else; at the end nothing has gone wrong on
    it.
    """

    def show(fragment: str, size: dict = PHONE, place: str = ""):
        path = tmp_path / "page.html"
        path.write_text(
            "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport"
            " content='width=device-width'>"
            f"<title>Element</title><main><h1>Element</h1>{fragment}</main></html>"
        )
        tab = own_tab
        tab.page.set_viewport_size(size)
        tab.page.goto(path.as_uri() + place)
        assert tab.violations() == [] and tab.too_wide() <= 0
        return tab.page

    yield show
    assert own_tab.complaints == []


def drag(page, target, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Press at one place of an element and release at another, in shares of its width and
    height.
    """
    box = target.bounding_box()
    for k, (x, y) in enumerate((start, end)):
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
        if k == 0:
            page.mouse.down()
    page.mouse.up()


def test_a_fragment_holds_its_data_whatever_is_in_it():
    fragment = element("walk", "Label", "<p>body</p>", {"text": "</script><b>"})
    assert "<\\/script>" in fragment and fragment.count("</script>") == 1
    assert 'aria-label="Label"' in fragment and fragment.startswith('<section id="recon-walk"')
    assert bytes_of(torch.tensor([0.0, 0.5, 1.0, 2.0]), 0, 1) == "AID//w=="  # 0, 128, 255, 255


# -------------------------------------------------------------------------------- chapter 6's three


def separated(n: int = 12) -> Arrays:
    x = images(n) - 0.5
    noisy = x + 0.2 * torch.randn(n, 3072, generator=torch.Generator().manual_seed(1))
    free = torch.linspace(0.1, 0.75, n)
    return Arrays(
        x_train=x,
        x_held_out=images(n, 5) - 0.5,
        x_hat=noisy,
        x_null=noisy,
        x_null_ncc=free,
        null_envelope=free.flip(0) + 0.05,
        mean=torch.zeros(3072),
    )


def test_a_threshold_counts_what_lies_above_it(opened):
    result = separated()
    page = opened(threshold(result, start=0.7))
    text = page.locator(".said")

    def without_attack(cut: float) -> str:
        return f"Without an attack it is {int((result.array('null_envelope') > cut).sum())}"

    assert text.inner_text().startswith("Above 0.70: 12 of 12 training images")
    assert without_attack(0.7) in text.inner_text()
    page.get_by_role("slider").press("ArrowLeft")
    assert text.inner_text().startswith("Above 0.69") and without_attack(0.69) in text.inner_text()
    page.get_by_role("slider").press("End")
    assert text.inner_text().startswith("Above 1.00: 0 of 12")


def test_unmixing_ends_at_the_sources_and_starts_at_the_rows(opened):
    page = opened(unmixed())
    assert page.locator("canvas:visible").count() == 10 == page.locator("img").count()

    def likeness(k: int) -> float:
        """Of canvas k with the training image below it."""
        canvas = page.locator("canvas").nth(k).evaluate(RED)
        image = page.locator("img").nth(k).evaluate(RED_OF_IMAGE)
        return torch.corrcoef(torch.tensor([canvas, image], dtype=torch.float32))[0, 1].item()

    assert max(abs(likeness(k)) for k in range(10)) < 0.85
    page.get_by_role("slider").press("End")
    assert min(likeness(k) for k in range(10)) > 0.9


# --------------------------------------------------------------------------------- be the adversary


def game(n: int = 6, false: int = 10) -> str:
    """Twelve images come out and `false` results are noise; the adversary trusts two of these more
    than all but one image.
    """
    x, noise = images(12), images(false, 1) - 0.5
    sources = torch.cat([x - x.mean(0), noise])
    certainty = torch.cat([torch.linspace(0.98, 0.5, 12), torch.linspace(0.4, 0.1, false)])
    certainty[12:14] = torch.tensor([0.985, 0.979])
    certainty[0] = 0.99
    return guess(sources, x, certainty, n)


def test_poor_copies_are_dealt_to_nobody():
    likeness = torch.tensor([0.9, 0.65, 0.69, 0.3, 0.61, 0.5, 0.8, 0.75])
    certainty = torch.tensor([0.6, 0.9, 0.8, 0.2, 0.7, 0.4, 0.5, 0.95])
    assert deal(likeness, certainty, 2) == [7, 6, 5, 3]
    assert deal(likeness, certainty, 6) == [7, 6, 5, 3]  # as many as there are false ones
    assert deal(likeness[:3], certainty[:3], 6) == []


def test_a_game_counts_what_is_right_and_says_what_a_coin_gets(opened):
    page = opened(game())
    cards = page.locator(".card")
    truth = [card.get_attribute("data-true") == "1" for card in cards.all()]
    assert sum(truth) == 6 and len(truth) == 12 and page.locator(".done").is_disabled()
    for k, real in enumerate(truth):  # three wrong ones
        cards.nth(k).get_by_role("button", name="real" if real != (k < 3) else "false").click()
    assert page.locator(".answer:visible").count() == 0
    page.locator(".done").click()
    coin = sum(math.comb(12, k) for k in range(9, 13)) / 2**12
    verdict = page.locator(".verdict").inner_text()
    missed = sum(truth[:3])  # real, and called false; the other wrong ones were called real
    assert verdict.startswith(
        f"You: 9 of 12 right; called real: {6 - missed + 3 - missed}, of which {6 - missed} are. "
        f"A coin gets 6 on average, and as many as you in 1 of {round(1 / coin)} games."
    )
    assert page.locator(".answer:visible").count() == 12


# --------------------------------------------------------------------------------------- draw, land


def error(page) -> float:
    said = page.locator(".said").inner_text()
    value = re.search(r"mean squared error (.+)\.$", said)[1]
    return 0.0 if value.startswith("0 to the last digit") else float(value)


def test_a_drawing_comes_back_from_its_gradient(opened):
    page = opened(drawing())
    pad = page.locator(".pad")
    drag(page, pad, (0.03, 0.03), (0.03, 0.5))
    pixels = pad.evaluate(RED)
    assert pixels[0] == 255 and error(page) == 0.0
    # of the label's unit: δ = p − 1 is negative
    assert page.locator(".seen").evaluate(RED)[0] < 50
    back = page.locator(".back").evaluate(RED)
    assert max(abs(a - b) for a, b in zip(pixels, back, strict=True)) <= 1
    noise = page.get_by_role("slider", name="Noise")
    noise.press("ArrowRight")
    small = error(page)
    noise.press("End")
    assert 0 < small < 1e-3 < 0.1 < error(page)
    noise.press("Home")
    page.get_by_role("slider", name="Images in the batch").press("ArrowRight")
    assert error(page) > 1e-4  # a mixture of two


# ----------------------------------------------------------------------------------------- on paper


def unmixed() -> str:
    truth = images(12)
    x = truth - truth.mean(0)
    mixing = torch.randn(20, 12, generator=torch.Generator().manual_seed(2))
    rows = mixing @ x
    basis = torch.linalg.svd(rows, full_matrices=False).Vh[:11]
    return unmixing(basis, rows, [("half-way", mixing[:12] @ x), ("at the end", -x)], truth, n=10)


def test_picked_photographs_are_compared_with_the_training_images(opened):
    result = Arrays(x_held_out=images(3), objective_held_out=torch.tensor([1e-9, 1e-3, 1e-5]))
    result.metrics = SimpleNamespace(objective_true=1e-4, n_train=50)
    page = opened(picking(result))
    tiles = page.locator(".tile")
    for k, words in enumerate(("It can", "It cannot", "It can")):
        tiles.nth(k).click()
        assert f"{words} replace them" in page.locator(".said").inner_text()
    assert "training images: 1, 3." in page.locator("details").text_content()


def test_orders_leave_out_what_resembles_an_earlier_result():
    alike = torch.eye(4).bool()
    alike[0, 2] = alike[2, 0] = True
    assert distinct(torch.tensor([0.4, 0.1, 0.3, 0.2]), alike).tolist() == [0, 3, 1]


def test_results_are_shown_in_the_order_that_is_chosen(opened):
    train = images(12)
    x = torch.cat([train, images(12, seed=1)]) - 0.5
    result = Arrays(x_hat=x, x_train=train - 0.5, mean=torch.full((3072,), 0.5))
    result.arrays["contribution"] = torch.arange(24.0)  # what is false explains most
    page = opened(sorting(result))
    for k, right in enumerate((10, 0)):
        page.locator("input").nth(k).check()
        shown = page.locator(".order:visible")
        assert shown.count() == 1
        assert f"{right} of the first 10" in shown.locator(".counted").inner_text()
