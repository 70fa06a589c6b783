"""Many independent runs, through joblib: in this process or on its cores; the results are the same.

Every finished run is stored at once, so that a killed worker, or a killed sweep, loses what was
under way and no more.
"""

from collections.abc import Callable
from pathlib import Path

import torch
from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError
from torch import Tensor
from tqdm import tqdm

from companion.store.results import TRACE, traces
from companion.store.time_limit import OutOfTime
from recon.errors import ReconError
from recon.optim.trace import Trace, current, note, recorded
from recon.store.tensors import find_tensors, save_tensors

Tensors = dict[str, Tensor]


def sweep(
    unit: Callable[[str], Tensors],
    names: list[str],
    label: str,
    folder: Path,
    workers: int = 1,
) -> dict[str, Tensors]:
    """What `unit` makes of every name, for independent runs, read from
    `folder`/`label`/NAME.safetensors where that is there.

    Each run computes on one thread, wherever it is, which makes the results independent of
    `workers`. Raises ReconError for fewer than one worker, or a worker that dies.

    Args:
        unit: picklable, a function of the name alone.
        workers: processes; 1 is this one.
    """
    if workers < 1:
        raise ReconError(f"the number of workers must be at least 1, not {workers}")
    folder = folder / label
    found = {
        name: stored
        for name in names
        if (stored := find_tensors(folder / f"{name}.safetensors")) is not None
    }
    trace = current() or Trace()
    shown = {"desc": label, "leave": False, "disable": None}  # None: on terminals only
    backend = "loky" if workers > 1 else "sequential"
    with (
        parallel_config(backend=backend),
        tqdm(total=len(names), initial=len(found), **shown) as bar,
    ):
        todo = [name for name in names if name not in found]
        engine = Parallel(n_jobs=max(1, min(workers, len(todo))), return_as="generator_unordered")
        try:
            for name, tensors, ended in engine(
                delayed(_on_one_thread)(unit, name) for name in todo
            ):
                found[name] = tensors
                if not ended:
                    _hand_over(found, trace)
                    raise OutOfTime
                save_tensors(tensors, folder / f"{name}.safetensors")
                bar.update()
        except TerminatedWorkerError as error:  # out of memory, or killed
            raise ReconError(
                f"a worker died; {len(found)} of {len(names)} runs are stored, and the next run"
                " goes on from there: try fewer workers"
            ) from error
    _hand_over(found, trace)
    return {
        name: {key: value for key, value in found[name].items() if not key.startswith(TRACE)}
        for name in names
    }


def _hand_over(results: dict[str, Tensors], trace: Trace) -> None:
    """What the runs noted, to the trace of the whole."""
    for name, tensors in sorted(results.items()):
        trace.rows |= {f"{name}: {key}": value for key, value in traces(tensors).items()}


def _on_one_thread(unit: Callable[[str], Tensors], name: str) -> tuple[str, Tensors, bool]:
    """Name, tensors and trace of a run, and whether it ended in time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    tensors: Tensors = {}
    ended, trace = True, Trace()
    try:
        with recorded(trace):
            tensors = {key: value.cpu() for key, value in unit(name).items()}
            note("result", *(value for value in tensors.values() if value.is_floating_point()))
    except OutOfTime:
        ended = False
    finally:
        torch.set_num_threads(threads)
    return name, {**tensors, **{TRACE + key: rows for key, rows in trace.rows.items()}}, ended
