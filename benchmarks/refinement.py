"""Separated sources, then DecoReco for longer: `python benchmarks/refinement.py` (a quarter of an hour of one core).

The kept run of `decoreco-regimes` refines for 150 steps and ends above the energy of the truth.  Here are its two
networks of 500 images, refined by the same settings for 150 and for 500 steps: energy and matches.  Real CIFAR-10.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from timing import one_by_one, write

from recon.attacks.recover import recover
from recon.attacks.scales import scale_for
from recon.attacks.separation import FirstLayer, separate
from recon.chapters.base import Context
from recon.chapters.common import match_table, nulls_of
from recon.chapters.decoreco_regimes.compute import _settings, _trained
from recon.chapters.decoreco_regimes.sizes import SIZES
from recon.images.registry import load_pool
from recon.store.checkpoints import Checkpoints

STEPS = (150, 500)


def refined(context: Context, k: int) -> dict:
    sizes = SIZES["paper"]
    net = sizes.nets[k]
    images = context.images(net.n_train)
    trained = _trained(net, context, images, k)
    weights, m = trained.weights, 2 * len(images)
    separated = separate(FirstLayer.of(weights), images.shape, sizes.separation)
    settings, x_init = _settings(sizes, m, "refined", separated)
    scale = scale_for(weights, settings, context.seed, x_init)
    rows = []
    for steps in STEPS:
        longer = replace(settings, multiplier_scales=(scale.value,), steps=steps)
        place = context.checkpoints.inside(f"{k}-{steps}")
        found = recover(weights, longer, context.stream("kkt.attack"), place, x_init)
        best = int(found.energy.argmin())
        table = match_table(
            found.x_hat, images, nulls_of(context, images, weights.network, weights.theta_star, m, found.basis)
        )
        energies = found.history[:, best].double()
        rows.append(
            {
                "steps": steps,
                "energy": energies[-1].item(),
                "fell": 1 - (energies[-1] / energies[int(0.9 * len(energies)) - 1]).item(),
                **{f"found_0.{c}": getattr(table.matches, f"ncc_0{c}") for c in (6, 7, 8)},
                **{f"best_null_0.{c}": getattr(table.best_null, f"ncc_0{c}") for c in (6, 7, 8)},
                "found_ssim_0.4": table.matches.ssim_04,
                "best_null_ssim_0.4": table.best_null.ssim_04,
            }
        )
        print(net, rows[-1], flush=True)
    return {
        "n_train": net.n_train,
        "width": net.width,
        "weight_decay": net.weight_decay,
        "truth_energy": trained.left.sum().item(),
        "scale": scale.value,
        "rows": rows,
    }


def main() -> None:
    """Each network's rows are written when it is done; those named on the command line, else all."""
    chosen = [int(k) for k in sys.argv[1:]] or [k for k, net in enumerate(SIZES["paper"].nets) if net.n_train == 500]
    for k in chosen:
        with TemporaryDirectory() as scratch:
            context = Context(load_pool("cifar10"), torch.device("cpu"), 0, Checkpoints(Path(scratch)), one_by_one)
            row = refined(context, k)
        report = Path(__file__).with_suffix(".json")
        networks = json.loads(report.read_text())["networks"] if report.exists() else {}
        write({"networks": dict(sorted({**networks, str(k): row}.items()))}, __file__)


if __name__ == "__main__":
    main()
