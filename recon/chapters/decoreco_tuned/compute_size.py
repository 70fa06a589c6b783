"""Chapter 9: the same attack on nets trained on more and more images; what share comes out, with its nulls.

Training and attack take steps in proportion to the number of images: what falls is not the budget of each.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from recon.chapters.base import Context, Outcome
from recon.chapters.common import match_table, nulls_of, timed_recover, train_released
from recon.chapters.decoreco_tuned.metrics import SizeMetrics, SizeRow
from recon.chapters.decoreco_tuned.sizes import SizeSizes
from recon.chapters.tables import flat
from recon.training import kkt


def compute_size(sizes: SizeSizes, context: Context) -> Outcome[SizeMetrics]:
    """At seed 0 each training set holds the smaller ones; at other seeds every size has its own block of images."""
    rows = [_row(sizes, context, n_train) for n_train in sizes.n_trains]
    arrays = {
        "n_trains": torch.tensor(sizes.n_trains),
        "share": torch.tensor([row.matches.ncc_06 / row.n_train for row in rows]),
        "null": torch.tensor([row.null.ncc_06 / row.n_train for row in rows]),
        "best_null": torch.tensor([row.best_null.ncc_06 / row.n_train for row in rows]),
    }
    return Outcome(SizeMetrics(n_train=max(sizes.n_trains), sizes=rows), arrays)


def _row(sizes: SizeSizes, context: Context, n_train: int) -> SizeRow:
    images = context.images(n_train)
    train_steps, attack_steps = sizes.train_steps * n_train // 100, sizes.attack.steps * n_train // 100
    released = train_released(context, images, sizes.width, train_steps, offset=n_train)
    settings = replace(sizes.attack, m=2 * n_train, steps=attack_steps)
    found, said = timed_recover(context, released, settings, f"n-{n_train}")
    nulls = nulls_of(context, images, released.network, released.theta_star, 2 * n_train, found.basis)
    alpha, layers = settings.alpha, settings.layer_weights
    truth = kkt.certificate(
        released.network, released.theta_star, images.train, images.y, alpha=alpha, layer_weights=layers
    )
    return SizeRow(
        n_train=n_train,
        train_steps=train_steps,
        attack_steps=attack_steps,
        truth_share=truth.residual_by_layer[0].item() ** 2,
        **flat(released.metrics()),
        **flat(said),
        **flat(match_table(found.x_hat, images, nulls)),
    )
