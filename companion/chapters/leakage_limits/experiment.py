"""Gauss–Newton through a residual block, and the gradient of a batch through a layer made to be read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.leakage_common import (
    CERTAIN,
    CLASSES,
    FOUND,
    SEED,
    Victims,
    averaged_victims,
    count_found,
    inputs,
    pixels,
)
from companion.chapters.tables import packed, unpacked
from companion.store.record import Record
from recon.attacks.batches import ModuleSystem, by_cosine, by_hopping
from recon.attacks.gauss_newton import RowSpace, by_columns
from recon.attacks.imprint import EMPTY, Imprint, edges_of
from recon.nets.module import ModuleNetwork, default_start
from recon.optim.rng import named
from recon.released import Gradient
from recon.scoring.metrics import mse


class Metrics(Record):
    """blocks: by network · grey: error of a grey image, for each image · imprint: by batch and bins.

    blocks: One network with a residual block. Counts of images: determined (the Jacobian has full rank), found to
    half a grey level, known to be found by the adversary, and known but not found · mse: of each image · matched:
    error of Adam on the cosine, of each image; matched_found: images that it finds.
    imprint: One batch of n images through a layer with so many bins. alone: images that share their bin with no
    other · expected: of them, if all bins were equally likely · found: images within half a grey level · known:
    candidates that the server holds to be one image · falsely_known: of these, the ones that are none · honest:
    images within half a grey level in the rows of an ordinary layer as wide, by eq. (4).
    """


@dataclass(frozen=True)
class Residual:
    """A network with one residual block.  channels · activation · pooled: whether the mean over positions comes before
    the last layer, as He et al. have it."""

    channels: int
    activation: str
    pooled: bool

    @property
    def name(self) -> str:
        """As figures and tables name it."""
        return f"{self.activation}, {'pooled' if self.pooled else 'flat'}, {self.channels} channels"


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """residual: networks · side: of their images, averaged down · images: attacked, of all classes · hops: of
    Gauss–Newton, at most · match_steps: of Adam on the cosine · public: images that the server has of its own ·
    batches: sizes of a client's batch · bins: of the server's layer."""

    residual: tuple[Residual, ...] = tuple(
        Residual(8, activation, pooled) for activation in ("tanh", "relu") for pooled in (False, True)
    )
    side: int = 8
    images: int = 4
    hops: int = 12
    match_steps: int = 500
    public: int = 500
    batches: tuple[int, ...] = (16, 64, 256)
    bins: tuple[int, ...] = (64, 256, 1024)


SIZES = {
    "smoke": Sizes(
        residual=(Residual(4, "tanh", False), Residual(4, "relu", True)),
        side=4,
        images=1,
        hops=1,
        match_steps=5,
        public=60,
        batches=(8, 16),
        bins=(16, 64),
    ),
    "laptop": Sizes(images=2),
    "paper": Sizes(
        residual=(*Sizes.residual, Residual(16, "tanh", True), Residual(16, "relu", True)), images=20, hops=25
    ),
}
SHOWN = 8
TAKEN = 100  # images that are victims elsewhere, and so none of the server's


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Two questions."""
    x, _ = averaged_victims(context.pool, sizes.images, sizes.side)
    names = [each.name for each in sizes.residual]
    runs = context.sweep(partial(block_unit, sizes, context), names, "residual blocks")
    arrays: Tensors = {}
    imprint = []
    public, rest = images_of_server_and_clients(sizes, context)
    for n in sorted({min(n, len(rest)) for n in sizes.batches}):
        for bins in sizes.bins:
            row, shown = imprinted(rest[:n], bins, inputs(context.pool, public), context)
            imprint.append(row)
            arrays |= {f"{kind} {n} {bins}": pixels(each) for kind, each in shown.items()}
    blocks, grey = [unpacked(found) for found in runs.values()], x.square().flatten(1).mean(1).tolist()
    return Outcome(Metrics(blocks=blocks, grey=grey, imprint=imprint), arrays)


