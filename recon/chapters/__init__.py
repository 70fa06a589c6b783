"""One file per chapter: a profile's config in, a `Result` out."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import torch

from recon.chapters.base import Context, Experiment
from recon.chapters.profiles import PROFILES
from recon.errors import ReconError
from recon.images.pools import load_pool
from recon.store.files import check_writable, only_one
from recon.store.keys import source_hash
from recon.store.ledger import accounted, peak_memory_mb
from recon.store.results import FILES, Result, checkpoint_folder, find_result, result_key, save_result, versions


def registry() -> dict[str, Experiment]:
    """Name -> experiment: every `Experiment` that a module of this folder defines, in the order of the book."""
    found: dict[str, Experiment] = {}
    for module in iter_modules(__path__):
        members = vars(import_module(f"{__name__}.{module.name}"))
        found |= {value.name: value for value in members.values() if isinstance(value, Experiment)}
    return dict(sorted(found.items(), key=lambda item: item[1].chapter))


def run(
    name: str,
    profile: str = "laptop",
    data: str = "auto",
    device: str = "auto",
    seed: int = 0,
    out: str | Path | None = None,
    data_root: str | Path | None = None,
    workers: int = 1,
    scheduler: str | None = None,
) -> Result:
    """Run experiment `name`, or return its result from disk if one with the same key is there.

    out: folder for `NAME/result.json`, default `$RECON_OUT`, else `build/results/<profile>-<data>` of the checkout.
    The stored key covers config, seed, device kind, data checksum and code.  An interrupted run goes on from its last
    checkpoint.  workers, scheduler: for experiments that are sweeps of independent runs, see `recon.store.sweep`; the result
    does not depend on them.  Raises ReconError for an unknown name, profile, device, a negative seed, missing data,
    a folder that cannot be written, or one in which another run is at work.
    """
    experiments = registry()
    if name not in experiments:
        raise ReconError(f"unknown experiment '{name}': choose one of {', '.join(experiments)}")
    experiment = experiments[name]
    if profile not in experiment.configs:
        raise ReconError(f"unknown profile '{profile}': choose one of {', '.join(PROFILES)}")
    check_seed(seed)
    if workers < 1:  # also where they are not used: what a sweep refuses, a stored result does not excuse
        raise ReconError(f"the number of workers must be at least 1, not {workers}")
    torch_device = resolve_device(device)
    pool = load_pool(data, data_root)
    config = experiment.configs[profile]
    key = result_key(name, config, seed, torch_device.type, pool.sha256, code_of(experiment))
    folder = output_folder(out, profile, pool.name) / name
    if (stored := find_result(folder, key)) is not None:
        return stored
    with only_one(folder):
        if (stored := find_result(folder, key)) is not None:  # another run has just been faster
            return stored
        check_writable(folder, FILES)
        checkpoints = checkpoint_folder(folder, key)
        start = time.perf_counter()
        torch.set_flush_denormal(True)
        with accounted(folder.parent, name, profile, pool.name, seed):
            outcome = experiment.run(config, Context(pool, torch_device, seed, checkpoints, workers, scheduler))
        n_train = outcome.metrics.get("n_train", 0)
        result = Result(
            experiment=name,
            profile=profile,
            data={"name": pool.name, "sha256": pool.sha256, "n": n_train, "notice": pool.notice},
            seed=seed,
            device=device_name(torch_device),
            versions=versions(),
            commit=current_commit(),
            seconds=round(time.perf_counter() - start, 2),
            metrics=outcome.metrics,
            claims=outcome.claims,
            key=key,
            config=asdict(config),
            arrays=outcome.arrays,
            peak_memory_mb=peak_memory_mb(),
        )
        save_result(result, folder)
        shutil.rmtree(checkpoints, ignore_errors=True)
    return result


def check_seed(seed: int) -> None:
    """ReconError for a seed that generators do not take; they take 64 bits, and experiments add to it."""
    if not 0 <= seed < 2**62:
        raise ReconError(f"the seed must not be negative, nor 2^62 or more, not {seed}")


def claims_again(result: Result) -> Result:
    """A stored result with its claims made by today's code, where they are a function of its metrics alone."""
    from recon.chapters import leakage, profiles

    if result.experiment != "leakage-attacks":
        return result
    config = profiles.LeakageAttacks(**result.config)
    return replace(result, claims=leakage.attack_claims(result.metrics, config))


def code_of(experiment: Experiment) -> str:
    """Hash of the code that `experiment` computes with."""
    return source_hash([experiment.run.__module__.removeprefix("recon.")])


def output_folder(out: str | Path | None, profile: str, data_name: str) -> Path:
    """Where results go; see `run`."""
    if out or os.environ.get("RECON_OUT"):
        folder = Path(out or os.environ["RECON_OUT"])
    else:
        checkout = Path(__file__).resolve().parents[2]
        base = checkout / "build" if (checkout / "pyproject.toml").is_file() else Path("recon-results")
        folder = base / "results" / f"{profile}-{data_name}"
    try:
        folder = folder.expanduser()
        str(folder).encode()  # safetensors opens no file whose name is not UTF-8
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: ~nobody
        raise ReconError(f"results cannot be written to {folder}: {getattr(error, 'strerror', error)}") from error
    return folder


def resolve_device(device: str) -> torch.device:
    """ "auto" is the GPU if there is one; ReconError for an unknown or absent device."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device not in ("cpu", "cuda"):
        raise ReconError(f"unknown device '{device}': choose auto, cpu or cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise ReconError("there is no usable GPU on this machine: choose --device cpu or auto")
    return torch.device(device)


def device_name(device: torch.device) -> str:
    """A device in words, without the name of the machine."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"cpu ({os.cpu_count()} cores)"


def current_commit() -> str:
    """Short commit of the checkout, with "-dirty" for uncommitted changes; "unknown" outside git."""
    from recon.press.stamps import commit

    return commit(Path(__file__).resolve().parents[2])


__all__ = ["PROFILES", "Context", "Experiment", "registry", "run"]
