"""All images but one, some candidates for the last, and every step of a private training: which candidate was it?

Every step of DP-SGD releases a sum of clipped gradients with noise N(0, σ²C²) (`recon.training.private`).  Without the
known images' share that is the missing image's own clipped gradient and noise.  Hayes, Mahloujifar & Balle (2023) take
the candidate k with the largest Σ_t ⟨r_t, g_{k,t}⟩; the likelihood has one term more,

    log P(r | k) = Σ_t (⟨r_t, g_{k,t}⟩ − ½‖g_{k,t}‖²)/(σC)² + const.,

which matters where a gradient is shorter than C.  With equally likely candidates this gives the probability of each.
"""

from __future__ import annotations

from torch import Tensor

from recon.nets.mlp import MLP
from recon.training.private import PrivateDescent, clipped_each, clipped_sum


class PriorAware:
    """Watches S private trainings step by step.

    known: images (n − 1, d) and labels (n − 1,) · candidates: images (k, d) and labels (k,), one of which was trained
    on.  evidence (S, k): log P of what was seen so far, up to a constant · length (S, k): Σ_t ‖g_{k,t}‖²/(TC²), 1 where
    every gradient of the candidate was clipped · likeness (S, k, k): Σ_t ⟨g_{j,t}, g_{k,t}⟩/(TC²).
    """

    def __init__(
        self,
        network: MLP,
        known: tuple[Tensor, Tensor],
        candidates: tuple[Tensor, Tensor],
        settings: PrivateDescent,
        runs: int,
    ) -> None:
        self.network, self.known, self.candidates, self.settings = network, known, candidates, settings
        k = len(candidates[1])
        self.evidence = candidates[0].new_zeros(runs, k)
        self.likeness = candidates[0].new_zeros(runs, k, k)

    def __call__(self, theta: Tensor, released: Tensor) -> None:
        """One step: θ (S, p) before it, and what it released (S, p)."""
        clip, noise = self.settings.clip, self.settings.noise
        rest = released - clipped_sum(self.network, theta, *self.known, clip)
        gradients = clipped_each(self.network, theta, *self.candidates, clip)
        products = (gradients @ rest.unsqueeze(-1)).squeeze(-1)
        squares = gradients.square().sum(-1)
        self.evidence += (products - squares / 2) / (noise * clip) ** 2
        self.likeness += gradients @ gradients.mT / (self.settings.steps * clip**2)

    @property
    def length(self) -> Tensor:
        """(S, k), in [0, 1]."""
        return self.likeness.diagonal(dim1=-2, dim2=-1)

    @property
    def probability(self) -> Tensor:
        """Of each candidate (S, k), if all were equally likely before."""
        return self.evidence.softmax(-1)


__all__ = ["PriorAware"]
