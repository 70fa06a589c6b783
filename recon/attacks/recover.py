"""What an adversary does with DecoReco: look where the weights point, set the scale, restart, pool,
choose.

Every decision is made by the attack's own energy or by what a candidate contributes to it. No image
enters.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from recon.attacks.decoreco import DecoReco, image_span
from recon.attacks.reconstruct import Reconstruction, reconstruct
from recon.attacks.stationarity import stationarity
from recon.nets.gram import gram
from recon.optim.descent import Adam
from recon.optim.loop import Checkpoints
from recon.released import Weights

# restarts in one batch: more of them leave the cache and cost time there, on a GPU they save it
AT_ONCE_ON_CPU = 2


@dataclass(frozen=True)
class RecoverSettings:
    """
    Attributes:
        m: candidates in the answer, and per restart.
        restarts.
        steps: of each.
        init_scale: standard deviation of the start's pixels.
        multiplier_scales: λ starts from U[0, 1) times one of these, whichever has the lowest energy
            after `scale_steps`.
        step_x, step_multipliers: Adam's (the latter for log λ).
        alpha, layer_weights: of the objective.
        distinct: of candidates more alike than this correlation the pool keeps one.
        alike: that one is averaged with those of other restarts more alike than this (a low value
            blurs, and blur resembles any image).
        project: whether to search the `image_span` only, or all of pixel space.
    """

    m: int
    restarts: int = 8
    steps: int = 1000
    init_scale: float = 1e-2
    multiplier_scales: tuple[float, ...] = (1e-3, 3e-3, 1e-2, 3e-2)
    scale_steps: int = 200
    step_x: float = 0.02
    step_multipliers: float = 0.01
    alpha: float = 100.0
    layer_weights: tuple[float, ...] = (1.0, 0.0, 0.0)
    distinct: float = 0.6
    alike: float = 0.8
    project: bool = True


@dataclass(frozen=True)
class Recovered:
    """The m candidates chosen, most contributing first: x_hat (m, d), multipliers, labels, restart,
    row in it (m,).

    Attributes:
        contribution (m,): ‖λ_i ∇_θ Φ(x_i)‖.
        agreement (m,): mean over the other restarts of the best correlation there.
        energy (restarts,).
        by_layer (restarts, L): R with every layer counted once.
        history (steps, restarts).
        multiplier_scale: the one used.
        basis (r, d): of the span searched, None for all of pixel space.
    """

    x_hat: Tensor
    multipliers: Tensor
    labels: Tensor
    restart: Tensor
    row: Tensor
    contribution: Tensor
    agreement: Tensor
    energy: Tensor
    by_layer: Tensor
    history: Tensor
    multiplier_scale: float
    basis: Tensor | None


def recover(
    weights: Weights,
    settings: RecoverSettings,
    generator: torch.Generator,
    checkpoints: Checkpoints | None = None,
    x_init: Tensor | None = None,
) -> Recovered:
    """The whole attack on a binary classifier θ* (p,). Unfinished restarts go on from
    `checkpoints`. Uses θ* alone of the weights; ReconError for more than one θ*.

    Args:
        x_init (m, d): start of every restart, −1 labels first; default noise, `random_start`.
    """
    network, theta_star = weights.network, weights.theta_star
    space = image_span(weights) if settings.project else None
    seeds = torch.randint(2**31, (settings.restarts + 1,), generator=generator).tolist()

    def run(some: list[int], scale: float, steps: int, name: str | None) -> Reconstruction:
        starts, units = zip(
            *(random_start(settings, network.dim, theta_star, seed) for seed in some), strict=True
        )
        start = torch.cat(starts) if x_init is None else x_init.repeat(len(some), 1, 1)
        attack = tuned_attack(weights, torch.cat(units) * scale, steps, settings)
        if space is not None:
            attack, start = attack.restricted(space), space.reduce(start)
        checkpoint = checkpoints.at(name) if checkpoints is not None and name else None
        return reconstruct(attack, start, steps, checkpoint=checkpoint, label=name or "scale")

    scale, *others = settings.multiplier_scales
    if others:
        scale = min(
            settings.multiplier_scales,
            key=lambda value: run(seeds[-1:], value, settings.scale_steps, None).energy.item(),
        )
    size = AT_ONCE_ON_CPU if theta_star.device.type == "cpu" else settings.restarts
    batches = [
        range(r, min(r + size, settings.restarts)) for r in range(0, settings.restarts, size)
    ]
    results = [
        run([seeds[r] for r in batch], scale, settings.steps, f"restarts-{batch[0]}-{batch[-1]}")
        for batch in batches
    ]
    return pool(weights, results, None if space is None else space.basis, settings, scale)


def random_start(
    settings: RecoverSettings, dim: int, like: Tensor, seed: int
) -> tuple[Tensor, Tensor]:
    """(x (1, m, d) ~ init_scale · N(0, 1), λ (1, m) ~ U[0.01, 1) in units of the scale to be
    chosen).
    """
    generator = torch.Generator().manual_seed(seed)
    x = settings.init_scale * torch.randn(1, settings.m, dim, generator=generator)
    return x.to(like), torch.rand(1, settings.m, generator=generator).clamp_min(1e-2).to(like)


def tuned_attack(
    weights: Weights, multipliers: Tensor, steps: int, settings: RecoverSettings
) -> DecoReco:
    """`DecoReco` with logarithmic multipliers, Adam and these settings."""
    return DecoReco(
        weights,
        multipliers,
        steps,
        optimiser_x=Adam(settings.step_x),
        optimiser_multipliers=Adam(settings.step_multipliers),
        alpha=settings.alpha,
        layer_weights=settings.layer_weights,
    )


def contribution(attack: DecoReco, x: Tensor, multipliers: Tensor) -> Tensor:
    """‖λ_i ∇_θ Φ(x_i)‖ over the layers that count, (..., m): each candidate's share in explaining
    θ*.
    """
    weights = attack.layer_weights or (1.0,) * attack.network.depth
    theta = attack.weights.params
    matrices, _ = gram(attack.network, theta, x, alpha=attack.alpha)
    squares = sum(w * k.diagonal(dim1=-2, dim2=-1) for w, k in zip(weights, matrices, strict=True))
    return multipliers * torch.as_tensor(squares).sqrt()


def agreement(x: Tensor, labels: Tensor, restart: Tensor) -> Tensor:
    """Mean over the other restarts of the best correlation with a candidate of the same label
    there, (P,) in [0, 1].
    """
    correlation = torch.corrcoef(x).masked_fill(labels[:, None] != labels, 0.0).nan_to_num()
    restarts = int(restart.max()) + 1
    best = torch.stack(
        [correlation[:, restart == r].amax(1).clamp_min(0) for r in range(restarts)], dim=1
    )
    others = best.sum(1) - best.gather(1, restart[:, None])[:, 0]
    return others / max(restarts - 1, 1)


def select(x: Tensor, score: Tensor, m: int, distinct: float) -> Tensor:
    """Rows of the m best by score (P,) among x (P, d), in that order, none correlated above
    `distinct` with an earlier one; where fewer than m are that distinct, the best of the rest fill
    up.
    """
    correlation = torch.corrcoef(x).nan_to_num().cpu()  # looked at row by row
    order, scores = score.argsort(descending=True).tolist(), score.tolist()
    chosen: list[int] = []
    for row in order:
        if len(chosen) < m and not (chosen and correlation[row, chosen].max() > distinct):
            chosen.append(row)
    taken = set(chosen)
    spare = [row for row in order if row not in taken]
    chosen += spare[: m - len(chosen)]
    return torch.tensor(sorted(chosen, key=lambda row: -scores[row]), device=x.device)


def merge(
    x: Tensor, share: Tensor, labels: Tensor, restart: Tensor, rows: Tensor, alike: float
) -> Tensor:
    """The chosen `rows` of x (P, d), each averaged with its counterparts in the other restarts;
    (len(rows), d). A counterpart is the most correlated candidate of a restart, with the same
    label, if correlated above `alike`. Weights are the contributions `share`. Errors of independent
    restarts average out.
    """
    standard = torch.nn.functional.normalize(x - x.mean(1, keepdim=True), dim=1)
    total, weight = x[rows] * share[rows, None], share[rows]
    for r in range(int(restart.max()) + 1):
        there = (restart == r).nonzero()[:, 0]
        correlation = (standard[rows] @ standard[there].mT).masked_fill(
            labels[rows, None] != labels[there], -1.0
        )
        best = correlation.max(1)
        partner = there[best.indices]
        counts = ((best.values > alike) & (restart[rows] != r)).to(x.dtype) * share[partner]
        total, weight = total + counts[:, None] * x[partner], weight + counts
    return total / weight.clamp_min(torch.finfo(x.dtype).tiny)[:, None]


def pool(
    weights: Weights,
    results: list[Reconstruction],
    basis: Tensor | None,
    settings: RecoverSettings,
    scale: float,
) -> Recovered:
    """All restarts' candidates together: the m of them that explain θ* best and differ, merged with
    their like.
    """
    x = torch.cat([result.x_hat for result in results])
    x = x if basis is None else x @ basis
    multipliers = torch.cat([result.accepted["multipliers"] for result in results])
    whole = tuned_attack(weights, multipliers, settings.steps, settings)
    labels = whole.labels
    by_layer = [
        stationarity(weights, x[r], signed, alpha=settings.alpha).by_layer
        for r, signed in enumerate(multipliers * labels)
    ]
    share = torch.stack(
        [contribution(whole, *pair) for pair in zip(x, multipliers, strict=True)]
    ).flatten()
    labels, restart = (
        labels.repeat(len(x)),
        torch.arange(len(x), device=x.device).repeat_interleave(len(labels)),
    )
    x, multipliers = x.flatten(0, 1), multipliers.flatten()
    rows = select(x, share, settings.m, settings.distinct)
    return Recovered(
        merge(x, share, labels, restart, rows, settings.alike),
        multipliers[rows],
        labels[rows],
        restart[rows],
        rows % settings.m,
        share[rows],
        agreement(x, labels, restart)[rows],
        torch.cat([result.energy for result in results]),
        torch.stack(by_layer),
        torch.cat([result.history for result in results], dim=1),
        scale,
        basis,
    )
