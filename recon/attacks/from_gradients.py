"""Attacks on gradients; see `recon.attacks.registry`. score: −‖s g(x̂) − g‖/‖g‖, unless it says
otherwise, with the best scale s. diagnostics: `scale`, s of every gradient, and `warning`, "" where
the images explain what came to rounding of the format in which it came.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recon.attacks.batches import FAINT, ModuleSystem
from recon.attacks.gauss_newton import Determined, gauss_newton
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
    CERTAIN,
    JointSystem,
    relative_residual,
    scale_and_residual,
)
from recon.attacks.imprint import Imprint
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
from recon.nets.converted import as_mlp
from recon.nets.module import ModuleNetwork
from recon.released import Gradient, rounding

KNOWS = "the gradient, the weights and the label of every image"
CLOSED = "convolutions without bias, then dense"
UNEXPLAINED = (
    "the images leave {:.1e} of the gradient unexplained: the attack did not get there, or there is"
    " noise, another number of images, another label, batch norm in training mode, several steps"
)
AT_BOUNDS = "{:.0%} of the entries lie at bounds: for images in another range set Descent.middle"
OFTEN = 0.1


def _scored(
    gradient: AnyGradient,
    images: Tensor,
    about: Mapping[str, Any],
    knows: str = KNOWS,
    notes: Sequence[str] = (),
) -> Candidates:
    """Of images (n, *shape), all of one gradient, or one of each."""
    victims: list[Any] = [*gradient.split()]
    pairs = zip(victims, images.chunk(len(victims)), strict=True)
    fits = [scale_and_residual(victim, x) for victim, x in pairs]
    scale, off = torch.tensor(fits, device=images.device).mT
    if off.max() > max(CERTAIN, rounding(gradient.gradients)):
        notes = [UNEXPLAINED.format(off.max()), *notes]
    score = -off.repeat_interleave(len(images) // len(victims))
    warning = "; ".join(dict.fromkeys(filter(None, notes)))
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
    """

    steps: int = COSINE_STEPS
    whole: bool = False
    descent: Descent = CHEN_DESCENT
    tv: float = 0.01


CHEN = CosineSettings()  # as Chen & Campbell (2022) run it
GEIPING = CosineSettings(
    whole=True, descent=GEIPING_DESCENT
)  # as its authors do; pixels in [−½, ½]


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
    start = _start(released, shape_or_prior, generator)
    result = cosine_tv(released, start, s.steps, whole=s.whole, descent=s.descent, tv=s.tv)
    images = result.x_hat.view_as(start)
    outside = ((images - s.descent.middle).abs() >= 0.5).double().mean()
    notes = [AT_BOUNDS.format(outside)] if s.descent.boxed and outside > OFTEN else []
    about = {"energy": result.energy, "history": result.history}
    return _scored(released, images, about, notes=notes)


