"""Chapter 2: collapse, §3.2 of Runkel et al. (2024): one confident example per class, repeated, passes for the data."""

from __future__ import annotations

import torch
from torch import Tensor

from recon.chapters.base import Context, Experiment
from recon.chapters.plots import collapse as plots
from recon.chapters.profiles import COLLAPSE, Collapse
from recon.images.pools import centre, uncentre
from recon.nets.mlp import MLP, one_hidden
from recon.store.results import Claim, Outcome, verdict
from recon.training.inner import Objective, solve_lbfgs
from recon.training.kkt import train_to_kkt

KINDS = ("train", "held_out", "noise")


def stationarity(objective: Objective, theta: Tensor, x: Tensor, y: Tensor) -> float:
    """Eq. (3): ‖∇_θ E(x, y; θ)‖² of images x (n, d) with labels y (n,)."""
    here = Objective(objective.network, y, objective.weight_decay)
    return here.grad(theta[None], x[None]).square().sum().item()


def logit_grad_norm2(network: MLP, theta: Tensor, x: Tensor) -> Tensor:
    """‖∇_θ Φ(x_i; θ)‖² of each image, (n,), for a one-hidden net, by the chain rule and without a loop:

    (‖h_i‖² + 1) + ‖δ_i‖² (‖x_i‖² + 1) with hidden activations h_i and δ_i = w2 ⊙ σ'(z_i).
    """
    params = network.unflatten(theta)
    z = x @ params["w1"].mT + params["b1"]
    delta = params["w2"] * (z > 0)
    return z.relu().square().sum(1) + 1 + delta.square().sum(1) * (x.square().sum(1) + 1)


