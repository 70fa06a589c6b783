"""Elements to play with, each on a page of its own in a browser: by mouse, keyboard, touch, and
without scripts.
"""

from __future__ import annotations

import math
import re
from types import SimpleNamespace

import pytest
import torch

from companion.chapters.decoreco_adversary.guess import dealt, guess
from companion.chapters.elements import bytes_of, element
from companion.chapters.landscape.landing import KINDS, landing
from companion.chapters.landscape.walk import walk_html
from companion.chapters.leakage_rank.story import drawing
from companion.chapters.separation.elements import proof, threshold, unmixing

pytestmark = pytest.mark.slow  # a browser opens each
PHONE = {"width": 375, "height": 800}


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


def plain(browser, tmp_path, fragment: str):
    """The page without scripts."""
    path = tmp_path / "plain.html"
    path.write_text(f"<!doctype html><meta charset=utf-8><title>Plain</title>{fragment}")
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(path.as_uri())
    return page


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


# --------------------------------------------------------------------------------------------- walk


def strip() -> str:
    return walk_html(images(15).view(5, 3, 3072), [1e-14] * 5, 40)


def test_walk_by_keyboard(opened):
    page = opened(strip())
    knob, tile = page.get_by_role("slider"), page.locator(".tile").nth(1)
    place = "tile => getComputedStyle(tile).backgroundPosition"
    assert page.locator(".strip").is_hidden() and tile.evaluate(place) == "0px -75px"
    knob.press("ArrowRight")
    knob.press("ArrowRight")
    assert knob.input_value() == "2" and tile.evaluate(place) == "-150px -75px"
    said = "100% of the way from the training set"
    assert knob.get_attribute("aria-valuetext").startswith(said)
    assert page.locator(".said").inner_text().startswith(said)


def test_walk_without_scripts_shows_the_strip(browser, tmp_path):
    page = plain(browser, tmp_path, strip())
    assert page.locator(".strip").is_visible() and page.locator("input:visible").count() == 0
    assert page.locator(".tile:visible").count() == 0


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


def test_the_proof_has_a_tile_for_each_picture_and_reflows(opened, browser, tmp_path):
    fragment = proof(separated(), n=10)
    page = opened(fragment)
    tiles = page.locator("figure")
    assert tiles.count() == 20 and all(
        re.fullmatch(r"0\.\d\d", t) for t in page.locator("figcaption").all_inner_texts()
    )
    columns = (
        "all => new Set(all.map((each) => Math.round(each.getBoundingClientRect().left))).size"
    )
    assert tiles.evaluate_all(columns) == 5
    page.set_viewport_size({"width": 1000, "height": 800})
    assert tiles.evaluate_all(columns) == 10
    assert plain(browser, tmp_path, fragment).locator("img:visible").count() == 40


def test_a_threshold_counts_what_lies_above_it(opened):
    result = separated()
    page = opened(threshold(result, start=0.7))
    knob, said = page.get_by_role("slider"), page.locator(".said")
    free = result.array("null_envelope")

    def expected(cut: float) -> str:
        return f"Without any attack, {int((free > cut).sum())}"

    assert (
        said.inner_text().startswith("Above 0.70: 12 of 12 training images.")
        and expected(0.7) in said.inner_text()
    )
    knob.press("ArrowLeft")
    assert said.inner_text().startswith("Above 0.69") and expected(0.69) in said.inner_text()
    knob.press("End")
    assert said.inner_text().startswith("Above 1.00: 0 of 12") and said.inner_text().endswith(
        "Without any attack, 0."
    )
    drag(page, page.locator("svg"), (0.6, 0.5), (0.3, 0.5))
    value = float(knob.input_value())
    assert (
        0.3 < value < 0.6
        and said.inner_text().startswith(f"Above {value:.2f}")
        and expected(value) in said.inner_text()
    )
    line = page.locator(".line")
    assert 0.2 * 640 < float(line.get_attribute("x1")) < 0.4 * 640


def test_unmixing_ends_at_the_sources_and_starts_at_the_rows(opened):
    page = opened(unmixed())
    assert page.locator("canvas:visible").count() == 10 == page.locator("img").count()
    red = (
        "canvas => [...canvas.getContext('2d').getImageData(0, 0, 32, 32).data].filter((_, i) => i"
        " % 4 === 0)"
    )
    knob = page.get_by_role("slider")

    def likeness(k: int) -> float:
        """Of canvas k with the training image below it."""
        drawn = torch.tensor(page.locator("canvas").nth(k).evaluate(red), dtype=torch.float32)
        shown = (
            page.locator("img")
            .nth(k)
            .evaluate(
                "img => { const c = document.createElement('canvas'); c.width = c.height = 32;"
                "const d = c.getContext('2d'); d.drawImage(img, 0, 0);"
                "return [...d.getImageData(0, 0, 32, 32).data].filter((_, i) => i % 4 === 0); }"
            )
        )
        return torch.corrcoef(torch.stack([drawn, torch.tensor(shown, dtype=torch.float32)]))[
            0, 1
        ].item()

    assert (
        max(abs(likeness(k)) for k in range(10)) < 0.85
        and "rows of the first layer" in page.locator(".said").inner_text()
    )
    knob.press("End")
    assert (
        min(likeness(k) for k in range(10)) > 0.9
        and page.locator(".said").inner_text() == "at the end"
    )


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


