"""A repository with one chapter, for the tests of the press."""

from __future__ import annotations

from types import SimpleNamespace

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from companion.press import edition, stamps
from companion.press.stamps import Edition

PARAMETERS = 'profile = "laptop"\ndata = "auto"\nseed = 0\ndevice = "auto"'
CONFIG = (
    'title: Tiny\nauthor: Nobody\nlogo: ""\nonly_build_toc_files: true\nexecute:\n '
    ' execute_notebooks: "off"\n'
)
POOL = SimpleNamespace(name="cifar10", sha256="0" * 64, notice="")


def chapter(*code: str, parameters: str = PARAMETERS, title: str = "# A chapter"):
    cells = [new_markdown_cell(title), new_code_cell(parameters, metadata={"tags": ["parameters"]})]
    kernelspec = {"name": "python3", "language": "python", "display_name": "whatever"}
    return new_notebook(
        cells=cells + [new_code_cell(c) for c in code], metadata={"kernelspec": kernelspec}
    )


@pytest.fixture
def repo(tmp_path, monkeypatch):
    """A repository with one chapter, on pretended CIFAR-10 and committed code."""
    root = tmp_path / "repo"
    for folder in ("notebooks", "book/executed", "build"):
        (root / folder).mkdir(parents=True)
    (root / "_config.yml").write_text(CONFIG)
    (root / "_toc.yml").write_text(
        "format: jb-book\nroot: book/index\nchapters:\n- file: book/executed/01-one\n"
    )
    (root / "book/readme.md.jinja").touch()
    (root / "book/index.md").write_text("# Tiny\n\nSee {doc}`executed/01-one`.\n")
    write(root, "01-one", chapter("print(profile, data, seed, device)"))
    monkeypatch.setattr(edition, "load_pool", lambda data, data_root: POOL)
    monkeypatch.setattr(stamps, "commit", lambda root: "abc1234")
    monkeypatch.setattr(stamps, "device_name", lambda device: "cpu (2 cores)")
    return root


def write(root, name, nb, folder="notebooks"):
    path = root / folder / f"{name}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(nb, path)
    return path


def pretend(root, profile="laptop", data="cifar10", **stamp):
    """An edition as if executed, without a kernel."""
    for source in edition.chapters_of(root):
        original = nbformat.read(source, as_version=4)
        nb = nbformat.from_dict(original)
        pool = SimpleNamespace(name=data, sha256="0" * 64, notice="")
        for number, cell in enumerate(c for c in nb.cells if c.cell_type == "code"):
            cell.execution_count = number + 1
        stamps.put_stamp(
            nb, stamps.make_stamp(root, original, Edition(profile, device="cpu"), pool) | stamp
        )
        write(root, source.stem, nb, f"build/{profile}-{data}/executed")
    return root / "build" / f"{profile}-{data}"
