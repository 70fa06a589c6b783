"""The doors of attacks on gradients; see `recon.attacks.door`. score: −‖g(x̂) − g‖/‖g‖, unless it
says otherwise.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from recon.attacks.batches import ModuleSystem, by_hopping
from recon.attacks.door import AnyGradient, Candidates, Draws, Needs, Shape, by_layers, door, seeded
from recon.attacks.gauss_newton import gauss_newton
from recon.attacks.gradient_matching import (
    COSINE_STEPS,
    DLG_STEPS,
    GEIPINGS,
    PAPERS,
    Descent,
    cosine_tv,
    dlg,
    hybrid,
)
from recon.attacks.gradient_system import JointSystem, relative_residual
from recon.attacks.imprint import Imprint
from recon.attacks.rgap import rgap
from recon.errors import ReconError
from recon.nets.conv import ConvNet
from recon.nets.converted import Watched
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
        relative_residual(each, x)
        for each, x in zip(victims, images.chunk(len(victims)), strict=True)
    ]
    score = -torch.tensor(off, device=images.device).repeat_interleave(len(images) // len(victims))
    return Candidates(images, score, knows, about)


def _start(gradient: AnyGradient, shape: Shape, generator: Draws) -> Tensor:
    """N(0, 1), (n, *shape)."""
    drawn = torch.randn(len(gradient.labels), *shape, generator=seeded(generator))
    return drawn.to(next(iter(gradient.theta.values())))


@door(Needs("R-GAP", Gradient, "no", "no", "shape", f"{CLOSED}; invertible activation"))
def by_rgap(
    released: AnyGradient, shape_or_prior: Shape, settings: None = None, generator: Draws = None
) -> Candidates:
    """Layer by layer, the minimum-norm solution; see `recon.attacks.rgap`. Nothing is drawn,
    nothing to be set.
    """
    gradient = by_layers(released, shape_or_prior)
    images = torch.cat([rgap(each) for each in gradient.split()])
    return _scored(released, images, {}, "the gradient and the weights")


@dataclass(frozen=True)
class DLGSettings:
    """
    Attributes:
        steps: outer ones of L-BFGS.
    """

    steps: int = DLG_STEPS


@door(Needs("DLG", Gradient, "no", "needed", "shape", "any, smooth"))
def by_dlg(
    released: AnyGradient,
    shape_or_prior: Shape,
    settings: DLGSettings | None = None,
    generator: Draws = None,
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
    descent: Descent = PAPERS
    tv: float = 0.01
    deviation: float = 1.0


CHEN = CosineSettings()  # as Chen & Campbell (2022) run it
GEIPING = CosineSettings(whole=True, descent=GEIPINGS)  # as its authors do; pixels in [−½, ½]


@door(Needs("CosineTV", Gradient, "no", "needed", "shape", "any"))
def by_cosine_tv(
    released: AnyGradient,
    shape_or_prior: Shape,
    settings: CosineSettings | None = None,
    generator: Draws = None,
) -> Candidates:
    """Angles between gradients and total variation, by Adam from N(0, 1); see
    `recon.attacks.gradient_matching`.

    Args:
        settings: `CHEN`, the default, or `GEIPING`.
    """
    s = settings or CHEN
    start = s.deviation * _start(released, shape_or_prior, generator)
    found = cosine_tv(released, start, s.steps, whole=s.whole, descent=s.descent, tv=s.tv)
    return _scored(
        released, found.x_hat.view_as(start), {"energy": found.energy, "history": found.history}
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
    descent: Descent = PAPERS
    tv: float = 1.0


@door(Needs("Hybrid", Gradient, "no", "needed", "shape", f"{CLOSED}; invertible activation"))
def by_hybrid(
    released: AnyGradient,
    shape_or_prior: Shape,
    settings: HybridSettings | None = None,
    generator: Draws = None,
) -> Candidates:
    """R-GAP, improved layer by layer by gradient matching; see `recon.attacks.gradient_matching`.
    Nothing is drawn.
    """
    s = settings or HybridSettings()
    gradient = by_layers(released, shape_or_prior)
    images = hybrid(gradient, s.share, whole=s.whole, descent=s.descent, tv=s.tv)
    return _scored(released, images, {})


@dataclass(frozen=True)
class GaussNewtonSettings:
    """
    Attributes:
        hops: restarts with noise, of modules without closed forms.
    """

    hops: int = 0


@door(
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
    generator: Draws = None,
) -> Candidates:
    """All equations of all layers at once; see `recon.attacks.gradient_system` for one image of a
    network that has closed forms, `recon.attacks.batches` for all else, from faint noise. In
    float64.
    """
    try:
        systems = [JointSystem.of(each) for each in by_layers(released, shape_or_prior).split()]
    except ReconError:
        if isinstance(released.network, ConvNet):
            raise
        seed = int(torch.randint(2**31, (), generator=seeded(generator)))
        system = ModuleSystem.of(cast(Gradient[ModuleNetwork], released), shape_or_prior, seed)
        solved = [by_hopping(system, (settings or GaussNewtonSettings()).hops)]
    else:
        solved = [gauss_newton(system) for system in systems]
    device = released.labels.device
    images = torch.cat([each.x for each in solved]).view(-1, *shape_or_prior).to(device)
    energies = [each.energy.to(device) for each in solved]
    return _scored(released.to(torch.float64), images, {"energy": energies})


@dataclass(frozen=True)
class ImprintSettings:
    """
    Attributes:
        n: images in the batch; None for as many as there are labels.
    """

    n: int | None = None


@door(
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
    settings: ImprintSettings | None = None,
    generator: Draws = None,
) -> Candidates:
    """A batch read off a first layer that was made for it; see `recon.attacks.imprint`. Nothing is
    drawn. score: 1 for what is one image for certain, 0 for a mixture. ReconError for a layer that
    was not made so.
    """
    if not isinstance(released.network, ModuleNetwork):
        raise ReconError(
            "imprint reads a network of two dense layers that the adversary made, not a ConvNet"
        )
    names = _two_dense(released.network, shape_or_prior)
    theta = {own: released.theta[name] for own, name in names.items()}
    dim = math.prod(shape_or_prior)
    made = torch.allclose(theta["w1"], torch.full_like(theta["w1"], 1 / dim))
    if not (made and torch.equal(theta["w2"], theta["w2"][:, :1].expand_as(theta["w2"]))):
        raise ReconError(
            "the first layer is not made of brightness in bins, with one column behind every unit"
        )
    server = Imprint(-theta["b1"], theta["w2"][:, 0], theta["b2"])
    gradient = {own: released.gradients[name][0] for own, name in names.items()}
    found = server.read(gradient, (settings or ImprintSettings()).n or len(released.labels))
    knows = "the mean gradient, weights of their own making and the number of images"
    return Candidates(
        found.images.view(-1, *shape_or_prior), found.alone.double(), knows, {"alone": found.alone}
    )


def _two_dense(network: ModuleNetwork, shape: Shape) -> dict[str, str]:
    seen = Watched.of(network, shape)
    dense = [
        each.name
        for each in seen.layers
        if isinstance(each.module, nn.Linear) and each.module.bias is not None
    ]
    if len(dense) != 2 or len(seen.layers) != 2:
        raise ReconError(f"imprint reads two dense layers with biases: it has {seen.parts}")
    return {
        f"{kind[0]}{k}": f"{stem}.{kind}"
        for k, stem in enumerate(dense, 1)
        for kind in ("weight", "bias")
    }
