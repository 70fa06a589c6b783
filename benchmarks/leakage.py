"""Ratios measured side by side: `python benchmarks/leakage.py` prints and writes
benchmarks/leakage.json.

1. Hybrid's step on layer 1 of CNN2 V1, both images, float32: ours (convolutions, gradients written
   out, one backward pass) against stepping with dense U, and gradients of each image by double
   backward through autograd.
2. The full rank table: all layers of all eight networks.
3. R-GAP: seconds per image, every network.
4. The hard constraint of CNN2 V2: a step of the trust region that is given all rows of U, some of
   which others imply, against one that is given as many as U has rank.
"""

from __future__ import annotations

import time
from dataclasses import replace

import scipy.linalg
import torch
import torch.nn.functional as F
from timing import seconds, side_by_side, write

from companion.chapters.leakage_appendix.experiment import HardConstraint, minimised
from companion.chapters.leakage_common import SEED, TABLE_1
from recon.analysis.identifiability import rank_deficiency
from recon.attacks.gradient_matching import CHEN_DESCENT, GradientMatching, total_variation
from recon.attacks.rgap import layer_by_layer, rgap, system_of, systems
from recon.released import Gradient

ALPHA, BETA, GAMMA = 1.0, 1.0, 0.05


def some_gradient(name: str, dtype: torch.dtype = torch.float64) -> tuple[Gradient, torch.Tensor]:
    """Two random images; every time below is independent of what they show."""
    x = (
        torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        - 0.5
    )
    network = TABLE_1[name]
    theta = network.init(torch.Generator().manual_seed(SEED), torch.float64)
    return Gradient.each(network, theta, x, torch.tensor([9, 4])).to(dtype), x.to(dtype)


def dense_step(
    gradient: Gradient, x: torch.Tensor, dense: list[torch.Tensor], right: list[torch.Tensor]
) -> torch.Tensor:
    """Energy (16) of both images and its gradient, the plain way."""
    grads = []
    for b in range(len(x)):
        leaf = x[b : b + 1].clone().requires_grad_()
        theta = {name: tensor.clone().requires_grad_() for name, tensor in gradient.theta.items()}
        loss = F.cross_entropy(gradient.network(theta, leaf), gradient.labels[b : b + 1])
        found = torch.autograd.grad(loss, list(theta.values()), create_graph=True)
        pairs = zip(found, gradient.gradients.values(), strict=True)
        value = ALPHA * sum(
            1 - F.cosine_similarity(g.flatten(), t[b].flatten(), dim=0) for g, t in pairs
        )
        value = value + BETA * total_variation(leaf).sum()
        value = value + GAMMA * (dense[b] @ leaf.flatten() - right[b]).square().sum()
        grads.append(torch.autograd.grad(value, leaf)[0])
    return torch.cat(grads)


def hybrid_step(name: str = "CNN2 V1") -> dict:
    gradient, x = some_gradient(name, torch.float32)
    exact, _ = some_gradient(name)
    found = [next(layer_by_layer(victim)) for victim in exact.split()]
    z, delta = (torch.cat([getattr(f, key) for f in found]).float() for key in ("z", "delta"))
    conv, weight, shape = gradient.network.convs[0], exact.theta["w1"], gradient.network.shape
    dense, right = [], []
    for b, f in enumerate(found):
        system = system_of(conv, weight, f.delta[0], shape)
        dense.append(torch.from_numpy(system.dense()).float())
        right.append(torch.cat([f.z.flatten(), exact.gradients["w1"][b].flatten()]).float())
    attack = GradientMatching(gradient, 1, CHEN_DESCENT, 1, False, ALPHA, BETA, GAMMA, (z, delta))
    start = torch.cat([f.x for f in found]).float()

    def ours() -> torch.Tensor:
        leaf = start.clone().requires_grad_()
        return torch.autograd.grad(attack.energy(leaf).sum(), leaf)[0]

    plain = dense_step(gradient, start, dense, right)
    error = ((ours() - plain).norm() / plain.norm()).item()
    times = side_by_side(
        {"ours": ours, "dense": lambda: dense_step(gradient, start, dense, right)}, repeat=20
    )
    return {
        "network": name,
        "seconds": times,
        "ratio": times["dense"] / times["ours"],
        "relative_difference": error,
    }


def rank_table() -> float:
    start = time.perf_counter()
    for name in TABLE_1:
        gradient, x = some_gradient(name)
        for system in systems(gradient.network, gradient.theta, x[:1], gradient.labels[:1]):
            rank_deficiency(system)
    return time.perf_counter() - start


def hard_constraint(name: str = "CNN2 V2", steps: int = 10) -> dict:
    exact = some_gradient(name)[0].split()[0]
    matching = GradientMatching(exact.to(torch.float32), 1, alpha=ALPHA, beta=BETA)
    problem = HardConstraint.of(matching, next(layer_by_layer(exact)))
    rank = len(problem.start) - problem.kernel.shape[1]
    rows = scipy.linalg.qr(problem.system.numpy().T, mode="r", pivoting=True)[1][:rank]
    fewer = replace(problem, system=problem.system[sorted(rows)])
    times = {
        each: minimised(posed, steps, as_given=True).seconds[-1].item() / steps
        for each, posed in {"all_rows": problem, "independent_rows": fewer}.items()
    }
    counts = {"rows": len(problem.system), "rank": rank}
    return {
        "network": name,
        **counts,
        "cpu_seconds_a_step": times,
        "ratio": times["all_rows"] / times["independent_rows"],
    }


def main() -> None:
    report = {
        "hybrid_step": hybrid_step(),
        "rank_table_seconds": rank_table(),
        "hard_constraint": hard_constraint(),
    }
    report["rgap_seconds_per_image"] = {
        name: seconds(lambda name=name: rgap(some_gradient(name)[0].split()[0]), repeat=2)
        for name in TABLE_1
    }
    write(report, __file__)


if __name__ == "__main__":
    main()
