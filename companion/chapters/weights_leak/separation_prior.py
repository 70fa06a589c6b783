"""Separation with a prior: whoever has public photographs learns what a photograph is, and unmixes
by it.

`recon.attacks.separation` asks that differences of neighbouring pixels be sparse. With many images
that is too little: there are more directions than such a contrast can tell apart, and the training
images are not even its optimum. Here a network trained on public photographs takes the place of the
contrast (denoising source separation, Särelä & Valpola 2005). With orthonormal rows Q (r, d) of the
span of the layer, whitened, a unit vector w (r,) stands for the image z = √d w Q, and one step is

    w ← P D(z) − ⟨D′⟩ w,  then scaled to unit length,  P u = u Qᵀ / √d,  ⟨D′⟩ = tr(Q D′(z) Qᵀ) / r,

FastICA's fixed point with D for its nonlinearity. The second term takes away what D hands on of the
noise in z (the Onsager term of approximate message passing: Donoho et al. 2009; Rangan et al.
2019). A linear D is cancelled by it wholly: what is left is what the prior knows beyond the
spectrum. The trace is measured along one random direction for each candidate (Ramani et al. 2008),
and smoothed over the candidates.

First all candidates are kept orthogonal, so that they share the span out among themselves; then
each goes its own way, and of two that meet one begins anew in what the others leave free. The
attack sees the first layer, the images' shape, and public images.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from recon.attacks.separation import PIXEL_STD, Shape, orthogonalise
from recon.optim.loop import Checkpoint, LoopSettings, iterate
from recon.optim.tree import State
from recon.training.denoiser import Denoiser, DenoiserSettings, train_denoiser, unit

PROBE = 0.2  # length of the step along which the trace is measured, for unit w
SAME = 0.85  # |cos| of two candidates from which on one of them begins anew
CHUNK = 100  # images denoised at a time


@dataclass(frozen=True)
class Whitening:
    """Makes photographs white: at every frequency (u, v) of the discrete cosine transform the C
    colours are multiplied by S_uv^(−½), S_uv (C, C) their mean product over public images, of which
    (u, v) and (v, u) share one.

    Images are square.

    Attributes:
        matrices: S^(−½), (h w, C, C).
        transform: (h, h), orthonormal.
    """

    matrices: Tensor
    transform: Tensor

    @staticmethod
    def of(public: Tensor, floor: float = 1e-3) -> Whitening:
        """From centred images (k, c, h, h) and their mirror images; `floor`: of the eigenvalues, of
        their mean.
        """
        side = public.shape[-1]
        k = torch.arange(side, dtype=torch.float64)
        transform = torch.cos(math.pi * torch.outer(k, k + 0.5) / side) * math.sqrt(2 / side)
        transform[0] /= math.sqrt(2)
        transform = transform.to(public)
        both = torch.cat([public, public.flip(-1)])
        waves = (transform @ both @ transform.mT).permute(2, 3, 1, 0).double()
        products = waves @ waves.mT / len(both)
        products = ((products + products.transpose(0, 1)) / 2).flatten(0, 1)
        scale = products.diagonal(dim1=1, dim2=2).mean(1, keepdim=True).clamp_min(1e-12)
        values, vectors = torch.linalg.eigh(products)
        root = (values + floor * scale).rsqrt()[:, None]
        return Whitening(((vectors * root) @ vectors.mT).to(public), transform)

    def white(self, x: Tensor) -> Tensor:
        """Images (n, c, h, h), white."""
        side, waves = (
            x.shape[-1],
            (self.transform @ x @ self.transform.mT).permute(2, 3, 1, 0).flatten(0, 1),
        )
        made = (self.matrices @ waves).unflatten(0, (side, side)).permute(3, 2, 0, 1)
        return self.transform.mT @ made @ self.transform


@dataclass(frozen=True)
class Prior:
    """What public photographs teach: how to whiten, and how to denoise what is white."""

    whitening: Whitening
    denoiser: Denoiser
    bfloat16: bool = False

    @staticmethod
    def of(
        public: Tensor,
        settings: DenoiserSettings,
        generator: torch.Generator,
        checkpoint: Checkpoint | None = None,
    ) -> Prior:
        """From public images (k, c, h, h), centred."""
        whitening = Whitening.of(public)
        white = unit(whitening.white(public))
        return Prior(
            whitening, train_denoiser(white, settings, generator, checkpoint), settings.bfloat16
        )

    @torch.no_grad()
    def denoised(self, z: Tensor) -> Tensor:
        """(D(z) − D(−z)) / 2 for white images (n, c, h, h): a mixture does not tell an image from
        its negative.
        """
        found = []
        for part in z.split(CHUNK):
            with torch.autocast(z.device.type, torch.bfloat16, enabled=self.bfloat16):
                plus, minus = self.denoiser(torch.cat([part, -part])).float().chunk(2)
            found.append((plus - minus) / 2)
        return torch.cat(found)


@dataclass(frozen=True)
class PriorSettings:
    """
    Attributes:
        orthogonal: steps with all candidates orthogonal.
        free: steps with each on its own.
    """

    orthogonal: int = 15
    free: int = 25


def separate_with_prior(
    basis: Tensor,
    start: Tensor,
    shape: Shape,
    prior: Prior,
    settings: PriorSettings,
    generator: torch.Generator,
    checkpoint: Checkpoint | None = None,
) -> Tensor:
    """The attack: candidates (r, d), root mean square `PIXEL_STD`, in the span of `basis` (r, d),
    orthonormal, from `start` (r, d): sources that independent component analysis has found there
    (`recon.attacks.separation.Separated`). A mixture does not tell their sign.
    """
    span = Span.of(basis, shape, prior)
    first_seed = int(torch.randint(2**31, (), generator=generator))

    def init() -> State:
        w, taken = span.directions(start), torch.zeros((), dtype=torch.int64)
        return {"w": w, "taken": taken, "accepted": {"energy": w.new_ones(len(w))}}

    def step(state: State) -> State:
        taken = int(state["taken"])
        draws = torch.Generator().manual_seed(first_seed + taken)
        w, together = state["w"], taken < settings.orthogonal
        moved = pulled(w, span, prior, draws)
        moved = orthogonalise(moved) if together else moved
        change = 1 - (moved * w).sum(1).abs()
        if not together:
            moved = distinct(moved, change, draws)
        return {"w": moved, "taken": state["taken"] + 1, "accepted": {"energy": change}}

    loop = LoopSettings(
        settings.orthogonal + settings.free, device=basis.device, label="separating with a prior"
    )
    state, _ = iterate(init, step, loop, checkpoint)
    return span.pixels(state["w"])


@dataclass(frozen=True)
class Span:
    """The searched span: white (r, d), rows of norm √d, orthogonal, and raw (r, d), the same images
    in pixels.
    """

    white: Tensor
    raw: Tensor
    shape: Shape

    @staticmethod
    def of(basis: Tensor, shape: Shape, prior: Prior) -> Span:
        """Of `basis` (r, d)."""
        seen = prior.whitening.white(basis.unflatten(1, shape)).flatten(1)
        left, values, right = torch.linalg.svd(seen, full_matrices=False)
        scale = basis.shape[1] ** 0.5
        return Span(
            scale * right, scale * (left / values.clamp_min(1e-6 * values[0])).mT @ basis, shape
        )

    def directions(self, x: Tensor) -> Tensor:
        """Unit w (m, r) of images x (m, d) in pixels."""
        return normalize(x @ torch.linalg.pinv(self.raw), dim=1)

    def pixels(self, w: Tensor) -> Tensor:
        """Images (m, d) of w (m, r), root mean square `PIXEL_STD`."""
        return PIXEL_STD * self.raw.shape[1] ** 0.5 * normalize(w @ self.raw, dim=1)

    def images(self, w: Tensor) -> Tensor:
        """White images (m, c, h, w) of w (m, r)."""
        return (w @ self.white).unflatten(1, self.shape)


def pulled(w: Tensor, span: Span, prior: Prior, generator: torch.Generator) -> Tensor:
    """One step of every candidate w (m, r), each by itself."""
    dim = span.white.shape[1]
    probe = normalize(torch.randn(w.shape, generator=generator).to(w), dim=1)
    here = prior.denoised(span.images(w)).flatten(1)
    beside = prior.denoised(span.images(w + PROBE * probe)).flatten(1)
    pull = here @ span.white.mT / dim
    traces = ((beside - here) * (probe @ span.white)).sum(1) / (PROBE * dim)
    return normalize(pull - smoothed(traces, (pull * w).sum(1))[:, None] * w, dim=1)


def smoothed(traces: Tensor, agreement: Tensor) -> Tensor:
    """Traces (m,), noisy, as a parabola of how far each candidate agrees with its denoised self
    (m,).
    """
    powers = torch.stack(
        [torch.ones_like(agreement), agreement, agreement.square()], dim=1
    ).double()
    return (powers @ (torch.linalg.pinv(powers) @ traces.double())).to(traces)


def distinct(w: Tensor, change: Tensor, generator: torch.Generator) -> Tensor:
    """w (m, r), where of any two alike the one that changes more (m,) begins anew, orthogonal to
    those that stay.
    """
    rank = change.argsort(stable=True).argsort(stable=True)
    again = (((w @ w.mT).abs() > SAME) & (rank[:, None] > rank)).any(1)
    missing = int(again.sum())
    if not missing:
        return w
    kept = torch.linalg.qr(w[~again].mT).Q
    fresh = torch.randn(missing, w.shape[1], generator=generator).to(w)
    w = w.clone()
    w[again] = normalize(fresh - (fresh @ kept) @ kept.mT, dim=1)
    return w
