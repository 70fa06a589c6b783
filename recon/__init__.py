"""recon: can training data be recovered from trained weights, and would the adversary know?

`recon.run("linear")` runs an experiment (or finds its result on disk) and returns a `Result`;
`recon --help` is the same on the command line. `recon.audit(model, train=X, held_out=H)` says how
much of its training set your network reveals.
"""

from __future__ import annotations

import os
from typing import Any

__version__ = "0.2.0"
#: PyTorch's threads wait for each other in a loop that keeps a processor busy: beside another
#: process two such threads take 10 to 25 times as long as two that sleep.  OpenMP reads this once,
#: when torch is loaded: where torch was imported before recon it comes too late, and nothing can be
#: done, except for child processes, which inherit it.  A reader's own setting wins.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
#: entry points of what the package promises and other distributions hold: name -> function
FUNCTIONS = "recon.functions"


def run(name: str, **options: Any) -> Any:
    """Run an experiment of the book, or find its result on disk; a `Result`."""
    return _provided("run")(name, **options)


def kept(name: str, seed: int = 0) -> Any:
    """The run of an experiment at the paper's size that the book keeps; a `Result`."""
    return _provided("kept")(name, seed)


def audit(model: Any, train: Any, held_out: Any = None, **options: Any) -> Any:
    """Does this network leak its training images?  A `Report`."""
    return _provided("audit")(model, train, held_out, **options)


def _provided(name: str) -> Any:
    from importlib.metadata import entry_points

    from recon.errors import ReconError

    for function in entry_points(group=FUNCTIONS, name=name):
        return function.load()
    raise ReconError(
        f"recon.{name} comes with another distribution, which is not installed here: "
        "clone the repository and run make env in it"
    )
