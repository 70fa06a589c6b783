"""Every figure as a page shows it: no text too small, over other text or cut off, and no legend over what is drawn.

Figures are drawn from the smoke results that tests/chapters/test_smoke.py computes too, and once more from the
published numbers where those are enough.  What matplotlib's own renderer draws is what is measured.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import combinations
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, get_args, get_type_hints
from unittest.mock import patch

import matplotlib.pyplot as plt
import numpy as np
import pytest
from bars import bars, plot_bars
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Bbox

import companion.chapters
from companion.chapters import kept, kept_seeds, load, registry
from companion.chapters.pictures import (
    CHART_GROUND,
    FREE,
    HELD_OUT,
    NOISE,
    REFERENCE,
    SERIES,
    TRAIN,
    chart,
    end_labels,
    ink,
    letters_on,
)
from companion.press.calibration import plot_calibration

#: width of a page's column in CSS pixels, in a window of 1280; figures have 100 dots an inch and never grow
COLUMN = 688
LEAST_POINTS = 7.0
MARGIN = 0.1  # inches around what is drawn, as matplotlib's inline backend leaves


@dataclass
class Drawn:
    """A figure, and every text that is really drawn, with its box; all in pixels."""

    figure: Figure
    texts: list[tuple[Text, Bbox]]
    canvas: Bbox

    @property
    def scale(self) -> float:
        """CSS pixels on the page for a pixel of the figure."""
        return min(1.0, COLUMN / self.canvas.width)


def drawn(figure: Figure) -> Drawn:
    """The figure after matplotlib has drawn it at 100 dots an inch."""
    figure.set_dpi(100)
    renderer = FigureCanvasAgg(figure).get_renderer()
    seen: list[Text] = []
    original = Text.draw

    def noted(self: Text, renderer: Any, *args: Any, **kwargs: Any) -> None:
        if self.get_visible() and self.get_text():
            seen.append(self)
        original(self, renderer, *args, **kwargs)

    with patch.object(Text, "draw", noted):
        figure.draw_without_rendering()
    tight = figure.get_tightbbox(renderer)  # in inches
    box = Bbox.from_extents(
        *(100 * np.array([tight.x0 - MARGIN, tight.y0 - MARGIN, tight.x1 + MARGIN, tight.y1 + MARGIN]))
    )
    return Drawn(figure, [(text, Text.get_window_extent(text, renderer)) for text in dict.fromkeys(seen)], box)


def overlap(one: Bbox, other: Bbox, slack: float = 1.0) -> bool:
    """Whether two boxes share more than a rim of some pixels."""
    return (
        min(one.x1, other.x1) - max(one.x0, other.x0) > slack and min(one.y1, other.y1) - max(one.y0, other.y0) > slack
    )


def small(page: Drawn) -> list[str]:
    """Texts below 7 points at the size at which the page shows them: CSS has 96 pixels an inch, of 72 points."""
    found = []
    for text, _ in page.texts:
        points = text.get_fontsize() * (100 / 72) * page.scale * (72 / 96)
        if points < LEAST_POINTS:
            found.append(f"{points:.1f} points: {text.get_text()!r}")
    return found


def overlapping(page: Drawn) -> list[str]:
    """Pairs of texts that lie over one another."""
    return [
        f"{one.get_text()!r} and {other.get_text()!r}"
        for (one, a), (other, b) in combinations(page.texts, 2)
        if overlap(a, b)
    ]


def slanted(page: Drawn) -> list[str]:
    """Texts at an angle, whose boxes say nothing and which nobody reads with a straight neck."""
    return [repr(text.get_text()) for text, _ in page.texts if text.get_rotation() % 90]


def cut_off(page: Drawn) -> list[str]:
    """Texts that reach over the edge of what is shown."""
    edge = page.canvas
    return [
        repr(text.get_text())
        for text, box in page.texts
        if box.x0 < edge.x0 or box.y0 < edge.y0 or box.x1 > edge.x1 or box.y1 > edge.y1
    ]


def covered(page: Drawn) -> list[str]:
    """Legends over data points, lines or bars."""
    return [
        f"the legend with {legend.get_texts()[0].get_text()!r} over {what}"
        for legend in page.figure.findobj(Legend)
        if legend.get_texts()
        for what in _below(legend.get_window_extent(), page.figure)
    ]


def _below(box: Bbox, figure: Figure) -> Iterator[str]:
    for ax in figure.axes:
        if not overlap(box, ax.bbox):
            continue
        for line in ax.lines:
            path = line.get_transform().transform_path(line.get_path())
            marked = line.get_marker() not in ("", "None", None, " ")
            points = path.vertices[np.isfinite(path.vertices).all(1)]
            inside = [point for point in points if box.contains(*point) and ax.bbox.contains(*point)] if marked else []
            if inside or (line.get_linestyle() != "None" and path.intersects_bbox(box, filled=False)):
                yield f"the line {line.get_label()!r}"
        for collection in ax.collections:
            if isinstance(collection, PathCollection):
                points = collection.get_offset_transform().transform(np.asarray(collection.get_offsets()))
                if any(box.contains(*point) for point in points if np.isfinite(point).all()):
                    yield f"the dots {collection.get_label()!r}"
        for patch_ in ax.patches:
            if isinstance(patch_, Rectangle) and patch_.get_visible() and overlap(box, patch_.get_window_extent()):
                yield "a bar"
        for text in ax.texts:
            if text.get_text() and overlap(box, Text.get_window_extent(text)):
                yield f"the text {text.get_text()!r}"


def crossed(page: Drawn) -> list[str]:
    """Texts that the thin line of another label runs through."""
    lines = [(text, text.arrow_patch) for text, _ in page.texts if getattr(text, "arrow_patch", None) is not None]
    return [
        f"{other.get_text()!r} by the line of {text.get_text()!r}"
        for text, arrow in lines
        for other, box in page.texts
        if other is not text
        and arrow.get_transform().transform_path(arrow.get_path()).intersects_bbox(box.padded(-2), filled=False)
    ]


FAULTS = (small, slanted, overlapping, cut_off, covered, crossed)


def faults(figure: Figure) -> list[str]:
    """All that is wrong with a figure, in words."""
    page = drawn(figure)
    return [f"{rule.__name__}: {words}" for rule in FAULTS for words in rule(page)]


# ------------------------------------------------------------------------------------------------- every figure

BOOK = Path(companion.chapters.ROOT) / "book"
#: experiment -> its published numbers, at the paper's size where they are kept
PUBLISHED = {
    folder.name: folder for where in ("executed/results", "paper-size") for folder in sorted((BOOK / where).iterdir())
}
#: functions whose further arguments make another figure of the book
MORE: dict[str, dict[str, list[tuple]]] = {
    "plot_starts": {"bilevel-affine": [()], "bilevel-hidden": [()], "bilevel-hidden-shared": [()]},
    "plot_trusted": {"decoreco-adversary": [(), ("more",)]},
}
#: in a registry: other arguments for one of these functions
LAMBDAS = {plot for each in registry().values() for plot in each.figures.values() if plot.__name__ == "<lambda>"}


def plots() -> Iterator[tuple[str, Callable[..., Figure]]]:
    """(name of an experiment, what draws a figure of its result), all that there are."""
    for info in walk_packages(companion.chapters.__path__, "companion.chapters."):
        if not info.name.rpartition(".")[2].startswith("story"):
            continue
        module = import_module(info.name)
        for name, plot in vars(module).items():
            if not name.startswith("plot_") or plot.__module__ != info.name:
                continue
            takes = next(iter(get_type_hints(plot).values()))  # Result[M], or a union of such
            of = {metrics for each in (takes, *get_args(takes)) for metrics in get_args(each)}
            own = [each.name for each in registry().values() if each.metrics in of]
            listed = MORE.get(name, {})
            for experiment in listed if listed and (not own or set(own) & set(listed)) else own:
                yield experiment, plot


PLOTS = sorted({(experiment, plot.__name__): (experiment, plot) for experiment, plot in plots()}.items())
BY_EXPERIMENT = {name: [plot for _, (own, plot) in PLOTS if own == name] for name in registry()}


@cache
def without_arrays(name: str) -> dict[tuple, list[str] | None]:
    """For every figure of an experiment's published numbers: its faults, or None where it needs an array."""
    result = kept(name) if kept_seeds(name) else load(PUBLISHED[name], arrays=False)
    found: dict[tuple, list[str] | None] = {}
    for plot in BY_EXPERIMENT[name]:
        for more in MORE.get(plot.__name__, {}).get(name, [()]):
            found[plot.__name__, more] = None
            with suppress(KeyError):  # it has no array …
                found[plot.__name__, more] = faults(plot(result, *more))
            plt.close("all")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", registry())
