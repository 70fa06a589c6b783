"""Chapter 7's networks, each trained and attacked by itself: candidates, evidence, and which of
them are true.

The adversary sees weights and has photographs of their own. Truth is noted beside the evidence, for
scoring, and for those networks on which the adversary practises.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from companion.chapters.base import Context, Tensors
from companion.chapters.common import train_released
from companion.chapters.evidence import Outside, describe, likeness
from companion.store.record import Record
from recon.attacks import by_decoreco, by_separation
from recon.attacks.recover import RecoverSettings
from recon.attacks.separation import SeparationSettings
from recon.attacks.stationarity import stationarity
from recon.images.bundle import Bundle
from recon.released import Weights

MORE = 100  # first number of the networks of more images
SEPARATION = 1000  # first number of the draws of separation; DecoReco's are the network's


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """`networks` released nets, each on n_train images of its own, attacked by DecoReco; and as
    many on more_n images each, attacked by separation, which begins to fail there. Each is judged
    by what the others teach.

    Attributes:
        train_steps: for n_train images, more for more.
        draws: of the bootstrap.
    """

    n_train: int
    more_n: int
    width: int
    train_steps: int
    networks: int
    attack: RecoverSettings
    separation: SeparationSettings
    draws: int = 1000

    def steps(self, n: int) -> int:
        """Training steps for n images."""
        return self.train_steps * n // self.n_train


SIZES = {
    "smoke": Sizes(
        n_train=20,
        more_n=40,
        width=64,
        train_steps=150,
        networks=2,
        attack=RecoverSettings(m=40, restarts=2, steps=200, scale_steps=40),
        separation=SeparationSettings(first_rank=8, iterations=40, restarts=2),
        draws=100,
    ),
    "laptop": Sizes(
        n_train=60,
        more_n=120,
        width=300,
        train_steps=360,
        networks=3,
        attack=RecoverSettings(m=120, restarts=1, steps=500),
        separation=SeparationSettings(restarts=2),
    ),
    "paper": Sizes(
        n_train=100,
        more_n=200,
        width=1000,
        train_steps=600,
        networks=10,
        attack=RecoverSettings(m=200, restarts=4),
        separation=SeparationSettings(restarts=4),
    ),
}


def others_of(context: Context, sizes: Sizes) -> Outside:
    """Drawn by the seed from what all networks leave of the pool."""
    few, more = (context.datasets(n, sizes.networks, n) for n in (sizes.n_train, sizes.more_n))
    return Outside.without(context, torch.cat([data.train.index for data in [*few, *more]]))


def attack_network(sizes: Sizes, context: Context, name: str) -> Tensors:
    """Candidates with all evidence of network "few-K", on n_train images, by DecoReco; or "more-K",
    on more_n, by separation. separated: the largest |NCC| with an image that separation finds in
    the same weights.
    """
    kind, number = name.split("-")
    few = kind == "few"
    k, n = int(number) + MORE * (not few), sizes.n_train if few else sizes.more_n
    images = Bundle.of(context.datasets(n, sizes.networks, n)[int(number)], context.device)
    outside = others_of(context, sizes)
    weights = train_released(context, images, sizes.width, sizes.steps(n), k)
    stream = context.stream("kkt.attack_again", SEPARATION + k)
    separation = by_separation(weights, images.shape, sizes.separation, stream)
    m = len(separation) // 2  # each source has both signs
    x = sources = separation.images[:m].flatten(1)
    if few:
        attack = by_decoreco(
            weights,
            images.shape,
            sizes.attack,
            context.stream("kkt.attack_again", k),
            checkpoints=context.checkpoints.inside(f"attack-{k}"),
        )
        x = attack.images.flatten(1)
        result = Record(attack.diagnostics, x_hat=x, contribution=attack.score)
        margins = result.labels * weights.network(weights.params, x)
        curvature = sharpness(energy_gradient(weights, result, sizes.attack), x)
        signals = evidence(result, margins, curvature)
        signals["separated"] = likeness(x, sources, either_sign=True).amax(1)
    else:
        signals = {name: separation.diagnostics[name] for name in ("sparsity", "stability")}
        signals["share"] = separation.score[:m]
    about = describe(x, images, outside, either_sign=not few)
    return {**signals, **about, "mean": images.mean, "x_train": images.train}


def evidence(attack: Record, margins: Tensor, curvature: Tensor) -> dict[str, Tensor]:
    """Six numbers per candidate, each (m,), larger meaning "rather true".

    contribution ‖λ_i ∇Φ_i‖ · multiplier λ_i · norm ‖x_i‖ · margin: −|log(m_i / median)| of the
    margins m_i = y_i Φ_i, since at a KKT point all images with λ_i > 0 share one · agreement with
    the other restarts · sharpness: the curvature of R in x_i, by `sharpness`.
    """
    margins = margins.clamp_min(1e-12)
    return {
        "contribution": attack.contribution,
        "multiplier": attack.multipliers,
        "norm": attack.x_hat.norm(dim=-1),
        "margin": -(margins / margins.median()).log().abs(),
        "agreement": attack.agreement,
        "sharpness": curvature,
    }


def sharpness(
    gradient: Callable[[Tensor], Tensor], x: Tensor, probes: int = 8, step: float = 1e-3
) -> Tensor:
    """Mean second derivative of R in the pixels of each candidate of x (m, d), (m,), by
    Hutchinson's estimator.

    E[v_iᵀ(∇_i R(x + εv) − ∇_i R(x − εv))]/(2ε d) with signs v = ±1: other candidates' share
    averages out.

    Args:
        gradient: x -> ∂R/∂x (m, d).
    """
    generator = torch.Generator().manual_seed(0)
    total = torch.zeros_like(x[:, 0])
    for _ in range(probes):
        v = (2.0 * torch.randint(0, 2, x.shape, generator=generator) - 1).to(x)
        up, down = (gradient(x + sign * step * v) for sign in (1, -1))
        total += (v * (up - down)).sum(-1) / (2 * step * x.shape[1])
    return total / probes


def energy_gradient(
    weights: Weights, attack: Record, settings: RecoverSettings
) -> Callable[[Tensor], Tensor]:
    """x (m, d) -> ∂R/∂x (m, d) with the coefficients that were found."""

    coefficients, layers = attack.multipliers * attack.labels, settings.layer_weights
    return lambda x: (
        stationarity(weights, x, coefficients, alpha=settings.alpha, layer_weights=layers).grad_x
    )
