"""Chapter 11: how heavy the prior is. The weight of the total variation is tuned for every attack
on other images, and every attack is judged at its best weight and at those of its own authors;
beside them the smoothest of all images with the gradient, and any of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.leakage_attacks.experiment import shown
from companion.chapters.leakage_common import LEAST, TABLE_1, Attacked, Networks, Victims, pixels
from companion.chapters.published import DIVERGED
from companion.chapters.tables import packed, unpacked
from companion.store.record import Record
from recon.analysis.identifiability import determined
from recon.attacks import by_cosine_tv, by_gauss_newton, by_hybrid
from recon.attacks.from_gradients import CHEN, GEIPING, CosineSettings, HybridSettings
from recon.attacks.gradient_matching import HYBRID
from recon.attacks.gradient_system import JointSystem
from recon.attacks.registry import Candidates
from recon.attacks.tv_min import tv_min
from recon.optim.rng import named
from recon.released import Gradient
from recon.scoring.metrics import mse


@dataclass(frozen=True)
class Way:
    """An attack whose prior has a weight.

    Attributes:
        label: what pages call it.
        attack: one of `recon.attacks`.
        settings: but for steps and weight.
        published: weights of its own authors, on pixels in [−½, ½].
    """

    label: str
    attack: Callable[..., Candidates]
    settings: CosineSettings | HybridSettings
    published: tuple[float, ...] = ()

    def images(self, gradient: Gradient, sizes: WeightSizes, weight: float, seed: Any) -> Tensor:
        """(B, 3, 32, 32), from float32."""
        budget = (
            {"share": sizes.steps / HYBRID[0][0]}
            if isinstance(self.settings, HybridSettings)
            else {"steps": sizes.steps}
        )
        settings = replace(self.settings, tv=weight, **budget)
        single = gradient.to(torch.float32)
        return self.attack(single, gradient.network.shape, settings, seed).images.double()


#: Chen & Campbell's weights: CangxiongChen/training-data-leakage@beb50470 hybrid.py:998 and 615.
#: Those of Geiping et al., JonasGeiping/invertinggradients@1157b61c, act on images divided by 0.25,
#: and so four times on ours: 1e-1 inversefed/reconstruction_algorithms.py:22, 1e-2 ResNet32-10 -
#: Recovering 100 CIFAR-100 images.ipynb:213, 1e-4 inversefed/options.py:37, 1e-6 Recovery from
#: Gradient Information.ipynb:217
WAYS = {
    "cosine_tv": Way("CosineTV, a cosine a tensor, Adam", by_cosine_tv, CHEN, (0.01,)),
    "cosine_tv_geiping": Way(
        "CosineTV, one cosine, signed steps", by_cosine_tv, GEIPING, (0.4, 0.04, 4e-4, 4e-6)
    ),
    "hybrid": Way("Hybrid, a cosine a tensor, Adam", by_hybrid, HybridSettings(), (1.0,)),
    "hybrid_geiping": Way(
        "Hybrid, one cosine, signed steps",
        by_hybrid,
        HybridSettings(whole=True, descent=GEIPING.descent),
    ),
}
EXACT = "exact"  # the unit of those without a weight


class Metrics(Networks):
    """networks: by name · grey: error of a grey image, for each image that is judged.

    networks: open: whether the gradient leaves something open that it reads · gauss_newton,
    smoothest: error of each judged image, of any and of the smoothest image with the gradient; and
    by attack, see `WAYS`. networks.…: tuning: weight -> geometric mean of the errors on the tuning
    images · best: weight of the least of them · judged: weight -> error of each judged image, None
    where not finite; the best weight, and those of the attack's authors.
    """

    def errors(self, attack: str, weight: float | None = None) -> np.ndarray:
        """log10 of the errors (networks, images), see `logs`; at the best weight or another."""
        rows = [row[attack] for row in self.networks.values()]
        if attack in WAYS:
            rows = [row.judged[key_of(weight or row.best)] for row in rows]
        return np.stack([logs(row) for row in rows])


def logs(errors: list[float | None]) -> np.ndarray:
    """log10 of errors, (images,), at least `LEAST` and at most `DIVERGED`, as which those count
    that are not finite.
    """
    finite = np.nan_to_num(np.array(errors, dtype=float), nan=DIVERGED)
    return np.log10(finite.clip(LEAST, DIVERGED))


def key_of(weight: float) -> str:
    """A weight as a name.

    >>> key_of(4e-6), key_of(1.0)
    ('4e-06', '1')
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
        steps: of CosineTV, and of Hybrid in the image.
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
        steps=200,
    ),
    "paper": WeightSizes(),
}


