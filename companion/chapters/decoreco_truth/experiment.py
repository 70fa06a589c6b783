"""Chapter 5: n images each, the truth, the partition, noise, with fitted multipliers; and what the
attack makes of each.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome
from companion.chapters.common import FALL, LAYER_1, match_table, nulls_of, train_released
from companion.store.record import Record
from recon.attacks import by_decoreco
from recon.attacks.recover import RecoverSettings
from recon.released import Weights
from recon.training.kkt import certificate


class Metrics(Record):
    """Energies are the share of layer 1 left unexplained with fitted multipliers, relative to ‖θ₁‖²
    · converged: of the attack's own energy, see `companion.chapters.common.FALL`.

    energy_fitted: Of n images each, as they are: the training images, those of the partition,
    noise. energy_after_attack: Of what the attack makes of each. matches_after_attack,
    best_null_after_attack, best_null_name_after_attack: Of what it makes of the partition, see
    `recon.scoring.nulls.NullTable`.
    """


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Equal footing: a net trained for `train_steps` into the KKT regime, and the attack's
    settings, but for as many candidates as images.
    """

    n_train: int
    width: int
    train_steps: int
    attack: RecoverSettings


# of the multipliers: with 500 images the default grid ends too early
WIDE = (3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)

SIZES = {
    "smoke": Sizes(
        n_train=20,
        width=64,
        train_steps=150,
        attack=RecoverSettings(m=40, restarts=1, steps=200, scale_steps=40),
    ),
    "laptop": Sizes(
        n_train=50,
        width=1000,
        train_steps=300,
        attack=RecoverSettings(m=100, restarts=1, steps=600, scale_steps=60),
    ),
    "paper": Sizes(
        n_train=500,
        width=1000,
        train_steps=3000,
        attack=RecoverSettings(m=1000, restarts=1, steps=1500, multiplier_scales=WIDE),
    ),
}


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Three sets of images at equal number and budget, as they are and as starts of the attack."""
    images = context.images(sizes.n_train)
    released = train_released(context, images, sizes.width, sizes.train_steps)
    uniform = torch.rand(images.train.shape, generator=context.stream("kkt.noise"))
    sets = {
        "truth": (images.train, images.y),
        "partition": (images.init, images.init_y),
        "random": (uniform.to(images.mean) - images.mean, images.y),
    }
    settings = replace(sizes.attack, m=sizes.n_train, restarts=1, distinct=1.0)
    arrays = {"x_train": images.train, "mean": images.mean, "x_init": images.init}
    before, after, ended = Record(), Record(), Record()
    for name, (x, y) in sets.items():
        before[name] = fitted_energy(released, x, y, settings.alpha)
        attack = by_decoreco(
            released,
            images.shape,
            settings,
            context.stream("kkt.attack"),
            checkpoints=context.checkpoints.inside(name),
            x_init=None if name == "random" else x,
        )
        x_hat, notes = attack.images.flatten(1), attack.diagnostics
        after[name] = fitted_energy(released, x_hat, (notes["labels"] + 1) / 2, settings.alpha)
        ended[name] = converged(notes["history"][:, 0])
        arrays[f"x_hat_{name}"] = x_hat
        if name == "partition":
            network, theta = released.network, released.theta_star
            nulls = nulls_of(context, images, network, theta, len(x_hat), notes["basis"])
            table = match_table(x_hat, images, nulls)
    metrics = Metrics(
        n_train=sizes.n_train,
        energy_fitted=before,
        energy_after_attack=after,
        matches_after_attack=Record(partition=table.matches),
        best_null_after_attack=Record(partition=table.best_null),
        best_null_name_after_attack=Record(partition=table.best_null_name),
        converged=ended,
    )
    return Outcome(metrics, arrays)


def fitted_energy(released: Weights, x: Tensor, y: Tensor, alpha: float) -> float:
    """Layer 1's share of R at images x (n, d), labels y in {0, 1}, with fitted multipliers,
    relative to ‖θ₁‖².
    """
    fit = certificate(
        released.network, released.theta_star, x, y, alpha=alpha, layer_weights=LAYER_1
    )
    return fit.residual_by_layer[0].item() ** 2


def converged(history: Tensor) -> bool:
    """Whether an energy (steps,) fell by less than `FALL` of itself over the last tenth of the
    steps.
    """
    before = history[max(int(0.9 * len(history)) - 1, 0)].double()
    return 1 - (history[-1].double() / before).item() < FALL
