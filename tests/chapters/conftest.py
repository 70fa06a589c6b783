"""Smoke results that several tests share."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from recon.chapters.run import run
from recon.store.results import Result


@pytest.fixture(scope="session")
def out(tmp_path_factory) -> Path:
    """Where smoke results go: `$RECON_SMOKE_OUT` (see the Makefile), or a folder of this session, which the workers of
    xdist share."""
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
def smoke(out) -> Callable[[str], Result[Any]]:
    """name -> its result at profile `smoke`, computed by whichever test asks first."""

    def result(name: str) -> Result[Any]:
        with alone(out / f".{name}.test"):
            return run(name, profile="smoke", data="photos", device="cpu", out=out)

    return result
