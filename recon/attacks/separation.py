"""Training images out of a first layer by blind source separation: its rows are mixtures, and
photographs unmix.

Every gradient step adds to the first layer a combination of the images, and weight decay shrinks
the start to a share κ, so a trained layer is W1 − κ W1(0) = A X, with training images X (n, d) as
rows and unknown coefficients A (h, n). Neither factor is known: any invertible M gives another pair
A M, M⁻¹ X. Independent component analysis picks one. If the sources are independent and at most one
is Gaussian they are unique up to order, sign and scale (Comon 1994; Eriksson & Koivunen 2004).
Pixels of photographs depend on each other, but their differences between neighbours are sparse and
nearly independent from one photograph to the next; a mixture of many is nearly Gaussian. So look
for the rotation that makes the differences sparse:

    min_B Σ_k Σ_p (‖∇s_k(p)‖² + ε)^q,    s = B V,  with  ⟨∇s_j, ∇s_k⟩ = δ_jk · N,

where V (r, d) are right singular vectors of W1, ∇ takes horizontal and vertical differences in
every colour, and ‖·‖ is over colours and directions at one pixel p, whose edges coincide
(independent vector analysis: Kim, Eltoft & Lee 2006). Each rotation step is the fixed point of
FastICA (Hyvärinen 1999) for this contrast.

What makes it work for many images is *where* it looks: first in the few strongest directions, then
in more and more of them, every stage beginning at what the one before has found. At once in all of
them it finds spurious sparse mixtures, the overlearning of Särelä & Vigário (2003): there are too
few pixels for so many unknowns.

The attack sees `FirstLayer` and the images' shape. No label, no pixel value, no true image and no
number of images.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize
from tqdm import tqdm

from recon.errors import ReconError
from recon.nets.network import Shape
from recon.optim.spectrum import right_singular, signal_rank, signal_span
from recon.released import Weights


@dataclass(frozen=True)
class FirstLayer:
    """All that the adversary is given: ReconError unless both are finite matrices of one shape that
    are not empty.

    Attributes:
        w1 (h, d), the first layer.
        w1_init (h, d): its start, where that is known.
    """

    w1: Tensor
    w1_init: Tensor | None = None

    def __post_init__(self) -> None:
        layers = [self.w1] if self.w1_init is None else [self.w1, self.w1_init]
        if self.w1.dim() != 2 or layers[-1].shape != self.w1.shape:
            shapes = " and ".join(str(tuple(tensor.shape)) for tensor in layers)
            raise ReconError(
                f"the first layer and its start must be matrices of one shape, not {shapes}"
            )
        if not self.w1.numel():
            raise ReconError("the first layer is empty")
        if not all(torch.isfinite(tensor.float()).all() for tensor in layers):
            raise ReconError("the first layer holds numbers that are not finite")

    @staticmethod
    def of(weights: Weights[Any], name: str = "w1") -> FirstLayer:
        """The weight of this name of θ* and, where it is known, of θ⁰."""
        init = weights.params_init
        return FirstLayer(weights.params[name], None if init is None else init[name])

    @property
    def update(self) -> Tensor:
        """W1 − κ W1(0) (h, d), κ by `start_left`; W1 itself where the start is not known."""
        return (
            self.w1
            if self.w1_init is None
            else self.w1 - start_left(self.w1, self.w1_init) * self.w1_init
        )


def start_left(w1: Tensor, w1_init: Tensor) -> float:
    """κ: how much of its start (h, d) is still in the layer (h, d); 1 without weight decay, about
    e^(−Σ lr · decay). First ⟨W1, W1(0)⟩ / ‖W1(0)‖²; then the same outside the span of W1 − κ W1(0),
    where the images have added nothing. The first alone for a start within that span; ReconError
    for one of zeros, of which nothing can be left.
    """
    if not w1_init.any():
        raise ReconError("the start of the layer is zero: leave it out")
    w1, w1_init = w1.double(), w1_init.double()  # for squares of any scale
    kappa = (w1 * w1_init).sum() / w1_init.square().sum()
    values, directions = right_singular(w1 - kappa * w1_init)
    span = directions[: signal_rank(values, w1.shape)]
    outside, start = (x - (x @ span.mT) @ span for x in (w1, w1_init))
    if start.norm() < 1e-4 * w1_init.norm():
        return kappa.item()
    return ((outside * start).sum() / start.square().sum()).item()


@dataclass(frozen=True)
class SeparationSettings:
    """Tuned on networks trained on other images than any that are reported:
    benchmarks/separation_tuning.py.

    Attributes:
        rank: directions searched in the end, by default those that stand out of the spectrum
            (`signal_span`).
        first_rank, growth: of the stages, each `growth` times the one before; first_rank None for
            one stage.
        iterations: of a stage, at most (twice as many in the first).
        exponent q, floor ε: of the contrast, for unit mean square.
        restarts: from other rotations; the one with the lowest contrast is the answer, the others
            measure its stability.
    """

    rank: int | None = None
    first_rank: int | None = 20
    growth: float = 1.1
    iterations: int = 60
    exponent: float = 0.1
    floor: float = 0.05
    restarts: int = 1
    tol: float = 1e-4

    def __post_init__(self) -> None:
        ranks = [rank for rank in (self.rank, self.first_rank) if rank is not None]
        positive = (
            self.growth - 1,
            self.iterations,
            self.exponent,
            self.floor,
            self.restarts,
            *ranks,
        )
        if not all(number > 0 for number in positive):
            raise ReconError(
                "growth must be above 1; iterations, exponent, floor, restarts and ranks positive"
            )


@dataclass(frozen=True)
class Separated:
    """r sources, most contributing first, each with both signs.

    Attributes:
        x_hat (2r, d): the sources, root mean square `PIXEL_STD`, then the same negated, since a
            mixture does not tell the sign.
        mixing (h, r): W1 − W1(0) ≈ mixing @ x_hat[:r].
        basis (r, d): orthonormal, the span searched.
        sparsity (r,): minus the contrast, larger is sparser.
        stability (r,) in [0, 1]: mean over the other restarts of the largest |cos| with a source
            there, NaN for one restart.
        share (r,): ‖a_k‖ ‖x_k‖ / ‖W1 − W1(0)‖.
        contrast (restarts,): mean over the sources.
    """

    x_hat: Tensor
    mixing: Tensor
    basis: Tensor
    sparsity: Tensor
    stability: Tensor
    share: Tensor
    contrast: Tensor

    @property
    def sources(self) -> Tensor:
        """x_hat's first half (r, d): every source once."""
        return self.x_hat[: len(self.basis)]


