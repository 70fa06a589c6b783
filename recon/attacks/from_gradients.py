"""Attacks on gradients; see `recon.attacks.registry`. score: −‖s g(x̂) − g‖/‖g‖, unless it says
otherwise, with the best scale s. diagnostics: `scale`, s of every gradient, and `warning`, "" where
the images explain what came to rounding of the format in which it came.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recon.attacks.batches import FAINT, ModuleSystem
from recon.attacks.gauss_newton import gauss_newton, row_space
from recon.attacks.gradient_matching import (
    CHEN_DESCENT,
    COSINE_STEPS,
    DLG_STEPS,
    GEIPING_DESCENT,
    Descent,
    cosine_tv,
    dlg,
    hybrid,
)
from recon.attacks.gradient_system import (
    JointSystem,
    certain,
    relative_residual,
    scale_and_residual,
)
from recon.attacks.registry import (
    AnyGradient,
    Candidates,
    MaybeGenerator,
    Needs,
    Shape,
    convolutional_gradient,
    default_generator,
    register,
)
from recon.attacks.rgap import rgap
from recon.errors import ReconError, one_reason
from recon.nets.conv import ConvNet
from recon.released import Gradient

KNOWS = "the gradient, the weights and the label of every image"
CLOSED = "convolutions without bias, then dense"
UNEXPLAINED = (
    "The images leave {:.1e} of the gradient unexplained: the attack did not get there, or there is"
    " noise, another number of images, another label, batch norm in training mode, several steps. "
)
OPEN = "Rank lacks: other images nearby have this gradient. "
DISTINCT = "{} distinct images have this gradient. "
AT_BOUNDS = "{:.0%} of the entries lie at bounds: for images in another range set Descent.middle. "
OFTEN = 0.1


def _scored(
    gradient: AnyGradient,
    images: Tensor,
    about: Mapping[str, Any],
    knows: str = KNOWS,
    warning: str = "",
) -> Candidates:
    """Of images (n, *shape), all of one gradient, or one of each."""
    victims: list[Any] = [*gradient.split()]
    pairs = zip(victims, images.chunk(len(victims)), strict=True)
    fits = [scale_and_residual(victim, x) for victim, x in pairs]
    scale, off = torch.tensor(fits, device=images.device).mT
    worst = max(residual for _, residual in fits)
    if worst > certain(gradient):
        warning = UNEXPLAINED.format(worst) + warning
    score = -off.repeat_interleave(len(images) // len(victims))
    return Candidates(images, score, knows, {"scale": scale, "warning": warning, **about})


def _start(gradient: AnyGradient, shape: Shape, generator: MaybeGenerator) -> Tensor:
    """N(0, 1), (n, *shape)."""
    drawn = torch.randn(len(gradient.labels), *shape, generator=default_generator(generator))
    return drawn.to(next(iter(gradient.theta.values())))


@dataclass(frozen=True)
class RGAPSettings:
    """
    Attributes:
        noisy: whether a gradient is taken that is not of one image to rounding.
    """

    noisy: bool = False


@register(Needs("R-GAP", Gradient, "no", "no", "shape", f"{CLOSED}; invertible activation"))
def by_rgap(
    released: AnyGradient,
    shape_or_prior: Shape,
    settings: RGAPSettings | None = None,
    generator: MaybeGenerator = None,
) -> Candidates:
    """Layer by layer, the minimum-norm solution; see `recon.attacks.rgap`. Nothing is drawn."""
    gradient = convolutional_gradient(released, shape_or_prior)
    check = not (settings or RGAPSettings()).noisy
    images = torch.cat([rgap(victim, check) for victim in gradient.split()])
    return _scored(released, images, {}, "the gradient and the weights")


@dataclass(frozen=True)
class DLGSettings:
    """
    Attributes:
        steps: outer ones of L-BFGS.
    """

    steps: int = DLG_STEPS


@register(Needs("DLG", Gradient, "no", "needed", "shape", "any, smooth"))
def by_dlg(
    released: AnyGradient,
    shape_or_prior: Shape,
    settings: DLGSettings | None = None,
    generator: MaybeGenerator = None,
) -> Candidates:
    """Squared differences by L-BFGS from N(0, 1); see `recon.attacks.gradient_matching`."""
    images, history = dlg(
        released, _start(released, shape_or_prior, generator), (settings or DLGSettings()).steps
    )
    return _scored(released, images, {"history": history})


@dataclass(frozen=True)
class CosineSettings:
    """
    Attributes:
        steps.
        whole: one cosine of the whole gradient, or one for each tensor.
        descent.
        tv: weight of the total variation.
        deviation: of the starting images.
    """

    steps: int = COSINE_STEPS
    whole: bool = False
    descent: Descent = CHEN_DESCENT
    tv: float = 0.01
    deviation: float = 1.0


CHEN = CosineSettings()  # as Chen & Campbell (2022) run it
#: one cosine, steps along the sign, weight 1e-4, as the command line of Geiping et al. has them
#: (JonasGeiping/invertinggradients@1157b61c rec_mult.py:30, 37, inversefed/options.py:37), for
#: pixels in [−½, ½]: theirs are divided by 0.25, so that the weight acts four times. Other files
#: there have weights from 1e-6 to 1e-1
GEIPING = CosineSettings(COSINE_STEPS, True, GEIPING_DESCENT, 4e-4, deviation=0.25)


@register(Needs("CosineTV", Gradient, "no", "needed", "shape", "any"))
def by_cosine_tv(
    released: AnyGradient,
    shape_or_prior: Shape,
    settings: CosineSettings | None = None,
    generator: MaybeGenerator = None,
) -> Candidates:
    """Angles between gradients and total variation, by Adam from N(0, 1); see
    `recon.attacks.gradient_matching`.

    Args:
        settings: `CHEN`, the default, or `GEIPING`.
    """
    s = settings or CHEN
    start = s.deviation * _start(released, shape_or_prior, generator)
    result = cosine_tv(released, start, s.steps, whole=s.whole, descent=s.descent, tv=s.tv)
    images = result.x_hat.view_as(start)
    at_bounds = ((images - s.descent.middle).abs() >= 0.5).double().mean().item()
    warning = AT_BOUNDS.format(at_bounds) if s.descent.boxed and at_bounds > OFTEN else ""
    about = {"energy": result.energy, "history": result.history}
    return _scored(released, images, about, warning=warning)


@dataclass(frozen=True)
class HybridSettings:
    """
    Attributes:
        share: of the published steps.
        whole: one cosine of the whole gradient, or one for each tensor.
        descent.
        tv: factor of the published weights of the total variation.
        noisy: as in `RGAPSettings`.
    """

    share: float = 1.0
    whole: bool = False
    descent: Descent = CHEN_DESCENT
    tv: float = 1.0
    noisy: bool = False


@register(Needs("Hybrid", Gradient, "no", "needed", "shape", f"{CLOSED}; invertible activation"))
def by_hybrid(
    released: AnyGradient,
    shape_or_prior: Shape,
    settings: HybridSettings | None = None,
    generator: MaybeGenerator = None,
) -> Candidates:
    """R-GAP, improved layer by layer by gradient matching; see `recon.attacks.gradient_matching`.
    Nothing is drawn.
    """
    s = settings or HybridSettings()
    gradient = convolutional_gradient(released, shape_or_prior)
    images = hybrid(gradient, s.share, whole=s.whole, descent=s.descent, tv=s.tv, check=not s.noisy)
    return _scored(released, images, {})


STEPS, STEPS_OF_A_MODULE = 30, 40  # of Gauss–Newton, with closed forms and without
ALIKE = 1e-3  # largest difference of two solutions that count as one


@dataclass(frozen=True)
class GaussNewtonSettings:
    """
    Attributes:
        starts: initial images, where one solution says nothing of images far away.
    """

    starts: int = 3


@register(
    Needs(
        "Gauss–Newton",
        Gradient,
        "no",
        "needed",
        "shape",
        "any, small; convolutions without bias in closed form",
    )
)
def by_gauss_newton(
    released: AnyGradient,
    shape_or_prior: Shape,
    settings: GaussNewtonSettings | None = None,
    generator: MaybeGenerator = None,
) -> Candidates:
    """All equations of all layers at once; see `recon.attacks.gradient_system` for one image of a
    network that has closed forms, `recon.attacks.batches` for all else, from grey and from faint
    noise. In float64.

    diagnostics: of every gradient `energy`, of all iterations · `rank` of all layers together,
    `open` entries that are read and not fixed, and `condition` of what is · `solutions`, images (n,
    *shape) that explain it and differ in what is read, of all starts · `certificate`: "global"
    where every layer has full rank, so that no other image has the gradient; "local" where all
    layers together have it, so that no image *nearby* has it; "none" where rank lacks, or nothing
    explains the gradient.
    """
    steps = STEPS
    try:
        victims: list[Any] = convolutional_gradient(released, shape_or_prior).split()
        systems: list[Any] = [JointSystem.of(victim) for victim in victims]
    except ReconError:
        if isinstance(released.network, ConvNet):
            raise
        victims, steps = [released], STEPS_OF_A_MODULE
        systems = [ModuleSystem.of(victims[0], shape_or_prior)]
    x = systems[0].start
    starts = (settings or GaussNewtonSettings()).starts
    noise = torch.randn(starts, len(x), generator=default_generator(generator)).to(x)
    noise[0] = 0
    with one_reason("Gauss–Newton cannot solve for images of this network"):
        rows = [
            _solve(victim, system, shape_or_prior, steps, FAINT * noise)
            for victim, system in zip(victims, systems, strict=True)
        ]
    about = {key: [row[key] for row in rows] for key in rows[0]}
    images, warning = torch.cat(about.pop("images")), "".join(dict.fromkeys(about.pop("warning")))
    return _scored(released.to(torch.float64), images, about, warning=warning)


def _solve(
    gradient: AnyGradient, system: Any, shape: Shape, steps: int, noise: Tensor
) -> dict[str, Any]:
    """One gradient, from the system's own start with noise (starts, unknowns) on it."""
    device, single = gradient.labels.device, getattr(system, "depth", 1) == 0  # by layers
    moved = system.start + (noise[:1] if single else noise)
    runs = [gauss_newton(system, x, steps=steps) for x in moved]
    best, solutions = min(runs, key=lambda run: float(run.energy[-1])), list[Tensor]()
    read = values = torch.ones_like(best.x)
    if not single:
        jacobian = system.linear(best.x).jacobian
        read, values = jacobian.any(0), (jacobian @ row_space(jacobian)).norm(dim=0)
    lacking = int(read.sum()) - len(values)
    for run in runs:
        image = (run.x * read).view(-1, *shape).to(device)
        # images of a batch in any order
        apart = [torch.cdist(image.flatten(1), other.flatten(1), math.inf) for other in solutions]
        explained = relative_residual(gradient, image) <= certain(gradient)
        if explained and all(distance.amin(1).max() > ALIKE for distance in apart):
            solutions.append(image)
    count = len(solutions)
    return {
        "images": best.x.view(-1, *shape).to(device),
        "energy": best.energy.to(device),
        "rank": len(values),
        "open": lacking,
        "condition": float(values.max() / values.min()),
        "solutions": solutions,
        "certificate": ("none", "local", "global")[(count > 0 == lacking) * (1 + single)],
        "warning": OPEN * (lacking > 0) + DISTINCT.format(count) * (count > 1),
    }
