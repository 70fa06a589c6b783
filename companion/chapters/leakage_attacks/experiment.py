"""Chapter 11: the attacks on both victims, network by network; and every attack by its name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.leakage_common import SEED, TABLE_1, Attacked, Networks, Victims, pixels
from companion.chapters.published import DIVERGED, PRE_TRAINED
from companion.chapters.tables import packed, unpacked
from companion.store.record import Record
from recon.attacks.gauss_newton import gauss_newton
from recon.attacks.gradient_matching import (
    COSINE_STEPS,
    GEIPINGS,
    PAPERS,
    Descent,
    cosine_tv,
    dlg,
    hybrid,
    seeded_start,
)
from recon.attacks.gradient_system import JointSystem
from recon.attacks.rgap import rgap
from recon.attacks.tv_min import tv_min
from recon.optim.loop import Checkpoints
from recon.released import Gradient
from recon.scoring.metrics import mse, psnr


class Metrics(Networks):
    """networks: by name.

    networks: One network: methods by name, and its pre-training where it had one. networks.methods:
    One method on one network: means over the images of the squared error (pixels in [0, 1]) and of
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
                methods={
                    method: found for method, found in row.items() if method != "pre_training"
                },
                pre_training=row.get("pre_training"),
            )
            for name, row in super().networks.items()
        }

    def mse(self, name: str, method: str) -> float | None:
        """Mean squared error, None if it is not finite; KeyError where the method did not run."""
        return self.networks[name].methods[method].mse


ALL = (*TABLE_1, f"CNN4 V1{PRE_TRAINED}", f"CNN4 V2{PRE_TRAINED}")


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """
    Attributes:
        networks: attacked by R-GAP.
        matched: those with gradient matching as well.
        share: of the published steps of Hybrid and CosineTV.
        dlg_steps: 300 as published, 0 for none.
        epochs: of pre-training, 300 as published.
    """

    networks: tuple[str, ...] = ALL
    matched: tuple[str, ...] = ALL
    share: float = 1.0
    dlg_steps: int = 300
    epochs: int = 300


SMOKE = ("CNN3 V2", "CNN4 V1", "CNN4 V1 pre-trained")
SIZES = {
    "smoke": Sizes(networks=SMOKE, matched=SMOKE[:1], share=0.003, dlg_steps=3, epochs=1),
    "laptop": Sizes(matched=("CNN2 V2", "CNN3 V2"), share=0.05, dlg_steps=0, epochs=20),
    "paper": Sizes(),
}
#: suffix of CosineTV's and Hybrid's name -> (one cosine over the whole gradient, steps)
CHOICES: dict[str, tuple[bool, Descent]] = {
    "": (False, PAPERS),
    "_whole": (True, PAPERS),
    "_steps": (False, GEIPINGS),
    "_both": (True, GEIPINGS),
}


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """A sweep over the networks, each with all its attacks."""
    found = Victims.of(context.pool)
    runs = context.sweep(partial(attack_network, sizes, context), list(sizes.networks), "networks")
    rows = {name: unpacked(tensors) for name, tensors in runs.items()}
    arrays = {"truth": pixels(found.x)}
    for name, row in rows.items():
        arrays |= {
            f"x_hat {name} {method}": shown(runs[name][method])
            for method in row
            if method != "pre_training"
        }
    images = Record(grey_mse=found.x.square().mean().item(), the_papers=found.exact)
    return Outcome(Metrics(**rows, images=images), arrays)


def shown(x_hat: Tensor) -> Tensor:
    """Images, flat, that may have run away."""
    return pixels(x_hat.clamp(-10, 10).nan_to_num())


def attack_network(sizes: Sizes, context: Context, name: str) -> Tensors:
    """One unit of the sweep: every attack on one network; its row, and by method the images (B, 3,
    32, 32).
    """
    found, attacked = Victims.of(context.pool), Attacked.of(name, context.pool, sizes.epochs)
    gradient = Gradient.each(attacked.network, attacked.theta, found.x, found.labels)
    matching = ["cosine_tv", "cosine_tv_authors", "hybrid", *(["dlg"] if sizes.dlg_steps else [])]
    cosine_steps = max(1, round(sizes.share * COSINE_STEPS))
    images = {}
    for method in ("rgap", *(matching if name in sizes.matched else [])):
        kept = context.checkpoints.inside(f"{name} {method}".replace(" ", "-"))
        called = method.replace("_authors", "_both")
        images[method] = attack(
            called, gradient, kept, cosine_steps, sizes.share, sizes.dlg_steps
        ).double()
    row = {method: scores(x_hat, found) for method, x_hat in images.items()}
    if name.endswith(PRE_TRAINED):
        row["pre_training"] = Record(
            epochs=sizes.epochs, n_train=attacked.n_train, accuracy=attacked.accuracy
        )
    return {**packed(row), **images}


def attack(
    method: str,
    gradient: Gradient,
    kept: Checkpoints,
    cosine_steps: int,
    share: float,
    dlg_steps: int,
) -> Tensor:
    """The images (B, c, h, w). Matching runs in float32, as published.

    Args:
        share: of Hybrid's published steps.
    """
    single, shape = gradient.to(torch.float32), (len(gradient.labels), *gradient.network.shape)
    if method == "rgap":
        return torch.cat([rgap(victim) for victim in gradient.split()])
    if method in ("gauss_newton", "smoothest"):
        systems = [JointSystem.of(each) for each in gradient.split()]
        solved = [gauss_newton(system).x for system in systems]
        if method == "smoothest":
            solved = [tv_min(system, x).x for system, x in zip(systems, solved, strict=True)]
        return torch.stack(solved).view(shape)
    start = seeded_start(single, SEED)
    if method == "dlg":
        return dlg(single, start, dlg_steps)[0]
    base = "hybrid" if method.startswith("hybrid") else "cosine_tv"
    whole, descent = CHOICES[method.removeprefix(base)]
    if base == "hybrid":
        return hybrid(single, share, kept, whole=whole, descent=descent)
    found = cosine_tv(single, start, cosine_steps, kept.at("cosine"), whole=whole, descent=descent)
    return found.x_hat.view(shape)


def scores(x_hat: Tensor, found: Victims) -> Record:
    """Mean over images of MSE and PSNR, the latter with peak 255 as published; and each image's
    error.
    """
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
