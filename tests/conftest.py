"""Hooks shared by the unit tests and by nbval's run over tests/reference/."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest

#: Not compared cell by cell: pictures (also glued ones) and progress bars.  Numbers are checked by unit tests.
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


def pytest_configure(config: pytest.Config) -> None:
    """Notebooks under nbval never see your results: only those that `make test` has just computed, or new ones."""
    if not config.getoption("nbval", default=False):
        return
    if "RECON_SMOKE_OUT" in os.environ:
        os.environ["RECON_OUT"] = os.environ["RECON_SMOKE_OUT"]
    else:
        config.recon_out = os.environ["RECON_OUT"] = tempfile.mkdtemp(prefix="recon-nbval-")


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(getattr(config, "recon_out", ""), ignore_errors=True)
