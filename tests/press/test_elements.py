"""Elements to play with, each on a page of its own in a browser: by mouse, keyboard, touch, and without scripts."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace

import pytest
import torch

from recon.chapters.decoreco_adversary.guess import guess
from recon.chapters.decoreco_tuned.compare import Pair, compare_html
from recon.chapters.decoreco_tuned.quiz import Option, quiz_html
from recon.chapters.elements import bytes_of, element
from recon.chapters.landscape.landing import KINDS, landing_html
from recon.chapters.landscape.walk import walk_html
from recon.chapters.leakage_rank.drawing import drawing
from recon.chapters.separation.proof import proof
from recon.chapters.separation.threshold import threshold
from recon.chapters.separation.unmixing import unmixing

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
    """Opens a page that holds one fragment and nothing else; at the end nothing has gone wrong on it."""

    def show(fragment: str, size: dict = PHONE, place: str = ""):
        path = tmp_path / "page.html"
        path.write_text(
            "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
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
    """Press at one place of an element and release at another, in shares of its width and height."""
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


# ------------------------------------------------------------------------------------------------ compare, walk


def slider() -> str:
    x = images(4)
    return compare_html([Pair(x[0], x[1], 0.9, 1), Pair(x[2], x[3], 0.3, 2)], note="A note.")


def cut(page) -> str:
    return page.locator(".over").first.evaluate("img => getComputedStyle(img).clipPath")


def test_slider_by_mouse_and_keyboard(opened):
    page = opened(slider())
    knob = page.get_by_role("slider").first
    assert (knob.input_value(), cut(page)) == ("50", "inset(0px 50% 0px 0px)")
    drag(page, knob, (0.5, 0.5), (0.8, 0.5))
    value = int(knob.input_value())
    assert 70 <= value <= 90 and cut(page) == f"inset(0px {100 - value}% 0px 0px)"
    page.keyboard.press("ArrowLeft")
    assert int(knob.input_value()) == value - 5 and cut(page) == f"inset(0px {105 - value}% 0px 0px)"
    for key, end in (("Home", 0), ("End", 100)):
        page.keyboard.press(key)
        assert knob.get_attribute("aria-valuetext") == f"{end} % reconstruction"
    assert page.get_by_role("slider").nth(1).input_value() == "50"


def test_the_picture_itself_can_be_dragged(opened):
    page = opened(slider())
    drag(page, page.locator(".stage").first, (0.5, 0.5), (0.25, 0.5))
    assert page.get_by_role("slider").first.input_value() == "25" and cut(page) == "inset(0px 75% 0px 0px)"
    assert page.get_by_role("slider").nth(1).input_value() == "50"


def test_slider_without_scripts_shows_both_images(browser, tmp_path):
    page = plain(browser, tmp_path, slider())
    left, right = (page.locator(f"{which} >> nth=0").bounding_box() for which in (".over", ".under"))
    assert left["x"] + left["width"] <= right["x"] and left["y"] == right["y"]
    assert page.locator("input:visible").count() == 0


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


# --------------------------------------------------------------------------------------------- chapter 6's three


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
    columns = "all => new Set(all.map((each) => Math.round(each.getBoundingClientRect().left))).size"
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

    assert said.inner_text().startswith("Above 0.70: 12 of 12 training images.") and expected(0.7) in said.inner_text()
    knob.press("ArrowLeft")
    assert said.inner_text().startswith("Above 0.69") and expected(0.69) in said.inner_text()
    knob.press("End")
    assert said.inner_text().startswith("Above 1.00: 0 of 12") and said.inner_text().endswith("Without any attack, 0.")
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
    red = "canvas => [...canvas.getContext('2d').getImageData(0, 0, 32, 32).data].filter((_, i) => i % 4 === 0)"
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
        return torch.corrcoef(torch.stack([drawn, torch.tensor(shown, dtype=torch.float32)]))[0, 1].item()

    assert (
        max(abs(likeness(k)) for k in range(10)) < 0.85
        and "rows of the first layer" in page.locator(".said").inner_text()
    )
    knob.press("End")
    assert min(likeness(k) for k in range(10)) > 0.9 and page.locator(".said").inner_text() == "at the end"


# -------------------------------------------------------------------------------------------- be the adversary


def game(n: int = 20, again: int = 0) -> str:
    """again: how many of the last resemble the same images as the first."""
    true = (torch.arange(n) % 3 == 0).float()
    x = images(2 * n)
    x[2 * n - again :] = x[n : n + again]
    return guess(
        Arrays(
            trusted_decoreco=x[:n],
            trusted_decoreco_nearest=x[n:],
            trusted_decoreco_true=true,
            trusted_decoreco_ncc=torch.full((n,), 0.8),
            trusted_more_true=torch.ones(n),
        )
    )


def test_a_game_shows_one_result_for_each_image():
    assert game().count('class="card"') == 20 and game(again=3).count('class="card"') == 17


def test_a_game_counts_what_is_right_and_says_what_a_coin_gets(opened):
    page = opened(game())
    cards, done = page.locator(".card"), page.locator(".done")
    truth = [card.get_attribute("data-true") == "1" for card in cards.all()]
    assert sum(truth) == 7 and done.is_disabled()
    for k, real in enumerate(truth):  # three wrong ones
        cards.nth(k).get_by_role("button", name="real" if real != (k < 3) else "false").click()
        assert done.is_disabled() == (k < 19)
    assert page.locator(".answer:visible").count() == 0
    done.click()
    coin = 100 * sum(math.comb(20, k) for k in range(17, 21)) / 2**20
    said = page.locator(".verdict").inner_text()
    assert said.startswith(
        f"You: 17 of 20 right. A coin gets 10 on average, and as many as you in {max(1, round(coin))} of"
    )
    order = torch.arange(20)
    machine = int(((order % 3 == 0) == (order < 10)).sum())
    assert (
        "7 of them are training images. The adversary of this chapter" in said
        and f"gets {machine} of 20 right." in said
    )
    assert page.locator(".answer:visible").count() == 20
    assert page.locator(".share").get_attribute("href") == "#recon-guess=17"
    page.locator(".again").click()
    assert page.locator(".answer:visible").count() == 0 and page.locator("[aria-pressed=true]").count() == 0


def test_a_game_is_played_by_keyboard_and_its_link_says_the_score(opened):
    page = opened(game(), place="#recon-guess=15")
    assert page.locator(".verdict").inner_text() == "Somebody got 15 of 20 right, and sent you here. Can you do better?"
    page.locator(".card button").first.focus()
    for _ in range(20):
        page.keyboard.press("Space")
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
    assert page.locator(".done").is_enabled() or page.locator(".card [aria-pressed=true]").count() == 20
    page.locator(".done").press("Enter")
    right = page.locator(".card[data-true='1']").count()  # everything was called real
    said = page.locator(".verdict").inner_text()
    coin = round(100 * sum(math.comb(20, k) for k in range(right, 21)) / 2**20)
    assert said.startswith(f"You: {right} of 20 right") and f"as many as you in {coin} of 100 games" in said


def test_a_game_without_scripts_says_its_answers(browser, tmp_path):
    page = plain(browser, tmp_path, game())
    page.locator("summary").click()
    assert page.locator("details p", has_text="are real. ").is_visible() and page.locator("button:visible").count() == 0


# ---------------------------------------------------------------------------------------------------- draw, land


def error(page) -> float:
    said = page.locator(".said").inner_text()
    value = re.search(r"mean squared error (.+)\.$", said)[1]
    return 0.0 if value.startswith("0 to the last digit") else float(value)


def test_a_drawing_comes_back_from_its_gradient(opened):
    page = opened(drawing())
    pad = page.locator(".pad")
    pixels = "canvas => [...canvas.getContext('2d').getImageData(0, 0, 16, 16).data].filter((_, i) => i % 4 === 0)"
    before = pad.evaluate(pixels)
    drag(page, pad, (0.03, 0.03), (0.03, 0.5))
    after = pad.evaluate(pixels)
    assert before[0] < 50 and after[0] == 255 and error(page) == 0.0
    assert page.locator(".seen").evaluate(pixels)[0] < 50  # of the label's unit: δ = p − 1 is negative
    back = page.locator(".back").evaluate(pixels)
    assert max(abs(a - b) for a, b in zip(after, back, strict=True)) <= 1
    noise, batch = page.get_by_role("slider", name="Noise"), page.get_by_role("slider", name="Images in the batch")
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
    pixels = "canvas => [...canvas.getContext('2d').getImageData(0, 0, 16, 16).data].filter((_, i) => i % 4 === 0)"
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


def test_a_landing_shows_the_distances_of_its_start(opened):
    grid = [0.0, 0.5, 1.0]
    table = {
        name: {
            kind: [[100 * a + 10 * i + j + k / 10 for j in range(3)] for i in range(3)] for k, kind in enumerate(KINDS)
        }
        for a, name in enumerate(("one", "two"))
    }
    x = images(3)
    page = opened(landing_html(grid, table, (x[0], x[1], x[2])))

    def cells() -> list[str]:
        return page.locator("tbody td:visible").all_inner_texts()

    assert cells() == ["22.0", "22.1", "22.2", "122.0", "122.1", "122.2"]  # started at the training images
    page.locator("svg").focus()
    page.keyboard.press("ArrowLeft")
    assert cells()[0] == "12.0"  # λ₁ = 1/2, λ₂ = 1
    page.keyboard.press("ArrowDown")
    assert (
        cells()[0] == "11.0"
        and "25 % training image, 25 % another photograph, 50 % noise" in page.locator(".said").inner_text()
    )
    box = page.locator("svg").bounding_box()
    page.mouse.click(box["x"] + 44 / 320 * box["width"], box["y"] + 44 / 320 * box["height"])  # other photographs
    assert cells()[0] == "2.0"
    drawn = page.locator(".mixed").evaluate("c => c.getContext('2d').getImageData(0, 0, 1, 1).data[0]")
    assert abs(drawn - round(x[1][0].item() * 255)) <= 1


# ----------------------------------------------------------------------------------------------------- on paper


def unmixed() -> str:
    truth = images(12)
    x = truth - truth.mean(0)
    mixing = torch.randn(20, 12, generator=torch.Generator().manual_seed(2))
    rows = mixing @ x
    basis = torch.linalg.svd(rows, full_matrices=False).Vh[:11]
    return unmixing(basis, rows, [("half-way", mixing[:12] @ x), ("at the end", -x)], truth, n=10)


def landed() -> str:
    grid = [0.0, 0.5, 1.0]
    table = {kind: [[10 * i + j + k / 10 for j in range(3)] for i in range(3)] for k, kind in enumerate(KINDS)}
    x = images(3)
    return landing_html(grid, {"one": table}, (x[0], x[1], x[2]))


def asked() -> str:
    x = images(10)
    return quiz_html([Option(x[i], x[5 + i], 0.8, i != 3, i + 1, 40) for i in range(5)])


ELEMENTS = {
    "compare": slider,
    "walk": strip,
    "threshold": lambda: threshold(separated()),
    "unmixing": unmixed,
    "guess": game,
    "quiz": asked,
    "drawing": drawing,
    "landing": landed,
}
#: what only a hand on the page can do
ASKS = re.compile(r"\b(drag|move (?:a|the)|draw (?:an|on)|choose one|click|answers in words|show the answers)\b", re.I)
CONTROLS = "input:visible, label:visible, details:visible, canvas.pad:visible, [role=slider]:visible, button:visible"


@pytest.mark.parametrize("name", ELEMENTS)
def test_on_paper_an_element_asks_for_nothing_and_says_what_is_online(opened, name):
    page = opened(ELEMENTS[name]())
    box = page.locator(".recon-element")
    assert ASKS.search(box.inner_text()) and page.locator(CONTROLS).count() > 0
    assert page.locator(".paper:visible").count() == 0 and page.locator(".ask:visible").count() > 0
    page.emulate_media(media="print")
    said = box.inner_text()
    assert ASKS.search(said) is None, said
    assert page.locator(".ask:visible").count() == 0 and page.locator(".paper:visible").count() > 0
    assert re.search(r"On the web page|The answers, ", said)
    controls = [each for each in page.locator(CONTROLS).all() if not each.locator("img").count()]
    assert [each.evaluate("each => each.className") for each in controls] in ([], ["pad"] * (name == "drawing"))


def test_a_printed_pair_stands_side_by_side_and_a_printed_walk_has_a_row_a_set(opened):
    page = opened(slider(), size={"width": 800, "height": 800})
    page.emulate_media(media="print")
    left, right = (page.locator(which).first.bounding_box() for which in (".over", ".under"))
    assert left["x"] + left["width"] <= right["x"] and left["y"] == right["y"] and cut(page) == "none"
    page = opened(strip(), size={"width": 800, "height": 800})
    page.emulate_media(media="print")
    shown = page.locator(".stage:visible")
    assert [each.evaluate("each => each.style.getPropertyValue('--frame')") for each in shown.all()] == list("01234")
    assert shown.first.locator(".tile").count() == 3
    assert "url" in shown.first.locator(".tile").first.evaluate("each => getComputedStyle(each).backgroundImage")


def test_a_printed_unmixing_shows_both_ends(opened):
    page = opened(unmixed())
    page.emulate_media(media="print")
    red = "canvas => [...canvas.getContext('2d').getImageData(0, 0, 32, 32).data].filter((_, i) => i % 4 === 0)"
    drawn = page.locator("canvas:visible")
    assert drawn.count() == 20 and "at the end:" in page.locator(".recon-element").inner_text()
    page.emulate_media(media="screen")
    knob = page.get_by_role("slider")
    for key, first in (("Home", 0), ("End", 10)):
        knob.press(key)
        live = page.locator(".now canvas").first.evaluate(red)
        assert live == page.locator(".paper canvas").nth(first).evaluate(red)


def test_a_printed_landing_has_a_table_for_each_corner(opened):
    page = opened(landed())
    page.emulate_media(media="print")
    tables = page.locator("table:visible")
    assert [table.locator("td").all_inner_texts() for table in tables.all()] == [
        ["22.0", "22.1", "22.2"],
        ["2.0", "2.1", "2.2"],
        ["0.0", "0.1", "0.2"],
    ]
    captions = tables.locator("caption").all_inner_texts()
    starts = ("the training images", "other photographs", "noise")
    assert [text.split(":")[0] for text in captions] == [f"Started at {start}" for start in starts]
