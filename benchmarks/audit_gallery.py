"""Six networks as people train them, audited: `python benchmarks/audit_gallery.py`
writes audit_gallery.json.

CIFAR-10, animals or vehicles, 50 images; ResNet-18 all ten classes, 120 images. As many others are
held out, and the mean of the training images is subtracted. `recon.audit` is called as on the page:
all attacks, and shadows, canaries and the inferred recipe as the profile has them. Seed 0, one
thread. The file is written after every network; what it holds of the same sizes is not measured
again. Names of networks as arguments: those only.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import recon
from recon.errors import ReconError
from recon.images.partitions import Dataset, partition
from recon.images.registry import load_pool
from recon.store.files import atomic_path
from recon.store.machine import device_name, versions
from recon.training.recipes import Recipe, Trained, accuracy, build, train
from recon_audit.shadows import draw_from

SEED = 0
FILE = Path(__file__).with_suffix(".json")

Shape = tuple[int, ...]
Build = Callable[[Recipe, Shape, torch.Generator], nn.Module]


@dataclass(frozen=True)
class Network:
    """
    Attributes:
        build: of (recipe, shape of an image (C, H, W), generator), not trained yet.
        recipe.
        n: training images, and as many held out.
        profile: of the audit.
    """

    build: Build
    recipe: Recipe
    n: int = 50
    profile: str = "laptop"

    @property
    def sizes(self) -> dict[str, Any]:
        """All that a number of this benchmark depends on, but for the code; as JSON has it."""
        recipe = asdict(self.recipe)
        return {
            "n": self.n,
            "profile": self.profile,
            "seed": SEED,
            "recipe": recipe | {"augment": [*recipe["augment"]]},
        }


# ----------------------------------------------------------------------------------------- networks


def dense(recipe: Recipe, shape: Shape, generator: torch.Generator) -> nn.Module:
    """Linear, ReLU, …, Linear, started as the recipe says."""
    return build(recipe, _numbers(shape), generator)


def linear(recipe: Recipe, shape: Shape, generator: torch.Generator) -> nn.Module:
    """One dense layer with one output."""
    with draw_from(generator):
        return nn.Sequential(nn.Linear(_numbers(shape), 1))


def convolutional(recipe: Recipe, shape: Shape, generator: torch.Generator) -> nn.Module:
    """Two convolutions 3 × 3 of stride 2 with ReLU, 32 and 64 channels, and a dense layer with one
    output.
    """
    side = (shape[1] + 3) // 4
    with draw_from(generator):
        layers = (
            nn.Conv2d(shape[0], 32, 3, 2, 1),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, 2, 1),
            nn.ReLU(),
            nn.Flatten(),
        )
        return nn.Sequential(nn.Unflatten(1, shape), *layers, nn.Linear(64 * side * side, 1))


def resnet(recipe: Recipe, shape: Shape, generator: torch.Generator) -> nn.Module:
    """torchvision's ResNet-18 as it is, with as many outputs as classes."""
    from torchvision.models import resnet18

    with draw_from(generator):
        return resnet18(weights=None, num_classes=recipe.classes)


def _numbers(shape: Shape) -> int:
    channels, height, width = shape
    return channels * height * width


def in_sequence(module: nn.Module, shape: Shape) -> nn.Sequential:
    """The same layers for flat images, as `train` wants them: of a ResNet its parts in the order of
    its forward.
    """
    if isinstance(module, nn.Sequential):
        return module
    *parts, last = module.children()
    return nn.Sequential(nn.Unflatten(1, shape), *parts, nn.Flatten(), last)


ADAM = Recipe(
    width=300,
    bias=False,  # but for the first layer, as in Haim et al. (2022)
    optimiser="adam",
    lr=1e-3,
    batch=None,
    weight_decay=0.0,
    cosine=False,
    steps=20_000,
    stop_loss=1e-6,
)
NETWORKS = {
    "MLP 3072-300-300-1, small start": Network(dense, replace(ADAM, start="small")),
    "MLP 3072-300-300-1, PyTorch's start": Network(dense, ADAM),
    "logistic regression": Network(linear, replace(ADAM, stop_loss=1e-3)),
    "CNN, two convolutions": Network(convolutional, replace(ADAM, stop_loss=1e-3)),
    "MLP 3072-300-300-1, small start, DP-SGD": Network(
        dense,
        replace(
            ADAM, start="small", optimiser="gd", lr=0.03, steps=100, stop_loss=None, epsilon=8.0
        ),
    ),
    "ResNet-18": Network(
        resnet, replace(ADAM, classes=10, batch=64, steps=2000, stop_loss=5e-2), n=120
    ),
}


def train_network(network: Network, data: Dataset) -> tuple[nn.Module, Trained]:
    """The module to audit, and what its training ended with.

    Its weights are copied into a module that was built anew: Opacus leaves hooks in the one that it
    trained.
    """
    generator = torch.Generator().manual_seed(SEED)
    module = network.build(network.recipe, data.shape, generator)
    x, y = inputs(network, data)["train"]
    done = train(network.recipe, x, y, generator, module=in_sequence(module, data.shape))
    clean = network.build(network.recipe, data.shape, torch.Generator())
    clean.load_state_dict(module.state_dict())
    return clean.eval(), done


