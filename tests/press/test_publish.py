"""The runner and the editions, on tiny notebooks in a repository of their own."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import sys
import time
from threading import Barrier
from types import SimpleNamespace

import nbformat
import pytest
import torch
from nbformat.v4 import new_markdown_cell, new_notebook, new_output
from tiny import POOL, chapter, pretend, repo, write  # noqa: F401  (repo is a fixture)

from companion.chapters import ROOT, load
from companion.press import edition as editions
from companion.press import html, publish, runner, stamps
from companion.press.edition import build_edition, chapters_of
from companion.press.runner import ReconRunError, read_notebook
from companion.press.stamps import Edition
from companion.store import results
from companion.store.kept import kept_arrays
from companion.store.results import save_result
from recon.errors import ReconError


def code_cells(nb):
    return [cell for cell in nb.cells if cell.cell_type == "code"]


# --------------------------------------------------------------------------------------- parameters


def test_a_notebook_that_lacks_a_parameter_is_named(tmp_path):
    path = write(
        tmp_path, "07-x", chapter(parameters='profile = "laptop"\ndata = "auto"\ndevice = "auto"')
    )
    with pytest.raises(ReconError, match="07-x.*'seed'"):
        runner.check_parameters(path)


def test_a_checkout_whose_path_has_braces_and_spaces_can_be_read(tmp_path):
    runner.check_parameters(write(tmp_path / "my {repo} ü", "01-one", chapter()))


def test_unknown_chapter_and_missing_notebooks_are_bad_input(repo, tmp_path):
    with pytest.raises(ReconError, match="unknown chapter '09-none'"):
        build_edition(Edition(), repo, ["09-none"])
    with pytest.raises(ReconError, match="no notebooks"):
        chapters_of(tmp_path)


# ---------------------------------------------------------------------------------- one execution


def test_an_edition_from_end_to_end(repo, monkeypatch):
    monkeypatch.setenv("RECON_DATA", ".")
    code = (
        "import os, sys\nprint(profile, data, seed, device)",
        (
            "print(os.environ['RECON_OUT'].endswith('results'),"
            " os.path.isabs(os.environ['RECON_DATA']))"
        ),
        f"print(sys.executable == {sys.executable!r}, os.path.basename(os.getcwd()))",
        "print('50 %', file=sys.stderr)",
    )
    write(repo, "01-one", chapter(*code))
    pool = SimpleNamespace(
        name="photos", sha256="f" * 64, notice=f"Not CIFAR-10 ({os.path.expanduser('~')}/x)."
    )
    monkeypatch.setattr(editions, "load_pool", lambda data, data_root: pool)
    edition = build_edition(Edition("smoke", seed=3), repo)

    assert edition == repo / "build" / "smoke-photos"
    nb = nbformat.read(edition / "executed" / "01-one.ipynb", as_version=4)
    nbformat.validate(nb)
    texts = ["".join(o.text for o in cell.outputs) for cell in code_cells(nb)]
    assert texts == ["", "", "smoke photos 3 auto\n", "True True\n", "True notebooks\n", ""]
    assert code_cells(nb)[1].metadata.tags == ["injected-parameters", "remove-cell"]
    assert not any("papermill" in part.metadata for part in (nb, *nb.cells))

    stamp = nb.metadata.recon
    assert (stamp.profile, stamp.data.name, stamp.seed, stamp.commit) == (
        "smoke",
        "photos",
        3,
        "abc1234",
    )
    assert (
        stamp.seconds > 0
        and stamp.date.endswith("UTC")
        and set(stamp.versions) == {"python", "torch", "numpy", "recon"}
    )
    assert stamp.notice == "Not CIFAR-10 (~/x)." and stamp.notice in nb.cells[1].source
    assert "Not CIFAR-10" in (edition / "html" / "book" / "executed" / "01-one.html").read_text()
    assert sorted(path.name for path in edition.iterdir()) == [
        "executed",
        "html",
        "html.log",
        "results",
    ]


def test_chapters_that_run_one_experiment_are_not_executed_at_once(repo, monkeypatch):
    """The third runs another, and beside the first."""
    runs = {"01-one": "linear", "02-two": "linear", "03-three": "heads"}
    sources = [write(repo, name, chapter(f'recon.run("{ran}")')) for name, ran in runs.items()]
    beside, running = Barrier(2), set()

    def execute(source, target, parameters):
        target.touch()
        assert runs[source.stem] not in running
        running.add(runs[source.stem])
        if source.stem != "02-two":
            beside.wait(timeout=60)
        time.sleep(0.1)
        running.remove(runs[source.stem])
        return chapter()

    monkeypatch.setattr(runner, "execute", execute)
    monkeypatch.setattr(editions, "cpu_count", lambda: 3)
    pages = editions.executed(sources, repo, {}, Edition(), lambda source, seconds: {})
    assert [name for name, _ in pages] == [source.name for source in sources]


FAILURES = {
    "1 / 0": r"chapter 01-one failed: cell 3: ZeroDivisionError: division by zero",
    "import os; os._exit(1)": r"chapter 01-one failed: DeadKernelError: Kernel died",
}


@pytest.mark.slow
@pytest.mark.parametrize("code", FAILURES)
def test_a_failing_chapter_is_one_line_and_old_pages_stay(repo, code):
    write(repo, "00-good", chapter("print('new')"))
    edition = pretend(repo)
    (edition / "html").mkdir()
    before = {path: path.read_bytes() for path in (edition / "executed").iterdir()}
    write(repo, "01-one", chapter(code, "print('later')"))
    chapters = None if code == "1 / 0" else ["01-one"]
    with pytest.raises(ReconRunError, match=FAILURES[code]) as failure:
        build_edition(Edition(), repo, chapters)
    assert "\n" not in str(failure.value)
    assert {path: path.read_bytes() for path in (edition / "executed").iterdir()} == before
    assert (edition / "failed" / "01-one.ipynb").exists() and (edition / "html").exists()


# ----------------------------------------------------------------------------------------- the gate


def test_the_gate_catches_errors_and_unexecuted_cells():
    nb = chapter("pass")
    assert "cell 1 was not executed" in runner.fault(nb)
    for cell in code_cells(nb):
        cell.execution_count = 1
    assert runner.fault(nb) is None
    nb.cells[2].outputs = [new_output("error", ename="ValueError", evalue="no", traceback=[])]
    assert runner.fault(nb) == "cell 2 holds an error: ValueError: no"
    assert (
        runner.fault(new_notebook(cells=[new_markdown_cell("# Prose")])) == "it has no code cells"
    )


# ---------------------------------------------------------------------------------- promotion


def test_publish_promotes_pages_and_small_results(repo):
    edition = pretend(repo)
    result = edition / "results" / "linear"
    save_result(result_at("laptop"), result)
    shutil.copytree(result, result.with_name("linear-0123"))  # at sizes of the reader's own
    (result / "checkpoint.pt").write_bytes(b"0")
    write(repo, "00-gone", chapter(), "book/executed")
    target = publish.publish("laptop-cifar10", repo)
    assert target == repo / "book" / "executed"
    found = sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file())
    assert found == ["01-one.ipynb", "results/linear/result.json"]
    made = json.loads((target / "results" / "linear" / "result.json").read_text())
    assert made["claims"] and not result_at("laptop").claims  # by today's code
    assert sorted(path.name for path in target.parent.iterdir()) == [
        "executed",
        "index.md",
        "readme.md.jinja",
    ]
    assert publish.publish("laptop-cifar10", repo) == target


def spoil_missing(repo, page):
    write(repo, "02-two", chapter())


def spoil_stale(repo, page):
    write(repo, "01-one", chapter("print('changed')"))


def spoil_error(repo, page):
    nb = nbformat.read(page, as_version=4)
    nb.cells[2].outputs = [new_output("error", ename="ValueError", evalue="no", traceback=[])]
    nbformat.write(nb, page)


def spoil_damaged(repo, page):
    page.write_bytes(page.read_bytes()[:-99])


def spoil_result(repo, page):
    folder = page.parents[1] / "results" / "linear"
    save_result(result_at("laptop"), folder)
    (folder / "result.json").write_bytes((folder / "result.json").read_bytes()[:-9])


def spoil_contents(repo, page):
    (repo / "_toc.yml").write_text("a: [b\n  c: }")


def spoil_seed(repo, page):
    """Another chapter's, of another seed."""
    write(repo, "02-two", chapter())
    nb = nbformat.read(pretend(repo) / "executed" / "02-two.ipynb", as_version=4)
    nb.metadata.recon.seed = 7
    nbformat.write(nb, page.with_name("02-two.ipynb"))