def test_every_figure_of_published_numbers_can_be_read(name):
    """Of kept runs all; of others those that need no arrays, which are not published with the numbers."""
    assert not {plot: found for plot, found in without_arrays(name).items() if found}


@pytest.mark.parametrize("name", registry())
def test_every_other_figure_of_a_small_run_can_be_read(name, runs):
    """Those that need arrays, at the sizes of `smoke`."""
    assert set(registry()[name].figures.values()) <= set(BY_EXPERIMENT[name]) | LAMBDAS
    result, by_name = None, {plot.__name__: plot for plot in BY_EXPERIMENT[name]}
    for (plot, more), found in without_arrays(name).items():
        if found is None:
            result = result or runs(name)
            assert faults(by_name[plot](result, *more)) == [], plot
            plt.close("all")


def test_the_figure_of_an_audits_false_alarms_can_be_read():
    told = json.loads((companion.chapters.ROOT / "benchmarks" / "audit_calibration.json").read_text(encoding="utf-8"))
    assert faults(plot_calibration(told["networks"])) == []


def test_the_six_bars_can_be_read():
    found = bars(Path(companion.chapters.ROOT))
    assert len(found) == 6 and all(0 <= bar.null <= 1 and 0 <= bar.found <= 1 for bar in found)
    assert faults(plot_bars(found)) == []


