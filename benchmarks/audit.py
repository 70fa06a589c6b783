"""`recon audit` on six trainings: `python benchmarks/audit.py` prints and writes benchmarks/audit.json.

3072-400-400-1 on 40 CIFAR-10 images, 40 others held out, profile `laptop`, seed 0: far into the KKT regime, just into
it, and three ordinary trainings from PyTorch's default start, one of them with weight decay.  And 3072-300-300-1 on 50
images, from the small start with Adam.

Then what the verdict says where it must not say "leak": of each network's candidates on images that nobody trained on,
and of mixtures in the place of an attack.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
import torch.nn.functional as F
from timing import write

import recon
from recon.auditing.attacks import RECONSTRUCTIONS, by_rows
from recon.auditing.audit import FOLDER
from recon.auditing.scoring import DECISIVE, DRAWS, LEVEL, LOOKS, THRESHOLDS, Nulls, blur_p, excess, score
from recon.images.partitions import Dataset, partition
from recon.images.registry import load_pool
from recon.nets.mlp import MLP, three_layer
from recon.scoring.matching import target_decoy
from recon.scoring.nulls import null_candidates
from recon.store.results import load_tensors, save_tensors
from recon.training.kkt import KKTSettings, train_to_kkt

ALARM_DRAWS, BLUR_DRAWS = 150, 50


@dataclass(frozen=True)
class Case:
    """network, its training data, its weights θ* (p,)."""

    network: MLP
    data: Dataset
    theta: torch.Tensor

    @property
    def w1(self) -> torch.Tensor:
        """Its first layer (h, d)."""
        return self.network.unflatten(self.theta)["w1"]

    def nulls(self, train: torch.Tensor, held_out: torch.Tensor, seed: int = 0) -> Nulls:
        """For images not centred yet: by the mean of `train`."""
        return Nulls.of(self.w1, train - train.mean(0), held_out - train.mean(0), seed)


# ------------------------------------------------------------------------------------------------------- trained


def to_kkt(network: MLP, x: torch.Tensor, y: torch.Tensor, goal: float) -> torch.Tensor:
    """From the small start until log E ≤ goal, 600 steps at most."""
    start = network.flatten(network.init(torch.Generator().manual_seed(0), "small"))
    return train_to_kkt(network, x, y, start, KKTSettings(600, goal)).theta_star


def ordinary(
    network: MLP, x: torch.Tensor, y: torch.Tensor, scheme: str, goal: float, steps: int = 20_000, decay: float = 0.0
) -> torch.Tensor:
    """Adam (1e-3), with `decay` as a penalty, to a loss of `goal`."""
    theta = network.flatten(network.init(torch.Generator().manual_seed(0), scheme)).requires_grad_()
    return descend(network, x, y, theta, torch.optim.Adam([theta], lr=1e-3, weight_decay=decay), goal, steps)


def by_gradient(network: MLP, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Gradient descent (0.1) from the default start to a loss of 1e-3."""
    theta = network.flatten(network.init(torch.Generator().manual_seed(0), "default")).requires_grad_()
    return descend(network, x, y, theta, torch.optim.SGD([theta], lr=0.1), 1e-3, 20_000)


def descend(
    network: MLP,
    x: torch.Tensor,
    y: torch.Tensor,
    theta: torch.Tensor,
    optimiser: torch.optim.Optimizer,
    goal: float,
    steps: int,
) -> torch.Tensor:
    """Until the loss is below `goal`, or for so many steps."""
    for _ in range(steps):
        optimiser.zero_grad()
        loss = F.binary_cross_entropy_with_logits(network(network.unflatten(theta), x), y)
        if loss < goal:
            break
        loss.backward()
        optimiser.step()
    return theta.detach()


def cases() -> dict[str, Case]:
    """By name."""
    found = {}
    for n, width in ((40, 400), (50, 300)):
        data = partition(load_pool("cifar10"), n, n_held_out=n)
        x, y = data.train.flat - data.train.flat.mean(0), data.train.y
        network = three_layer(width, x.shape[1])
        trained = {
            "small start, log E = -6800": lambda net, x, y: to_kkt(net, x, y, -6800.0),
            "small start, log E = -10": lambda net, x, y: to_kkt(net, x, y, -10.0),
            "default start, Adam": lambda net, x, y: ordinary(net, x, y, "default", 6e-5),
            "default start, Adam, weight decay 1e-3": lambda net, x, y: ordinary(net, x, y, "default", 0, 900, 1e-3),
            "default start, gradient descent": by_gradient,
        }
        if n == 50:
            trained = {"small start, Adam": lambda net, x, y: ordinary(net, x, y, "small", 1e-6)}
        found |= {name: Case(network, data, train(network, x, y)) for name, train in trained.items()}
    return found


# ------------------------------------------------------------------------------------------------------- audited


