"""Chapter 5: n images each, the truth, the partition, noise, with fitted multipliers; and what the attack makes of
each."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.common import LAYER_1, ReleasedNet, attacked, match_table, nulls_of, train_released
from companion.chapters.decoreco_truth.metrics import ByStart, EnergiesAfter, Metrics
from companion.chapters.decoreco_truth.sizes import Sizes
from companion.chapters.tables import MatchTable, flat
from recon.attacks.recover import RecoverSettings, recover
from recon.images.bundle import Bundle
from recon.training.kkt import certificate


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
    before = ByStart(
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
    after = EnergiesAfter(
        truth=truth.energy,
        partition=partition.energy,
        random=random.energy,
        random_twice=fitted_energy(released, full.x_hat, (full.labels + 1) / 2, alpha),
    )
    tables = ByStart(truth=truth.table, partition=partition.table, random=random.table)
    converged = ByStart(truth=truth.converged, partition=partition.converged, random=random.converged)
    arrays = {"x_train": x_train, "mean": images.mean, "y": images.y[truth_order], "x_init": x_init}
    for attempt in (truth, partition, random):
        arrays |= attempt.arrays
    return Outcome(replace(_metrics(sizes, released, before, after, tables), converged=converged), arrays)


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


def _metrics(
    sizes: Sizes, released: ReleasedNet, before: ByStart[float], after: EnergiesAfter, tables: ByStart[MatchTable]
) -> Metrics:
    """One column of the tables a field."""
    truth, partition, random = tables.truth, tables.partition, tables.random
    return Metrics(
        n_train=sizes.n_train,
        **flat(released.metrics()),
        energy_fitted=before,
        energy_after_attack=after,
        matches_after_attack=ByStart(truth=truth.matches, partition=partition.matches, random=random.matches),
        null_after_attack=ByStart(truth=truth.null, partition=partition.null, random=random.null),
        nulls_after_attack=ByStart(truth=truth.nulls, partition=partition.nulls, random=random.nulls),
        best_null_after_attack=ByStart(truth=truth.best_null, partition=partition.best_null, random=random.best_null),
        best_null_name_after_attack=ByStart(
            truth=truth.best_null_name, partition=partition.best_null_name, random=random.best_null_name
        ),
        excess_after_attack=ByStart(truth=truth.excess, partition=partition.excess, random=random.excess),
    )