def test_every_figure_has_the_books_style():
    """What draws itself says whether photographs are in it; `image_rows` says it for what is made of it alone."""
    unsaid = {
        f"{plot.__module__}.{plot.__name__}"
        for _, (_, plot) in PLOTS
        if not hasattr(plot, "__wrapped__")
        and not {"image_rows", "_picture", "plot_trusted", "_with_nearest"} & set(plot.__code__.co_names)
    }
    assert not unsaid


# ----------------------------------------------------------------------------------------- planted faults are seen


@pytest.fixture
def plain():
    figure, ax = plt.subplots(figsize=(6, 3))
    ax.plot([0, 1], [0, 1], label="a line")
    yield figure, ax
    plt.close(figure)


def test_nothing_is_wrong_with_a_plain_figure(plain):
    figure, ax = plain
    ax.legend(loc="lower right")
    assert faults(figure) == []


def test_small_text_is_seen_also_where_the_page_makes_it_small(plain):
    figure, ax = plain
    ax.set_title("tiny", fontsize=6)
    assert [words.split(": ")[1] for words in small(drawn(figure))] == ["'tiny'"]
    ax.set_title("large enough", fontsize=10)
    assert not small(drawn(figure))
    figure.set_size_inches(14, 3)
    assert "'large enough'" in " ".join(small(drawn(figure)))


def test_overlapping_text_is_seen(plain):
    figure, ax = plain
    ax.text(0.5, 0.5, "one thing")
    ax.annotate("another", (0.52, 0.5))
    assert overlapping(drawn(figure)) == ["'one thing' and 'another'"]


def test_labels_of_ticks_that_meet_are_seen(plain):
    figure, ax = plain
    ax.set_xticks([0.5, 0.51], ["half", "a bit more"])
    assert overlapping(drawn(figure)) == ["'half' and 'a bit more'"]


def test_slanted_text_is_seen(plain):
    figure, ax = plain
    ax.tick_params(axis="x", rotation=60)
    assert len(slanted(drawn(figure))) > 3


def test_text_over_the_edge_is_seen(plain):
    figure, ax = plain
    text = ax.text(0.99, 0.5, "too long for what is left")
    text.set_in_layout(False)
    assert cut_off(drawn(figure)) == ["'too long for what is left'"]


def test_a_line_through_another_label_is_seen(plain):
    figure, ax = plain
    ax.text(1.05, 0.5, "between", transform=ax.transAxes, va="center")
    there = {"xycoords": "axes fraction", "textcoords": "axes fraction", "arrowprops": {"arrowstyle": "-"}}
    ax.annotate("low", (1.0, 0.9), (1.1, 0.1), annotation_clip=False, **there)
    assert crossed(drawn(figure)) == ["'between' by the line of 'low'"]


