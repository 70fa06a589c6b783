"""Chapter 5: two ways into the KKT regime, with the certificate on the way; and regression with weight decay."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import torch
from torch import Tensor

from recon.chapters.base import Context, Outcome, Tensors
from recon.chapters.common import LAYER_1
from recon.chapters.kkt_training.metrics import Decayed, Metrics, Observed, Run
from recon.chapters.kkt_training.sizes import Sizes
from recon.images.bundle import Bundle
from recon.nets.gram import gram, layer_norms
from recon.nets.mlp import MLP, three_layer
from recon.training.inner import INNER, Objective, solve_lbfgs
from recon.training.kkt import KKTSettings, Observer, Trained, certificate, train_to_kkt


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Both methods from the same θ⁰, observed on the way; then regression with weight decay."""
    images = context.images(sizes.n_train)
    network = three_layer(sizes.width, images.train.shape[1])
    ours, trained = _train("loss-scaled", network, images, sizes, context)
    reference, by_descent = _train("gradient-descent", network, images, sizes, context)
    metrics = Metrics(
        n_train=sizes.n_train,
        width=sizes.width,
        steps=sizes.steps,
        loss_scaled=ours,
        gradient_descent=reference,
        steps_to_reference_loss=_first_below(trained, sizes.reference_goal),
        weight_decay=_regression(sizes, context, images),
    )
    arrays = {"history_loss-scaled": trained.history, "history_gradient-descent": by_descent.history}
    return Outcome(metrics, arrays | _final_arrays(network, trained, images))


def observation_steps(steps: int, points: int = 14) -> tuple[int, ...]:
    """About `points` step numbers, evenly spaced on a logarithmic scale, the last one `steps`."""
    return tuple(sorted({round(math.exp(v)) for v in torch.linspace(0, math.log(steps), points).tolist()}))


def _train(method: str, network: MLP, images: Bundle, sizes: Sizes, context: Context) -> tuple[Run, Trained]:
    weights = context.stream("kkt.weights")
    theta_init = network.flatten(network.init(weights, "small")).to(images.train.device)
    seen: list[tuple[int, float, float]] = []

    def observe(k: int, theta: Tensor) -> None:
        found = certificate(network, theta, images.train, images.y, layer_weights=LAYER_1)
        seen.append((k, found.normalised_margins.min().item(), found.residual_by_layer[0].item()))

    start = time.perf_counter()
    step_size = sizes.reference_step_size if method == "gradient-descent" else None
    settings = KKTSettings(sizes.steps, method=method, step_size=step_size)
    observer = Observer(observation_steps(sizes.steps), observe)
    trained = train_to_kkt(network, images.train, images.y, theta_init, settings, observer=observer)
    seconds = time.perf_counter() - start
    rows = [
        Observed(step=k, min_normalised_margin=margin, kkt_residual=left, log_loss=trained.history[k - 1].item())
        for k, margin, left in seen
    ]
    return Run(seconds=round(seconds, 2), observed=rows, **vars(rows[-1])), trained


def _first_below(trained: Trained, goal: float) -> int:
    below = (trained.history <= goal).nonzero()
    return int(below[0]) + 1 if len(below) else -1


def _final_arrays(network: MLP, trained: Trained, images: Bundle) -> Tensors:
    """Multipliers and margins at the end: who supports the margin."""
    found = certificate(network, trained.theta_star, images.train, images.y, layer_weights=LAYER_1)
    return {
        "multipliers": found.multipliers,
        "normalised_margins": found.normalised_margins,
        "x_train": images.train,
        "mean": images.mean,
        "singular_values": torch.linalg.svdvals(network.unflatten(trained.theta_star)["w1"]),
        "train_index": images.train_index,
    }


def _regression(sizes: Sizes, context: Context, images: Bundle) -> Decayed:
    """Buzaglo et al.'s variant: MSE to ±1 with weight decay.  There λ_i = −ℓ'_i/(n·wd), any sign, and the residual is
    the training gradient: ‖θ − Σ λ_i ∇Φ_i‖ = ‖∇E‖/wd, an identity that checks all of the machinery.  Multipliers
    fitted afterwards minimise that residual, so they leave no more."""
    network = three_layer(sizes.width, images.train.shape[1])
    weights = context.stream("kkt.weights")
    theta = network.flatten(network.init(weights, "small", torch.float64)).to(images.train.device)
    x, y = images.train.double(), images.y.double()
    objective = Objective(network, y, sizes.weight_decay, "mse")
    found = solve_lbfgs(objective, x[None], theta[None], replace(INNER, tol=1e-7, max_iter=sizes.decay_iterations))
    theta = found.theta[0]
    residuals = network(network.unflatten(theta), x) - (2 * y - 1)
    implied = -residuals / (len(y) * sizes.weight_decay)
    fitted = certificate(network, theta, x, y, unsigned=True)
    params = network.unflatten(theta)
    by_layer, products = gram(network, params, x)
    norm2 = layer_norms(network, params).sum()
    left = norm2 - 2 * products.sum(0) @ implied + implied @ by_layer.sum(0) @ implied
    grad_norm = objective.grad(theta[None], x[None]).norm().item()
    return Decayed(
        weight_decay=sizes.weight_decay,
        training_loss=objective.loss(theta[None], x[None]).item(),
        grad_norm=grad_norm,
        iterations=found.iterations,
        kkt_residual=fitted.residual,
        implied_residual=(left.clamp_min(0) / norm2).sqrt().item(),
        gradient_over_decay=grad_norm / (sizes.weight_decay * theta.norm().item()),
        multiplier_error=((fitted.multipliers - implied).norm() / implied.norm()).item(),
    )
