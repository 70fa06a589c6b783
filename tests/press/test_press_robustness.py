"""What was done to pages, editions and the book, and what has to come of it: see toys.py."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny import chapter, pretend, repo, write  # noqa: F401  (repo is a fixture)
from toys import (  # noqa: F401  (calm, stage and store are fixtures)
    ANY,
    FOLDER,
    NAME,
    call,
    calm,
    edit,
    overwrite,
    sentence,
    stage,
    store,
)

from companion.press import html, publish
from companion.press.edition import build_edition
from companion.press.runner import check_parameters
from companion.press.stamps import Edition
from recon.store.files import only_one

pytestmark = pytest.mark.slow

# ------------------------------------------------------------------------ pages, editions, the book


def stamped(change: Callable[[dict], object]) -> Callable[[Path], None]:
    def do(path: Path) -> None:
        nb = json.loads(path.read_text())
        change(nb)
        path.write_text(json.dumps(nb))

    return do


NOTEBOOKS = (
    ANY
    | FOLDER
    | {
        "a list": overwrite(b"[]"),
        "an object": overwrite(b"{}"),
        "cells an object": stamped(lambda nb: nb.update(cells={})),
        "a cell without source": stamped(lambda nb: nb["cells"][1].pop("source")),
        "a version from the future": stamped(lambda nb: nb.update(nbformat=99)),
        "metadata a list": stamped(lambda nb: nb.update(metadata=[])),
    }
)
#: damage to a page of an edition; what cannot be a page is not published, the rest of the edition
#: neither
PAGES = NOTEBOOKS | {
    "an output without type": stamped(lambda nb: nb["cells"][1].update(outputs=[{"text": "x"}])),
    "a stamp that is text": stamped(lambda nb: nb["metadata"].update(recon="yes")),
    "no stamp": stamped(lambda nb: nb["metadata"].pop("recon")),
}
TOCS = {
    **{how: ANY[how] for how in ("binary", "a pipe", "a link to nowhere")},
    **FOLDER,
    "empty": overwrite(b""),
    "not YAML": overwrite(b"a: [b\n  c: }"),
    "a Python object": overwrite(b"!!python/object/apply:os.system ['touch owned']"),
}


def tree(folder: Path) -> dict:
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }


@pytest.fixture
def edition(repo):  # noqa: F811
    """An edition that could be published, in a repository that has one."""
    made = pretend(repo)
    shutil.copytree(made / "executed", repo / "book" / "executed", dirs_exist_ok=True)
    (repo / "book/executed/results/old").mkdir(parents=True)
    (repo / "book/executed/results/old/result.json").write_text("old")
    return made


@pytest.mark.parametrize("how", PAGES)
def test_a_damaged_page_is_not_published_and_the_old_edition_stays(repo, edition, how):  # noqa: F811
    before = tree(repo / "book")
    PAGES[how](edition / "executed" / "01-one.ipynb")
    sentence(lambda: publish.publish("laptop-cifar10", repo), "01-one")
    assert tree(repo / "book") == before


@pytest.mark.parametrize("how", NOTEBOOKS)
def test_a_damaged_page_is_not_rendered_and_a_damaged_source_not_executed(repo, edition, how):  # noqa: F811
    NOTEBOOKS[how](repo / "book" / "executed" / "01-one.ipynb")
    sentence(lambda: publish.render(repo), "01-one")
    NOTEBOOKS[how](repo / "notebooks" / "01-one.ipynb")
    sentence(lambda: build_edition(Edition(), repo), "01-one")
    assert list((repo / "build").glob("*/.run-*")) == []


@pytest.mark.parametrize("how", TOCS)
def test_a_damaged_table_of_contents_is_one_sentence(repo, edition, how, monkeypatch):  # noqa: F811
    monkeypatch.setattr(html, "_stage", lambda *_: pytest.fail("built"))
    TOCS[how](repo / "_toc.yml")
    sentence(lambda: publish.render(repo), "")
    sentence(lambda: publish.publish("laptop-cifar10", repo), "")
    assert not Path("owned").exists()


@pytest.mark.parametrize("name", ["../../../escaped", "/tmp/escaped", "", []])
def test_a_result_of_no_experiment_is_not_kept(repo, store, name):  # noqa: F811
    edit(lambda meta: meta.update(experiment=name))(store / NAME / "result.json")
    sentence(lambda: publish.keep(store / NAME, repo), "unknown experiment")
    assert not (repo / "book" / "paper-size").exists() and not (repo / "escaped").exists()


def test_a_damaged_result_is_not_published(repo, edition, store):  # noqa: F811
    before = tree(repo / "book")
    shutil.copytree(store, edition / "results")
    assert call("claims", "--out", str(edition / "results"))[0] == 0
    overwrite(lambda b: b[:-9])(edition / "results" / NAME / "result.json")
    sentence(lambda: publish.publish("laptop-cifar10", repo), "damaged")
    shutil.rmtree(repo / "book" / ".executed.new", ignore_errors=True)
    assert tree(repo / "book") == before


def test_the_published_edition_does_not_replace_itself(repo, edition):  # noqa: F811
    """It would lose its results, which lie elsewhere there than in an edition."""
    before = tree(repo / "book")
    sentence(lambda: publish.publish(repo / "book", repo), "is where the published edition lies")
    assert tree(repo / "book") == before


def test_two_books_at_once_are_refused(repo, edition):  # noqa: F811
    for folder, action in (
        (edition, lambda: build_edition(Edition(), repo)),
        (repo / "book", lambda: publish.publish("laptop-cifar10", repo)),
    ):
        with only_one(folder):
            sentence(action, "another run is at work in")


def test_a_checkout_whose_path_has_braces_and_spaces_can_be_read(tmp_path):
    path = write(tmp_path / "my {repo} ü", "01-one", chapter())
    check_parameters(path)
