"""recon: can training data be read out of trained weights, and would the attacker know?

`recon.run("linear")` runs an experiment (or finds its result on disk) and returns a `Result`; `recon --help` is the
same on the command line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recon.store.results import Result

__version__ = "0.1.0"


def run(name: str, **options: Any) -> Result[Any]:
    """Run an experiment; see `recon.chapters.run`."""
    from recon.chapters.run import run as run_experiment

    return run_experiment(name, **options)
