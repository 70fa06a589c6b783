"""Hooks shared by the unit tests and by nbval's run over tests/reference/."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import recon  # noqa: F401  (before torch: it says how threads wait, also in nbval's kernels)

if TYPE_CHECKING:
    from companion.store.results import Result

#: Not compared: pictures (also glued ones), what a browser draws, and progress bars.  A table has
#: its plain text beside its HTML, which is compared.
NOT_COMPARED = (
    "stderr",
    "image/png",
    "image/jpeg",
    "image/svg+xml",
    "text/html",
    "application/papermill.record/image/png",
    "application/papermill.record/text/plain",
)


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Teach nbval's notebook files what not to compare."""
    if hasattr(collector, "skip_compare"):
        collector.skip_compare += NOT_COMPARED


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What computes an appendix's experiment is slow: `make test-all` runs it."""
    for item in items:
        if "runs" in getattr(item, "fixturenames", ()) and of_an_appendix(item):
            item.add_marker(pytest.mark.slow)


def of_an_appendix(item: pytest.Item) -> bool:
    """Whether the test's module says so (`APPENDIX = True`), or its parameter is an experiment of
    an appendix.
    """
    from companion.chapters import entries

    if getattr(getattr(item, "module", None), "APPENDIX", False):
        return True
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    entry = entries().get(str(parameters.get("name")))
    return entry is not None and not entry.chapter[0].isdigit()


def pytest_configure(config: pytest.Config) -> None:
    """Notebooks under nbval never see your results: only those that `make test` has just computed,
    or new ones. Their figures are not drawn.
    """
    if not config.getoption("nbval", default=False):
        return
    os.environ["MPLBACKEND"] = "agg"
    if "RECON_SMOKE_OUT" in os.environ:
        os.environ["RECON_OUT"] = os.environ["RECON_SMOKE_OUT"]
    else:
        config.recon_out = os.environ["RECON_OUT"] = tempfile.mkdtemp(prefix="recon-nbval-")


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(getattr(config, "recon_out", ""), ignore_errors=True)


# ----------------------------------------------------------- smoke results that several tests share


@pytest.fixture(scope="session")
def out(tmp_path_factory) -> Path:
    """Where smoke results go: `$RECON_SMOKE_OUT` (see the Makefile), or a folder of this session,
    which the workers of xdist share.
    """
    if "RECON_SMOKE_OUT" in os.environ:
        return Path(os.environ["RECON_SMOKE_OUT"])
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "smoke"
    folder.mkdir(exist_ok=True)
    return folder


@contextmanager
def alone(path: Path):
    """One worker at a time; the others wait."""
    try:
        import fcntl
    except ImportError:  # no POSIX: tests run one after another
        yield
        return
    with open(path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def runs(out) -> Callable[[str], Result[Any]]:
    """name -> its result at profile `smoke`, computed once, by whichever test asks first, and read
    by the others.

    A chapter's tests call theirs `smoke`.
    """
    from companion.chapters.run import run  # nbval's notebooks do without

    def result(name: str) -> Result[Any]:
        with alone(out / f".{name}.test"):
            return run(name, profile="smoke", data="photos", device="cpu", out=out)

    return result
