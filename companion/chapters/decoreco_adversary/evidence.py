"""What an adversary can measure of each candidate, to tell true reconstructions from false ones.  No image enters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from recon.attacks.recover import Recovered

EVIDENCE = ("contribution", "multiplier", "norm", "margin", "agreement", "sharpness")


def evidence(found: Recovered, margins: Tensor, curvature: Tensor) -> dict[str, Tensor]:
    """Six numbers per candidate, each (m,), larger meaning "rather true".

    contribution ‖λ_i ∇Φ_i‖ · multiplier λ_i · norm ‖x_i‖ · margin: −|log(m_i / median)| of the margins m_i = y_i Φ_i,
    since at a KKT point all images with λ_i > 0 share one · agreement with the other restarts · sharpness: the
    curvature of R in x_i, by `sharpness`.
    """
    margins = margins.clamp_min(1e-12)
    return {
        "contribution": found.contribution,
        "multiplier": found.multipliers,
        "norm": found.x_hat.norm(dim=-1),
        "margin": -(margins / margins.median()).log().abs(),
        "agreement": found.agreement,
        "sharpness": curvature,
    }


def sharpness(gradient: Callable[[Tensor], Tensor], x: Tensor, probes: int = 8, step: float = 1e-3) -> Tensor:
    """Mean second derivative of R in the pixels of each candidate of x (m, d), (m,), by Hutchinson's estimator.

    gradient: x -> ∂R/∂x (m, d).  E[v_iᵀ(∇_i R(x + εv) − ∇_i R(x − εv))]/(2ε d) with signs v = ±1: other candidates'
    share averages out.
    """
    generator = torch.Generator().manual_seed(0)
    total = torch.zeros_like(x[:, 0])
    for _ in range(probes):
        v = (2.0 * torch.randint(0, 2, x.shape, generator=generator) - 1).to(x)
        up, down = (gradient(x + sign * step * v) for sign in (1, -1))
        total += (v * (up - down)).sum(-1) / (2 * step * x.shape[1])
    return total / probes


def features(measured: dict[str, Tensor]) -> np.ndarray:
    """Evidence as a matrix (m, 6); scales that differ between networks removed by ranking within one attack."""
    ranked = [measured[name].argsort().argsort().double() / max(len(measured[name]) - 1, 1) for name in EVIDENCE]
    return torch.stack(ranked, dim=1).cpu().numpy()
