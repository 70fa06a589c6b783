"""Attacks on gradients; see `recon.attacks.registry`. score: −‖g(x̂) − g‖/‖g‖, unless it says
otherwise.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from recon.attacks.batches import ModuleSystem
from recon.attacks.gauss_newton import gauss_newton
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
from recon.attacks.gradient_system import JointSystem, relative_residual
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
from recon.errors import ReconError
from recon.nets.conv import ConvNet
from recon.nets.converted import as_mlp
from recon.nets.module import ModuleNetwork
from recon.released import Gradient

KNOWS = "the gradient, the weights and the label of every image"
CLOSED = "convolutions without bias, then dense"


def _scored(
    gradient: AnyGradient, images: Tensor, about: Mapping[str, Any], knows: str = KNOWS
) -> Candidates:
    """Of images (n, *shape), all of one gradient, or one of each."""
    victims: list[Any] = [*gradient.split()]
    off = [
        relative_residual(victim, x)
        for victim, x in zip(victims, images.chunk(len(victims)), strict=True)
    ]
    score = -torch.tensor(off, device=images.device).repeat_interleave(len(images) // len(victims))
    return Candidates(images, score, knows, about)


def _start(gradient: AnyGradient, shape: Shape, generator: MaybeGenerator) -> Tensor:
    """N(0, 1), (n, *shape)."""
    drawn = torch.randn(len(gradient.labels), *shape, generator=default_generator(generator))
    return drawn.to(next(iter(gradient.theta.values())))


@register(Needs("R-GAP", Gradient, "no", "no", "shape", f"{CLOSED}; invertible activation"))
def by_rgap(
    released: AnyGradient,
    shape_or_prior: Shape,
    settings: None = None,
    generator: MaybeGenerator = None,
) -> Candidates:
    """Layer by layer, the minimum-norm solution; see `recon.attacks.rgap`. Nothing is drawn,
    nothing to be set.
    """
    gradient = convolutional_gradient(released, shape_or_prior)
    images = torch.cat([rgap(victim) for victim in gradient.split()])
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
    return _scored(
        released, result.x_hat.view_as(start), {"energy": result.energy, "history": result.history}
    )


@dataclass(frozen=True)
class HybridSettings:
    """
    Attributes:
        share: of the published steps.
        whole: one cosine of the whole gradient, or one for each tensor.
        descent.
        tv: factor of the published weights of the total variation.
    """

    share: float = 1.0
    whole: bool = False
    descent: Descent = CHEN_DESCENT
    tv: float = 1.0


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
    gradient = convolutional_gradient(released, shape_or_prior)
    return _scored(released, hybrid(gradient, **vars(settings or HybridSettings())), {})


STEPS, STEPS_OF_A_MODULE = 30, 40  # of Gauss–Newton, with closed forms and without


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
    settings: None = None,
    generator: MaybeGenerator = None,
) -> Candidates:
    """All equations of all layers at once; see `recon.attacks.gradient_system` for one image of a
    network that has closed forms, `recon.attacks.batches` for all else, from faint noise. In
    float64; nothing to be set.
    """
    try:
        victims = convolutional_gradient(released, shape_or_prior).split()
        systems: list[Any] = [JointSystem.of(victim) for victim in victims]
        steps = STEPS
    except ReconError:
        if isinstance(released.network, ConvNet):
            raise
        seed = int(torch.randint(2**31, (), generator=default_generator(generator)))
        module = cast(Gradient[ModuleNetwork], released)
        systems, steps = [ModuleSystem.of(module, shape_or_prior, seed)], STEPS_OF_A_MODULE
    solved = [gauss_newton(system, steps=steps) for system in systems]
    device = released.labels.device
    images = torch.cat([solution.x for solution in solved]).view(-1, *shape_or_prior).to(device)
    energies = [solution.energy.to(device) for solution in solved]
    return _scored(released.to(torch.float64), images, {"energy": energies})


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
