"""What is left off a page, and what must not be."""

from __future__ import annotations

import sys
from types import SimpleNamespace

from PIL import Image

from companion.chapters import ROOT

sys.path.append(str(ROOT / "book" / "_ext"))

from tidy_pages import MATHJAX, fewer_rules, letter_appendices, slimmer  # noqa: E402


def test_rules_that_no_page_can_meet_are_left_out():
    css = "a{x:1}.used{x:2}.used .not{x:3}.used,.not{x:4}@media print{.not{x:5}.used{x:6}}"
    assert fewer_rules(css, {"used"}) == "a{x:1}.used{x:2}.used{x:4}@media print{.used{x:6}}"


def test_a_page_keeps_its_pictures_and_the_scripts_that_it_uses(tmp_path):
    Image.new("RGB", (30, 20)).save(tmp_path / "a.png")
    names = ("searchtools.js", MATHJAX, "zoom.js")
    scripts = "".join(f'<script src="../_static/{name}?digest=1"></script>' for name in names)
    page = f'{scripts}<article><img src="a.png" alt="1"><span class="math">x</span></article>'
    lean = slimmer(page, tmp_path)
    assert [name for name in names if name in lean] == [MATHJAX, "zoom.js"]
    assert 'src="a.png"' in lean and 'alt="1"' in lean
    assert MATHJAX not in slimmer(page.replace('class="math"', ""), tmp_path)


def test_an_appendix_numbers_its_figures_by_its_letter():
    pages = {"b-x": {"p": (3,), "q": (4,)}, "01-x": {"r": (1, 1)}}
    numbers = {f"book/executed/{name}": {"figure": of} for name, of in pages.items()}
    letter_appendices(None, SimpleNamespace(toc_fignumbers=numbers))
    assert pages == {"b-x": {"p": ("B", 1), "q": ("B", 2)}, "01-x": {"r": (1, 1)}}
