"""Ratios measured side by side in one run: `python benchmarks/bilevel.py` prints and writes
benchmarks/bilevel.json.

1. All starts in one batch against a loop of single runs.
2. The inner solve in the row space of the images against the same solve in all 3072 coordinates.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from timing import seconds, write

from recon.attacks.bilevel import BilevelAttack
from recon.attacks.reconstruct import reconstruct
from recon.nets.mlp import affine, one_hidden
from recon.optim.lbfgs import lbfgs
from recon.released import Weights
from recon.training.inner_problem import INNER, Objective, solve_affine, solve_lbfgs

N, D, WEIGHT_DECAY = 40, 3072, 5e-2


def toy(starts: int = 1):
    """Random images, labels, an objective and somebody else's θ*."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(starts, N, D, generator=generator, dtype=torch.float64) - 0.5
    y = (torch.arange(N) >= N // 2).double()
    objective = Objective(affine(D), y, WEIGHT_DECAY)
    other = torch.rand(1, N, D, generator=generator, dtype=torch.float64) - 0.5
    return objective, x, solve_affine(objective, other).theta[0]


def batch_against_loop(starts: int = 25, steps: int = 20) -> dict:
    objective, x, theta_star = toy(starts)
    released = Weights(objective.network, theta_star, y=objective.y, weight_decay=WEIGHT_DECAY)
    attack = BilevelAttack(released)
    batch = seconds(lambda: reconstruct(attack, x, steps), repeat=2)
    loop = seconds(
        lambda: [reconstruct(attack, x[row : row + 1], steps) for row in range(starts)], repeat=2
    )
    return {
        "starts": starts,
        "seconds": {"batch": batch, "loop": loop},
        "ratio_loop_over_batch": loop / batch,
    }


def row_space_against_all_coordinates(width: int = 64, iterations: int = 30) -> dict:
    _, x, _ = toy()
    x = x.float()
    objective = Objective(one_hidden(width, D), (torch.arange(N) >= N // 2).float(), 1e-3)
    theta = objective.network.flatten(objective.network.init(torch.Generator().manual_seed(1)))[
        None
    ]
    settings = replace(INNER, tol=0.0, max_iter=iterations)
    small = seconds(lambda: solve_lbfgs(objective, x, theta, settings))
    full = seconds(
        lambda: lbfgs(
            lambda t: [v[0] for v in objective.value_and_grad(t[None], x)], theta[0], settings
        )
    )
    return {"seconds": {"row_space": small, "all": full}, "ratio_all_over_row_space": full / small}


def main() -> None:
    report = {
        "batch_against_loop": batch_against_loop(),
        "row_space_against_all_coordinates": row_space_against_all_coordinates(),
    }
    write(report, __file__)


if __name__ == "__main__":
    main()
