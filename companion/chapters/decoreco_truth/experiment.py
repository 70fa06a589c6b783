"""Chapter 5: n images each, the truth, the partition, noise, with fitted multipliers; and what the attack makes of
each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.common import LAYER_1, ReleasedNet, attacked, match_table, nulls_of, train_released
from companion.chapters.tables import MatchTable, flat
from companion.store.record import Record
from recon.attacks.recover import WIDE, RecoverSettings, recover
from recon.images.bundle import Bundle
from recon.training.kkt import certificate

T = TypeVar("T")


PARTS = ("truth", "partition", "random")


class Metrics(Record):
    """Energies are the share of layer 1 left unexplained with fitted multipliers, relative to ‖θ₁‖²: of the images as
    they are, and after the attack from them · converged: whether the attack's own energy had, as
    `companion.chapters.common.FALL` has it; None in a run made before this was measured. The rest are the fields
    of `companion.chapters.tables.MatchTable`. With the fields of `Trained`.

    energy_fitted: One value for n images each: the training images, those of the partition, noise.
    energy_after_attack: Of what the attack makes of each start; and of its usual run from noise, with twice as many
    candidates.
    """


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Equal footing: a net trained for `train_steps` into the KKT regime, and the attack's settings; it is also run
    with as many candidates as images."""

    n_train: int
    width: int
    train_steps: int
    attack: RecoverSettings


SIZES = {
    "smoke": Sizes(
        n_train=20, width=64, train_steps=150, attack=RecoverSettings(m=40, restarts=1, steps=200, scale_steps=40)
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


@dataclass(frozen=True)
class Attempt:
    """The attack from one start: its energy with fitted multipliers, what it found, whether it had converged, and
    arrays."""

    energy: float
    table: MatchTable
    converged: bool
    arrays: Tensors


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Three sets of images at equal number and budget; and the attack as it is usually run."""
    images = context.images(sizes.n_train)
    released = train_released(context, images, sizes.width, sizes.train_steps)
    alpha = sizes.attack.alpha
    noise = torch.rand(images.train.shape, generator=context.stream("kkt.noise")).to(images.mean) - images.mean
    before = Record(
        truth=fitted_energy(released, images.train, images.y, alpha),
        partition=fitted_energy(released, images.init, images.init_y, alpha),
        random=fitted_energy(released, noise, images.y, alpha),
    )
    truth_order, start_order = images.y.argsort(stable=True), images.init_y.argsort(stable=True)
    x_train, x_init = images.train[truth_order], images.init[start_order]
    settings = replace(sizes.attack, m=sizes.n_train, restarts=1, distinct=1.0)
    truth = _attempt("truth", settings, context, images, released, x_train)
    partition = _attempt("partition", settings, context, images, released, x_init)
    random = _attempt("random", settings, context, images, released, None)
    full = recover(released.weights, sizes.attack, context.stream("kkt.attack"), context.checkpoints.inside("full"))
    after = Record(
        truth=truth.energy,
        partition=partition.energy,
        random=random.energy,
        **{"random, 2n candidates": fitted_energy(released, full.x_hat, (full.labels + 1) / 2, alpha)},
    )
    tables = Record(truth=truth.table, partition=partition.table, random=random.table)
    converged = Record(truth=truth.converged, partition=partition.converged, random=random.converged)
    arrays = {"x_train": x_train, "mean": images.mean, "y": images.y[truth_order], "x_init": x_init}
    for attempt in (truth, partition, random):
        arrays |= attempt.arrays
    return Outcome(_metrics(sizes, released, before, after, tables).but(converged=converged), arrays)


def fitted_energy(released: ReleasedNet, x: Tensor, y: Tensor, alpha: float) -> float:
    """Layer 1's share of R at images x (n, d), labels y in {0, 1}, with fitted multipliers, relative to ‖θ₁‖²."""
    found = certificate(released.network, released.theta_star, x, y, alpha=alpha, layer_weights=LAYER_1)
    return found.residual_by_layer[0].item() ** 2


def _attempt(
    name: str, settings: RecoverSettings, context: Context, images: Bundle, released: ReleasedNet, start: Tensor | None
) -> Attempt:
    found = recover(released.weights, settings, context.stream("kkt.attack"), context.checkpoints.inside(name), start)
    energy = fitted_energy(released, found.x_hat, (found.labels + 1) / 2, settings.alpha)
    nulls = nulls_of(context, images, released.network, released.theta_star, len(found.x_hat), found.basis)
    table = match_table(found.x_hat, images, nulls)
    converged = bool(attacked(found, 0.0).converged)
    return Attempt(energy, table, converged, {f"x_hat_{name}": found.x_hat, f"history_{name}": found.history[:, 0]})


def _metrics(sizes: Sizes, released: ReleasedNet, before: Record, after: Record, tables: Record) -> Metrics:
    """One column of the tables a field."""
    truth, partition, random = tables.truth, tables.partition, tables.random
    return Metrics(
        n_train=sizes.n_train,
        **flat(released.metrics()),
        energy_fitted=before,
        energy_after_attack=after,
        matches_after_attack=Record(truth=truth.matches, partition=partition.matches, random=random.matches),
        null_after_attack=Record(truth=truth.null, partition=partition.null, random=random.null),
        nulls_after_attack=Record(truth=truth.nulls, partition=partition.nulls, random=random.nulls),
        best_null_after_attack=Record(truth=truth.best_null, partition=partition.best_null, random=random.best_null),
        best_null_name_after_attack=Record(
            truth=truth.best_null_name, partition=partition.best_null_name, random=random.best_null_name
        ),
        excess_after_attack=Record(truth=truth.excess, partition=partition.excess, random=random.excess),
    )
