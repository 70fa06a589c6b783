"""How often `recon.audit` is wrong where there is nothing to find, and how often right where there is.

`python benchmarks/audit_calibration.py [networks]` prints and writes benchmarks/audit_calibration.json.  Every network,
192-100-100-1, is trained on 20 CIFAR-10 images of 8×8 in one of three ways, and audited twice: with two other sets of
20 images in the parts of training and held-out set ("null"), and with its own.  All attacks but DecoReco, four shadows,
no canaries, the recipe given, the mean of what is called the training set subtracted.  Goes on where it was.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from resumed import each
from timing import write
from torch import Tensor, nn
from verdicts_only import verdicts_only

import recon
from recon.auditing.anatomy import anatomy
from recon.auditing.shadows import Recipe, trained
from recon.images.photos import at_side
from recon.images.registry import load_pool

N, SIDE, WIDTH, SHADOWS = 20, 8, 100, 4
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


@cache
def images() -> tuple[Tensor, Tensor]:
    """All of the pool at this size, and their labels."""
    pool = load_pool("cifar10")
    return at_side(torch.from_numpy(pool.images).float() / 255, SIDE), torch.from_numpy(pool.y)


def one(name: str) -> dict[str, Any]:
    """Verdicts on network `name`, a number: on its own training and held-out images, and on two sets that it never
    saw."""
    seed, (pixels, classes) = int(name), images()
    rows = torch.randperm(len(pixels), generator=torch.Generator().manual_seed(seed))[: 4 * N]
    parts, labels = pixels[rows].split(N), classes[rows].split(N)
    kind = list(RECIPES)[seed % len(RECIPES)]
    module, recipe = network(), RECIPES[kind]
    x, generator = parts[0] - parts[0].mean(0), torch.Generator().manual_seed(seed)
    net = trained(module, anatomy(module, x.shape[1:]), x, labels[0], recipe, generator)
    found: dict[str, Any] = {"recipe": kind}
    for case, (a, b) in {"own": (0, 1), "null": (2, 3)}.items():
        report = recon.audit(
            net,
            parts[a],
            parts[b],
            labels=(labels[a], labels[b]),
            transform="image",
            attacks=ATTACKS,
            recipe=recipe,
            shadows=SHADOWS,
            canaries=0,
            seed=seed,
            profile="smoke",
            device="cpu",
        )
        found[case] = short(report)
    return found


def short(report: recon.Report) -> dict[str, Any]:
    """p times the looks of each kind of test, and of each score of membership by itself; None where nothing was
    compared."""
    result, members = report.data["result"], report.data["membership"]
    return {
        "comparable": report.data["exchangeability"]["why_not"] is None,
        "verdict": report.verdict,
        "membership": report.membership,
        "p_images": None if result is None else result["p_value"],
        "p_membership": None if members is None else members["p_value"],
        "looks": None if members is None else members["looks"],
        "scores": None if members is None else {k: [v["auc"], v["p_value"]] for k, v in members["scores"].items()},
    }


def main() -> None:
    """Of as many networks as asked for (default 210)."""
    torch.set_num_threads(1)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 210
    with verdicts_only():
        found = each(__file__, [str(k) for k in range(count)], one)
    write({"n": N, "side": SIDE, "width": WIDTH, "shadows": SHADOWS, "networks": list(found.values())}, __file__)


if __name__ == "__main__":
    main()
