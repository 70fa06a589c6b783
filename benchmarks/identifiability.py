"""One image by Gauss–Newton with its certificate, against gradient matching with the same processor
time: `python benchmarks/identifiability.py` prints and writes benchmarks/identifiability.json.

The rival is CosineTV with one cosine and signed steps of 0.1, in our implementation, whose form in
the paper gives the paper's digits (chapter 11). For every network and two images: errors of
Gauss–Newton; of CosineTV after as many steps as fit into Gauss–Newton's time (its learning rates
decay within them); and after the 4800 steps that its authors take, with how many times as long they
take. Errors are over the entries of the image that the network reads.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from timing import write

from companion.chapters.leakage_common import SEED, TABLE_1, Attacked, Victims
from recon.analysis.identifiability import determined
from recon.attacks.gauss_newton import gauss_newton
from recon.attacks.gradient_matching import COSINE_STEPS, GEIPING_DESCENT, cosine_tv, seeded_start
from recon.attacks.gradient_system import JointSystem, relative_residual
from recon.images.registry import load_pool
from recon.released import Gradient

TRIAL = 100  # steps from which the pace is taken


def spent(function: Callable[[], torch.Tensor]) -> tuple[torch.Tensor, float]:
    """Its result and the processor's seconds."""
    began = time.process_time()
    return function(), time.process_time() - began


def one(
    gradient: Gradient, truth: torch.Tensor, rival: Callable[[int], torch.Tensor], name: str
) -> dict[str, float]:
    """Errors and costs for one image (dim,): Gauss–Newton, and `rival(steps)` in its time and with
    4800 steps.
    """

    def with_certificate() -> torch.Tensor:
        system = JointSystem.of(gradient)
        x = gauss_newton(system).x
        relative_residual(gradient, x)
        determined(system, x)
        return x

    x_hat, seconds = spent(with_certificate)
    there = determined(JointSystem.of(gradient), truth)
    read = ~there.unread
    _, trial = spent(lambda: rival(TRIAL))
    steps = max(1, round(TRIAL * seconds / trial))
    same_time, took = spent(lambda: rival(steps))
    whole, long = spent(lambda: rival(COSINE_STEPS))

    def error(x: torch.Tensor) -> float:
        return (x.flatten().double() - truth)[read].square().mean().item()

    return {
        "determined": float(there.whole),
        "seconds": seconds,
        "steps_in_that_time": steps,
        "time_of_4800_steps": long / seconds,
        "time_of_these_steps": took / seconds,
        "mse": error(x_hat),
        f"{name}_mse_same_time": error(same_time),
        f"{name}_mse_4800": error(whole),
    }


#: an attack by the number of its steps, for a network, the gradient, and the image that only checks
#: may see
Rival = Callable[[Attacked, Gradient, torch.Tensor], Callable[[int], torch.Tensor]]


def cosine(_: Attacked, gradient: Gradient, __: torch.Tensor) -> Callable[[int], torch.Tensor]:
    """CosineTV."""
    single = gradient.to(torch.float32)
    start = seeded_start(single, SEED)
    descent = replace(GEIPING_DESCENT, step_size=0.1)
    return lambda steps: cosine_tv(single, start, steps, whole=True, descent=descent).x_hat


def compare(rival: Rival, name: str) -> dict:
    """Geometric means over the paper's two images, for the networks of Table 1."""
    torch.set_num_threads(1)
    pool = load_pool("auto")
    victims = Victims.of(pool)
    report: dict = {"data": pool.name, "determined": {}, "open": {}}
    for network in TABLE_1:
        attacked, rows = Attacked.of(network, pool), []
        for k, x in enumerate(victims.x):
            gradient = Gradient.each(
                attacked.network, attacked.theta, x[None], victims.labels[k : k + 1]
            )
            rows.append(one(gradient, x.flatten(), rival(attacked, gradient, x), name))
        means = {
            key: float(np.exp(np.mean(np.log([max(row[key], 1e-32) for row in rows]))))
            for key in rows[0]
        }
        report["determined" if means.pop("determined") == 1 else "open"][network] = means
        print(network, means, file=sys.stderr)
    return report


if __name__ == "__main__":
    write(compare(cosine, "cosine"), __file__)
