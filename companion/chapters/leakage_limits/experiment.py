"""The gradient of a batch through a layer made to be read."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.leakage_common import (
    CLASSES,
    FOUND,
    Victims,
    first_layer_gradient,
    inputs,
    pixels,
)
from companion.store.record import Record
from recon.attacks.imprint import EMPTY, Imprint, edges_of
from recon.optim.rng import named


class Metrics(Record):
    """imprint: by batch and bins.

    imprint: One batch of n images through a layer with so many bins. alone: images that share their
    bin with no other · expected: of them, if all bins were equally likely · found: images within
    half a grey level · known: candidates that the server holds to be one image · falsely_known: of
    these, the ones that are none · honest: images within half a grey level in the rows of an
    ordinary layer as wide, by eq. (4).
    """


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """
    Attributes:
        public: images that the server has of its own.
        batches: sizes of a client's batch.
        bins: of the server's layer.
    """

    public: int = 500
    batches: tuple[int, ...] = (16, 64, 256)
    bins: tuple[int, ...] = (64, 256, 1024)


SIZES = {
    "smoke": Sizes(public=60, batches=(8, 16), bins=(16, 64)),
    "laptop": Sizes(),
    "paper": Sizes(),
}
SHOWN = 8
TAKEN = 100  # images that are victims elsewhere, and so none of the server's


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Every batch with every number of bins."""
    imprint, arrays = [], dict[str, Tensor]()
    public, rest = images_of_server_and_clients(sizes, context)
    for n in sorted({min(n, len(rest)) for n in sizes.batches}):
        for bins in sizes.bins:
            row, shown = imprinted(rest[:n], bins, inputs(context.pool, public), context)
            imprint.append(row)
            arrays |= {f"{kind} {n} {bins}": pixels(each) for kind, each in shown.items()}
    return Outcome(Metrics(imprint=imprint), arrays)


def images_of_server_and_clients(sizes: Sizes, context: Context) -> tuple[list[int], list[int]]:
    """Rows of the pool in an order that the seed draws, without the victims: the server's own, and
    all others.
    """
    taken = set(Victims.of_all_classes(context.pool, TAKEN).index)
    order = torch.randperm(
        len(context.pool.index), generator=named(context.seed, "limits.images")
    ).tolist()
    free = [row for row in order if int(context.pool.index[row]) not in taken]
    count = min(sizes.public, len(free) // 2)
    return free[:count], free[count:]


def imprinted(
    rows: list[int], bins: int, public: Tensor, context: Context
) -> tuple[Record, Tensors]:
    """One batch, float32 as clients compute; and some images with what was read of them."""
    n, x = len(rows), inputs(context.pool, rows)
    labels = torch.from_numpy(context.pool.labels[rows]) % CLASSES
    flat = x.flatten(1).float()
    edges = edges_of(public.flatten(1).float(), bins)
    generator = named(context.seed, "limits.server", bins)
    v = torch.randn(CLASSES, generator=generator) / bins
    server = Imprint(edges, v, 0.1 * torch.randn(CLASSES, generator=generator))
    read = server.read(server.mean_gradient(flat, labels), n)
    away = torch.cdist(read.images, flat.double(), p=float("inf"))
    true = away.amin(1) <= FOUND
    together = torch.bincount(torch.bucketize(flat.mean(1), edges), minlength=bins + 1)
    row = Record(
        n=n,
        bins=bins,
        alone=int((together == 1).sum()),
        expected=n * (1 - 1 / bins) ** (n - 1),
        found=int((away.amin(0) <= FOUND).sum()),
        known=int(read.alone.sum()),
        falsely_known=int((read.alone & ~true).sum()),
        honest=from_ordinary(flat, labels, bins, context),
    )
    nearest = read.images[(read.images[:, None] - flat.double()).square().mean(2).argmin(0)[:SHOWN]]
    return row, {"sent": x[:SHOWN], "read": nearest.view(-1, *x.shape[1:]).clamp(-0.5, 0.5)}


def from_ordinary(x: Tensor, labels: Tensor, width: int, context: Context) -> int:
    """Images (n, d) within half a grey level of a row of an ordinary first layer's mean gradient
    over its bias.
    """
    generator = named(context.seed, "limits.ordinary", width)
    weight, bias = (part.double() for part in first_layer_gradient(x, labels, width, generator))
    used = bias.abs() > EMPTY * bias.abs().max()
    rows = weight[used] / bias[used, None]  # eq. (4)
    return int((torch.cdist(rows, x.double(), p=float("inf")).amin(0) <= FOUND).sum())