def images_of_server_and_clients(sizes: Sizes, context: Context) -> tuple[list[int], list[int]]:
    """Rows of the pool in an order that the seed draws, without the victims: the server's own, and all others."""
    taken = set(Victims.of_all_classes(context.pool, TAKEN).index)
    order = torch.randperm(len(context.pool.index), generator=named(context.seed, "limits.images")).tolist()
    free = [row for row in order if int(context.pool.index[row]) not in taken]
    count = min(sizes.public, len(free) // 2)
    return free[:count], free[count:]


def block_unit(sizes: Sizes, context: Context, name: str) -> Tensors:
    """One network, image by image: the attack, its certificate, and the rank at the truth."""
    residual = next(each for each in sizes.residual if each.name == name)
    x, labels = averaged_victims(context.pool, sizes.images, sizes.side)
    public, _ = images_of_server_and_clients(sizes, context)
    normed_on = F.avg_pool2d(inputs(context.pool, public), 32 // sizes.side)
    network = residual_network(residual, normed_on, SEED)
    rows = []
    for image, label in zip(x, labels, strict=True):
        sent = Gradient.of(network.module, F.cross_entropy, image[None], label[None])
        system = ModuleSystem.of(sent, tuple(image.shape))
        found = by_hopping(system, sizes.hops)
        rank = rank_at(system, found.x)
        there = (found.x - image.flatten()).abs().max() < FOUND**2
        rank_there = rank if there else rank_at(system, image.flatten())
        matched = by_cosine(system, sizes.match_steps)
        known = found.energy[-1].sqrt() <= CERTAIN and rank == image.numel()
        rows.append((found.x.view_as(image), matched.view_as(image), known, rank_there == image.numel()))
    *images, known, determined = zip(*rows, strict=True)
    x_hat, matched = map(torch.stack, images)
    near = (x_hat - x).abs().flatten(1).amax(1) <= FOUND
    row = Record(
        name=name,
        determined=sum(determined),
        found=int(near.sum()),
        known=sum(map(bool, known)),
        falsely_known=sum(bool(sure and not right) for sure, right in zip(known, near, strict=True)),
        mse=mse(x_hat, x).tolist(),
        matched=mse(matched, x).tolist(),
        matched_found=count_found(matched, x),
    )
    return packed(row)


def rank_at(system: ModuleSystem, x: Tensor) -> int:
    """Of ∂h/∂x."""
    return RowSpace.of(by_columns(system, x).mT).basis.shape[1]


ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh}


class ResidualBlock(nn.Module):
    """σ(x + BN(W₂ ∗ σ(BN(W₁ ∗ x)))) (He et al. 2016), 3 × 3 convolutions without bias."""

    def __init__(self, channels: int, activation: str) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(2))
        self.activation = ACTIVATIONS[activation]()

    def forward(self, x: Tensor) -> Tensor:
        """(B, channels, h, w), the same shape."""
        inner = self.activation(self.norms[0](self.first(x)))
        result: Tensor = self.activation(x + self.norms[1](self.second(inner)))
        return result


def residual_network(residual: Residual, public: Tensor, seed: int, classes: int = CLASSES) -> ModuleNetwork:
    """Convolution, batch norm, activation, `ResidualBlock`, then the mean over positions (pooled) or none, then a fully
    connected layer; in evaluation mode, float64.

    PyTorch's default initialisation from this seed; running means and variances from images `public` (n, 3, h, w).
    """
    channels, activation = residual.channels, residual.activation
    stem = (nn.Conv2d(3, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), ACTIVATIONS[activation]())
    block = ResidualBlock(channels, activation)
    features = channels if residual.pooled else channels * public.shape[-2] * public.shape[-1]
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten()) if residual.pooled else (nn.Flatten(),)
    module = nn.Sequential(*stem, block, *head, nn.Linear(features, classes))
    default_start(module, torch.Generator().manual_seed(seed))
    module.double()
    for norm in module.modules():
        if isinstance(norm, nn.BatchNorm2d):
            norm.momentum = None  # a plain mean over what it has seen
    with torch.no_grad():
        module.train()(public.double())
    return ModuleNetwork(module.eval())


def imprinted(rows: list[int], bins: int, public: Tensor, context: Context) -> tuple[Record, Tensors]:
    """One batch, float32 as clients compute; and some images with what was read of them."""
    n, x, labels = len(rows), inputs(context.pool, rows), torch.from_numpy(context.pool.labels[rows]) % CLASSES
    flat = x.flatten(1).float()
    edges = edges_of(public.flatten(1).float(), bins)
    generator = named(context.seed, "limits.server", bins)
    v, c = torch.randn(CLASSES, generator=generator) / bins, 0.1 * torch.randn(CLASSES, generator=generator)
    server = Imprint(edges, v, c)
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
    """Images (n, d) within half a grey level of a row of an ordinary first layer's mean gradient over its bias."""
    first = nn.Linear(x.shape[1], width)
    network = nn.Sequential(first, nn.ReLU(), nn.Linear(width, CLASSES))
    default_start(network, named(context.seed, "limits.ordinary", width))
    found = torch.autograd.grad(F.cross_entropy(network(x), labels), [first.weight, first.bias])
    weight, bias = (each.double() for each in found)
    used = bias.abs() > EMPTY * bias.abs().max()
    rows = weight[used] / bias[used, None]  # eq. (4)
    return int((torch.cdist(rows, x.double(), p=float("inf")).amin(0) <= FOUND).sum())
