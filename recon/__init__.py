"""recon: can training data be read out of trained weights, and would the attacker know?

`recon.run("linear")` runs an experiment (or finds its result on disk) and returns a `Result`; `recon --help` is the
same on the command line.  `recon.audit(model, train=X, held_out=H)` tells how much of its training set a network
of your own gives away.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from companion.store.results import Result
    from recon.auditing.report import Report

__version__ = "0.1.0"
#: PyTorch's threads wait for each other in a loop that keeps a processor busy: beside another
#: process two such threads take 10 to 25 times as long as two that sleep.  OpenMP reads this once,
#: when torch is loaded: where torch was imported before recon it comes too late, and nothing can be
#: done, except for child processes, which inherit it.  A reader's own setting wins.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
NO_COMPANION = (
    "experiments, claims and pages are made by the companion, which is not installed here: "
    "clone the repository and run make env in it"
)


def run(name: str, **options: Any) -> Result[Any]:
    """Run an experiment; see `companion.chapters.run`."""
    return _companion("run")(name, **options)


def kept(name: str, seed: int = 0) -> Result[Any]:
    """The run of an experiment at the paper's size that the book keeps; see `companion.chapters.kept`."""
    return _companion("kept", "companion.chapters")(name, seed)


def _companion(function: str, module: str = "companion.chapters.run") -> Any:
    from importlib import import_module

    from recon.errors import ReconError

    try:
        return getattr(import_module(module), function)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "companion":
            raise
        raise ReconError(NO_COMPANION) from error


def audit(model: Any, train: Any, held_out: Any = None, **options: Any) -> Report:
    """Does this network leak its training images?  See `recon.auditing.audit.audit`."""
    from recon.auditing.audit import audit as audit_network

    return audit_network(model, train, held_out, **options)
