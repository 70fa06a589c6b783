"""Chapter 5: training to the KKT regime, where homogeneous networks hold their training data; and the certificate."""

from __future__ import annotations

import math
import time

import torch
from torch import Tensor

from recon.attacks.stationarity import gram, layer_norms
from recon.chapters.base import Context, Experiment
from recon.chapters.decoreco_shared import LAYER_1, Centred
from recon.chapters.plots import kkt_training as plots
from recon.chapters.profiles import KKT_TRAINING, KKTTraining
from recon.nets.mlp import MLP, three_layer
from recon.store.results import Claim, Outcome
from recon.training.inner import Objective, solve_lbfgs
from recon.training.kkt import METHODS, Trained, certificate, train_to_kkt


def observation_steps(steps: int, points: int = 14) -> tuple[int, ...]:
    """About `points` step numbers, evenly spaced on a logarithmic scale, the last one `steps`."""
    return tuple(sorted({round(math.exp(v)) for v in torch.linspace(0, math.log(steps), points).tolist()}))


def run(config: KKTTraining, context: Context) -> Outcome:
    """Both methods from the same θ⁰, observed on the way; then regression with weight decay."""
    images = Centred.of(context, config.n_train)
    network = three_layer(config.width, images.train.shape[1])
    theta_init = network.flatten(network.init(context.generator(1), "small")).to(images.train.device)
    at = observation_steps(config.steps)
    metrics: dict = {"n_train": config.n_train, "width": config.width, "steps": config.steps}
    arrays = {}
    for method in METHODS:
        observed: list[dict] = []

        def observe(k: int, theta: Tensor, observed: list = observed) -> None:
            found = certificate(network, theta, images.train, images.y, layer_weights=LAYER_1)
            margin = found.normalised_margins.min().item()
            observed.append(
                {"step": k, "min_normalised_margin": margin, "kkt_residual": found.residual_by_layer[0].item()}
            )

        start = time.perf_counter()
        step_size = config.reference_step_size if method == "gradient-descent" else None
        trained = train_to_kkt(
            *(network, images.train, images.y, theta_init, config.steps),
            method=method,
            step_size=step_size,
            observe=observe,
            observe_at=at,
        )
        seconds = time.perf_counter() - start
        for row in observed:
            row["log_loss"] = trained.history[row["step"] - 1].item()
        metrics[method] = {
            "seconds": round(seconds, 2),
            "log_loss": trained.log_loss,
            **observed[-1],
            "observed": observed,
        }
        arrays[f"history_{method}"] = trained.history
        if method == "loss-scaled":
            metrics["steps_to_reference_loss"] = _first_below(trained, config.reference_goal)
            arrays |= final_arrays(network, trained, images)
    metrics["weight_decay"] = regression(config, context, images)
    return Outcome(metrics, claims(metrics, config), arrays)


def _first_below(trained: Trained, goal: float) -> int:
    below = (trained.history <= goal).nonzero()
    return int(below[0]) + 1 if len(below) else -1


def final_arrays(network: MLP, trained: Trained, images: Centred) -> dict[str, Tensor]:
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


def regression(config: KKTTraining, context: Context, images: Centred) -> dict:
    """Buzaglo et al.'s variant: MSE to ±1 with weight decay.  There λ_i = −ℓ'_i/(n·wd), any sign, and the residual is
    the training gradient: ‖θ − Σ λ_i ∇Φ_i‖ = ‖∇E‖/wd, an identity that checks all of the machinery.  Multipliers
    fitted afterwards minimise that residual, so they leave no more."""
    network = three_layer(config.width, images.train.shape[1])
    theta = network.flatten(network.init(context.generator(1), "small", torch.float64)).to(images.train.device)
    x, y = images.train.double(), images.y.double()
    objective = Objective(network, y, config.weight_decay, "mse")
    found = solve_lbfgs(objective, x[None], theta[None], tol=1e-7, max_iter=config.decay_iterations)
    theta = found.theta[0]
    residuals = network(network.unflatten(theta), x) - (2 * y - 1)
    implied = -residuals / (len(y) * config.weight_decay)
    fitted = certificate(network, theta, x, y, unsigned=True)
    params = network.unflatten(theta)
    by_layer, products = gram(network, params, x)
    norm2 = layer_norms(network, params).sum()
    left = norm2 - 2 * products.sum(0) @ implied + implied @ by_layer.sum(0) @ implied
    grad_norm = objective.grad(theta[None], x[None]).norm().item()
    return {
        "weight_decay": config.weight_decay,
        "training_loss": objective.loss(theta[None], x[None]).item(),
        "grad_norm": grad_norm,
        "iterations": found.iterations,
        "kkt_residual": fitted.residual,
        "implied_residual": (left.clamp_min(0) / norm2).sqrt().item(),
        "gradient_over_decay": grad_norm / (config.weight_decay * theta.norm().item()),
        "multiplier_error": ((fitted.multipliers - implied).norm() / implied.norm()).item(),
    }


def claims(metrics: dict, config: KKTTraining) -> list[Claim]:
    """What convergence the attack needs, and what the recipe of 10⁶ epochs is not needed for."""
    ours, reference = metrics["loss-scaled"], metrics["gradient-descent"]
    decay = metrics["weight_decay"]
    reached = metrics["steps_to_reference_loss"]
    return [
        Claim(
            "kkt-loss-scaled",
            "",
            "Descent on the logarithm of the loss reaches the reference's final loss, 4e-6, in hundreds of steps.",
            f"{config.reference_epochs:,} epochs".replace(",", " "),
            f"{reached} steps; after {metrics['steps']}: log-loss {ours['log_loss']:.0f}, normalised margin "
            f"{ours['min_normalised_margin']:.2g}, residual of layer 1 {ours['kkt_residual']:.0%}",
            f"plain gradient descent after {metrics['steps']}: log-loss {reference['log_loss']:.2g}, margin "
            f"{reference['min_normalised_margin']:.2g}, residual {reference['kkt_residual']:.0%}",
            "finding",
        ),
        Claim(
            "kkt-weight-decay-identity",
            "",
            "With weight decay the residual with the multipliers that training implies is the gradient over the decay; "
            "multipliers fitted afterwards do at least as well.",
            "",
            f"implied {decay['implied_residual']:.2g}, gradient over decay {decay['gradient_over_decay']:.2g}, fitted "
            f"{decay['kkt_residual']:.2g}",
            "no images at all: 1",
            "finding",
        ),
    ]


EXPERIMENT = Experiment(
    name="kkt-training",
    chapter="05-kkt-training",
    section="4.4",
    summary="training to the KKT point of the maximum-margin problem, and a certificate of arrival",
    cost={"smoke": "5 s", "laptop": "2 min", "paper": "an hour"},
    configs=KKT_TRAINING,
    run=run,
    figures={"training": plots.plot_training, "support": plots.plot_support},
)
