"""Chapter 9: the same attack on nets trained on more and more images; what share comes out, with its nulls."""

from __future__ import annotations

from dataclasses import replace

import torch

from recon.chapters.base import Context, Outcome
from recon.chapters.common import match_table, nulls_of, timed_recover, train_released
from recon.chapters.decoreco_tuned.metrics import SizeMetrics, SizeRow
from recon.chapters.decoreco_tuned.sizes import SizeSizes
from recon.chapters.tables import flat


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
    released = train_released(context, images, sizes.width, sizes.train_steps, offset=n_train)
    settings = replace(sizes.attack, m=2 * n_train)
    found, said = timed_recover(context, released, settings, f"n-{n_train}")
    nulls = nulls_of(context, images, released.network, released.theta_star, 2 * n_train, found.basis)
    table = match_table(found.x_hat, images, nulls)
    return SizeRow(n_train=n_train, **flat(released.metrics()), **flat(said), **flat(table))