def per_image(network: MLP, theta: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """(|Φ| (n,), ‖∇_θ ℓ‖² (n,)) of each image with the label that the network itself gives it.

    The chain rule's factor is the confidence: ∇_θ ℓ = (σ(Φ) − y) ∇_θ Φ, and |σ(Φ) − y| = σ(−|Φ|) for that label.
    """
    confidence = network(network.unflatten(theta), x).abs()
    return confidence, torch.sigmoid(-confidence).square() * logit_grad_norm2(network, theta, x)


def confident_pair(network: MLP, theta: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """The images with the most negative and the most positive logit, (2,) rows of x, and their labels (0, 1)."""
    logits = network(network.unflatten(theta), x)
    return torch.stack([logits.argmin(), logits.argmax()]), torch.tensor([0.0, 1.0], dtype=x.dtype)


def repeated(objective: Objective, theta: Tensor, x: Tensor, m: int) -> tuple[float, Tensor]:
    """Eq. (3) of m images: the most confident one of each class in x (n, d), m/2 times each; and which two."""
    pair, labels = confident_pair(objective.network, theta, x)
    images = x[pair].repeat_interleave(m // 2, dim=0)
    return stationarity(objective, theta, images, labels.repeat_interleave(m // 2)), pair


def run(config: Collapse, context: Context) -> Outcome:
    """Train without weight decay to high confidence, and once more with it; then repeat single examples."""
    data = context.dataset(config.n_train, config.n_held_out)
    mean, y = data.train.flat.double().mean(0), data.train.y.double()
    train, held_out = (centre(part.flat.double(), mean) for part in (data.train, data.held_out))
    noise = centre(torch.rand(held_out.shape, generator=context.generator(2), dtype=torch.float64), mean)
    m = len(train)
    network = one_hidden(config.width, train.shape[1])
    theta_init = network.flatten(network.init(context.generator(1)))
    trained = train_to_kkt(network, train.float(), y.float(), theta_init, config.steps, goal=config.goal)
    theta = trained.theta_star.double()
    objective = Objective(network, y, 0.0)
    margins = (2 * y - 1) * network(network.unflatten(theta), train)
    truth = stationarity(objective, theta, train, y)
    by_train, pair_train = repeated(objective, theta, train, m)
    by_held_out, pair_held_out = repeated(objective, theta, held_out, m)
    by_noise, _ = repeated(objective, theta, noise, m)
    alone = {
        k: per_image(network, theta, x) for k, x in zip(KINDS, (train, held_out, noise), strict=True)
    }  # an image repeated m times has the objective of one
    predicted = (network(network.unflatten(theta), held_out) > 0).double()

    decayed = Objective(network, y, config.weight_decay)
    theta_decay = solve_lbfgs(decayed, train[None], theta_init.double()[None], tol=1e-8, max_iter=500).theta[0]
    metrics = {
        "n_train": m,
        "width": config.width,
        "log_loss": trained.log_loss,
        "min_margin": margins.min().item(),
        "median_margin": margins.median().item(),
        "max_heldout_confidence": alone["held_out"][0].max().item(),
        "heldout_error": (predicted != data.held_out.y.double()).double().mean().item(),
        "objective_true": truth,
        "objective_repeated_train": by_train,
        "objective_repeated_heldout": by_held_out,
        "objective_repeated_noise": by_noise,
        **{f"share_of_{k}_below_truth": (alone[k][1] <= truth).double().mean().item() for k in KINDS},
        "weight_decay": {
            "weight_decay": config.weight_decay,
            "objective_true": stationarity(decayed, theta_decay, train, y),
            "objective_repeated_train": repeated(decayed, theta_decay, train, m)[0],
            "objective_repeated_heldout": repeated(decayed, theta_decay, held_out, m)[0],
            "objective_no_images": (config.weight_decay * theta_decay).square().sum().item(),
        },
    }
    arrays = {f"confidence_{k}": alone[k][0] for k in KINDS} | {f"objective_{k}": alone[k][1] for k in KINDS}
    arrays |= {
        "x_repeated_train": uncentre(train[pair_train], mean).float(),
        "x_repeated_held_out": uncentre(held_out[pair_held_out], mean).float(),
        "x_train": data.train.flat[:: max(1, m // 8)][:8],
        "history": trained.history,
    }
    return Outcome(metrics, claims(metrics), arrays)


def claims(metrics: dict) -> list[Claim]:
    """§3.2's sentences, with the true training data's objective as the bar."""
    truth, decay = metrics["objective_true"], metrics["weight_decay"]
    bar = f"true training data: {truth:.1e}"
    return [
        Claim(
            "collapse-repeated-train",
            "3.2",
            "It is sufficient to find a single example with the desired output and repeat it many times.",
            "argued, not measured",
            f"objective {metrics['objective_repeated_train']:.1e}",
            bar,
            verdict(metrics["objective_repeated_train"] <= truth),
        ),
        Claim(
            "collapse-repeated-heldout",
            "3.2",
            "The collapse can happen with any example classified with extremely high confidence, also one never seen.",
            "argued, not measured",
            f"objective {metrics['objective_repeated_heldout']:.1e} for the most confident held-out pair; "
            f"{metrics['share_of_held_out_below_truth']:.0%} of all held-out images, each alone, are below the truth",
            bar,
            verdict(metrics["objective_repeated_heldout"] <= truth),
        ),
        Claim(
            "collapse-weight-decay",
            "",
            "With weight decay in the objective the collapse onto one natural image per class no longer passes.",
            "footnote 1 of the paper asks for the decay, for another reason",
            f"held-out pair {decay['objective_repeated_heldout']:.1e}",
            f"true training data: {decay['objective_true']:.1e}; no images at all: {decay['objective_no_images']:.1e}",
            "finding",
        ),
    ]


EXPERIMENT = Experiment(
    name="collapse",
    chapter="02-collapse",
    section="3.2",
    summary="one confident example per class, repeated, explains the weights as well as the training data",
    cost={"smoke": "3 s", "laptop": "30 s", "paper": "minutes"},
    configs=COLLAPSE,
    run=run,
    figures={"objective": plots.plot_objective, "images": plots.plot_images},
)
