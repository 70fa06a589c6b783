"""Hypergradients at the paper's width: how the outer energy changes a step away, the inner problem solved again."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from recon.attacks.bilevel_span import SpanWeights, quasi_newton
from recon.chapters.base import Context, Outcome, Tensors
from recon.chapters.bilevel_hidden.compute_hypergradient import Case, _cases, _cosine
from recon.chapters.bilevel_hidden.metrics import Slope, SlopeMetrics, Slopes
from recon.chapters.bilevel_hidden.sizes import HypergradientSizes, Quotient, SlopeSizes
from recon.images.bundle import Bundle
from recon.nets.mlp import one_hidden
from recon.optim.lbfgs_in_place import InPlaceResult, InPlaceSettings
from recon.optim.subspace import Subspace


def compute_slopes(sizes: SlopeSizes, context: Context) -> Outcome[SlopeMetrics]:
    """Every width and weight decay by itself and stored at once; three starts of the images each."""
    images = _images(sizes, context)
    names = [f"{width} {decay}" for width in sizes.widths for decay in sizes.weight_decays]
    found = context.sweep(partial(slopes_unit, sizes, context), names, "networks")
    points = [_slopes(sizes, name, start, each[start]) for name, each in found.items() for start in each]
    metrics = SlopeMetrics(
        n_train=len(images.train), width=max(sizes.widths), directions=sizes.directions, points=points
    )
    return Outcome(metrics, {"train_index": images.train_index})


def slopes_unit(sizes: SlopeSizes, context: Context, name: str) -> Tensors:
    """Start of the images -> a row each for the quotients, then for what Gauss–Newton and the quasi-Newton matrix
    predict, along the former's own direction and along random ones (2 + quotients, 1 + directions)."""
    width, decay = name.split()
    images = _images(sizes, context)
    plan = HypergradientSizes(
        n_train=sizes.n_train,
        width=int(width),
        seeds=2,
        inner_iterations=sizes.inner_iterations,
        weight_decays=(float(decay),),
    )
    cases = _cases(plan, context, images, one_hidden(int(width), images.train.shape[1]))
    return {case.name.split(", ")[1]: measured_slopes(case, sizes, context.stream("hidden.start", 1)) for case in cases}


def measured_slopes(case: Case, sizes: SlopeSizes, generator: torch.Generator) -> Tensor:
    """One case's rows of `slopes_unit`; every direction has length 1."""
    basis, found = case.solved()
    newton = case.attack.energy_and_grad(case.x, basis, found)[1]
    quasi = replace(case.attack, inverse=quasi_newton).energy_and_grad(case.x, basis, found)[1]
    span = Subspace.spanned_by(case.x, case.star.basis)
    draws = torch.randn(sizes.directions, len(case.x), len(span), generator=generator, dtype=torch.float64)
    ways = [newton, *(span.lift(draw) for draw in draws)]
    ways = [way / way.norm() for way in ways]
    rows = [[_slope(case, basis, found, way, quotient) for way in ways] for quotient in sizes.quotients]
    predicted = [[(grad * way).sum().item() for way in ways] for grad in (newton, quasi)]
    return torch.tensor(rows + predicted, dtype=torch.float64)


def _slope(case: Case, basis: Tensor, found: InPlaceResult, way: Tensor, quotient: Quotient) -> float:
    """(l(x + h·way) − l(x − h·way)) / 2h, h a fraction of ‖x‖; L-BFGS goes on from θ(x) on either side."""
    h = quotient.step * case.x.norm()
    settings = InPlaceSettings(tol=1e-12, max_iter=quotient.iterations, history=20)
    here = SpanWeights(case.star.network, found.theta, basis)
    energies = []
    for moved in (case.x + h * way, case.x - h * way):
        there = case.attack.basis_of(moved)
        theta = case.attack.solved(moved, there, here.onto(there), settings).theta
        energies.append(SpanWeights(case.star.network, theta, there).distance(case.star))
    return ((energies[0] - energies[1]) / (2 * h)).item()


def _images(sizes: SlopeSizes, context: Context) -> Bundle:
    data = context.dataset(sizes.n_train, sizes.n_held_out)
    return Bundle.of(data, torch.device("cpu"), torch.float64, centred=False)


def _slopes(sizes: SlopeSizes, name: str, start: str, rows: Tensor) -> Slopes:
    """Cosines over the random directions, ratios along Gauss–Newton's own."""
    *measured, newton, quasi = rows
    width, decay = name.split()
    return Slopes(
        width=int(width),
        weight_decay=float(decay),
        start=start,
        repeated=_cosine(measured[0][1:], measured[1][1:]),
        quotients=[
            Slope(
                step=quotient.step,
                iterations=quotient.iterations,
                along=(slopes[0] / newton[0]).item(),
                gauss_newton=_cosine(newton[1:], slopes[1:]),
                quasi_newton=_cosine(quasi[1:], slopes[1:]),
            )
            for quotient, slopes in zip(sizes.quotients, measured, strict=True)
        ],
    )