def compute(sizes: WeightSizes, context: Context) -> Outcome[Metrics]:
    """Every attack by every network: tune, then judge."""
    _, judged = victims(sizes, context)
    units = [f"{name}--{attack}" for name in sizes.networks for attack in (EXACT, *WAYS)]
    runs = context.sweep(partial(weight_unit, sizes, context), units, "weights")
    networks: dict[str, Record] = {}
    arrays = {"truth": pixels(judged.x)}
    for unit, tensors in runs.items():
        name, attack = unit.split("--")
        row = unpacked(tensors)
        networks.setdefault(name, Record()).update(row if attack == EXACT else {attack: row})
        arrays |= {f"x_hat {name} {key}": shown(x) for key, x in tensors.items() if key != "json"}
    return Outcome(Metrics(**networks, grey=judged.grey), arrays)


def victims(sizes: WeightSizes, context: Context) -> list[Victims]:
    """Images to tune on and to judge, of all classes in turn; the paper's two are judged."""
    images = Victims.of_all_classes(context.pool, sizes.images + sizes.tuning)
    return [
        replace(images, x=images.x[part], labels=images.labels[part], index=images.index[part])
        for part in (slice(sizes.images, None), slice(sizes.images))
    ]


def weight_unit(sizes: WeightSizes, context: Context, unit: str) -> Tensors:
    """A row of `Metrics.networks`, and judged images (B, 3, 32, 32) at the best weight."""
    name, attack = unit.split("--")
    attacked = Attacked.of(name, context.pool)
    tuning, judged = victims(sizes, context)
    if attack == EXACT:
        return exact_unit(attacked.gradients(judged), judged)

    def at(weight: float, images: Victims, part: str) -> tuple[list[float | None], Tensor]:
        seed = named(context.seed, f"weights.{part}")
        x_hat = WAYS[attack].images(attacked.gradients(images), sizes, weight, seed)
        return listed(mse(x_hat, images.x)), x_hat

    row = Record(tuning={}, judged={})
    for weight in sizes.weights:
        errors, _ = at(weight, tuning, "tuning")
        row.tuning[key_of(weight)] = float(10 ** logs(errors).mean())
    row["best"] = best = min(sizes.weights, key=lambda weight: row.tuning[key_of(weight)])
    for weight in (*(other for other in WAYS[attack].published if other != best), best):
        row.judged[key_of(weight)], x_hat = at(weight, judged, "judged")
    return {**packed(row), attack: x_hat}


def exact_unit(gradient: Gradient, judged: Victims) -> Tensors:
    """The same of attacks that have the gradient to rounding."""
    systems = [JointSystem.of(single) for single in gradient.split()]
    found = by_gauss_newton(gradient, gradient.network.shape).images
    pairs = zip(systems, found.flatten(1), strict=True)
    images = {
        "gauss_newton": found,
        "smoothest": torch.stack([tv_min(*pair).x for pair in pairs]).view_as(found),
    }
    there = determined(systems[0], judged.x[0].flatten())
    row = {name: listed(mse(x, judged.x)) for name, x in images.items()}
    left = there.deficiency + int(there.unread.sum())
    return {**packed({"open": left < 0, **row}), **images}


def listed(errors: Tensor) -> list[float | None]:
    """None where not finite."""
    return [error if math.isfinite(error) else None for error in errors.tolist()]