def test_a_game_has_as_many_true_results_as_false_ones():
    for few, of in ((10, 6), (4, 4)):
        truth = re.findall(r'class="card" data-true="(\d)"', game(false=few))
        assert truth.count("1") == truth.count("0") == of


def test_poor_copies_are_dealt_to_nobody():
    likeness = torch.tensor([0.9, 0.65, 0.69, 0.3, 0.61, 0.5, 0.8, 0.75])
    certainty = torch.tensor([0.6, 0.9, 0.8, 0.2, 0.7, 0.4, 0.5, 0.95])
    assert dealt(likeness, certainty, 2) == [7, 6, 5, 3]
    assert dealt(likeness, certainty, 6) == [7, 6, 5, 3]  # as many as there are false ones
    assert dealt(likeness[:3], certainty[:3], 6) == []


def test_a_game_counts_what_is_right_and_says_what_a_coin_gets(opened):
    page = opened(game())
    cards, done = page.locator(".card"), page.locator(".done")
    truth = [card.get_attribute("data-true") == "1" for card in cards.all()]
    assert sum(truth) == 6 and len(truth) == 12 and done.is_disabled()
    for k, real in enumerate(truth):  # three wrong ones
        cards.nth(k).get_by_role("button", name="real" if real != (k < 3) else "false").click()
        assert done.is_disabled() == (k < 11)
    assert page.locator(".answer:visible").count() == 0
    done.click()
    coin = 100 * sum(math.comb(12, k) for k in range(9, 13)) / 2**12
    said = page.locator(".verdict").inner_text()
    missed = sum(truth[:3])  # real, and called false; the other wrong ones were called real
    assert said.startswith(
        f"You: 9 of 12 right; called real: {6 - missed + 3 - missed}, of which {6 - missed} are. "
        f"A coin gets 6 on average, and as many as you in {max(1, round(coin))} of"
    )
    assert said.endswith("who calls the half real that they trust more, gets 8 right.")
    assert page.locator(".answer:visible").count() == 12
    assert page.locator(".share").get_attribute("href") == "#recon-guess=9"
    page.locator(".again").click()
    assert (
        page.locator(".answer:visible").count() == 0
        and page.locator("[aria-pressed=true]").count() == 0
    )


def test_a_game_is_played_by_keyboard_and_its_link_says_the_score(opened):
    page = opened(game(), place="#recon-guess=10")
    assert (
        page.locator(".verdict").inner_text()
        == "Somebody got 10 of 12 right, and sent you here. Can you do better?"
    )
    page.locator(".card button").first.focus()
    for _ in range(12):
        page.keyboard.press("Space")
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
    assert (
        page.locator(".done").is_enabled()
        or page.locator(".card [aria-pressed=true]").count() == 12
    )
    page.locator(".done").press("Enter")
    # everything was called real, which is as good as a coin
    said = page.locator(".verdict").inner_text()
    coin = round(100 * sum(math.comb(12, k) for k in range(6, 13)) / 2**12)
    assert said.startswith("You: 6 of 12 right; called real: 12, of which 6 are.")
    assert f"as many as you in {coin} of 100 games" in said


def test_a_game_without_scripts_says_its_answers(browser, tmp_path):
    page = plain(browser, tmp_path, game())
    page.locator("summary").click()
    assert (
        page.locator("details p", has_text="are real. ").is_visible()
        and page.locator("button:visible").count() == 0
    )


# --------------------------------------------------------------------------------------- draw, land


def error(page) -> float:
    said = page.locator(".said").inner_text()
    value = re.search(r"mean squared error (.+)\.$", said)[1]
    return 0.0 if value.startswith("0 to the last digit") else float(value)


