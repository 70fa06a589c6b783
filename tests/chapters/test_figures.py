"""Every figure is drawn alike of a kept run and of a small one, and says which run it shows."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from audit_calibration import plot_calibration
from bars import bars, plot_bars

from companion.chapters import ROOT, kept, kept_seeds, registry
from companion.chapters.pictures import letters_on
from companion.store.results import FIGURE

DRAWN = [(name, stem) for name, chosen in registry().items() for stem in chosen.figures]
#: pages draw none of their figures: the arrays of the kept descents are lost, and the second run
#: shows numbers alone
UNDRAWN = {"decoreco-second"}


def words(figure) -> list[str]:
    return [text.get_text() for text in figure.texts]


@pytest.mark.parametrize(
    ("name", "stem"), [(name, stem) for name, stem in DRAWN if kept_seeds(name)]
)
def test_a_figure_of_a_kept_run_is_drawn_from_what_is_kept(name, stem):
    if name in UNDRAWN:
        pytest.skip("no page draws it")
    figure = registry()[name].figures[stem](kept(name))
    assert any(text.startswith("kept run: ") for text in words(figure))
    plt.close("all")


@pytest.mark.parametrize("name", registry())
def test_a_figure_of_a_small_run_needs_no_other_arrays_than_are_kept(name, runs):
    result = runs(name)
    if name != "separation":  # never kept: its figures may take any array
        for key in [key for key in result.arrays if not key.startswith(FIGURE)]:
            del result.arrays[key]
    for plot in registry()[name].figures.values():
        assert any(text.startswith("this run: profile smoke") for text in words(plot(result)))
        plt.close("all")


def test_no_picture_of_a_run_is_committed_or_loaded():
    folders = (ROOT / "book" / "paper-size", ROOT / "book" / "seeds")
    assert [path for folder in folders for path in folder.rglob("*.png")] == []
    code = [*(ROOT / "companion").rglob("*.py"), *(ROOT / "notebooks").glob("*.ipynb")]
    assert [path for path in code if "Image(filename" in path.read_text(encoding="utf-8")] == []


def test_what_kept_runs_hold_is_small():
    files = [*(ROOT / "book" / "paper-size").rglob("*.safetensors")]
    assert sum(file.stat().st_size for file in files) <= 25e6


def test_pages_draw_by_the_functions_of_stories():
    """A cell that shows a picture calls a function that is in the code."""
    for page in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for cell in json.loads(page.read_text(encoding="utf-8"))["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] == "code" and "plt.show()" in source:
                called = {
                    ast.unparse(node.func)
                    for node in ast.walk(ast.parse(source))
                    if isinstance(node, ast.Call)
                }
                assert any("plot" in name or name.startswith(("ax", "plt.")) for name in called), (
                    page.stem,
                    source,
                )


def test_the_other_figures_of_the_book_are_drawn():
    told = json.loads(
        (ROOT / "recon-audit" / "benchmarks" / "audit_calibration.json").read_text(encoding="utf-8")
    )
    assert plot_calibration(told["networks"]).axes
    six = bars(Path(ROOT))
    assert len(six) == 6 and all(0 <= bar.null <= 1 and 0 <= bar.found <= 1 for bar in six)
    assert plot_bars(six).axes
    plt.close("all")


@pytest.mark.parametrize(
    ("ground", "letters"), [("#ffffff", "black"), ("#000000", "white"), ("#440154", "white")]
)
def test_letters_stand_out_from_their_ground(ground, letters):
    assert letters_on(ground) == letters
