"""Chapter 11: the attacks on both victims, network by network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.leakage_common import SEED, TABLE_1, Attacked, Victims, networks_in, pixels
from companion.chapters.published import DIVERGED, LABELS, PRE_TRAINED
from companion.store.record import Record
from recon.attacks.gradient_matching import COSINE_STEPS, cosine_tv, cosine_tv_authors, dlg, hybrid, seeded_start
from recon.attacks.rgap import rgap
from recon.released import Gradient
from recon.scoring.metrics import mse, psnr


class Metrics(Record):
    """networks: by name.

    networks: One network: methods by name, and its pre-training where it had one.
    networks.methods: One method on one network: means over the images of the squared error (pixels in [0, 1]) and of
    PSNR (peak 255, as published), None where not finite. diverged: whether the mean error is beyond
    `companion.chapters.published.DIVERGED` · per_image: errors of the images, by CIFAR-10 index.
    networks.pre_training: Of a pre-trained network: epochs, images, and its accuracy on these.
    images: The victims: error of a grey image, and whether they are the paper's.
    """

    @property
    def networks(self) -> dict[str, Record]:
        """Each by name: its methods, and its pre-training or None."""
        return {
            name: Record(
                methods={method: found for method, found in row.items() if method != "pre_training"},
                pre_training=row.get("pre_training"),
            )
            for name, row in networks_in(self).items()
        }

    def mse(self, name: str, method: str) -> float | None:
        """Mean squared error, None if it is not finite; KeyError where the method did not run."""
        return self.networks[name].methods[method].mse


ALL = (*TABLE_1, f"CNN4 V1{PRE_TRAINED}", f"CNN4 V2{PRE_TRAINED}")


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """networks: attacked by R-GAP · matched: those with gradient matching as well · share: of the published steps of
    Hybrid and CosineTV · dlg_steps: 300 as published, 0 for none · epochs: of pre-training, 300 as published."""

    networks: tuple[str, ...] = ALL
    matched: tuple[str, ...] = ALL
    share: float = 1.0
    dlg_steps: int = 300
    epochs: int = 300


SIZES = {
    "smoke": Sizes(
        networks=("CNN3 V2", "CNN4 V1", "CNN4 V1 pre-trained"),
        matched=("CNN3 V2",),
        share=0.003,
        dlg_steps=3,
        epochs=1,
    ),
    "laptop": Sizes(matched=("CNN2 V2", "CNN3 V2"), share=0.05, dlg_steps=0, epochs=20),
    "paper": Sizes(),
}


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """A sweep over the networks, each with all its attacks."""
    found = Victims.of(context.pool)
    runs = context.sweep(partial(attack_network, sizes, context), list(sizes.networks), "networks")
    arrays = {"truth": pixels(found.x)}
    for name, tensors in runs.items():
        for method in methods_of(tensors):
            shown = tensors[f"x_hat {method}"].clamp(-10, 10).nan_to_num()
            arrays[f"x_hat {name} {method}"] = pixels(shown)
    metrics = Metrics(
        **{name: scored(name, tensors, found, sizes) for name, tensors in runs.items()},
        images=Record(grey_mse=found.x.square().mean().item(), the_papers=found.exact),
    )
    return Outcome(metrics, arrays)


def attack_network(sizes: Sizes, context: Context, name: str) -> Tensors:
    """One unit of the sweep: every attack on one network; images "x_hat METHOD" (B, 3, 32, 32)."""
    images = Victims.of(context.pool)
    attacked = Attacked.of(name, context.pool, sizes.epochs)
    gradient = Gradient.each(attacked.network, attacked.theta, images.x, images.labels)
    found = {"accuracy": torch.tensor(attacked.accuracy), "n_train": torch.tensor(attacked.n_train)}
    for method, attack in attacks(gradient, sizes, context, name).items():
        found[f"x_hat {method}"] = attack().double()
    return found


def attacks(gradient: Gradient, sizes: Sizes, context: Context, name: str) -> dict[str, Callable[[], Tensor]]:
    """Method -> a call that returns the images (B, 3, 32, 32).  Matching runs in float32, as published."""
    found: dict[str, Callable[[], Tensor]] = {"rgap": lambda: by_rgap(gradient)}
    if name not in sizes.matched:
        return found
    single, shape = gradient.to(torch.float32), (len(gradient.labels), *gradient.network.shape)
    start = seeded_start(single, SEED)
    steps = max(1, round(sizes.share * COSINE_STEPS))
    kept = context.checkpoints.inside(name.replace(" ", "-"))
    found["cosine_tv"] = lambda: cosine_tv(single, start, steps, kept.at("cosine")).x_hat.view(shape)
    found["cosine_tv_authors"] = lambda: cosine_tv_authors(single, start, steps, kept.at("cosine-authors")).x_hat.view(
        shape
    )
    found["hybrid"] = lambda: hybrid(single, sizes.share, kept)
    if sizes.dlg_steps:
        found["dlg"] = lambda: dlg(single, start, sizes.dlg_steps)[0]
    return found


def by_rgap(gradient: Gradient) -> Tensor:
    """Images (B, c, h, w), one after the other."""
    return torch.cat([rgap(victim) for victim in gradient.split()])


def methods_of(tensors: Tensors) -> list[str]:
    """Methods of one unit of the sweep, in the order of the tables."""
    found = [key.removeprefix("x_hat ") for key in tensors if key.startswith("x_hat ")]
    return sorted(found, key=list(LABELS).index)


def scored(name: str, tensors: Tensors, found: Victims, sizes: Sizes) -> Record:
    """One unit of the sweep against the truth."""
    pre_training = Record(epochs=sizes.epochs, n_train=int(tensors["n_train"]), accuracy=tensors["accuracy"].item())
    methods = {method: scores(tensors[f"x_hat {method}"], found) for method in methods_of(tensors)}
    return Record(**methods, **({"pre_training": pre_training} if name.endswith(PRE_TRAINED) else {}))


def scores(x_hat: Tensor, found: Victims) -> Record:
    """Mean over images of MSE and PSNR, the latter with peak 255 as published; and each image's error."""
    error = mse(x_hat, found.x)
    finite = bool(torch.isfinite(error).all())
    return Record(
        mse=error.mean().item() if finite else None,
        psnr_255=psnr(error, 255.0).mean().item() if finite else None,
        diverged=not finite or error.mean().item() > DIVERGED,
        per_image={
            str(i): Record(mse=each.item()) if torch.isfinite(each) else None
            for i, each in zip(found.index, error, strict=True)
        },
    )
