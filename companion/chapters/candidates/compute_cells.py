"""How far pairs go within one cell: small images, networks wider than the images have pixels, a linear program each."""

from __future__ import annotations

import torch
from torch import Tensor

from companion.chapters.base import Context
from companion.chapters.candidates.metrics import CellRow
from companion.chapters.candidates.names import STARTS
from companion.chapters.candidates.null_directions import farthest_in_cell, room
from companion.chapters.candidates.sizes import SetSizes
from recon.images.bundle import Bundle
from recon.nets.mlp import MLP, three_layer
from recon.optim.rng import named
from recon.scoring.metrics import ncc
from recon.training.kkt import KKTSettings, train_to_kkt
from recon.training.weight_decay import DecaySettings, train_with_decay


def cell_rows(sizes: SetSizes, context: Context) -> list[CellRow]:
    """One network a width and a start."""
    images = context.images(sizes.cell_n).at_side(sizes.cell_side)
    return [_cell_row(start, width, images, sizes, context) for start in STARTS for width in sizes.cell_widths]


def _cell_row(start: str, width: int, images: Bundle, sizes: SetSizes, context: Context) -> CellRow:
    network = three_layer(width, images.dim)
    theta = network.unflatten(_trained(network, start, images, sizes.cell_steps, context).double())
    x = images.train.double()
    reach = room((x + images.mean.double()).clamp(0, 1))
    drawn = 2 * torch.randint(2, x.shape, generator=named(context.seed, "candidates.cell")) - 1
    tried = range(0, len(x), max(len(x) // sizes.cell_images, 1))
    found = [farthest_in_cell(network, theta, x[i], reach[i], drawn[i] * reach[i]) for i in tried]
    shares = [(v.norm() / reach[i].norm()).item() for i, v in zip(tried, found, strict=True)]
    alike = [ncc((x[i] + v)[None], x[i][None]).item() for i, v in zip(tried, found, strict=True)]
    medians = (torch.tensor(values).median().item() for values in (shares, alike))
    return CellRow(start, width, images.dim, len(x), *medians)


def _trained(network: MLP, start: str, images: Bundle, steps: int, context: Context) -> Tensor:
    scheme = "small" if start == "small" else "default"
    theta_init = network.flatten(network.init(context.stream("kkt.weights", 1), scheme))
    if start.endswith("decay"):
        return train_with_decay(network, images.train, images.y, theta_init, DecaySettings(steps=steps)).theta_star
    return train_to_kkt(network, images.train, images.y, theta_init, KKTSettings(steps)).theta_star
