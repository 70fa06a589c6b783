"""recon: can training data be read out of trained weights, and would the attacker know?

`recon.run("linear")` runs an experiment (or finds its result on disk) and returns a `Result`; `recon --help` is the
same on the command line.
"""

__version__ = "0.1.0"


def run(name: str, **options):
    """Run an experiment; see `recon.experiments.run`."""
    from recon.experiments import run as run_experiment

    return run_experiment(name, **options)
