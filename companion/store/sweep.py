"""Many independent runs, in this process or, through joblib, on its cores.

Every finished run is stored at once, so that a killed sweep loses what was under way and no more.
"""

from collections.abc import Callable
from pathlib import Path

import torch
from joblib import Parallel, delayed
from torch import Tensor
from tqdm import tqdm

from companion.store.results import TRACE, traces
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
    `workers`. What the runs noted goes to the trace of the whole; of one that is out of time, too.

    Args:
        unit: picklable, a function of the name alone.
        workers: processes; 1 is this one.
    """
    path, whole = folder / label, current() or Trace()
    if workers > 1:
        Parallel(workers)(delayed(_stored)(unit, name, path, Trace()) for name in names)
    made: dict[str, Tensors] = {}
    noted: dict[str, Tensors] = {}
    try:
        for name in tqdm(names, label, leave=False, disable=None):  # None: on terminals only
            trace = Trace()
            noted[name] = trace.rows
            tensors = _stored(unit, name, path, trace)
            noted[name] = traces(tensors)
            made[name] = {key: value for key, value in tensors.items() if not key.startswith(TRACE)}
    finally:
        for name in sorted(noted):
            whole.rows |= {f"{name}: {key}": rows for key, rows in noted[name].items()}
    return made


def _stored(unit: Callable[[str], Tensors], name: str, folder: Path, trace: Trace) -> Tensors:
    """Tensors and trace of a run, read from `folder`, or made on one thread and written there."""
    path = folder / f"{name}.safetensors"
    if (stored := find_tensors(path)) is not None:
        return stored
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        with recorded(trace):
            tensors = {key: value.cpu() for key, value in unit(name).items()}
            note("result", *(value for value in tensors.values() if value.is_floating_point()))
    finally:
        torch.set_num_threads(threads)
    tensors |= {TRACE + key: rows for key, rows in trace.rows.items()}
    save_tensors(tensors, path)
    return tensors