@chart
def labelled():
    figure, ax = plt.subplots(figsize=(6, 3))
    ax.plot([0, 1], [0, 1])
    end_labels(ax, [(1.0, "one thing,\nin words", "black"), (1.0, "another", "black"), (0.99, "a third\none", "black")])
    return figure


def test_lines_of_labels_at_one_height_cross_none():
    assert faults(labelled()) == []
    plt.close("all")


@chart
def low():
    figure, ax = plt.subplots(figsize=(6, 3))
    ax.set(ylim=(0, 1))
    end_labels(ax, [(0.0, "one", "black"), (0.01, "another", "black"), (0.02, "a third", "black")])
    return figure


def test_labels_stay_beside_their_axes_where_another_panel_begins():
    figure = low()
    assert min(each.xyann[1] for each in figure.axes[0].texts) > 0
    plt.close("all")


@pytest.mark.parametrize("kind", ["line", "markers", "dots", "bar", "text"])
def test_a_legend_over_what_is_drawn_is_seen(kind):
    figure, ax = plt.subplots(figsize=(6, 3))
    ax.set(xlim=(0, 1), ylim=(0, 1))
    draw = {
        "line": lambda: ax.plot([0, 1], [0.9, 0.9], label="x"),
        "markers": lambda: ax.plot([0.05, 0.5], [0.9, 0.2], "o", label="x"),
        "dots": lambda: ax.scatter([0.05, 0.5], [0.9, 0.2], label="x"),
        "bar": lambda: ax.bar([0.05], [0.95], width=0.1, label="x"),
        "text": lambda: (ax.plot([], [], label="x"), ax.text(0.03, 0.9, "here")),
    }
    draw[kind]()
    ax.legend(loc="upper left")
    assert len(covered(drawn(figure))) == 1
    ax.legend(loc="lower right")
    assert covered(drawn(figure)) == []
    plt.close(figure)


# ----------------------------------------------------------------------------------------------------- colours


def shown_dark(colour: tuple[float, ...]) -> np.ndarray:
    """A colour of a chart on a dark page: `filter: invert(0.91) hue-rotate(180deg)`, as CSS defines both."""
    turned = np.array([[-0.574, 1.43, 0.144], [0.426, 0.43, 0.144], [0.426, 1.43, -0.856]])
    return np.clip(turned @ np.clip(0.91 - 0.82 * np.array(colour), 0, 1), 0, 1)


def contrast(one: Any, other: Any) -> float:
    """WCAG's, from 1 to 21."""

    def luminance(colour: Any) -> float:
        c = np.array(colour)
        return float(np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722])

    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_is_that_of_the_norm():
    assert contrast((0, 0, 0), (1, 1, 1)) == pytest.approx(21)
    assert contrast(to_rgb("#767676"), (1, 1, 1)) == pytest.approx(4.54, abs=0.01)
    assert shown_dark((1, 1, 1)) == pytest.approx(0.09) and shown_dark((0, 0, 0)) == pytest.approx(0.91)


@pytest.mark.parametrize("colour", [TRAIN, HELD_OUT, FREE, NOISE, REFERENCE, *SERIES], ids=lambda each: to_hex(each))
def test_lines_and_letters_stand_out_from_light_and_from_dark_pages(colour):
    """3 for what is drawn, 4.5 for what is written (WCAG 2.1, 1.4.11 and 1.4.3)."""
    ground, line, letters = to_rgb(CHART_GROUND), to_rgb(colour), ink(colour)
    assert contrast(line, ground) >= 3 and contrast(letters, ground) >= 4.5
    assert contrast(shown_dark(line), shown_dark(ground)) >= 3
    assert contrast(shown_dark(letters), shown_dark(ground)) >= 4.5


def test_numbers_on_a_map_stand_out_from_every_colour_of_it():
    for share in np.linspace(0, 1, 50):
        ground = plt.get_cmap("viridis")(share)[:3]
        other = {"black": "white", "white": "black"}[letters_on(ground)]
        assert contrast(to_rgb(letters_on(ground)), ground) >= max(4.5, contrast(to_rgb(other), ground))
