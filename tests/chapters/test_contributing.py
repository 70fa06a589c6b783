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

import pytest

from companion.chapters import ROOT
from companion.chapters.claims import claims_page
from companion.press.html import toc_files
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


@pytest.fixture
def copy(tmp_path):
    """The checkout with what the page adds to it."""
    for name in ("recon", "companion"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "book").mkdir()
    for name in ("_toc.yml", "pyproject.toml", "book/claims.yml"):
        shutil.copy2(ROOT / name, tmp_path / name)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
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


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_the_code_of_the_page_runs(number, monkeypatch):
    assert len(SNIPPETS) == 3
    monkeypatch.setattr(registry, "NEEDS", dict(registry.NEEDS))
    exec(compile(SNIPPETS[number], f"contributing.md, block {number}", "exec"), {})
