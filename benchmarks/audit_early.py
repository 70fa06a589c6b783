"""Ordinary networks must not be said to leak: `python benchmarks/audit_early.py
[networks]` writes audit_early.json.

3072-100-100-1 from PyTorch's start, Adam, on 50 CIFAR-10 images (another set for each network),
stopped when the loss on 50 other images has not fallen for PATIENCE steps, the best kept. Each is
audited with its own images, all four attacks and four shadows, profile `smoke`; the first CANARIES
of them with a canary too. Goes on where it was.
"""

from __future__ import annotations

import copy
import sys
import time
from collections import Counter
from typing import Any

import torch
from resumed import each
from timing import write
from torch import Tensor, nn
from verdicts_only import verdicts_only

import recon
from recon.images.partitions import partition
from recon.images.registry import load_pool
from recon_audit.shadows import Recipe, fresh

N, WIDTH, NETWORKS, CANARIES, PATIENCE, LONGEST = 50, 100, 50, 10, 30, 2000
ADAM = Recipe("adam", 1e-3, None, LONGEST)


def stopped_early(
    x: Tensor, y: Tensor, x_other: Tensor, y_other: Tensor, seed: int
) -> tuple[nn.Module, int, float]:
    """The network with the lowest loss on the other images, the step it was reached at, and its
    training loss.
    """
    layers = (
        nn.Linear(3072, WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, 1),
    )
    net = fresh(nn.Sequential(nn.Flatten(), *layers), ADAM, torch.Generator().manual_seed(seed))
    optimiser, loss_of = (
        torch.optim.Adam(net.parameters(), ADAM.lr),
        nn.functional.binary_cross_entropy_with_logits,
    )
    best, kept, at, reached = float("inf"), net, 0, float("nan")
    for step in range(LONGEST):
        loss = loss_of(net(x)[:, 0], y)
        with torch.no_grad():
            other = loss_of(net(x_other)[:, 0], y_other).item()
        if other < best:
            best, kept, at, reached = other, copy.deepcopy(net), step, loss.item()
        elif step - at >= PATIENCE:
            break
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return kept.eval(), at, reached


def one(name: str) -> dict[str, Any]:
    """The verdict on network `name`, a number."""
    seed, start = int(name), time.perf_counter()
    images = partition(load_pool("cifar10"), N, n_held_out=N, seed=seed)
    mean = images.train.x.mean(0)
    parts = [(part.x - mean, part.y) for part in (images.train, images.init)]
    net, steps, loss = stopped_early(*parts[0], *parts[1], seed)
    report = recon.audit(
        net,
        images.train.x,
        images.held_out.x,
        labels=(images.train.y.long(), images.held_out.y.long()),
        transform="image",
        recipe=Recipe("adam", 1e-3, None, LONGEST, loss),
        canaries=int(seed < CANARIES),
        seed=seed,
        profile="smoke",
        device="cpu",
    )
    result, members = report.data["result"], report.data["membership"]
    return {
        "steps": steps,
        "loss": loss,
        "seconds": time.perf_counter() - start,
        "verdict": report.verdict,
        "membership": report.membership,
        "p_images": None if result is None else result["p_value"],
        "p_membership": None if members is None else members["p_value"],
        "areas": None if members is None else {k: v["auc"] for k, v in members["scores"].items()},
        "power": report.data["power"],
    }


def main() -> None:
    """Of as many networks as asked for (default NETWORKS)."""
    torch.set_num_threads(1)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else NETWORKS
    with verdicts_only():
        found = each(__file__, [str(k) for k in range(count)], one)
    counts = {
        key: Counter(about[key] for about in found.values()) for key in ("verdict", "membership")
    }
    write({"n": N, "width": WIDTH, "counts": counts, "networks": list(found.values())}, __file__)


if __name__ == "__main__":
    main()
