"""What is left off a page, and what must not be."""

from __future__ import annotations

import sys

import matplotlib.pyplot as plt
import pytest
from PIL import Image

from companion.chapters import ROOT

sys.path.append(str(ROOT / "book" / "_ext"))

from tidy_pages import MATHJAX, fewer_icons, fewer_rules, slimmer  # noqa: E402

from companion.chapters.pictures import CHART_GROUND, chart, photographs  # noqa: E402


def test_rules_that_no_page_can_meet_are_left_out():
    css = (
        "a{x:1}.used{x:2}.used .not{x:3}.used,.not{x:4}@media"
        " print{.not{x:5}.used{x:6}}:is(.not){x:7}.no-1{x:8}"
    )
    assert (
        fewer_rules(css, {"used", "no"})
        == "a{x:1}.used{x:2}.used{x:4}@media print{.used{x:6}}:is(.not){x:7}"
    )


def test_a_page_keeps_what_it_uses(tmp_path):
    Image.new("RGB", (30, 20)).save(tmp_path / "a b.png")
    scripts = "".join(
        f'<script src="../_static/{name}?digest=1"></script>'
        for name in ("scripts/fontawesome.js", "searchtools.js", MATHJAX, "zoom.js")
    )
    images = '<img src="x.png"><img src="a%20b.png" alt="1 &gt; 0">'
    images += '<img src="data:x"><img src="a%20b.png" style="width: 9px">'
    images += '<img src="y.png" style="width: 8px; height: 6px;">'
    page = f'{scripts}<img src="outside.png"><article>{images}<span class="math">x</span></article>'
    found = slimmer(page, tmp_path)
    assert [
        name for name in ("fontawesome", "searchtools", MATHJAX, "zoom.js") if name in found
    ] == [
        MATHJAX,
        "zoom.js",
    ]
    # the first is loaded at once
    assert '<img src="outside.png"><article><img src="x.png">' in found
    assert '<img loading="lazy" width="30" height="20" src="a%20b.png" alt="1 &gt; 0">' in found
    assert '<img src="data:x"><img loading="lazy" src="a%20b.png" style="width: 9px">' in found
    # so that the height follows the width
    assert '<img loading="lazy" src="y.png" width="8" height="6">' in found
    assert MATHJAX not in slimmer(page.replace('class="math"', ""), tmp_path)


def test_what_folds_the_contents_has_a_name(tmp_path):
    found = slimmer(
        '<summary><span class="toctree-toggle"></span></summary><summary>Code</summary>', tmp_path
    )
    assert '<summary aria-label="Pages of this part"><span' in found and "<summary>Code" in found


@pytest.mark.parametrize("way", [chart, photographs])
def test_charts_are_told_from_photographs_and_shown_at_half_their_dots(way, tmp_path):
    @way
    def draw():
        return plt.subplots(figsize=(4, 3))[0]

    figure = draw()
    figure.savefig(tmp_path / "a.png", dpi=200)
    plt.close(figure)
    found = slimmer('<article><img class="x" src="a.png"><img src="a.png"></article>', tmp_path)
    is_chart = found.count("recon-chart") == 2 and 'class="recon-chart x"' in found
    assert is_chart if way is chart else "recon-chart" not in found
    assert found.count('width="400" height="300"') == 2 and found.count('loading="lazy"') == 1
    assert CHART_GROUND != "#ffffff"


def test_icons_that_no_page_has_are_left_out(tmp_path):
    theme = pytest.importorskip("pydata_sphinx_theme")
    static = tmp_path / "_static"
    source = ROOT.joinpath(theme.__path__[0]) / "theme" / "pydata_sphinx_theme" / "static"
    for path in ("styles/pydata-sphinx-theme.css", "vendor/fontawesome/webfonts/fa-solid-900.ttf"):
        (static / path).parent.mkdir(parents=True, exist_ok=True)
        (static / path).write_bytes((source / path).read_bytes())
    fewer_icons(static, {"fa-bars", "fa-nothing"})
    css = (static / "styles" / "pydata-sphinx-theme.css").read_text()
    assert ".fa-bars:before" in css and ".fa-hourglass-3:before" not in css
    assert 'fa-solid-900.woff) format("woff")' in css
    assert (
        static / "vendor" / "fontawesome" / "webfonts" / "fa-solid-900.woff"
    ).stat().st_size < 5000