# of photographs minus their mean, roughly: only the scale of what is shown depends on it
PIXEL_STD = 0.25
FLAT = 1e-4  # norm of all the derivatives of a unit vector, below which it is a constant in float32


def separate(
    weights: FirstLayer,
    shape: Shape,
    settings: SeparationSettings | None = None,
    generator: torch.Generator | None = None,
) -> Separated:
    """The attack: sources of the first layer for images of `shape`, (C, H, W), or (d,) for data
    that are no images. An empty result where nothing stands out of the spectrum. ReconError for a
    shape that does not have d numbers.

    Args:
        generator: of the starting rotations, default seed 0.
    """
    settings = settings or SeparationSettings()
    update = weights.update.detach().float()
    if min(shape, default=0) < 1 or torch.Size(shape).numel() != update.shape[1]:
        raise ReconError(f"images of shape {tuple(shape)} do not make {update.shape[1]} inputs")
    basis = drop_constants(signal_span(update)[: settings.rank], update, shape)
    if not len(basis):
        images, numbers = update[:0], update.new_empty(0)
        contrast = update.new_full((settings.restarts,), torch.nan)
        return Separated(images, update[:, :0], images, numbers, numbers, numbers, contrast)
    generator = generator or torch.Generator().manual_seed(0)
    sources, contrast = unmix(basis, shape, settings, generator)
    best = int(contrast.mean(1).argmin())
    x = normalize(sources[best], dim=1) * PIXEL_STD * update.shape[1] ** 0.5
    mixing = update @ torch.linalg.pinv(x)
    # squares of any scale
    share = (mixing.double().norm(dim=0) * x.norm(dim=1) / update.double().norm()).float()
    order = share.argsort(descending=True)
    return Separated(
        torch.cat([x[order], -x[order]]),
        mixing[:, order],
        basis,
        -contrast[best, order],
        stability(sources, best)[order],
        share[order],
        contrast.mean(1),
    )


def derivatives(x: Tensor, shape: Shape) -> Tensor:
    """Forward differences ∇x (m, 2C, P) of images x (m, d), horizontal then vertical, at the P =
    (H−1)(W−1) pixels that have both neighbours; for a shape (d,) the numbers themselves, (m, 1, d).

    >>> derivatives(torch.arange(4.0)[None], (1, 2, 2)).flatten().tolist()
    [1.0, 2.0]
    """
    if len(shape) != 3 or min(shape[1:]) < 2:
        return x[:, None]
    images = x.unflatten(-1, shape)
    horizontal = images[..., :-1, 1:] - images[..., :-1, :-1]
    vertical = images[..., 1:, :-1] - images[..., :-1, :-1]
    return torch.cat([horizontal, vertical], dim=-3).flatten(-2)


def drop_constants(basis: Tensor, update: Tensor, shape: Shape) -> Tensor:
    """`basis` (r, d) without the directions that are one constant over the image, strongest in
    `update` (h, d) first. They have no derivatives to make sparse, and whitening would blow them up
    until every source is one of them. An image that is constant is therefore not found, and the
    others are found minus a constant.
    """
    flat = derivatives(basis, shape).flatten(1).double()
    values, vectors = torch.linalg.eigh(flat @ flat.mT)
    uneven = vectors[:, values > FLAT**2].to(basis)
    if uneven.shape[1] == len(basis):
        return basis
    part = uneven.mT @ basis
    return torch.linalg.svd(update @ part.mT, full_matrices=False).Vh @ part


