"""Appendix H: the last image of a linear model, in closed form, and what becomes of it where the knowledge is wrong."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from companion.chapters.all_but_one.informed_closed_form import Missing, missing_image
from companion.chapters.base import Context, Outcome, Tensors
from companion.store.record import Record
from recon.nets.mlp import affine
from recon.released import Weights
from recon.scoring.matching import nearest
from recon.training.inner_problem import Objective, solve_affine, with_ones


class Metrics(Record):
    """n_train: the largest n.

    rows: One loss and one n: every image was once the missing one. exact, single: from weights in float64, and
    rounded to float32 · nearest_known, nearest_other, mean: what costs nothing, mean distance of an image to its
    nearest known one, to the nearest that nobody trained on, and to the mean of the known.
    rows.exact: The closed form on weights of one precision, over all images. found: images of which every pixel is
    within half a grey level · labels: that come out right, rounded · worst_l2: distance to the image.
    """


@dataclass(frozen=True, kw_only=True)
class LinearSizes:
    """ns: numbers of training images, each of which is once the one that is missing · weight_decay: as in chapter 1."""

    ns: tuple[int, ...] = (40, 100, 200, 500)
    weight_decay: float = 1e-2


SIZES = {
    "smoke": LinearSizes(ns=(20, 40), weight_decay=1.0),  # rounding stays below what tests compare
    "laptop": LinearSizes(),
    "paper": LinearSizes(ns=(40, 100, 200, 500, 1000)),
}


HALF_A_LEVEL = 1 / 510
SHOWN = 8


def compute(sizes: LinearSizes, context: Context) -> Outcome[Metrics]:
    """Both losses at every n; the pictures are of the logistic loss at the largest."""
    rows: list[Record] = []
    arrays: Tensors = {}
    for n in sizes.ns:
        for loss in ("logistic", "mse"):
            row, pictures = closed(loss, n, sizes.weight_decay, context)
            rows.append(row)
            arrays = pictures if loss == "logistic" else arrays
    return Outcome(Metrics(n_train=rows[-1].n, rows=rows), arrays)


def closed(loss: str, n: int, weight_decay: float, context: Context) -> tuple[Record, Tensors]:
    """Every image in turn is the missing one.  The mean that is subtracted is that of other images: the training
    images' own mean, published, would give the last one away already."""
    data = context.dataset(n, n)
    mean = data.init.flat.double().mean(0)
    x, others, free = (part.flat.double() - mean for part in (data.train, data.held_out, data.init))
    y = data.train.y.double()
    theta = trained(loss, x, y, weight_decay)
    weights = Weights(affine(x.shape[1]), theta, weight_decay=weight_decay)
    rounded = weights.to(dtype=torch.float32)
    every = range(len(x))
    exact = [missing_image(weights, *without(x, y, t), loss) for t in every]
    single = [missing_image(rounded, *without(x, y, t), loss) for t in every]
    row = Record(
        loss=loss,
        n=len(x),
        exact=precision(exact, x, y),
        single=precision(single, x, y),
        nearest_known=nearest_known(x),
        nearest_other=nearest(x, torch.cat([others, free])).score.mean().item(),
        mean=((x - (x.sum(0) - x) / (len(x) - 1)).norm(dim=1)).mean().item(),
    )
    chosen = torch.linspace(0, len(x) - 1, SHOWN).round().long()
    known = x[[int(torch.cdist(x[t : t + 1], x)[0].topk(2, largest=False).indices[1]) for t in chosen]]
    wrong = stacked([missing_image(weights, *with_another(x, y, int(t), others), loss) for t in chosen])
    pictures = {"truth": x[chosen], "exact": stacked(exact)[chosen], "single": stacked(single)[chosen]}
    pictures |= {"wrong": wrong, "known": known}
    return row, {name: (rows + mean).float() for name, rows in pictures.items()}


def trained(loss: str, x: Tensor, y: Tensor, weight_decay: float) -> Tensor:
    """θ* (d + 1,) of the objective of chapter 1, exactly: by Newton's method, or of squared errors in closed form."""
    if loss == "logistic":
        return solve_affine(Objective(affine(x.shape[1]), y, weight_decay), x[None]).theta[0]
    x_bar = with_ones(x)
    kernel = x_bar @ x_bar.mT + len(x) * weight_decay * torch.eye(len(x), dtype=x.dtype)
    return x_bar.mT @ torch.linalg.solve(kernel, 2 * y - 1)


def without(x: Tensor, y: Tensor, t: int) -> tuple[Tensor, Tensor]:
    """What is known: all rows but this one."""
    return torch.cat([x[:t], x[t + 1 :]]), torch.cat([y[:t], y[t + 1 :]])


def with_another(x: Tensor, y: Tensor, t: int, others: Tensor) -> tuple[Tensor, Tensor]:
    """What somebody takes for known who is wrong about the first image, and believes another one in its place."""
    known, labels = without(x, y, t)
    known[0] = others[t % len(others)]
    return known, labels


def stacked(found: list[Missing]) -> Tensor:
    """Images (n, d)."""
    return torch.stack([each.x for each in found])


def precision(found: list[Missing], x: Tensor, y: Tensor) -> Record:
    """Against the truth."""
    off = stacked(found) - x
    labels = torch.tensor([each.label for each in found]).round()
    return Record(
        found=int((off.abs().amax(1) < HALF_A_LEVEL).sum()),
        labels=int((labels == y).sum()),
        worst_l2=off.norm(dim=1).max().item(),
    )


def nearest_known(x: Tensor) -> float:
    """Mean distance of an image to the nearest of the others."""
    distances = torch.cdist(x, x).fill_diagonal_(torch.inf)
    return distances.amin(1).mean().item()
