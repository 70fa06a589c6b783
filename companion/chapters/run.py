"""Run one experiment, or find its result on disk."""

import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from companion.chapters import ROOT, experiment, sizes_of, with_claims
from companion.chapters.base import Context, Experiment, Tensors
from companion.store.checkpoints import Checkpoints
from companion.store.record import record
from companion.store.results import (
    FIGURE,
    FILES,
    TRACE,
    Data,
    Provenance,
    Result,
    commit,
    find_result,
    load_result,
    result_key,
    save_result,
)
from companion.store.sweep import sweep
from recon.errors import ReconError, one_reason
from recon.images.partitions import partition
from recon.images.pool import ImagePool
from recon.images.registry import load_pool
from recon.optim.trace import Trace, recorded
from recon.store.files import atomic_path, check_writable, only_one
from recon.store.machine import check_seed, device_name, resolve_device, versions


def run(
    name: str,
    profile: str = "laptop",
    data: str = "auto",
    device: str = "auto",
    seed: int = 0,
    *,
    out: str | Path | None = None,
    data_root: str | Path | None = None,
    workers: int = 1,
    **sizes: Any,
) -> Result[Any]:
    """Run experiment `name`, or return its result from disk if one with the same key is there.

    The key covers the experiment's version, sizes, seed, the kind of device that computes and the
    images' checksum. An interrupted run goes on from its last checkpoint. Arrays come back on the
    CPU, with the trace of the run (`recon.optim.trace`) and what its figures show among them.
    Raises ReconError for an unknown name, profile, device or size, a bad seed, missing images, a
    folder that cannot be written, or one in which another run is at work.

    Args:
        out: folder for `NAME/result.json`, default `$RECON_OUT`, else
            `build/results/<profile>-<data>` of the checkout.
        workers: processes for a sweep of independent runs; the result does not depend on them.
        sizes: fields of the experiment's `Sizes` to replace, such as n_train=50; the result then
            lies in `NAME-KEY/`.
    """
    chosen = experiment(name)
    config = sizes_of(chosen, profile, sizes)
    check_seed(seed)
    computing = resolve_device(device if chosen.on_gpu else "cpu")
    pool = load_pool(data, data_root)
    if chosen.shape not in (None, pool.shape):
        raise ReconError(
            f"{name} needs images of shape {chosen.shape}, and those of {pool.name} are"
            f" {pool.shape}"
        )
    if not sizes and too_few(pool, config, seed):
        config = sizes_of(chosen, "smoke", {})
        pool = replace(
            pool,
            notice=(
                f"{pool.notice} They are too few for {name}, which has the sizes of profile smoke."
            ),
        )
    key = result_key(name, chosen.version, config, seed, computing.type, pool.sha256)
    folder = output_folder(out, profile, pool.name) / _name(name, key, sizes)
    if (stored := find_result(folder, key, chosen.metrics)) is not None:
        return with_claims(stored, chosen)
    with only_one(folder, *(f".{name}.*" for name in (*FILES, "*.png"))):
        check_writable(folder, FILES)
        checkpoints = folder / f"checkpoint-{key}"
        swept = partial(sweep, folder=checkpoints, workers=workers)
        context = Context(pool, computing, seed, Checkpoints(checkpoints), swept)
        start = time.perf_counter()
        metrics, arrays = _computed(chosen, config, context)
        made = Provenance(
            name,
            profile,
            Data(pool.name, pool.sha256, getattr(metrics, "n_train", 0), pool.notice),
            seed,
            device_name(computing),
            versions(),
            commit(ROOT),
            round(time.perf_counter() - start, 2),
            key,
            asdict(config),
            chosen.claims(metrics, config),
            sizes,
        )
        save_result(Result(metrics, arrays, made), folder)
        # of other keys too, which could have gone on until now
        for ended in folder.glob("checkpoint-*"):
            shutil.rmtree(ended, ignore_errors=True)
        # as a later call finds it: names in the order of the file, sizes as the file has them
        return load_result(folder, chosen.metrics)


def too_few(pool: ImagePool, config: Any, seed: int) -> bool:
    """Whether the bundled photographs, which stand in for CIFAR-10, have fewer training or held-out
    images than these sizes ask for.
    """
    n = getattr(config, "n_train", 0)
    if pool.name != "photos" or not n:
        return False
    data = partition(pool, n, n_held_out=n, seed=seed)
    return min(len(data.train), len(data.held_out)) < n


def _computed(chosen: Experiment, config: Any, context: Context) -> tuple[Any, Tensors]:
    """Metrics and arrays, those of figures and the trace among them."""
    torch.set_flush_denormal(True)
    with recorded(Trace()) as trace:
        outcome = chosen.compute(config, context)
    metrics = chosen.metrics(record(outcome.metrics))
    arrays = {name: tensor.cpu() for name, tensor in outcome.arrays.items()}
    figures = chosen.selected(metrics, arrays)
    # no file holds one tensor twice
    arrays |= {FIGURE + name: tensor.clone() for name, tensor in figures.items()}
    return metrics, arrays | {TRACE + name: rows for name, rows in trace.rows.items()}


def folder_of(result: Result[Any], out: str | Path | None = None) -> Path:
    """Where `run` with the same `out` has stored a result."""
    made = result.made
    return output_folder(out, made.profile, made.data.name) / _name(
        made.experiment,
        made.key,
        made.overrides,
    )


def _name(name: str, key: str, overrides: Mapping[str, Any]) -> str:
    """Results at sizes of the reader's own lie beside the plain one and never replace it."""
    return f"{name}-{key}" if overrides else name


def save_figures(result: Result[Any], folder: Path) -> None:
    """Every figure of the experiment as `folder`/STEM.png."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    for stem, plot in experiment(result.made.experiment).figures.items():
        figure = plot(result)
        with atomic_path(folder / f"{stem}.png") as temporary:
            figure.savefig(
                temporary,
                format="png",
                dpi=200,
                bbox_inches="tight",
                pil_kwargs={"optimize": True},
            )
        plt.close(figure)


def output_folder(out: str | Path | None, profile: str, data_name: str) -> Path:
    """Where results go; see `run`."""
    default = ROOT / "build" / "results" / f"{profile}-{data_name}"
    folder = Path(out or os.environ.get("RECON_OUT") or default)
    with one_reason(f"results cannot be written to {folder}"):
        folder = folder.expanduser()
        str(folder).encode()  # safetensors opens no file whose name is not UTF-8
        folder.mkdir(parents=True, exist_ok=True)
    return folder
