"""The contributor's page does what it says: its code, applied to a copy of the checkout, adds a
chapter that runs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from companion.chapters import ROOT
from companion.chapters.claims import claims_page
from companion.press.html import toc_files
from companion.press.runner import execute, kernels
from recon.attacks import registry

BOOK = ROOT / "book"
PAGES = (BOOK / "contributing-chapter.md").read_text(encoding="utf-8")
FILES = {
    name.replace("\\_", "_"): text  # as Markdown has it
    for name, text in re.findall(
        r"```\{code-block\} \w+\n:caption: (\S+)\n\n(.*?)```", PAGES, re.DOTALL
    )
}
PAGE = (BOOK / "contributing.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
CELLS = (
    ("# What does a guess score?", None),
    ('profile = "laptop"\ndata = "auto"\nseed = 0\ndevice = "auto"', "parameters"),
    ("import recon\nfrom companion.chapters.guess import story as plots", None),
    ('result = recon.run("guess", profile=profile, data=data, seed=seed, device=device)', None),
    ('print("training images:", result.metrics.n_train)\nplots.plot_scores(result);', None),
)


def notebook() -> nbformat.NotebookNode:
    """A page of the chapter: a question, and code."""
    (question, _), *code = CELLS
    cells = [
        nbformat.v4.new_code_cell(text, metadata={"tags": [tag] if tag else []})
        for text, tag in code
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_markdown_cell(question), *cells], metadata=kernel
    )


@pytest.fixture
def copy(tmp_path):
    """The checkout with what the page adds to it."""
    for name in ("recon", "companion", "notebooks"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "book").mkdir()
    for name in ("_toc.yml", "pyproject.toml", "book/claims.yml"):
        shutil.copy2(ROOT / name, tmp_path / name)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    nbformat.write(notebook(), tmp_path / "notebooks" / "12-guess.ipynb")
    table, toc, claim = re.findall("`(guess: .*?|file: .*?|guess-mean: .*?)`", PAGES)
    insert(tmp_path / "companion" / "chapters" / "experiments.yml", "", f"\n{table}\n")
    insert(tmp_path / "_toc.yml", "file: book/executed/11-leakage-attacks\n", f"      - {toc}\n")
    insert(tmp_path / "book" / "claims.yml", "ours:\n", f"  {claim}\n")
    return tmp_path


def insert(path: Path, before: str, line: str) -> None:
    """After a line, or at the end."""
    text = path.read_text(encoding="utf-8")
    place = text.index(before) + len(before) if before else len(text)
    path.write_text(text[:place] + line + text[place:], encoding="utf-8")


@pytest.mark.slow
def test_a_chapter_is_added_in_three_steps(copy):
    assert len(FILES) == 3
    env = {**os.environ, "PYTHONPATH": str(copy)}
    out = copy / "out"
    options = ["--profile", "smoke", "--data", "photos", "--out", str(out)]
    calls = [
        ["list"],
        ["run", "guess", *options],
        ["run", "guess", *options, "--set", "n_train=30"],
    ]
    script = (
        f"from recon.cli import main\nfor call in {calls!r}: assert main(call) == 0; print('done')"
    )
    command = [sys.executable, "-c", script]
    printed = subprocess.run(
        command, cwd=copy, env=env, capture_output=True, text=True, check=True
    ).stdout
    listed, first, other, _ = (text.splitlines() for text in printed.split("done\n"))
    assert any(line.startswith("guess ") for line in listed)
    assert first[-1] == str(out / "guess" / "result.json")
    assert (
        json.loads((out / "guess" / "result.json").read_text())["claims"][0]["id"] == "guess-mean"
    )
    assert (out / "guess" / "scores.png").stat().st_size > 1000
    assert json.loads(Path(other[-1]).read_text())["metrics"]["n_train"] == 30
    assert "book/executed/12-guess" in toc_files(copy / "_toc.yml")
    assert next(iter(claims_page(copy)["ours"])) == "guess-mean"
    parameters = {"profile": "smoke", "data": "photos", "seed": 0, "device": "cpu"}
    with kernels(copy / "work", {"PYTHONPATH": str(copy), "RECON_OUT": str(out)}):
        page = execute(copy / "notebooks" / "12-guess.ipynb", copy / "12-guess.ipynb", parameters)
    outputs = [output for cell in page.cells for output in cell.get("outputs", [])]
    assert any("training images: 20" in output.get("text", "") for output in outputs)
    assert any("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_the_code_of_the_page_runs(number, monkeypatch):
    assert len(SNIPPETS) == 3
    monkeypatch.setattr(registry, "NEEDS", dict(registry.NEEDS))
    exec(compile(SNIPPETS[number], f"contributing.md, block {number}", "exec"), {})