def test_a_drawing_comes_back_from_its_gradient(opened):
    page = opened(drawing())
    pad = page.locator(".pad")
    pixels = (
        "canvas => [...canvas.getContext('2d').getImageData(0, 0, 16, 16).data].filter((_, i) => i"
        " % 4 === 0)"
    )
    before = pad.evaluate(pixels)
    drag(page, pad, (0.03, 0.03), (0.03, 0.5))
    after = pad.evaluate(pixels)
    assert before[0] < 50 and after[0] == 255 and error(page) == 0.0
    # of the label's unit: δ = p − 1 is negative
    assert page.locator(".seen").evaluate(pixels)[0] < 50
    back = page.locator(".back").evaluate(pixels)
    assert max(abs(a - b) for a, b in zip(after, back, strict=True)) <= 1
    noise, batch = (
        page.get_by_role("slider", name="Noise"),
        page.get_by_role("slider", name="Images in the batch"),
    )
    noise.press("ArrowRight")
    small = error(page)
    noise.press("End")
    assert 0 < small < 1e-3 < 0.1 < error(page)
    noise.press("Home")
    batch.press("ArrowRight")
    assert error(page) > 1e-4  # a mixture of two
    page.locator(".clear").click()
    assert max(pad.evaluate(pixels)) < 50


def test_a_drawing_is_made_by_keyboard_and_by_touch(opened, browser, tmp_path):
    page = opened(drawing())
    pixels = (
        "canvas => [...canvas.getContext('2d').getImageData(0, 0, 16, 16).data].filter((_, i) => i"
        " % 4 === 0)"
    )
    pad = page.locator(".pad")
    for key in ("ArrowRight", "ArrowDown", "Space"):
        pad.press(key)
    pad.evaluate("each => each.blur()")
    assert pad.evaluate(pixels)[17] == 255 and error(page) == 0.0
    with browser.new_context(has_touch=True, viewport=PHONE) as context:
        touch = context.new_page()
        touch.goto((tmp_path / "page.html").as_uri())
        box = touch.locator(".pad").bounding_box()
        touch.touchscreen.tap(box["x"] + 3, box["y"] + 3)
        assert touch.locator(".pad").evaluate(pixels)[0] == 255


def test_a_landing_shows_where_its_start_ends(opened):
    page = opened(landed())

    def cells() -> list[str]:
        return page.locator("tbody td:visible").all_inner_texts()

    def tile(k: int) -> str:
        return (
            page.locator(".tile:visible")
            .nth(k)
            .evaluate("tile => getComputedStyle(tile).backgroundPosition")
        )

    # started at the training images: a row of the start, a row of the end
    assert cells() == ["8.0", "9.0", "10.0", "88%", "18.0", "19.0", "20.0", "0.10%"]
    assert page.locator(".strip").is_hidden() and page.locator(".tile:visible").count() == 4
    width = int(page.locator(".tile:visible").first.evaluate("tile => tile.clientWidth"))
    assert (tile(0), tile(3)) == (f"-{8 * width}px 0px", f"-{8 * width}px -{3 * width}px")
    page.locator("svg").focus()
    page.keyboard.press("ArrowLeft")
    assert cells()[0] == "5.0" and tile(0) == f"-{5 * width}px 0px"  # λ₁ = 1/2, λ₂ = 1
    page.keyboard.press("ArrowDown")
    said = "25 % training image, 25 % another photograph, 50 % noise"
    assert cells()[0] == "4.0" and said in page.locator(".said").inner_text()
    box = page.locator("svg").bounding_box()
    # other photographs
    page.mouse.click(box["x"] + 44 / 320 * box["width"], box["y"] + 44 / 320 * box["height"])
    assert cells()[0] == "2.0" and cells()[-1] == "0.04%"
    dots = page.locator("svg circle:not(.start)")
    # all end near the truth
    assert len({dot.get_attribute("fill") for dot in dots.all()}) == 1 and dots.count() == 9


def test_a_landing_without_scripts_shows_the_strip(browser, tmp_path):
    page = plain(browser, tmp_path, landed())
    assert page.locator(".strip").is_visible() and page.locator(".tile:visible").count() == 0


# ----------------------------------------------------------------------------------------- on paper


def unmixed() -> str:
    truth = images(12)
    x = truth - truth.mean(0)
    mixing = torch.randn(20, 12, generator=torch.Generator().manual_seed(2))
    rows = mixing @ x
    basis = torch.linalg.svd(rows, full_matrices=False).Vh[:11]
    return unmixing(basis, rows, [("half-way", mixing[:12] @ x), ("at the end", -x)], truth, n=10)


def landed() -> str:
    """Distances of the k-th of nine starts are k, k + 1 and k + 2, those of its end ten more."""
    begun = {kind: torch.arange(9.0) + k for k, kind in enumerate(KINDS)}
    ended = {kind: values + 10 for kind, values in begun.items()}
    x = images(54).view(18, 3, 3072)
    errors = (torch.arange(9.0) + 80) / 100, (torch.arange(9.0) + 2) / 1e4
    return landing([0.0, 0.5, 1.0], x[:9], x[9:], (begun, ended), errors, shown=2)