def unmix(
    basis: Tensor, shape: Shape, settings: SeparationSettings, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Sources (restarts, r, d) in the span of `basis` (r, d), strongest direction first, and the
    contrast of each.
    """
    ranks = stages(len(basis), settings)
    w = torch.randn(settings.restarts, ranks[0], ranks[0], generator=generator).to(basis)
    w = orthogonalise(w)
    sources = basis.new_empty(settings.restarts, 0, basis.shape[1])
    contrast = basis.new_empty(settings.restarts, 0)
    for k, rank in enumerate(tqdm(ranks, desc="separating", leave=False, disable=None)):
        part = basis[:rank]
        whitening, z = whiten(part, shape)
        if k:
            w = extend(sources @ (part.mT @ torch.linalg.inv(whitening)), generator)
        w, contrast = rotate(w, z, settings, settings.iterations * (1 if k else 2))
        sources = w @ (whitening @ part)
    return sources, contrast


def stages(rank: int, settings: SeparationSettings) -> list[int]:
    """Numbers of directions searched, one after the other.

    >>> stages(30, SeparationSettings(first_rank=20, growth=1.2))
    [20, 24, 28, 30]
    """
    ranks, size = [], float(settings.first_rank or rank)
    while size < rank:
        ranks.append(int(size))
        size = max(size * settings.growth, size + 1)
    return [*ranks, rank]


def whiten(basis: Tensor, shape: Shape) -> tuple[Tensor, Tensor]:
    """K (r, r) and the derivatives z = ∇(K basis) (r, 2C, P) with (1/N) z zᵀ = 1, N = 2C·P."""
    z = derivatives(basis, shape)
    flat = z.flatten(1).double()
    whitening = inverse_root(flat @ flat.mT / flat.shape[1]).to(basis.dtype)
    return whitening, (whitening @ z.flatten(1)).view_as(z)


def rotate(
    w: Tensor, z: Tensor, settings: SeparationSettings, iterations: int
) -> tuple[Tensor, Tensor]:
    """Rows w (S, r, r), orthonormal, after at most `iterations` fixed-point steps, and their
    contrasts (S, r). With s = w z, e(p) = Σ_c s_c(p)² over the G = 2C numbers at pixel p, and g(e)
    = q (e + ε)^(q−1): w ← E[g s z] − E[g + 2 g' e / G] w, then orthogonalised symmetrically, w ← (w
    wᵀ)^(−½) w.
    """
    group, q, eps = z.shape[1], settings.exponent, settings.floor
    flat = z.flatten(1)
    for k in range(iterations):
        s = (w @ flat).unflatten(-1, z.shape[1:])
        energy = s.square().sum(-2) + eps
        g = q * energy.pow(q - 1)
        curvature = (g + 2 * (q - 1) * g / energy * (energy - eps) / group).mean(-1)
        pull = (g.unsqueeze(-2) * s).flatten(-2) @ flat.mT / flat.shape[1]
        moved = orthogonalise(pull - curvature[..., None] * w)
        change, w = (1 - (moved * w).sum(-1).abs()).abs(), moved
        if k % 5 == 4 and change.max() < settings.tol:
            break
    energy = (w @ flat).unflatten(-1, z.shape[1:]).square().sum(-2) + eps
    return w, energy.pow(q).mean(-1)


def orthogonalise(w: Tensor) -> Tensor:
    """(w wᵀ)^(−½) w: the orthogonal matrix nearest to w (..., r, r)."""
    return inverse_root((w @ w.mT).double()).to(w.dtype) @ w


def inverse_root(square: Tensor) -> Tensor:
    """M^(−½) of symmetric M (..., r, r), with eigenvalues at least 1e-12 of the largest."""
    values, vectors = torch.linalg.eigh(square)
    roots = values.clamp_min(1e-12 * values[..., -1:]).rsqrt()
    return (vectors * roots.unsqueeze(-2)) @ vectors.mT


def extend(w: Tensor, generator: torch.Generator) -> Tensor:
    """Orthonormal rows (S, r, r) that begin with those nearest to w (S, k, r), k ≤ r, and go on at
    random.
    """
    w = normalize(w, dim=-1)
    missing = w.shape[-1] - w.shape[-2]
    if missing:
        more = torch.randn(len(w), w.shape[-1], missing, generator=generator).to(w)
        full = torch.linalg.qr(torch.cat([w.mT, more], dim=-1)).Q
        w = torch.cat([w, full[..., -missing:].mT], dim=-2)
    return orthogonalise(w)


def stability(sources: Tensor, best: int) -> Tensor:
    """For each source of restart `best` of (S, r, d): mean over the others of its largest
    |cos| there, (r,). The idea of ICASSO (Himberg & Hyvärinen 2003): what depends on the start is
    not a property of the weights.
    """
    unit = normalize(sources, dim=-1)
    others = [unit[k] for k in range(len(unit)) if k != best]
    if not others:
        return torch.full_like(unit[best, :, 0], torch.nan)
    return torch.stack([(unit[best] @ other.mT).abs().amax(1) for other in others]).mean(0)
