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


def test_the_picture_stands_under_the_answer_and_its_code_at_the_foot():
    cell = nbformat.v4.new_code_cell
    picture = nbformat.v4.new_output("display_data", {"image/png": ""})
    nb = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_markdown_cell("# Title\n\n**Answer.** Yes.\n\nThe paper says no."),
            cell('profile = "laptop"', metadata={"tags": ["parameters"]}),
            cell('profile = "smoke"', metadata={"tags": ["injected-parameters"]}),
            cell("import recon\n"),
            cell("plot()", outputs=[picture]),
            cell("x = 1"),
        ]
    )
    chapter_pages.picture_first(nb)
    assert [c.source for c in nb.cells] == [
        "# Title\n\n**Answer.** Yes.\n\n",
        "plot()",
        "The paper says no.",
        "x = 1",
        'profile = "smoke"\n\nimport recon\n',
    ]
    assert nb.cells[-1].metadata.tags == ["hide-input"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_page_shows_its_picture_first(path):
    source = [path.read_text(encoding="utf-8")]
    chapter_pages.laid_out(APP, f"book/executed/{path.stem}", source)
    cells = nbformat.reads(source[0], as_version=4).cells
    assert cells[0].source.rstrip().rpartition("\n\n")[2].startswith("**Answer.**")
    assert chapter_pages.draws(cells[1])


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


def test_every_page_says_on_top_what_the_adversary_has_does_and_gets():
    for page in PAGES:
        source = [page.read_text(encoding="utf-8")]
        chapter_pages.laid_out(APP, f"book/executed/{page.stem}", source)
        opening = nbformat.reads(source[0], as_version=4).cells[0].source
        words = re.findall(r"<b>(\w+)</b> ([^<]+)</span>", opening)
        assert [verb for verb, _ in words] == ["has", "does", "gets"]
        assert all(len(text.split()) <= 8 for _, text in words)