@dataclass(frozen=True)
class HybridSettings:
    """
    Attributes:
        share: of the published steps.
        noisy: as in `RGAPSettings`.
    """

    share: float = 1.0
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
    return _scored(released, hybrid(gradient, s.share, check=not s.noisy), {})


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

    diagnostics: of every gradient the energies of its best run, and what `Solutions` says.
    """
    settings, drawn = settings or GaussNewtonSettings(), default_generator(generator)
    victims: list[Any]
    try:
        victims = convolutional_gradient(released, shape_or_prior).split()
        systems: list[Any] = [JointSystem.of(victim) for victim in victims]
        steps = STEPS
    except ReconError:
        if isinstance(released.network, ConvNet):
            raise
        seed = int(torch.randint(2**31, (), generator=drawn))
        victims, steps = [released], STEPS_OF_A_MODULE
        systems = [ModuleSystem.of(victims[0], shape_or_prior, seed)]
    with one_reason("Gauss–Newton cannot solve for images of this network"):
        runs = [
            Solutions.of(victim, system, shape_or_prior, steps, settings.starts, drawn)
            for victim, system in zip(victims, systems, strict=True)
        ]
    device = released.labels.device
    about = {
        "energy": [run.energy.to(device) for run in runs],
        "certificate": [run.certificate for run in runs],
        "determined": [run.determined for run in runs],
        "solutions": [run.distinct for run in runs],
    }
    images = torch.cat([run.images for run in runs]).to(device)
    return _scored(released.to(torch.float64), images, about, notes=[run.note for run in runs])


@dataclass(frozen=True)
class Solutions:
    """What several initial images led to, by one gradient.

    Attributes:
        images (n, *shape): of the least energy.
        energy: of every iteration there.
        determined: the rank there, and its condition.
        certificate: "global" where every layer has full rank, so that no other image has the
            gradient; "local" where all layers together have it, so that no image *nearby* has it;
            "none" where rank lacks, or the images do not explain the gradient.
        distinct (k, n, *shape): solutions that differ in what the network reads.
    """

    images: Tensor
    energy: Tensor
    determined: Determined
    certificate: str
    distinct: list[Tensor]

    @staticmethod
    def of(
        gradient: AnyGradient,
        system: Any,
        shape: Shape,
        steps: int,
        starts: int,
        generator: torch.Generator,
    ) -> Solutions:
        """From the system's own start, and with faint noise on it."""
        single = getattr(system, "depth", 1) == 0  # solved layer by layer
        x, runs = system.start, []
        for k in range(1 if single else starts):
            noise = FAINT * torch.randn(len(x), generator=generator, dtype=x.dtype)
            runs.append(gauss_newton(system, x + noise.to(x) if k else x, steps=steps))
        runs.sort(key=lambda run: run.energy[-1].item())
        here = Determined.of(system.linear(runs[0].x).jacobian)
        close, distinct = max(CERTAIN, rounding(gradient.gradients)), []
        for run in runs:
            image = (run.x * ~here.unread).view(-1, *shape)
            apart = [
                torch.cdist(image.flatten(1), other.flatten(1), p=math.inf).amin(1).max() > ALIKE
                for other in distinct
            ]
            if relative_residual(gradient, run.x.view(-1, *shape)) <= close and all(apart):
                distinct.append(image)
        certified = "global" if single else "local"
        return Solutions(
            runs[0].x.view(-1, *shape),
            runs[0].energy,
            here,
            certified if distinct and here.whole else "none",
            distinct,
        )

    @property
    def note(self) -> str:
        """What a reader must know."""
        if len(self.distinct) > 1:
            return f"{len(self.distinct)} distinct images have this gradient"
        return "" if self.determined.whole else "rank lacks: other images nearby have this gradient"


@register(
    Needs(
        "Imprint",
        Gradient,
        "no",
        "their number",
        "shape",
        "as the adversary made them: brightness in bins first",
    )
)
def by_imprint(
    released: AnyGradient,
    shape_or_prior: Shape,
    settings: None = None,
    generator: MaybeGenerator = None,
) -> Candidates:
    """A batch read off a first layer that was made for it; see `recon.attacks.imprint`. Nothing is
    drawn, nothing to be set. score: 1 for what is one image for certain, 0 for a mixture.
    ReconError for a layer that was not made so.
    """
    if not isinstance(released.network, ModuleNetwork):
        raise ReconError(
            "imprint reads a network of two dense layers that the adversary made, not a ConvNet"
        )
    dense, names = as_mlp(released.network, shape_or_prior)
    if dense.bias != (True, True):
        raise ReconError("imprint reads a network of two dense layers with biases")
    theta = {ours: released.theta[name] for ours, name in names.items()}
    dim = math.prod(shape_or_prior)
    made = torch.allclose(theta["w1"], torch.full_like(theta["w1"], 1 / dim))
    if not (made and torch.equal(theta["w2"], theta["w2"][:, :1].expand_as(theta["w2"]))):
        raise ReconError(
            "the first layer is not made of brightness in bins, with one column behind every unit"
        )
    server = Imprint(-theta["b1"], theta["w2"][:, 0], theta["b2"])
    gradient = {ours: released.gradients[name][0] for ours, name in names.items()}
    reading = server.read(gradient, len(released.labels))
    knows = "the mean gradient, weights of their own making and the number of images"
    return Candidates(
        reading.images.view(-1, *shape_or_prior),
        reading.alone.double(),
        knows,
        {"alone": reading.alone},
    )
