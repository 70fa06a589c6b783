"""`recon audit` on networks trained in eight ways: `python benchmarks/audit.py [NAME …]` writes benchmarks/audit.json.

CIFAR-10, as many images held out as trained on, profile `laptop`, seed 0; the owner knows the recipe and gives it, but
for differential privacy, where it is inferred.  For dense networks also how often the rule says "leaks" where it must
not: the network's candidates with unseen images in the parts of both sets; and, where images did come back, random
mixtures in the place of an attack.  Goes on where it was; names may be the beginnings of names.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from resumed import each, finished
from timing import write
from torch import Tensor, nn

import recon
from recon.auditing.attacks import by_rows
from recon.auditing.audit import FOLDER
from recon.auditing.networks import anatomy, first_layer_of
from recon.auditing.scoring import DECISIVE, DRAWS, LEVEL, THRESHOLDS, Nulls, blur_p, excess, score
from recon.auditing.shadows import Recipe, trained
from recon.images.partitions import Dataset, partition
from recon.images.registry import load_pool
from recon.scoring.matching import target_decoy
from recon.scoring.nulls import null_candidates
from recon.store.results import load_tensors
from recon.training import recipes

ALARM_DRAWS, BLUR_DRAWS = 150, 50
DIM, WIDTH = 3072, 300
ADAM = Recipe("adam", 1e-3, None, 5000, 1e-3)
BATCHES = Recipe("adam", 1e-3, 32, 600, 1e-2)
PRIVATE = recipes.Recipe(
    width=WIDTH, lr=0.5, momentum=0.0, batch=None, weight_decay=0.0, cosine=False, steps=150, epsilon=8.0
)


def dense() -> nn.Module:
    """3072-300-300-1."""
    hidden = (nn.Linear(DIM, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU())
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(WIDTH, 1))


def logistic() -> nn.Module:
    """Logistic regression."""
    return nn.Sequential(nn.Flatten(), nn.Linear(DIM, 1))


def convolutional() -> nn.Module:
    """Two convolutions and a dense layer, ten outputs."""
    first = (nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU())
    return nn.Sequential(*first, nn.Flatten(), nn.Linear(32 * 64, 10))


def residual() -> nn.Module:
    """ResNet-18 with batch norm, as for 32 × 32 pixels: first convolution 3 × 3 and no pooling after it."""
    from torchvision.models import resnet18

    net = resnet18(num_classes=10)
    net.conv1, net.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
    return net


@dataclass(frozen=True)
class Case:
    """build: the architecture · recipe: of `recon.auditing.shadows`, or of `recon.training.recipes` · n images · ten:
    whether the classes are CIFAR-10's, and not the two of this book."""

    build: Callable[[], nn.Module]
    recipe: Recipe | recipes.Recipe
    n: int = 50
    ten: bool = False


CASES = {
    "dense, small start, Adam": Case(dense, replace(ADAM, first_scale=0.01, target_loss=1e-6)),
    "dense, Adam": Case(dense, replace(ADAM, target_loss=6e-5)),
    "dense, Adam, weight decay": Case(dense, replace(ADAM, weight_decay=1e-3, target_loss=None, steps=900)),
    "dense, SGD": Case(dense, Recipe("sgd", 0.03, 32, 5000, 1e-3)),
    "dense, DP-SGD at ε = 8": Case(dense, PRIVATE),
    "logistic regression, Adam": Case(logistic, ADAM),
    "two convolutions, Adam": Case(convolutional, BATCHES, ten=True),
    "ResNet-18, Adam": Case(residual, replace(BATCHES, steps=300), 120, ten=True),
}
MIXED = ("dense, small start, Adam", "dense, Adam, weight decay")  # whose attacks mixtures stand in for


@cache
def data(n: int) -> Dataset:
    """The book's first n training images, and as many held out."""
    return partition(load_pool("cifar10"), n, n_held_out=n)


def network(case: Case) -> tuple[nn.Module, float]:
    """Trained, and its loss on the training images."""
    images, module = data(case.n), case.build().eval()
    x, y = images.train.x - images.train.x.mean(0), classes(case)[0]
    if isinstance(case.recipe, recipes.Recipe):
        found = recipes.train(case.recipe, x.flatten(1), y, torch.Generator().manual_seed(0))
        return nn.Sequential(nn.Flatten(), *found.module).eval(), found.loss
    seen = anatomy(module, x.shape[1:])
    net = trained(module, seen, x, y, case.recipe, torch.Generator().manual_seed(0))
    loss = nn.functional.cross_entropy if case.ten else nn.functional.binary_cross_entropy_with_logits
    with torch.no_grad():
        return net, loss(net(x) if case.ten else net(x)[:, 0], y if case.ten else y.float()).item()


def classes(case: Case) -> tuple[Tensor, Tensor]:
    """Of training and held-out images."""
    parts = (data(case.n).train, data(case.n).held_out)
    return tuple((part.labels if case.ten else part.y.long()) for part in parts)  # type: ignore[return-value]


# ------------------------------------------------------------------------------------------------------- audited


