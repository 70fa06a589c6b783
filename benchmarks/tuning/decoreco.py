"""How DecoReco's settings were chosen, on other images: `python benchmarks/tuning/decoreco.py`
writes decoreco.json.

Networks (3072-1000-1000-1) are trained on the *start* partition, whose images no reported
experiment attacks. n = 100; one restart for each setting. Counts above NCC 0.6 and
0.7, held-out images in brackets' place; the energy relative to what the training images leave.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch

from companion.chapters.base import stream
from recon.attacks.recover import RecoverSettings, recover
from recon.images.bundle import Bundle
from recon.images.partitions import partition
from recon.images.registry import load_pool
from recon.nets.mlp import MLP
from recon.released import Weights
from recon.scoring.matching import one_to_one, padded
from recon.training.kkt import KKTSettings, certificate, train_to_kkt

WIDTH = 1000
BASE = RecoverSettings(m=2, restarts=1, steps=600, scale_steps=60, layer_weights=(1.0, 1.0, 1.0))
TRIED = {
    "chosen": {},
    "layer 1 only": {"layer_weights": (1.0, 0.0, 0.0)},
    "step_x 0.005": {"step_x": 0.005},
    "step_x 0.05": {"step_x": 0.05},
    "step_multipliers 0.003": {"step_multipliers": 0.003},
    "step_multipliers 0.03": {"step_multipliers": 0.03},
    "alpha 20": {"alpha": 20.0},
    "alpha 500": {"alpha": 500.0},
    "init_scale 1": {"init_scale": 1.0},
    "steps 1500": {"steps": 1500},
}


def trained(images: Bundle) -> Weights:
    network = MLP((images.dim, WIDTH, WIDTH, 1))
    theta = network.flatten(network.init(stream(0, "kkt.weights", 1), "small"))
    end = train_to_kkt(network, images.train, images.y, theta, KKTSettings(600))
    return Weights(network, end.theta_star)


def scale_for(
    weights: Weights, settings: RecoverSettings, seed: int, first: float = 1e-2, most: int = 12
) -> float:
    """The scale of the multipliers' start with the lowest energy after short runs, all from the
    same start: `first` times powers of √10, on in the direction of falling energy until it rises or
    `most` were tried.
    """
    short = replace(settings, restarts=1, steps=settings.scale_steps)
    energies: dict[int, float] = {}

    def at(k: int) -> float:
        if k not in energies and len(energies) < most:
            tried = replace(short, multiplier_scales=(first * 10 ** (k / 2),))
            energy = recover(weights, tried, torch.Generator().manual_seed(seed)).energy.item()
            energies[k] = energy if energy == energy else float("inf")
        return energies.get(k, float("inf"))

    best = 0
    while len(energies) < most and (around := min((best, best - 1, best + 1), key=at)) != best:
        best = around
    return first * 10 ** (best / 2)


def row(weights: Weights, images: Bundle, change: dict) -> dict:
    """One attack from noise, its scale searched without an edge."""
    start = time.process_time()
    settings = replace(BASE, m=2 * len(images), **change)
    scale = scale_for(weights, settings, 0)
    found = recover(
        weights, replace(settings, multiplier_scales=(scale,)), torch.Generator().manual_seed(0)
    )
    truth = certificate(
        weights.network, weights.theta_star, images.train, images.y, alpha=settings.alpha
    )
    candidates = padded(found.x_hat, len(images))
    score = {
        name: one_to_one(x, candidates).score
        for name, x in (("train", images.train), ("held_out", images.held_out))
    }
    counts = {
        f"{name} above {t}": int((s > t).sum()) for name, s in score.items() for t in (0.6, 0.7)
    }
    return counts | {
        "energy over truth's": found.by_layer[0].sum().item() / truth.energy_by_layer.sum().item(),
        "truth leaves of layer 1": truth.residual_by_layer[0].item() ** 2,
        "scale": scale,
        "cpu_seconds": round(time.process_time() - start, 1),
    }


def main(n: int = 100) -> None:
    torch.set_flush_denormal(True)
    images = Bundle.of(
        partition(load_pool("cifar10"), n, n_held_out=n).swapped(), torch.device("cpu")
    )
    margin, log = trained(images), {}
    for name, change in TRIED.items():
        log[f"margin, {name}"] = row(margin, images, change)
        print(name, log[f"margin, {name}"], file=sys.stderr)
    report = {"n": n, "width": WIDTH, "images": "start partition of seed 0", "tried": log}
    Path(__file__).with_suffix(".json").write_text(
        json.dumps(report, indent=1) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