@pytest.mark.parametrize(
    ("stamp", "spoil", "message"),
    [
        ({}, spoil_missing, "chapter 02-two is missing"),
        ({}, spoil_stale, "is stale: its notebook"),
        ({}, spoil_damaged, "01-one.ipynb cannot be read"),
        ({}, spoil_result, "result.json is damaged"),
        ({}, spoil_contents, "_toc.yml cannot be read"),
        ({}, spoil_error, "not a clean execution: cell 2 holds an error"),
        ({}, spoil_seed, "its chapters mix profiles, seeds or data"),
        ({"data": "photos"}, None, "on photos, not on CIFAR-10"),
        ({"profile": "smoke"}, None, "at profile smoke"),
        ({"commit": "abc1234-dirty"}, None, "uncommitted code"),
        ({"commit": "unknown"}, None, "uncommitted code"),
    ],
)
def test_publish_refuses_and_the_old_edition_stays(repo, stamp, spoil, message):
    edition = pretend(repo, **stamp)
    if spoil:
        spoil(repo, edition / "executed" / "01-one.ipynb")
    (repo / "book/executed/old.txt").write_text("old")
    with pytest.raises(ReconError, match=message):
        publish.publish(edition, repo)
    shutil.rmtree(repo / "book" / ".executed.new", ignore_errors=True)
    assert [path.name for path in (repo / "book/executed").iterdir()] == ["old.txt"]


# ------------------------------------------------------------------------------- references, HTML


