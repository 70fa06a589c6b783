"""Chapter 11: how heavy the prior is. The weight of the total variation is tuned for every attack
on other images, and every attack is judged at its best weight and at those of its own authors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.leakage_common import LEAST, TABLE_1, Attacked, Networks, Victims
from companion.chapters.published import DIVERGED
from companion.store.record import Record
from recon.attacks import by_cosine_tv, by_hybrid
from recon.attacks.door import Candidates
from recon.attacks.from_gradients import CosineSettings, HybridSettings
from recon.attacks.gradient_matching import GEIPINGS, HYBRID
from recon.optim.rng import named
from recon.released import Gradient
from recon.scoring.metrics import mse


@dataclass(frozen=True)
class Way:
    """An attack whose prior has a weight.

    Attributes:
        run: gradient, steps, weight, generator of its starting images.
        published: weights of its own authors, and where each is taken from: repository, commit,
            file and line.
    """

    run: Callable[[Gradient, int, float, torch.Generator], Candidates]
    published: Mapping[float, str]


def _cosine_tv(
    changes: dict, gradient: Gradient, steps: int, tv: float, generator: torch.Generator
) -> Candidates:
    settings = CosineSettings(steps, tv=tv, **changes)
    return by_cosine_tv(gradient, gradient.network.shape, settings, generator)


def _hybrid(
    changes: dict, gradient: Gradient, steps: int, tv: float, _: torch.Generator
) -> Candidates:
    return by_hybrid(
        gradient, gradient.network.shape, HybridSettings(steps / HYBRID[0][0], tv=tv, **changes)
    )


CHEN = "CangxiongChen/training-data-leakage@beb50470 hybrid.py"
GEIPING = "JonasGeiping/invertinggradients@1157b61c"
#: of CIFAR-10, by which they divide images, so that a step is smaller and a weight larger on ours:
#: inversefed/consts.py:10 and reconstruction_algorithms.py:171
DEVIATION = 0.25
ONE_COSINE = {"whole": True, "descent": replace(GEIPINGS, step_size=DEVIATION * 0.1)}
#: name -> attack; "geiping" has one cosine of the whole gradient and the steps of Geiping et al.
WAYS = {
    "cosine_tv": Way(partial(_cosine_tv, {}), {0.01: f"{CHEN}:998"}),
    "cosine_tv_geiping": Way(
        partial(_cosine_tv, ONE_COSINE | {"deviation": DEVIATION}),
        {
            1e-1 / DEVIATION: f"{GEIPING} inversefed/reconstruction_algorithms.py:22",
            1e-2 / DEVIATION: f"{GEIPING} ResNet32-10 - Recovering 100 CIFAR-100 images.ipynb:213",
            1e-4 / DEVIATION: f"{GEIPING} inversefed/options.py:37",
            1e-6 / DEVIATION: f"{GEIPING} Recovery from Gradient Information.ipynb:217",
        },
    ),
    "hybrid": Way(partial(_hybrid, {}), {1.0: f"{CHEN}:615"}),
    "hybrid_geiping": Way(partial(_hybrid, ONE_COSINE), {}),
}


class Metrics(Networks):
    """networks: by name · grey: error of a grey image, for each image that is judged · index: of
    these in CIFAR-10 · tuning_index: of those that weights were tuned on.

    networks: by attack, see `WAYS`. tuning: weight -> geometric mean of the errors on the tuning
    images · best: weight of the least of them · judged: weight -> error of each judged image, None
    where not finite; the best weight, and those of the attack's authors.
    """

    def errors(self, name: str, attack: str, weight: float | None = None) -> np.ndarray:
        """log10 of the errors of the judged images (images,), at least `LEAST` and at most
        `DIVERGED`; at the best weight or another.
        """
        row = self.networks[name][attack]
        return logs(row.judged[key_of(row.best if weight is None else weight)])

    def typical(self, attack: str, weight: float | None = None) -> np.ndarray:
        """Mean over the images of log10 of the error, (networks,)."""
        return np.array([self.errors(name, attack, weight).mean() for name in self.networks])


def logs(errors: list[float | None]) -> np.ndarray:
    """log10 of errors, (images,); those that are not finite count as `DIVERGED`."""
    return np.log10(
        [min(max(DIVERGED if error is None else error, LEAST), DIVERGED) for error in errors]
    )


def key_of(weight: float) -> str:
    """A weight as a name.

    >>> key_of(1e-6), key_of(1.0)
    ('1e-06', '1')
    """
    return f"{weight:g}"


@dataclass(frozen=True, kw_only=True)
class WeightSizes:
    """
    Attributes:
        networks: of Table 1.
        weights: of the total variation.
        tuning: images that weights are tuned on, none of them judged.
        images: that are judged, the first of every class in turn.
        steps: of CosineTV, and of Hybrid in the image; in its other layers in proportion.
    """

    networks: tuple[str, ...] = tuple(TABLE_1)
    weights: tuple[float, ...] = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
    tuning: int = 4
    images: int = 10
    steps: int = 1200


SIZES = {
    "smoke": WeightSizes(networks=("CNN3 V4",), weights=(1.0, 1e-2), tuning=1, images=1, steps=8),
    "laptop": WeightSizes(
        networks=("CNN2 V2", "CNN3 V2"),
        weights=(1.0, 1e-1, 1e-2, 1e-4),
        tuning=2,
        images=2,
        steps=300,
    ),
    "paper": WeightSizes(),
}


def compute(sizes: WeightSizes, context: Context) -> Outcome[Metrics]:
    """A network at a time: tune, then judge."""
    tuning, judged = victims(sizes, context)
    runs = context.sweep(partial(weight_unit, sizes, context), list(sizes.networks), "weights")
    networks = {name: _row(runs[name], sizes) for name in sizes.networks}
    metrics = Metrics(
        **networks,
        grey=judged.x.square().flatten(1).mean(1).tolist(),
        index=judged.index,
        tuning_index=tuning.index,
    )
    return Outcome(metrics, {})


def victims(sizes: WeightSizes, context: Context) -> tuple[Victims, Victims]:
    """Images to tune on and to judge, of all classes in turn; the paper's two are judged."""
    together = Victims.of_all_classes(context.pool, sizes.images + sizes.tuning)
    return _part(together, slice(sizes.images, None)), _part(together, slice(sizes.images))


