"""What an adversary can measure of each candidate, to tell true reconstructions from false ones.  No image enters."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from recon.attacks.recover import Recovered
from recon.attacks.stationarity import stationarity
from recon.nets.mlp import MLP

EVIDENCE = ("contribution", "multiplier", "norm", "margin", "agreement", "sharpness")


def evidence(
    network: MLP, theta_star: Tensor, found: Recovered, alpha: float, layer_weights: tuple[float, ...]
) -> dict[str, Tensor]:
    """Six numbers per candidate, each (m,), larger meaning "rather true".

    contribution ‖λ_i ∇Φ_i‖ · multiplier λ_i · norm ‖x_i‖ · margin: −|log(y_i Φ_i / median)|, since at a KKT point all
    images with λ_i > 0 share one margin · agreement with the other restarts · sharpness: curvature of R in x_i.
    """
    theta = network.unflatten(theta_star)
    margin = (found.labels * network(theta, found.x_hat)).clamp_min(1e-12)
    return {
        "contribution": found.contribution,
        "multiplier": found.multipliers,
        "norm": found.x_hat.norm(dim=-1),
        "margin": -(margin / margin.median()).log().abs(),
        "agreement": found.agreement,
        "sharpness": sharpness(network, theta_star, found, alpha, layer_weights),
    }


def sharpness(
    network: MLP,
    theta_star: Tensor,
    found: Recovered,
    alpha: float,
    layer_weights: tuple[float, ...],
    probes: int = 8,
    step: float = 1e-3,
) -> Tensor:
    """Mean second derivative of R in the pixels of each candidate, (m,), by Hutchinson's estimator.

    E[v_iᵀ(∇_i R(x + εv) − ∇_i R(x − εv))]/(2ε d) with signs v = ±1: other candidates' share averages out.
    """
    theta, coefficients = network.unflatten(theta_star), found.multipliers * found.labels
    generator = torch.Generator().manual_seed(0)
    total = torch.zeros_like(found.multipliers)
    for _ in range(probes):
        v = (2.0 * torch.randint(0, 2, found.x_hat.shape, generator=generator) - 1).to(found.x_hat)
        up, down = (
            stationarity(
                network, theta, found.x_hat + sign * step * v, coefficients, alpha=alpha, layer_weights=layer_weights
            ).grad_x
            for sign in (1, -1)
        )
        total += (v * (up - down)).sum(-1) / (2 * step * network.dim)
    return total / probes


def features(measured: dict[str, Tensor]) -> np.ndarray:
    """Evidence as a matrix (m, 6); scales that differ between networks removed by ranking within one attack."""
    ranked = [measured[name].argsort().argsort().double() / max(len(measured[name]) - 1, 1) for name in EVIDENCE]
    return torch.stack(ranked, dim=1).cpu().numpy()


def shadow_classifier(measured: dict[str, Tensor], true: Tensor) -> Pipeline:
    """Logistic regression from evidence to "true", fitted where the adversary knows the answer: on a network that he
    trained himself, on images of his own (a shadow model, Shokri et al. 2017)."""
    model = make_pipeline(StandardScaler(), LogisticRegression(C=1.0))
    return model.fit(features(measured), true.cpu().numpy())
