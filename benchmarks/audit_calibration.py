"""How often `recon.audit` is wrong where there is nothing to find, and how often right where there is.

`python benchmarks/audit_calibration.py [networks]` prints and writes benchmarks/audit_calibration.json.  Every network,
192-100-100-1, is trained on 20 CIFAR-10 images of 8×8 in one of three ways, and audited twice: with two other sets of
20 images in the parts of training and held-out set ("null"), and with its own.  All attacks but DecoReco, four shadows,
no canaries, the recipe given.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import torch
from timing import write
from torch import Tensor, nn

import recon
from recon.auditing.networks import anatomy
from recon.auditing.shadows import Recipe, trained
from recon.images.photos import at_side
from recon.images.registry import load_pool

N, SIDE, WIDTH = 20, 8, 100
ADAM = Recipe("adam", 3e-3, None, 600, 1e-2)
RECIPES = {
    "small start, Adam": replace(ADAM, first_scale=0.01, target_loss=1e-4),
    "default start, Adam": ADAM,
    "default start, Adam, weight decay": replace(ADAM, weight_decay=1e-3),
}
ATTACKS = ("separation", "rows", "membership")


def network() -> nn.Module:
    """To be drawn anew by `trained`."""
    dim = 3 * SIDE * SIDE
    layers = (nn.Linear(dim, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
    return nn.Sequential(nn.Flatten(), *layers).eval()


def one(x: Tensor, y: Tensor, name: str, seed: int) -> dict[str, Any]:
    """Verdicts on one network; x (4 N, C, H, W), y (4 N,): training, held out, and two sets that it never saw."""
    module = network()
    recipe = RECIPES[name]
    mean = x[:N].mean(0)
    parts, labels = (x - mean).split(N), y.split(N)
    net = trained(
        module, anatomy(module, x.shape[1:]), parts[0], labels[0], recipe, torch.Generator().manual_seed(seed)
    )
    found = {}
    for kind, (a, b) in {"own": (0, 1), "null": (2, 3)}.items():
        report = recon.audit(
            net,
            parts[a],
            parts[b],
            labels=(labels[a], labels[b]),
            attacks=ATTACKS,
            recipe=recipe,
            shadows=4,
            canaries=0,
            seed=seed,
            profile="smoke",
            device="cpu",
        )
        p = None if report.data["result"] is None else report.data["result"]["p_value"]
        q = None if report.data["membership"] is None else report.data["membership"]["p_value"]
        found[kind] = {"verdict": report.verdict, "membership": report.membership, "p": p, "p_membership": q}
        found[kind]["comparable"] = report.data["exchangeability"]["why_not"] is None
    return found


def main() -> None:
    """Of as many networks as asked for (default 210)."""
    torch.set_num_threads(1)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 210
    pool = load_pool("cifar10")
    small = at_side(torch.from_numpy(pool.images).float() / 255, SIDE)
    y = torch.from_numpy(pool.y)
    table: dict[str, Any] = {}
    for k in range(count):
        name = list(RECIPES)[k % len(RECIPES)]
        rows = torch.randperm(len(small), generator=torch.Generator().manual_seed(k))[: 4 * N]
        for kind, said in one(small[rows], y[rows], name, k).items():
            counts = table.setdefault(name, {}).setdefault(kind, Counter())
            counts["networks"] += 1
            counts["comparable"] += said["comparable"]
            counts["leaks"] += said["verdict"] == "leaks"
            counts["inferred"] += said["membership"] == "inferred"
            counts["either"] += said["verdict"] == "leaks" or said["membership"] == "inferred"
        if k % 15 == 14:
            print(k + 1, table, flush=True)
    write({"n": N, "side": SIDE, "width": WIDTH, "networks": count, "recipes": table}, __file__)


if __name__ == "__main__":
    main()