def _part(images: Victims, part: slice) -> Victims:
    return replace(images, x=images.x[part], labels=images.labels[part], index=images.index[part])


def weight_unit(sizes: WeightSizes, context: Context, name: str) -> Tensors:
    """Errors (images,) on one network, by "tuning ATTACK WEIGHT" and "judged ATTACK WEIGHT"."""
    attacked = Attacked.of(name, context.pool)
    errors: Tensors = {}

    def attack(way: str, images: Victims, weight: float, part: str) -> Tensor:
        gradient = Gradient.each(attacked.network, attacked.theta, images.x, images.labels)
        generator = named(context.seed, f"weights.{part}")
        candidates = WAYS[way].run(gradient.to(torch.float32), sizes.steps, weight, generator)
        return mse(candidates.images.double(), images.x)

    tuning, judged = victims(sizes, context)
    for way, settings in WAYS.items():
        for weight in sizes.weights:
            errors[f"tuning {way} {key_of(weight)}"] = attack(way, tuning, weight, "tuning")
        for weight in {best_weight(errors, way, sizes.weights), *settings.published}:
            errors[f"judged {way} {key_of(weight)}"] = attack(way, judged, weight, "judged")
    return errors


def best_weight(errors: Tensors, way: str, weights: tuple[float, ...]) -> float:
    """That of the least geometric mean of the errors on the tuning images."""
    means = [logs(_listed(errors[f"tuning {way} {key_of(weight)}"])).mean() for weight in weights]
    return weights[int(np.argmin(means))]


def _listed(errors: Tensor) -> list[float | None]:
    return [error if math.isfinite(error) else None for error in errors.tolist()]


def _row(errors: Tensors, sizes: WeightSizes) -> Record:
    """Of one network, see `Metrics`."""
    row = Record()
    for way in WAYS:
        judged = {
            key.split(" ")[2]: _listed(values)
            for key, values in errors.items()
            if key.startswith(f"judged {way} ")
        }
        tuning = {
            key_of(weight): float(
                10 ** logs(_listed(errors[f"tuning {way} {key_of(weight)}"])).mean()
            )
            for weight in sizes.weights
        }
        best = best_weight(errors, way, sizes.weights)
        row[way] = Record(tuning=tuning, best=best, judged=judged)
    return row
