"""Chapter 8, the limits: separation against the number of images, the width of the network, and the pixels."""

from __future__ import annotations

from functools import partial

import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.packing import packed, unpacked
from companion.chapters.separation_common import is_true
from companion.chapters.weights_leak.attack import attacked
from companion.chapters.weights_leak.images import photograph_images
from companion.chapters.weights_leak.metrics import BySparsity, SizeCell, SizeMetrics
from companion.chapters.weights_leak.sizes import MapSizes
from recon.attacks.separation import FirstLayer, Separated
from recon.nets.mlp import three_layer
from recon.training.kkt import KKTSettings, train_to_kkt


def compute_size(sizes: MapSizes, context: Context) -> Outcome[SizeMetrics]:
    """The map over images and widths; then the same networks on images of fewer and of more pixels."""
    names = [f"cifar-{context.pool.shape[1]}-{n}-{width}" for width in sizes.widths for n in sizes.ns]
    widest = sizes.widths[-1]
    names += [f"cifar-{side}-{n}-{widest}" for side in sizes.sides for n in sizes.side_ns]
    names += [f"photographs-{side}-{sizes.photograph_n}-{widest}" for side in sizes.photograph_sides]
    found = context.sweep(partial(size_unit, sizes, context), names, "sizes")
    cells = [unpacked(found[name], SizeCell) for name in names]
    return Outcome(SizeMetrics(max(sizes.ns), cells), {"widths": torch.tensor(sizes.widths)})


def size_unit(sizes: MapSizes, context: Context, name: str) -> Tensors:
    """One cell, "SOURCE-SIDE-N-WIDTH": train to the KKT regime, separate, count."""
    source, *numbers = name.split("-")
    side, n, width = map(int, numbers)
    pool = source == "cifar"
    images = context.images(n).at_side(side) if pool else photograph_images(n, side, context.device)
    network = three_layer(width, images.dim)
    theta_init = network.flatten(network.init(context.stream("separation.weights"), "small")).to(images.train)
    trained = train_to_kkt(network, images.train, images.y, theta_init, KKTSettings(sizes.steps_per_image * n))
    w1 = network.unflatten(trained.theta_star)["w1"]
    found, table = attacked(images, FirstLayer(w1), context, sizes.attack)
    cell = SizeCell(
        **vars(table),
        source=source,
        side=side,
        pixels=side * side,
        n_train=len(images),
        width=width,
        log_loss=trained.log_loss,
        certainty=by_sparsity(found, is_true(found, images.train, images.init)),
    )
    return packed(cell, SizeCell)


def by_sparsity(found: Separated, true: Tensor) -> BySparsity:
    """How well sparsity alone tells true candidates (r,) from false ones."""
    both = bool(true.any() and not true.all())
    auc = float(roc_auc_score(true.cpu().numpy(), found.sparsity.cpu().numpy())) if both else None
    return BySparsity(len(true), int(true.sum()), auc)
