"""Ratios measured side by side: `python benchmarks/landscape.py` prints and writes
benchmarks/landscape.json.

The 25 affine starts of eq. (10), n = 40, d = 3072, float64, the book's own problem size on random
images: 1. one batch in the span against a loop of 25 single runs in the span (batching alone); 2.
the same batch against a loop of 25 single runs of chapter 3's attack in all pixels (batching and
coordinates); 3. memory: by how much the peak of a fresh process grows, against what `sweep_bilevel`
assumes when it splits a batch.
"""

from __future__ import annotations

import resource
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import torch
from timing import side_by_side, write

from recon.analysis.landscape import WORKING_COPIES, mixed_starts, sweep_bilevel
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


def memory_of_a_batch(times: int = 8) -> tuple[float, float]:
    """(bytes by which this process's peak grows over 25 · times starts, bytes that `sweep_bilevel`
    assumes).
    """
    released, starts = problem()
    starts = starts.repeat(times, 1, 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sweep_bilevel(released, starts, 3, DESCENT, limit_bytes=2**40)
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    return grown, len(starts) * N * (WORKING_COPIES * (N + 1) + 3 * D) * starts.element_size()


def main() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as child:  # a peak of its own
        grown, assumed = child.submit(memory_of_a_batch).result()
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
            "memory_of_200_starts": {"grown_bytes": grown, "assumed_bytes": assumed},
        },
        __file__,
    )


if __name__ == "__main__":
    main()
