"""A head on a frozen backbone, audited on its features: `python
benchmarks/audit_head.py` writes audit_head.json.

EfficientNet-Lite0 with its public weights; a hundred CIFAR-10 images of ten classes, and 400 others
held out. Two heads: SGD with weight decay, as in the chapter on heads, and AdamW at its default.
Seed 0, one thread.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from timing import write

import recon
from recon.images.features import backbone, features
from recon.images.partitions import partition
from recon.images.registry import load_pool
from recon.training.recipes import Recipe, build, train

N, OTHERS, WIDTH, BATCH = 100, 400, 512, 25
SGD = Recipe(
    width=WIDTH,
    depth=2,
    classes=10,
    cosine=False,
    lr=0.05,
    momentum=0.9,
    batch=BATCH,
    weight_decay=5e-3,
)
ADAMW = Recipe(
    width=WIDTH,
    depth=2,
    classes=10,
    cosine=False,
    optimiser="adamw",
    lr=1e-3,
    batch=BATCH,
    weight_decay=1e-2,
)


def main() -> None:
    """Audit both, and say what the report's three lines say."""
    torch.set_num_threads(1)
    data = partition(load_pool("cifar10"), N, n_held_out=OTHERS)
    of = backbone("lite0")
    x, others = features(data.train.x, of), features(data.held_out.x, of)
    found = {}
    for name, (recipe, epochs) in {
        "SGD with weight decay": (SGD, 1500),
        "AdamW": (ADAMW, 450),
    }.items():
        draw, began = torch.Generator().manual_seed(0), time.process_time()
        recipe = replace(recipe, steps=epochs * N // BATCH)
        head = train(
            recipe, x, data.train.labels, draw, module=build(recipe, x.shape[1], draw)
        ).module
        with TemporaryDirectory() as folder:
            pair = (x, data.train.labels), (others, data.held_out.labels)
            report = recon.audit(
                head, *pair, transform="none", profile="smoke", device="cpu", out=folder
            )
        lines = list(report.lines)
        found[name] = {"verdict": report.verdict, "membership": report.membership, "lines": lines}
        found[name]["processor_seconds"] = round(time.process_time() - began, 1)
        print(name, *lines, sep="\n")
    write({"n": N, "held_out": OTHERS, "heads": found}, str(Path(__file__).with_name("audit_head")))


if __name__ == "__main__":
    main()
