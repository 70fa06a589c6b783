"""recon: can training data be read out of trained weights, and would the attacker know?

`recon.run("linear")` runs an experiment (or finds its result on disk) and returns a `Result`; `recon --help` is the
same on the command line.  `recon.audit(model, train=X, held_out=H)` tells how much of its training set a network
of your own gives away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recon.auditing.report import Report
    from recon.store.results import Result

__version__ = "0.1.0"


def run(name: str, **options: Any) -> Result[Any]:
    """Run an experiment; see `recon.chapters.run`."""
    from recon.chapters.run import run as run_experiment

    return run_experiment(name, **options)


def shown(name: str, **options: Any) -> Result[Any]:
    """The run of an experiment that its page shows; see `recon.chapters.run.shown`."""
    from recon.chapters.run import shown as shown_run

    return shown_run(name, **options)


def audit(model: Any, train: Any, held_out: Any = None, **options: Any) -> Report:
    """Does this network leak its training images?  See `recon.auditing.audit.audit`."""
    from recon.auditing.audit import audit as audit_network

    return audit_network(model, train, held_out, **options)
