"""Training to the KKT regime: where homogeneous networks remember their training data, and how to
certify arrival.

Without weight decay gradient descent on the logistic loss drives θ/‖θ‖ to a KKT point of the
maximum-margin problem

    min ½‖θ‖²   s.t.   y_i Φ(x_i; θ) ≥ 1

(Lyu & Li 2020; Ji & Telgarsky 2020; eq. 3 of Haim et al. 2022), so θ = Σ_i λ_i y_i ∇_θ Φ(x_i; θ)
with λ_i ≥ 0, and λ_i = 0 off the margin. Plain gradient descent needs 10⁶ epochs. Descent on the
*logarithm* of the loss, whose gradient is ∇E/E, does not slow down as the loss falls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from scipy.optimize import nnls
from torch import Tensor

from recon.errors import ReconError
from recon.nets.gram import gram, layer_norms
from recon.nets.mlp import MLP
from recon.optim.descent import HeavyBall
from recon.optim.loop import Checkpoint, LoopSettings, iterate
from recon.optim.subspace import in_span
from recon.optim.tree import State

FINAL_LOSS = 4e-6  # ours: where a long training by the recipe of Haim et al. (2022) may end


@dataclass(frozen=True)
class Trained:
    """
    Attributes:
        theta_init, theta_star (p,) · log_loss = log E.
        history (steps,) of log E at accepted points.
    """

    theta_init: Tensor
    theta_star: Tensor
    log_loss: float
    history: Tensor


def confidence(logits: Tensor, labels: Tensor) -> Tensor:
    """φ = log p_y − log(1 − p_y), (..., N) for logits (..., N, K) and classes (N,); K = 1 is one
    logit for class 1. A margin: its logistic loss log(1 + e^{−φ}) is the cross-entropy.

    >>> confidence(torch.tensor([[2.0], [2.0]]), torch.tensor([1, 0])).tolist()
    [2.0, -2.0]
    """
    if logits.shape[-1] == 1:
        return logits[..., 0] * (2 * labels - 1)
    true = F.one_hot(labels.long(), logits.shape[-1]).bool()
    return (logits * true).sum(-1) - logits.masked_fill(true, -torch.inf).logsumexp(-1)


def log_logistic_loss(margins: Tensor) -> Tensor:
    """log of the mean logistic loss, log((1/n) Σ_i log(1 + e^{−m_i})), of margins m (..., n),
    without underflow. For large m, log log(1 + e^{−m}) → −m: the loss itself may be below the
    smallest float, its logarithm is not.
    """
    small = margins.clamp_max(20.0)  # keeps the unused branch finite in the backward pass
    log_losses = torch.where(margins > 20.0, -margins, F.softplus(-small).log())
    return torch.logsumexp(log_losses, dim=-1) - math.log(margins.shape[-1])


@dataclass(frozen=True)
class KKTSettings:
    """Heavy-ball descent on log E with adaptive step and restarts (`HeavyBall`; Lyu & Li 2020,
    momentum as in Ji, Srebro & Telgarsky 2021).

    Attributes:
        steps: at most.
        goal: log E at which training ends.
        momentum: of the heavy ball.
        relative_step: the share of ‖θ‖ that no step is longer than, since small nets overshoot and
            do not forget it.
    """

    steps: int
    goal: float = -1e4
    momentum: float = 0.9
    relative_step: float = 0.03

    @property
    def optimiser(self) -> HeavyBall:
        """What moves θ."""
        return HeavyBall(1.0, self.momentum, tol=self.goal, max_relative_step=self.relative_step)

    @staticmethod
    def gradient_flow() -> KKTSettings:
        """Along the curve that many small steps of gradient descent follow, to the reference's
        final loss, no further. dθ/ds = −∇E/E instead of −∇E runs through the same curve without
        slowing down: no momentum, steps of at most 0.3 % of ‖θ‖. So ‖θ‖ is the reference's, which
        its published attack fits: train on, and it grows.
        """
        return KKTSettings(5000, math.log(FINAL_LOSS), momentum=0.0, relative_step=3e-3)


def train_to_kkt(
    network: MLP,
    x: Tensor,
    y: Tensor,
    theta_init: Tensor,
    settings: KKTSettings,
    checkpoint: Checkpoint | None = None,
) -> Trained:
    """Full-batch training without weight decay, until log E ≤ goal (‖θ‖ grows without bound) or for
    `steps`. x (n, d), y (n,) in {0, 1}, or classes 0 … K−1 for a net with K outputs; theta_init
    (p,). For n < d the first layer moves within the span of the n images alone, so everything is
    computed, exactly, in n coordinates instead of d (only the 3 % rule does not see what lies
    outside). Raises ReconError for shapes or labels that do not fit.
    """
    _check(network, x, y, theta_init)
    small, inputs, start, lift = in_span(network, theta_init, x, keep_outside=True)
    optimiser = settings.optimiser

    def step(state: State) -> State:
        """Energy log E; down its gradient ∇E/E."""
        theta = state["x"].detach().requires_grad_()
        with torch.enable_grad():
            outputs = small(small.unflatten(theta), inputs)
            log_loss = log_logistic_loss(confidence(outputs.reshape(1, len(y), -1), y))
        grad = torch.autograd.grad(log_loss.sum(), theta)[0]
        return optimiser.step(state, log_loss.detach(), grad)

    loop = LoopSettings(settings.steps, settings.goal, x.device, "training")
    state, history = iterate(lambda: optimiser.init(start[None]), step, loop, checkpoint)
    end = state["accepted"]
    return Trained(theta_init, lift(end["x"][0]), end["energy"][0].item(), history[:, 0])


@dataclass(frozen=True)
class Certificate:
    """How near θ is to a KKT point with given data: multipliers λ (n,) fitted by non-negative least
    squares.

    Attributes:
        residual: ‖θ − Σ λ_i y_i ∇Φ_i‖ / ‖θ‖ in [0, 1].
        residual_by_layer: each layer relative to its own norm (L,).
        energy_by_layer (L,): ‖·‖² not relative.
    """

    multipliers: Tensor
    residual: float
    residual_by_layer: Tensor
    energy_by_layer: Tensor


def certificate(
    network: MLP,
    theta: Tensor,
    x: Tensor,
    y: Tensor,
    *,
    alpha: float | None = None,
    layer_weights: tuple[float, ...] | None = None,
    unsigned: bool = False,
) -> Certificate:
    """Fit λ ≥ 0 in min_λ Σ_l ω_l ‖θ_l − Σ_i λ_i y_i ∇_{θ_l} Φ(x_i; θ)‖² and report what remains.
    Computed in float64 by SciPy's NNLS on the Cholesky factor of the n × n Gram matrix.

    Args:
        theta (p,), x (n, d), y (n,) in {0, 1} or classes.
        alpha: of the smoothed ReLU', None for the step itself.
        layer_weights ω: default ones.
        unsigned: coefficients of any sign, as for regression with weight decay.
    """
    params = {name: value.double() for name, value in network.unflatten(theta).items()}
    x = x.double()
    labels = y if network.widths[-1] > 1 else None
    free = unsigned or labels is not None
    sign = torch.ones_like(y, dtype=torch.float64) if free else 2 * y.double() - 1
    by_layer, products = gram(network, params, x, alpha=alpha, labels=labels)
    weights = x.new_tensor(layer_weights or (1.0,) * network.depth)
    by_layer, products = sign[:, None] * by_layer * sign, sign * products
    matrix, target = torch.einsum("l,lij->ij", weights, by_layer), weights @ products
    matrix.diagonal().add_(1e-12 * matrix.diagonal().mean())
    factor = torch.linalg.cholesky(matrix)
    multipliers = (
        torch.cholesky_solve(target[:, None], factor)[:, 0]
        if unsigned
        else nonnegative(factor, target)
    )
    norms = layer_norms(network, params)
    quadratic = torch.einsum("i,lij,j->l", multipliers, by_layer, multipliers)
    energy = (norms - 2 * products @ multipliers + quadratic).clamp_min(0)
    residual = (energy.sum() / norms.sum()).sqrt().item()
    return Certificate(multipliers, residual, (energy / norms).sqrt(), energy)


def nonnegative(factor: Tensor, target: Tensor) -> Tensor:
    """λ ≥ 0 (n,) with the smallest ½ λᵀ K λ − bᵀ λ, in float64, by SciPy's NNLS; b is `target` (n,)
    and K = L Lᵀ with the Cholesky `factor` L (n, n).
    """
    right = torch.linalg.solve_triangular(factor, target[:, None], upper=False)[:, 0]
    solution, _ = nnls(factor.mT.cpu().numpy(), right.cpu().numpy(), maxiter=30 * len(factor))
    return torch.from_numpy(solution).to(factor)


def _check(network: MLP, x: Tensor, y: Tensor, theta_init: Tensor) -> None:
    n, p = len(x), network.n_params
    shapes = [tuple(t.shape) for t in (x, y, theta_init)]
    if shapes != [(n, network.dim), (n,), (p,)]:
        raise ReconError(f"images, labels and θ⁰ {shapes} do not fit {network.dim} inputs, p = {p}")
    if not (torch.isfinite(x).all() and torch.isfinite(theta_init).all()):
        raise ReconError("images and θ⁰ must be finite")
    if len(x) > 1 and (x == x[:1]).all():
        raise ReconError("all training images are equal: there is nothing to separate")
    classes = max(2, network.widths[-1])
    if not torch.isin(y, torch.arange(classes).to(y)).all():
        raise ReconError(f"labels must be 0 … {classes - 1}")
