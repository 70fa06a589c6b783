"""Chapter 11: the attacks on both victims, network by network."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.leakage_common import SEED, TABLE_1, Attacked, Networks, Victims, pixels
from companion.chapters.published import DIVERGED, PRE_TRAINED
from companion.chapters.tables import packed, unpacked
from companion.store.record import Record
from recon.attacks import by_rgap
from recon.attacks.gradient_matching import COSINE_STEPS, cosine_tv, dlg, hybrid, seeded_start
from recon.optim.loop import Checkpoints
from recon.released import Gradient
from recon.scoring.metrics import mse, psnr


class Metrics(Networks):
    """networks: by name.

    networks: One network: methods by name, and its pre-training where it had one. networks.methods:
    One method on one network: means over the images of the squared error (pixels in [0, 1]) and of
    PSNR (peak 255, as in their hybrid.py:440), None where not finite. diverged: whether the mean
    error is beyond `companion.chapters.published.DIVERGED` · per_image: errors of the images, by
    CIFAR-10 index.
    networks.pre_training: Of a pre-trained network: epochs, images, and its accuracy on these.
    images: The victims: error of a grey image, and whether they are the paper's.
    """

    @property
    def networks(self) -> dict[str, Record]:
        """By name: methods, and pre-training or None."""
        return {
            name: Record(
                methods={method: row[method] for method in ATTACKS if method in row},
                pre_training=row.get("pre_training"),
            )
            for name, row in super().networks.items()
        }

    def mse(self, name: str, method: str) -> float:
        """Mean squared error, infinite where it diverged; KeyError where the method did not run."""
        error = self.networks[name].methods[method].mse
        return math.inf if error is None else error


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


#: from gradients of one image each to the images (B, c, h, w); what matches gradients does so in
#: float32, as the published code does. A new attack is an entry here and a label in
#: `companion.chapters.published`.
ATTACKS: dict[str, Callable[[Gradient, Sizes, Checkpoints], Tensor]] = {
    "rgap": lambda gradient, *_: by_rgap(gradient, gradient.network.shape).images,
    "dlg": lambda gradient, sizes, _: dlg(gradient, seeded_start(gradient, SEED), sizes.dlg_steps)[
        0
    ],
    "cosine_tv": lambda gradient, sizes, place: cosine_tv(
        gradient,
        seeded_start(gradient, SEED),
        max(1, round(sizes.share * COSINE_STEPS)),
        place.at("cosine"),
    ).x_hat.view(-1, *gradient.network.shape),
    "hybrid": lambda gradient, sizes, place: hybrid(gradient, sizes.share, place),
}


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """A sweep over the networks, each with all its attacks."""
    victims = Victims.of(context.pool)
    runs = context.sweep(partial(attack_network, sizes, context), list(sizes.networks), "networks")
    rows = {name: unpacked(tensors) for name, tensors in runs.items()}
    arrays = {"truth": pixels(victims.x)}
    for name, tensors in runs.items():
        arrays |= {f"x_hat {name} {key}": shown(x) for key, x in tensors.items() if key != "json"}
    images = Record(grey_mse=victims.x.square().mean().item(), the_papers=victims.exact)
    return Outcome(Metrics(**rows, images=images), arrays)


def shown(x_hat: Tensor) -> Tensor:
    """Images, flat, that may have run away."""
    return pixels(x_hat.clamp(-10, 10).nan_to_num())


def attack_network(sizes: Sizes, context: Context, name: str) -> Tensors:
    """One unit of the sweep: every attack on one network; its row, and by method the images (B, 3,
    32, 32).
    """
    victims = Victims.of(context.pool)
    attacked = Attacked.of(name, context.pool, sizes.epochs)
    gradient = attacked.gradients(victims)
    images = {}
    for method in ATTACKS:
        if method == "rgap" or (name in sizes.matched and (method != "dlg" or sizes.dlg_steps)):
            place = context.checkpoints.inside(f"{name} {method}".replace(" ", "-"))
            sent = gradient if method == "rgap" else gradient.to(torch.float32)
            images[method] = ATTACKS[method](sent, sizes, place).double()
    row = {method: scores(x_hat, victims) for method, x_hat in images.items()}
    if name.endswith(PRE_TRAINED):
        row["pre_training"] = Record(
            epochs=sizes.epochs, n_train=attacked.n_train, accuracy=attacked.accuracy
        )
    return {**packed(row), **images}


def scores(x_hat: Tensor, victims: Victims) -> Record:
    """Mean over images of MSE and PSNR, the latter with peak 255 as published; and the error by
    image.
    """
    errors = mse(x_hat, victims.x)
    finite = bool(torch.isfinite(errors).all())
    return Record(
        mse=errors.mean().item() if finite else None,
        psnr_255=psnr(errors, 255.0).mean().item() if finite else None,
        diverged=not finite or errors.mean().item() > DIVERGED,
        per_image={
            str(index): Record(mse=error) if math.isfinite(error) else None
            for index, error in zip(victims.index, errors.tolist(), strict=True)
        },
    )
