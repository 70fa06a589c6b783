"""The audit's lower bound of ε on networks whose ε is known, and on some whose noise was left out.

`python benchmarks/audit_epsilon.py [networks]` prints and writes audit_epsilon.json beside it.
Every network, dense, is trained on N of 2N CIFAR-10 images of 8×8, drawn at random: by Opacus at an
ε of EPSILON, by its accountant at δ = 1/(10 N), and without noise and clipping. All of them are
claimed to be what they say, the last one to have the smallest ε. A bound above the claim is wrong
of the first ones, at most one of twenty, and right of the last. Goes on where it was.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from audit_calibration import SIDE, images
from resumed import each
from timing import write
from torch import nn
from verdicts_only import verdicts_only

import recon
from recon.images.registry import load_pool
from recon.training import recipes
from recon_audit.shadows import Recipe

# at δ = 1/(10 N) no bound on fewer images gets above 1
N, NETWORKS, SHADOWS = 400, 20, 8
EPSILON = (1.0, 8.0)
SHARED = {"width": 256, "depth": 2, "classes": 10, "weight_decay": 0.0, "batch": None}
PRIVATE = {**SHARED, "optimiser": "gd", "lr": 0.5, "cosine": False, "steps": 100}
PLAIN = {**SHARED, "optimiser": "adam", "lr": 1e-2, "steps": 200}


def one(name: str) -> dict[str, Any]:
    """The bound on a network such as "8.0 3", ε and a number, or "none 3"."""
    of, number = name.split()
    random = torch.Generator().manual_seed(int(number))
    pixels, classes = images()[0], torch.from_numpy(load_pool("cifar10").labels)
    rows = torch.randperm(len(pixels), generator=random)[: 2 * N]
    x, y = (pixels[rows] - pixels[rows].mean(0)).flatten(1), classes[rows]
    way = recipes.Recipe(**PLAIN if of == "none" else PRIVATE | {"epsilon": float(of)})
    trained = recipes.train(way, x[:N], y[:N], random)
    module = recipes.build(way, x.shape[1], random)  # without the hooks of Opacus
    module.load_state_dict(trained.module.state_dict())
    network = nn.Sequential(nn.Flatten(), *module).eval()
    report = recon.audit(
        network,
        (x[:N].view(-1, 3, SIDE, SIDE), y[:N]),
        (x[N:].view(-1, 3, SIDE, SIDE), y[N:]),
        transform="none",
        attacks="membership",
        recipe=Recipe("adam", 1e-2, None, 200, max(trained.loss, 1e-4)),
        shadows=SHADOWS,
        seed=int(number),
        profile="smoke",
        device="cpu",
        claimed_epsilon=(min(EPSILON) if of == "none" else float(of), 1 / (10 * N)),
    )
    members = report.data["membership"]
    bound = members and members["epsilon"]
    return {"membership": report.membership, "accuracy": trained.accuracy, "epsilon": bound}


def main() -> None:
    """Of as many networks of each kind as asked for (default NETWORKS)."""
    torch.set_num_threads(1)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else NETWORKS
    kinds = [*map(str, EPSILON), "none"]
    with verdicts_only():
        found = each(__file__, [f"{of} {k}" for k in range(count) for of in kinds], one)
    told = {}
    for of in kinds:
        bounds = [about["epsilon"] for name, about in found.items() if name.split()[0] == of]
        bounds = [bound for bound in bounds if bound]
        told[of] = {
            "networks": len(bounds),
            "violated": sum(bound["verdict"] == "violated" for bound in bounds),
            "lower": float(np.mean([bound["lower"] for bound in bounds])),
            "largest": max(bound["lower"] for bound in bounds),
        }
    write({"n": N, "shadows": SHADOWS, "kinds": told}, __file__)


if __name__ == "__main__":
    main()