def inputs(network: Network, data: Dataset) -> dict[str, tuple[Tensor, Tensor]]:
    """Of training and held-out images: flat (n, d), minus the mean of those trained on, and the
    network's classes.
    """
    mean, found = data.train.flat.mean(0), {}
    for name, part in (("train", data.train), ("held_out", data.held_out)):
        found[name] = (
            part.flat - mean,
            part.y.long() if network.recipe.classes == 2 else part.labels,
        )
    return found


def words(recipe: Recipe, done: Trained, n: int) -> str:
    """How it was trained, for a reader."""
    kinds = {"adam": "Adam", "gd": "gradient descent"}
    said = [kinds[recipe.optimiser], f"step size {recipe.lr:g}"]
    said.append("all images a step" if recipe.batch is None else f"{recipe.batch} images a step")
    if recipe.epsilon is not None:
        said.append(f"noise and clipping for ε = {recipe.epsilon:g} at δ = 1/{10 * n}")
    until = (
        ""
        if recipe.stop_loss is None
        else f", to a loss below {recipe.stop_loss:.0e}".replace("e-0", "e-")
    )
    return f"{', '.join(said)}{until}; {done.steps} steps"


# ------------------------------------------------------------------------------------------ audited


def audit_case(network: Network, data: Dataset) -> dict[str, Any]:
    """Train it, audit it, and say of both what the page shows."""
    module, done = train_network(network, data)
    given = inputs(network, data)
    began, worked = time.perf_counter(), time.process_time()
    report = recon.audit(
        module,
        data.train.x,
        data.held_out.x,
        labels=tuple(y for _, y in given.values()),
        transform="image",
        profile=network.profile,
        seed=SEED,
        device="cpu",
    )
    seconds, of_processor = time.perf_counter() - began, time.process_time() - worked
    sequence = in_sequence(module, data.shape)
    return {
        "sizes": network.sizes,
        "trained": words(network.recipe, done, len(data.train)),
        "steps": done.steps,
        "loss": done.loss,
        "weights": sum(p.numel() for p in module.parameters()),
        "n": len(data.train),
        "held_out": len(data.held_out),
        "accuracy": {name: accuracy(sequence, x, y) for name, (x, y) in given.items()},
        **short(report),
        "profile": network.profile,
        "seconds": round(seconds, 1),
        "processor_seconds": round(of_processor, 1),
    }


def short(report: recon.Report) -> dict[str, Any]:
    """Of a report: verdicts, images and members named, canaries, and why an attack did not
    apply.
    """
    result, members, recipe = (report.data[name] for name in ("result", "membership", "recipe"))
    attacks = {} if result is None else result["attacks"]
    best = None if members is None else members["scores"][members["best"]]
    return {
        "verdict": report.verdict,
        "membership": report.membership,
        "not_compared": report.data["exchangeability"]["why_not"],
        "leaked": sum(each.how != "membership" for each in report.leaked),
        "members_named": sum(each.how == "membership" for each in report.leaked),
        "by": result["attack"] if report.verdict == "leaks" else None,
        "p_images": None if result is None else result["p_value"],
        "p_membership": None if members is None else members["p_value"],
        "area": None if best is None else best["auc"],
        "score": None if members is None else members["best"],
        "shadows": None if members is None else members["shadows"],
        "power": report.data["power"],
        "recipe_inferred": None if recipe is None else recipe["words"],
        "did_not_apply": {
            name: about["why_not"]
            for name, about in attacks.items()
            if about["why_not"] is not None
        },
    }


def measured(
    networks: dict[str, Network],
    data_of: Callable[[int], Dataset],
    file: Path,
    names: Iterable[str] | None = None,
) -> dict[str, Any]:
    """All of `networks`, or those of `names`, in the file, which is written after each; those that
    it has are kept.

    Args:
        data_of: n -> the data of n training and n held-out images.
    """
    kept = json.loads(file.read_text(encoding="utf-8"))["networks"] if file.is_file() else {}
    kept = {k: v for k, v in kept.items() if k in networks and v["sizes"] == networks[k].sizes}
    for name in networks if names is None else names:
        if name not in networks:
            raise ReconError(f"there is no network '{name}' in the gallery: {'; '.join(networks)}")
        if name in kept:
            continue
        kept[name] = audit_case(networks[name], data_of(networks[name].n))
        told = {
            "networks": {each: kept[each] for each in networks if each in kept},
            "threads": torch.get_num_threads(),
            "device": device_name(torch.device("cpu")),
            "versions": versions(),
        }
        with atomic_path(file) as temporary:
            temporary.write_text(
                json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
            )
        print(name, json.dumps(kept[name], indent=1, ensure_ascii=False), flush=True)
    return kept


def main() -> None:
    """Of the networks named, by default all."""
    torch.set_num_threads(1)
    pool = load_pool("cifar10")
    measured(NETWORKS, lambda n: partition(pool, n, n_held_out=n), FILE, sys.argv[1:] or None)


if __name__ == "__main__":
    main()
