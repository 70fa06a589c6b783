"""How the settings of `recon.attacks.separation` were chosen: `python
benchmarks/separation_tuning.py` writes a table.

On networks (3072-1000-1000-1) trained on the *start* partition, whose images no reported experiment
attacks (it is the adversary's own), at n = 100 and 200: counts above NCC 0.7 and 0.8, held-out
images in brackets, for each setting.
"""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from timing import one_by_one, write

from companion.chapters.base import Context
from companion.chapters.common import train_released
from companion.chapters.separation_common import counts
from companion.store.checkpoints import Checkpoints
from recon.attacks.separation import FirstLayer, SeparationSettings, separate
from recon.images.registry import load_pool

BASE = SeparationSettings()
TRIED = {
    "chosen": {},
    "one stage": {"first_rank": None},
    "growth 1.5": {"growth": 1.5},
    "growth 1.2": {"growth": 1.2},
    "growth 1.05": {"growth": 1.05},
    "first_rank 10": {"first_rank": 10},
    "first_rank 40": {"first_rank": 40},
    "exponent 0.25": {"exponent": 0.25},
    "exponent 0.5": {"exponent": 0.5},
    "exponent 0.03": {"exponent": 0.03},
    "floor 0.01": {"floor": 0.01},
    "floor 0.2": {"floor": 0.2},
    "iterations 20": {"iterations": 20},
    "iterations 200": {"iterations": 200},
}


def main(ns: tuple[int, ...] = (100, 200)) -> None:
    torch.set_flush_denormal(True)
    rows: dict[str, dict] = {
        name: {"settings": asdict(replace(BASE, **change))} for name, change in TRIED.items()
    }
    with TemporaryDirectory() as folder:
        context = Context(
            load_pool("cifar10"), torch.device("cpu"), 0, Checkpoints(Path(folder)), one_by_one
        )
        for n in ns:
            images = context.images(n, swapped=True)
            w1 = train_released(context, images, 1000, 6 * n, offset=n).params["w1"]
            for name, change in TRIED.items():
                start = time.process_time()
                found = separate(FirstLayer(w1), images.shape, replace(BASE, **change))
                rows[name][f"n = {n}"] = {
                    "train": dict(counts(found.x_hat, images.train)),
                    "held_out": dict(counts(found.x_hat, images.held_out)),
                    "cpu_seconds": round(time.process_time() - start, 1),
                }
    write({"tried": rows}, __file__)


if __name__ == "__main__":
    main()
