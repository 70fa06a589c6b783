"""Ratios measured side by side: `python benchmarks/landscape.py` prints and writes
benchmarks/landscape.json.

The 25 affine starts of eq. (10), n = 40, d = 3072, float64, the book's own problem size on random
images: 1. one batch in the span against a loop of 25 single runs in the span (batching alone); 2.
the same batch against a loop of 25 single runs of chapter 3's attack in all pixels (batching and
coordinates); 3. memory: by how much the peak of a fresh process grows, against what `sweep_bilevel`
assumes when it splits a batch.
"""

from __future__ import annotations

import torch
from timing import side_by_side, write

from recon.analysis.landscape import mixed_starts, sweep_bilevel
from recon.attacks.bilevel import BilevelAttack
from recon.attacks.reconstruct import reconstruct
from recon.nets.mlp import affine
from recon.optim.descent import HeavyBall
from recon.released import Weights
from recon.training.inner_problem import Objective, solve_affine

N, D, WEIGHT_DECAY, STEPS = 40, 3072, 1e-2, 30
DESCENT = HeavyBall(0.3, 0.5)


def problem() -> tuple[Weights, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    truth, partition, noise = torch.rand(3, N, D, generator=generator, dtype=torch.float64)
    y = (torch.arange(N) >= N // 2).double()
    theta = solve_affine(Objective(affine(D), y, WEIGHT_DECAY), truth[None]).theta[0]
    grid = torch.linspace(0, 1, 5)
    starts = mixed_starts(truth, partition, noise, grid, grid).flatten(0, 1)
    return Weights(affine(D), theta, y=y, weight_decay=WEIGHT_DECAY), starts


def main() -> None:
    released, starts = problem()
    attack = BilevelAttack(released, DESCENT)
    seconds = side_by_side(
        {
            "batch": lambda: sweep_bilevel(released, starts, STEPS, DESCENT),
            "loop_in_span": lambda: [
                sweep_bilevel(released, x[None], STEPS, DESCENT) for x in starts
            ],
            "loop_in_pixels": lambda: [reconstruct(attack, x[None], STEPS) for x in starts],
        },
        repeat=3,
    )
    write(
        {
            "starts": len(starts),
            "steps": STEPS,
            "seconds": seconds,
            "ratio_loop_in_span_over_batch": seconds["loop_in_span"] / seconds["batch"],
            "ratio_loop_in_pixels_over_batch": seconds["loop_in_pixels"] / seconds["batch"],
        },
        __file__,
    )


if __name__ == "__main__":
    main()
