"""What the settings of separation with a prior do, on other images: `python
benchmarks/tuning/prior.py`, prior.json.

The settings stand as they were committed with the attack, before the first run that is kept, and no
log says on which images they were tried. So this one does, on images that no reported experiment
attacks: a network trained on the *start* partition, n = 100 of 16 × 16 pixels. Each setting is
changed by itself. Counts of training images, those of as many held-out images in brackets' place.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from timing import one_by_one, write  # noqa: E402

from companion.chapters.base import Context  # noqa: E402
from companion.chapters.weights_leak import separation_prior as denoising  # noqa: E402
from companion.chapters.weights_leak.experiment_prior import public_rows  # noqa: E402
from companion.store.checkpoints import Checkpoints  # noqa: E402
from recon.attacks.separation import FirstLayer, SeparationSettings, separate  # noqa: E402
from recon.images.photos import at_side  # noqa: E402
from recon.images.registry import load_pool  # noqa: E402
from recon.nets.mlp import MLP  # noqa: E402
from recon.released import Weights  # noqa: E402
from recon.scoring.matching import match_counts  # noqa: E402
from recon.training.denoiser import DenoiserSettings  # noqa: E402
from recon.training.inner_problem import DecaySettings, train_with_decay  # noqa: E402

N, SIDE, WIDTH = 100, 16, 400
DENOISER, ATTACK = (
    DenoiserSettings(steps=500, step_size=2e-3),
    denoising.PriorSettings(orthogonal=15, free=45),
)
#: of the attack, of `companion.chapters.weights_leak.separation_prior`'s constants, and of the
#: prior's training
TRIED = {
    "chosen": {},
    "orthogonal 5": {"orthogonal": 5},
    "orthogonal 30": {"orthogonal": 30},
    "free 15": {"free": 15},
    "free 90": {"free": 90},
    "SAME 0.7": {"SAME": 0.7},
    "SAME 0.95": {"SAME": 0.95},
    "PROBE 0.05": {"PROBE": 0.05},
    "PROBE 0.5": {"PROBE": 0.5},
    "noise 0.3 to 7": {"noise": (0.3, 7.0)},
    "noise 1 to 3.5": {"noise": (1.0, 3.5)},
}


def main() -> None:
    torch.set_flush_denormal(True)
    rows, priors = {}, {}
    with TemporaryDirectory() as folder:
        context = Context(
            load_pool("cifar10"), torch.device("cpu"), 0, Checkpoints(Path(folder)), one_by_one
        )
        everything = context.images(N, swapped=True)
        images = everything.at_side(SIDE)
        public = at_side(context.pool.pixels(public_rows(everything, context)), SIDE).to(
            images.train
        )
        network = MLP((images.dim, WIDTH, WIDTH, 1))
        theta = network.flatten(network.init(context.stream("kkt.weights", 1), "small"))
        theta = train_with_decay(network, images.train, images.y, theta, DecaySettings(1e-3, 600))
        layer = FirstLayer.of(Weights(network, theta))
        sources = separate(
            layer, images.shape, SeparationSettings(), context.stream("separation.attack")
        )
        for name, change in TRIED.items():
            start = time.process_time()
            noise = change.get("noise", DENOISER.noise)
            if noise not in priors:
                settings, draw = replace(DENOISER, noise=noise), context.stream("separation.noise")
                priors[noise] = denoising.Prior.of(public - public.mean(0), settings, draw)
            constants = {each: change[each] for each in ("SAME", "PROBE") if each in change}
            before = {each: getattr(denoising, each) for each in constants}
            vars(denoising).update(constants)
            attack = replace(
                ATTACK, **{each: change[each] for each in ("orthogonal", "free") if each in change}
            )
            draw = context.stream("separation.order")
            found = denoising.separate_with_prior(
                sources.basis, sources.sources, images.shape, priors[noise], attack, draw
            )
            vars(denoising).update(before)
            row = {"cpu_seconds": round(time.process_time() - start, 1)}
            for said, there in (("train", images.train), ("held_out", images.held_out)):
                matched = match_counts(torch.cat([found, -found]), there, images.mean, images.shape)
                row[said] = {
                    "ncc_0.7": matched.ncc_07,
                    "ncc_0.8": matched.ncc_08,
                    "ssim_0.4": matched.ssim_04,
                }
            rows[name] = row
            print(name, json.dumps(row), flush=True)
    write(
        {
            "n": N,
            "side": SIDE,
            "width": WIDTH,
            "images": "start partition of seed 0",
            "tried": rows,
        },
        __file__,
    )


if __name__ == "__main__":
    main()