def one(name: str, profile: str = "laptop") -> dict[str, Any]:
    """The report of one network's audit, in short, and the false alarms of its attacks on images."""
    torch.set_num_threads(1)
    case = CASES[name]
    net, loss = network(case)
    images = data(case.n)
    given = None if isinstance(case.recipe, recipes.Recipe) else case.recipe
    with TemporaryDirectory() as folder:
        start = time.perf_counter()
        report = recon.audit(
            net,
            images.train.x,
            images.held_out.x,
            labels=classes(case),
            transform="image",
            recipe=given,
            out=folder,
            profile=profile,
            device="cpu",
        )
        seconds = time.perf_counter() - start
        candidates = found_in(Path(folder) / FOLDER)
    about = short(report) | {"n": case.n, "loss": loss, "seconds": seconds, "recipe": report.data["recipe"]["words"]}
    about["weights"] = sum(p.numel() for p in net.parameters())
    if about["attacks"] and any(each["why_not"] is None for each in about["attacks"].values()):
        w1 = first_layer_of(net, anatomy(net, images.shape).first or "")
        candidates["rows"] = by_rows(w1, case.n).x_hat
        about["false_alarms"] = false_alarms(w1, candidates, case.n, about["looks"])
        if name in MIXED:
            about["blur"] = blur_alarms(w1, images, about["looks"])
    return about


def short(report: recon.Report) -> dict[str, Any]:
    """What the page shows; counts are [training, held out, mean excess of the hardest null, its largest]."""
    told = report.data
    result, members, power = told["result"], told["membership"], told["power"]
    names = ("targets", "decoys", "null_mean", "null_max")
    return {
        "verdict": report.verdict,
        "membership": report.membership,
        "sentence": report.sentence,
        "p_images": None if result is None else result["p_value"],
        "attacks": {
            name: {
                "why_not": about["why_not"],
                "seconds": about["seconds"],
                "counts": {str(r["threshold"]): [r[k] for k in names] for r in about["counts"] if r["metric"] == "NCC"},
            }
            for name, about in (result or {"attacks": {}})["attacks"].items()
        },
        "power": power,
        "looks": members["looks"],
        "accuracy": members["accuracy"],
        "p_membership": members["p_value"],
        "scores": {
            name: {key: row[key] for key in ("auc", "tpr_0.01", "p_value")} | {"interval": row["intervals"]["auc"]}
            for name, row in members["scores"].items()
        },
        "reach": members["power"],
    }


def found_in(folder: Path) -> dict[str, Tensor]:
    """Candidates that the audit has kept."""
    names = {"sources": "separation", "reconstructions": "decoreco"}
    kept = {path.name.split("-")[0]: load_tensors(path)["x_hat"] for path in folder.glob("*.safetensors")}
    return {names[name]: x_hat for name, x_hat in kept.items()}


# -------------------------------------------------------------------------------------------------- false alarms


def false_alarms(w1: Tensor, x_hat: dict[str, Tensor], n: int, looks: int) -> int:
    """How often of ALARM_DRAWS the rule says "leaks" of random halves of 2n unseen images, one of them in the part of
    the training set.  The nulls, which take time, are drawn only where chance alone does not decide."""
    unseen = partition(load_pool("cifar10"), 1000, n_held_out=1000).held_out.flat[60:]
    alarms = 0
    for draw in range(ALARM_DRAWS):
        rows = torch.randperm(len(unseen), generator=torch.Generator().manual_seed(draw))[: 2 * n]
        train, held_out = unseen[rows[:n]], unseen[rows[n:]]
        mean = train.mean(0)
        pairs = [(x, t) for x in x_hat.values() for t in DECISIVE if len(x)]
        p = min(target_decoy(x, train - mean, held_out - mean, t).p_value for x, t in pairs)
        if p * looks < LEVEL:
            alarms += score(x_hat, Nulls.of(w1, train - mean, held_out - mean, draw), mean, looks)["leak"]
    return alarms


def blur_alarms(w1: Tensor, images: Dataset, looks: int) -> dict[str, dict[str, int]]:
    """Of BLUR_DRAWS sets of mixtures in the place of an attack: how many the rule calls a leak, and how many it would
    by either p-value alone.  Its nulls are as many other sets, of the same kind and of the other."""
    mean = images.train.flat.mean(0)
    nulls = Nulls.of(w1, images.train.flat - mean, images.held_out.flat - mean, 0)
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
                found[name][kind] += p * looks < LEVEL
    return found


def p_values(x_hat: Tensor, nulls: Nulls, null: dict[str, Tensor]) -> dict[str, float]:
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
    """Those named, or all; what is written are all that are done."""
    asked = [name for name in CASES if not sys.argv[1:] or any(name.startswith(part) for part in sys.argv[1:])]
    each(__file__, asked, one)
    done = finished(__file__)
    networks = {name: done[name] for name in CASES if name in done}
    write({"alarm_draws": ALARM_DRAWS, "blur_draws": BLUR_DRAWS, "networks": networks}, __file__)


if __name__ == "__main__":
    main()
