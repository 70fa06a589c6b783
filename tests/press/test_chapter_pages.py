"""Executed chapters as they are read; see book/_ext/chapter_pages.py."""

from __future__ import annotations

import ast
import builtins
import re
import sys
from types import SimpleNamespace

import nbformat
import pytest

from companion.chapters import ROOT

sys.path.append(str(ROOT / "book" / "_ext"))

import chapter_pages  # noqa: E402
from chapter_pages import lays_out  # noqa: E402

PAGES = sorted((ROOT / "book" / "executed").glob("*.ipynb"))
APP = SimpleNamespace(srcdir=ROOT)


def test_imports_and_settings_are_one_folded_cell():
    cell = nbformat.v4.new_code_cell
    cells = [cell('profile = "laptop"', metadata={"tags": ["parameters"]})]
    cells += [cell('profile = "smoke"', metadata={"tags": ["injected-parameters"]})]
    cells += [cell("import torch\n\nimport recon\n"), cell("x = 1")]
    nb = nbformat.v4.new_notebook(cells=cells)
    chapter_pages.fold_imports(nb)
    assert [c.metadata.get("tags") for c in nb.cells] == [["remove-cell"]] * 2 + [
        ["hide-input"],
        None,
    ]
    assert nb.cells[2].source.startswith('profile = "smoke"\n\nimport torch')


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_name_that_a_shown_cell_reads_is_made_in_a_shown_or_folded_one(path):
    nb = nbformat.read(path, as_version=4)
    folded = chapter_pages.needed(nb)
    known = {*dir(builtins), "display"}
    for cell in (
        each
        for each in nb.cells
        if each.cell_type == "code" and (not lays_out(each) or each in folded)
    ):
        own = chapter_pages.stored_in(cell) | {
            arg.arg for arg in ast.walk(ast.parse(cell.source)) if isinstance(arg, ast.arg)
        }
        assert chapter_pages.used_in(cell) <= known | own, cell.source
        known |= own


def test_every_chapter_tells_search_engines_its_question():
    told = [chapter_pages.described(nbformat.read(page, as_version=4)) for page in PAGES]
    for words in told:
        assert "?" in words["description"] and words["property=og:title"]
        assert len(words["property=og:description"]) > len(words["description"]) + 20
        assert not any(mark in "".join(words.values()) for mark in ("](", "{term}"))
    assert len({words["description"] for words in told}) == len(PAGES)


def test_solutions_are_folded_under_their_numbers():
    cell = nbformat.v4.new_code_cell
    nb = nbformat.v4.new_notebook(
        cells=[cell("1"), *(cell(x, metadata={"tags": ["solution"]}) for x in "23")]
    )
    chapter_pages.fold_solutions(nb)
    assert [c.metadata.get("tags") for c in nb.cells] == [None, ["hide-cell"], ["hide-cell"]]
    assert [c.metadata.mystnb.code_prompt_show for c in nb.cells[1:]] == [
        "Solution 1",
        "Solution 2",
    ]


def test_every_page_says_once_how_it_was_made_and_how_to_run_it():
    for page in PAGES:
        source = [page.read_text(encoding="utf-8")]
        chapter_pages.laid_out(APP, f"book/executed/{page.stem}", source)
        nb = nbformat.reads(source[0], as_version=4)
        made, run = [cell.source for cell in nb.cells[-2:]]
        stamp = nb.metadata.recon
        assert (
            f"`{stamp.commit}`" in made
            and stamp.date in made
            and f"`recon book {page.stem}`" in run
        )
        assert sum("How this page was made" in cell.source for cell in nb.cells) == 1


def test_code_that_only_lays_numbers_out_is_folded_and_the_experiment_is_not():
    cell = nbformat.v4.new_code_cell
    ignored = {"tags": ["lays-out"]}
    assert lays_out(cell("Markdown(f'{x}')", metadata=ignored))
    assert not lays_out(cell('result = recon.run("linear")', metadata=ignored))
    assert not lays_out(cell("plots.plot_rank(result)"))
    assert not lays_out(nbformat.v4.new_markdown_cell("text", metadata=ignored))
    solution = cell("print('so')", metadata={"tags": ["lays-out", "solution"]})
    assert not lays_out(solution)


def pictured(cell):
    """What the page says of a cell's picture: its name, its caption, its alternative text; "" for
    what is missing.
    """
    words = cell.metadata.get("mystnb", {})
    figure = words.get("figure", {})
    return figure.get("name", ""), figure.get("caption", ""), words.get("image", {}).get("alt", "")


@pytest.mark.parametrize("folder", ["notebooks", "book/executed"])
def test_every_picture_of_a_chapter_is_a_figure_of_its_own(folder):
    """One for each cell, with a name, a caption and words for who cannot see."""
    names = []
    for path in sorted((ROOT / folder).glob("*.ipynb")):
        for cell in nbformat.read(path, as_version=4).cells:
            draws = len(re.findall(r"plt\.show\(\)", cell.source)) * (cell.cell_type == "code")
            shows = sum("image/png" in output.get("data", {}) for output in cell.get("outputs", []))
            assert draws <= 1 and shows <= draws, f"{path.stem}: {cell.source}"
            if draws:
                name, caption, alt = pictured(cell)
                assert name.startswith("fig-") and len(caption) > 40 and len(alt) > 40, (
                    f"{path.stem}: {cell.source}"
                )
                assert caption != alt
                names.append(name)
    assert len(names) > 40 and len(names) == len(set(names))