def test_the_committed_references_belong_to_the_current_notebooks():
    for source in chapters_of(ROOT):
        made = read_notebook(ROOT / "tests" / "reference" / source.name).metadata["recon"]
        current = stamps.notebook_sha256(read_notebook(source))
        assert made["notebook_sha256"] == current, f"run make references ({source.stem})"
    nb = chapter("x = 1")
    before = stamps.notebook_sha256(nb)
    nb.cells[-1].execution_count = 4
    assert stamps.notebook_sha256(nb) == before != stamps.notebook_sha256(chapter("x = 2"))


@pytest.mark.parametrize("folder", ["book/executed", "tests/reference"])
def test_no_printed_check_has_failed_and_no_path_of_a_machine_is_shown(folder):
    """A line of output that ends in False says that something did not hold: a check is an assert
    instead.
    """
    pages = sorted((ROOT / folder).glob("*.ipynb"))
    assert pages
    for page in pages:
        for cell in read_notebook(page).cells:
            for output in cell.get("outputs", []):
                text = output.get("text", "") + output.get("data", {}).get("text/plain", "")
                failed = [
                    line for line in text.splitlines() if line.rstrip(" .)").endswith("False")
                ]
                assert not failed, f"{page.name}: {failed[0]}"
                assert not re.search(r"(?<![\w+/])/(home|root|Users|work|tmp)/", text), page.name


def test_a_broken_reference_fails_the_build_and_the_old_book_stays(repo):
    edition = pretend(repo)
    built = repo / "build" / "html"
    built.mkdir()
    (built / "index.html").write_text("old")
    (repo / "book/index.md").write_text("# Tiny\n\nSee {doc}`nowhere` and {ref}`nothing`.\n")
    with pytest.raises(
        ReconRunError, match=r"the HTML build failed: .*index.md:3: WARNING: .*nowhere.*html.log"
    ):
        html.build_html(repo, edition / "executed", built, repo / "build" / "html.log")
    assert (built / "index.html").read_text() == "old"
    assert sorted(path.name for path in (repo / "build").iterdir()) == [
        "html",
        "html.log",
        "laptop-cifar10",
    ]


# ------------------------------------------------------------------------------- stamps and git


def test_commit_is_unknown_outside_git_and_dirty_with_changes(tmp_path):
    assert results.commit(tmp_path) == "unknown"
    (tmp_path / "recon").mkdir()
    (tmp_path / "recon" / "a.py").write_text("1")
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "core.hooksPath=none")
    for command in (("init", "-q"), ("add", "."), (*identity, "commit", "-q", "-m", "first")):
        results._git(tmp_path, *command)
    clean = results.commit(tmp_path)
    assert len(clean) >= 7 and not clean.endswith("-dirty")
    (tmp_path / "recon" / "a.py").write_text("2")
    assert results.commit(tmp_path) == clean + "-dirty"


ARRAYS = {
    "x_hat": torch.zeros(2),
    "figure.best": torch.zeros(2),
    "trace.training": torch.zeros(1, 2),
    "w": torch.ones(9),
}


def result_at(profile, **made):
    """The published result of chapter 1 without its claims, as if made otherwise."""
    found = load(ROOT / "book" / "executed" / "results" / "linear", arrays=False)
    provenance = dataclasses.replace(
        found.made, **{"profile": profile, "claims": [], "commit": "abc1234", **made}
    )
    return dataclasses.replace(found, made=provenance, arrays=ARRAYS)


def test_keep_takes_only_results_at_the_papers_size(repo):
    """result.json, reconstructions, and what figures show, no other arrays; not what an edition
    could hold.
    """
    folder = repo / "some" / "linear"
    save_result(result_at("smoke"), folder)
    with pytest.raises(ReconError, match="are kept, not smoke"):
        publish.keep(folder, repo)
    save_result(result_at("paper"), folder)
    target = publish.keep(folder, repo)
    assert sorted(path.name for path in target.iterdir()) == [
        "kept.safetensors",
        "result.json",
        "x_hat.safetensors",
    ]
    assert kept_arrays(target).keys() == {"figure.best", "trace.training"}
    assert target == repo / "book" / "paper-size" / "linear"
    with pytest.raises(ReconError, match="there is no result"):
        publish.keep(repo / "nowhere", repo)
    save_result(result_at("paper", commit="abc1234-dirty"), folder)
    with pytest.raises(ReconError, match="uncommitted code"):
        publish.keep(folder, repo)
    save_result(result_at("paper", overrides={"n_train": 3}), folder)
    with pytest.raises(ReconError, match="sizes of its own"):
        publish.keep(folder, repo)


def test_a_result_is_kept_even_where_the_readme_cannot_be_written(repo):
    folder = repo / "some" / "linear"
    save_result(result_at("paper"), folder)
    (repo / "book" / "readme.md.jinja").write_text('{{ kept("linear").metrics.no_such_number }}')
    with pytest.raises(ReconError, match="a text asks for a number"):
        publish.keep(folder, repo)
    assert (repo / "book" / "paper-size" / "linear" / "result.json").is_file()