def audited(case: Case, unseen: torch.Tensor) -> dict:
    """The report of one network's audit, in short; and how often it cries "leak" at images that nobody trained on."""
    with TemporaryDirectory() as folder:
        out = Path(folder)
        for name in ("train", "held_out"):
            images = (getattr(case.data, name).x * 255).round().to(torch.uint8).numpy()
            np.savez(out / f"{name}.npz", **{name: images})
        save_tensors(case.network.unflatten(case.theta), out / "weights.safetensors")
        arch = "-".join(map(str, case.network.widths))
        report = recon.audit(
            out / "weights.safetensors",
            out,
            arch=arch,
            transform="image",
            attacks=RECONSTRUCTIONS,
            canaries=0,
            out=out / "report",
            profile="laptop",
        ).data
        found = {path.name.split("-")[0]: load_tensors(path)["x_hat"] for path in (out / "report" / FOLDER).iterdir()}
    n = report["images"]["train"]
    empty = torch.empty(0, case.network.dim)
    x_hat = {
        "separation": found.get("sources", empty),
        "rows": by_rows(case.w1, n).x_hat,
        "decoreco": found.get("reconstructions", empty),
    }
    result, explained = report["result"], report["first_layer"]
    return {
        "n": n,
        "arch": arch,
        **{name: result[name] for name in ("leak", "attack", "threshold", "targets", "decoys", "p_value")},
        "attacks": {name: short(about) for name, about in result["attacks"].items()},
        "first_layer": {name: explained[name] for name in ("by_training", "searched", "searched_dimensions")},
        "false_alarms": sum(alarm(case, x_hat, unseen, n, draw) for draw in range(ALARM_DRAWS)),
    }


def short(about: dict) -> dict:
    """Of one attack: [training, held out, mean excess of the hardest null, its largest] by threshold."""
    names = ("targets", "decoys", "null_mean", "null_max")
    counts = {str(row["threshold"]): [row[k] for k in names] for row in about["counts"] if row["metric"] == "NCC"}
    return {"why_not": about["why_not"], "seconds": about["seconds"], "counts": counts}


def alarm(case: Case, x_hat: dict[str, torch.Tensor], unseen: torch.Tensor, n: int, draw: int) -> bool:
    """The verdict on random halves of 2n unseen images, one of them in the part of the training set.

    The nulls, which take time, are drawn only where chance alone does not decide.
    """
    rows = torch.randperm(len(unseen), generator=torch.Generator().manual_seed(draw))[: 2 * n]
    train, held_out = unseen[rows[:n]], unseen[rows[n:]]
    mean = train.mean(0)
    pairs = [(x, t) for x in x_hat.values() for t in DECISIVE if len(x)]
    p = min(target_decoy(x, train - mean, held_out - mean, t).p_value for x, t in pairs)
    return p * LOOKS < LEVEL and score(x_hat, case.nulls(train, held_out, draw), mean)["leak"]


# ---------------------------------------------------------------------------------------------------------- blur


def blur_alarms(case: Case) -> dict[str, dict[str, int]]:
    """Of BLUR_DRAWS sets of mixtures in the place of an attack: how many the verdict calls a leak, and how many it
    would by either p-value alone.  Its nulls are as many other sets, of the same kind and of the other."""
    nulls = case.nulls(case.data.train.flat, case.data.held_out.flat)
    m = 2 * len(nulls.train)
    found = {name: {"verdict": 0, "chance_alone": 0, "null_alone": 0} for name in ("mixtures", "span")}
    generator = torch.Generator().manual_seed(1)
    for _ in range(BLUR_DRAWS):
        sets = null_candidates(nulls.w1, nulls.train, nulls.held_out, m * (DRAWS + 1), generator, nulls.basis)
        parts = {name: sets[name].split(m) for name in found}
        null = {
            name: torch.stack([excess(x, nulls.train, nulls.held_out) for x in part[1:]])
            for name, part in parts.items()
        }
        for name, part in parts.items():
            for kind, p in p_values(part[0], nulls, null).items():
                found[name][kind] += p * LOOKS < LEVEL
    return found


def p_values(x_hat: torch.Tensor, nulls: Nulls, null: dict[str, torch.Tensor]) -> dict[str, float]:
    """The smallest over the thresholds that decide."""
    chance, blur = [], []
    for threshold in DECISIVE:
        found = target_decoy(x_hat, nulls.train, nulls.held_out, threshold)
        chance.append(found.p_value)
        column = THRESHOLDS.index(threshold)
        blur.append(max(blur_p(found.targets - found.decoys, draws[:, column]) for draws in null.values()))
    both = min(map(max, zip(chance, blur, strict=True)))
    return {"verdict": both, "chance_alone": min(chance), "null_alone": min(blur)}


def main() -> None:
    unseen = partition(load_pool("cifar10"), 1000, n_held_out=1000).held_out.flat[50:]
    trained = cases()
    report = {name: audited(case, unseen) for name, case in trained.items()}
    blurred = {name: blur_alarms(trained[name]) for name in ("small start, log E = -6800", "small start, Adam")}
    write({"alarm_draws": ALARM_DRAWS, "blur_draws": BLUR_DRAWS, "networks": report, "blur": blurred}, __file__)


if __name__ == "__main__":
    main()
