"""Ratios measured side by side: `python benchmarks/leakage.py` prints and writes benchmarks/leakage.json.

1. Hybrid's step on layer 1 of CNN2 V1, both images, float32: ours (convolutions, gradients written out, one backward
   pass) against stepping with dense U, and gradients of each image by double backward through autograd.
2. The full rank table: all layers of all eight networks.
3. R-GAP: seconds per image, every network.
"""

from __future__ import annotations

import time

import torch
import torch.nn.functional as F
from timing import seconds, side_by_side, write

from recon.attacks.gradient_matching import GradientMatching, cosine_distance, total_variation, victims
from recon.attacks.leak import Leak
from recon.attacks.operators import numerical_rank, system_of, systems
from recon.attacks.rgap import layer_by_layer, rgap
from recon.nets.conv import SEED, TABLE_1

ALPHA, BETA, GAMMA = 1.0, 1.0, 0.05


def some_leak(name: str, dtype: torch.dtype = torch.float64) -> tuple[Leak, torch.Tensor]:
    """Two random images; every time below is independent of what they show."""
    x = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64) - 0.5
    network = TABLE_1[name]
    leak = Leak.of(network, [w.double() for w in network.init(SEED)], x, torch.tensor([9, 4]))
    return leak.to(dtype), x.to(dtype)


def dense_step(leak: Leak, x: torch.Tensor, dense: list[torch.Tensor], right: list[torch.Tensor]) -> torch.Tensor:
    """Energy (16) of both images and its gradient, the plain way."""
    grads = []
    for b in range(len(x)):
        leaf = x[b : b + 1].clone().requires_grad_()
        weights = [w.clone().requires_grad_() for w in leak.weights]
        loss = F.cross_entropy(leak.network.logits(weights, leaf), leak.labels[b : b + 1])
        found = torch.autograd.grad(loss, weights, create_graph=True)
        pairs = zip(found, leak.gradients, strict=True)
        value = ALPHA * sum(cosine_distance(g.reshape(1, -1), t[b].reshape(1, -1)).sum() for g, t in pairs)
        value = value + BETA * total_variation(leaf).sum()
        value = value + GAMMA * (dense[b] @ leaf.flatten() - right[b]).square().sum()
        grads.append(torch.autograd.grad(value, leaf)[0])
    return torch.cat(grads)


def hybrid_step(name: str = "CNN2 V1") -> dict:
    leak, x = some_leak(name, torch.float32)
    exact, _ = some_leak(name)
    found = [next(layer_by_layer(victim)) for victim in victims(exact)]
    z, delta = (torch.cat([getattr(f, key) for f in found]).float() for key in ("z", "delta"))
    conv, weight, shape = leak.network.convs[0], exact.weights[0], leak.network.shape
    dense, right = [], []
    for b, f in enumerate(found):
        system = system_of(conv, weight, f.delta[0], shape)
        dense.append(torch.from_numpy(system.dense()).float())
        right.append(torch.cat([f.z.flatten(), exact.gradients[0][b].flatten()]).float())
    attack = GradientMatching(leak, 1, 1e-3, 1, ALPHA, BETA, GAMMA, (z, delta))
    start = torch.cat([f.x for f in found]).float()

    def ours() -> torch.Tensor:
        leaf = start.clone().requires_grad_()
        return torch.autograd.grad(attack.energy(leaf).sum(), leaf)[0]

    plain = dense_step(leak, start, dense, right)
    error = ((ours() - plain).norm() / plain.norm()).item()
    times = side_by_side({"ours": ours, "dense": lambda: dense_step(leak, start, dense, right)}, repeat=20)
    return {"network": name, "seconds": times, "ratio": times["dense"] / times["ours"], "relative_difference": error}


def rank_table() -> float:
    start = time.perf_counter()
    for name in TABLE_1:
        leak, x = some_leak(name)
        for system in systems(leak.network, leak.weights, x[:1], leak.labels[:1]):
            numerical_rank(system)
    return time.perf_counter() - start


def main() -> None:
    report = {"hybrid_step": hybrid_step(), "rank_table_seconds": rank_table()}
    report["rgap_seconds_per_image"] = {
        name: seconds(lambda name=name: rgap(victims(some_leak(name)[0])[0]), repeat=2) for name in TABLE_1
    }
    write(report, __file__)


if __name__ == "__main__":
    main()
