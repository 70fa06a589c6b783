"""`recon audit` on four trainings of one network: `python benchmarks/audit.py` prints and writes benchmarks/audit.json.

3072-400-400-1 on 40 CIFAR-10 images, 40 others held out, profile `laptop`, seed 0: far into the KKT regime, just into
it, and two ordinary trainings from PyTorch's default start.  And the verdict on images that nobody trained on.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
import torch.nn.functional as F
from timing import write

from recon.audit import FOLDER, audit, score
from recon.data import Dataset, load
from recon.kkt import train_to_kkt
from recon.networks import MLP, three_layer
from recon.results import load_tensors, save_tensors

N, WIDTH, DRAWS = 40, 400, 150


def to_kkt(network: MLP, x: torch.Tensor, y: torch.Tensor, goal: float) -> torch.Tensor:
    """From the small start until log E ≤ goal, 600 steps at most."""
    start = network.flatten(network.init(torch.Generator().manual_seed(0), "small"))
    return train_to_kkt(network, x, y, start, 600, goal=goal).theta_star


def ordinary(network: MLP, x: torch.Tensor, y: torch.Tensor, adam: bool) -> torch.Tensor:
    """From PyTorch's default start: Adam (1e-3) to a loss of 6e-5, or gradient descent (0.1) to 1e-3."""
    theta = network.flatten(network.init(torch.Generator().manual_seed(0), "default")).requires_grad_()
    optimiser = torch.optim.Adam([theta], lr=1e-3) if adam else torch.optim.SGD([theta], lr=0.1)
    for _ in range(20_000):
        optimiser.zero_grad()
        loss = F.binary_cross_entropy_with_logits(network(network.unflatten(theta), x), y)
        if loss < (6e-5 if adam else 1e-3):
            break
        loss.backward()
        optimiser.step()
    return theta.detach()


def audited(network: MLP, theta: torch.Tensor, data: Dataset, unseen: torch.Tensor) -> dict:
    """The report of one network's audit, in short; and how often it cries "leak" at images that nobody trained on."""
    with TemporaryDirectory() as folder:
        out = Path(folder)
        for name in ("train", "held_out"):
            images = (getattr(data, name).x * 255).round().to(torch.uint8).numpy()
            np.savez(out / f"{name}.npz", **{name: images})
        save_tensors(network.unflatten(theta), out / "weights.safetensors")
        arch = f"3072-{WIDTH}-{WIDTH}-1"
        report = audit(out / "weights.safetensors", arch, out, out / "report", profile="laptop", seed=0)
        (stored,) = (out / "report" / FOLDER).glob("reconstructions-*.safetensors")
        x_hat = load_tensors(stored)["x_hat"]
    result, explained = report["result"], report["first_layer"]
    counts = {row["threshold"]: (row["targets"], row["decoys"]) for row in result["counts"] if row["metric"] == "NCC"}
    return {
        "leak": result["leak"],
        "p_value": result["p_value"],
        "training_and_held_out_above_ncc": {str(t): counts[t] for t in (0.5, 0.6, 0.7)},
        "first_layer": {name: explained[name] for name in ("by_training", "searched", "searched_dimensions")},
        "seconds": report["seconds"],
        "false_alarms": sum(alarm(x_hat, unseen, draw) for draw in range(DRAWS)),
    }


def alarm(x_hat: torch.Tensor, unseen: torch.Tensor, draw: int) -> bool:
    """The verdict on random halves of 2N unseen images, one of them in the part of the training set."""
    rows = torch.randperm(len(unseen), generator=torch.Generator().manual_seed(draw))[: 2 * N]
    train, held_out = unseen[rows[:N]], unseen[rows[N:]]
    mean = train.mean(0)
    return score(x_hat, train - mean, held_out - mean, mean)["leak"]


def main() -> None:
    data = load("cifar10", N, N)
    unseen = load("cifar10", 1000, 1000).held_out.flat[N:]
    x, y = data.train.flat - data.train.flat.mean(0), data.train.y
    network = three_layer(WIDTH)
    trained = {
        "small start, log E = -6800": to_kkt(network, x, y, -6800.0),
        "small start, log E = -10": to_kkt(network, x, y, -10.0),
        "default start, Adam": ordinary(network, x, y, adam=True),
        "default start, gradient descent": ordinary(network, x, y, adam=False),
    }
    report = {name: audited(network, theta, data, unseen) for name, theta in trained.items()}
    write({"draws": DRAWS, "networks": report}, __file__)


if __name__ == "__main__":
    main()
