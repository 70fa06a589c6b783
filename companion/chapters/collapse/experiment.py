"""Chapter 2: collapse, §3.2 of Runkel et al. (2024): one confident example per class, repeated,
passes for the data.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.store.record import Record
from recon.nets.mlp import MLP, one_hidden
from recon.training.inner_problem import INNER, Objective, solve_lbfgs
from recon.training.kkt import KKTSettings, certificate, train_to_kkt


class Metrics(Record):
    """Eq. (3), ‖∇_θ E‖² without weight decay, at a trained network. objective_true: of the training
    images; repeated: of the most confident image of each class, repeated n_train/2 times, among
    training, held-out and noise images · share_of_…_below_truth: images whose objective, each
    repeated alone, is at most `objective_true`.

    weight_decay: Eq. (3) with weight decay ω, at a network that was trained with it: of the
    training images, of the most confident pair of training and of held-out images, repeated, and of
    no images at all, ‖ωθ‖². explained_small_start: The objective of Haim et al. (2022) and Buzaglo
    et al. (2023), ‖θ − Σ λ_i y_i ∇Φ(x_i)‖² / ‖θ‖² with the best λ ≥ 0, at a network whose first
    layer starts small, as Haim et al.'s: 1 without images. truth: of the training images ·
    train_pair, held_out_pair, noise_pair: of the most confident image of each class, the multiplier
    of each free, so that copies change nothing · held_out: of as many held-out images as were
    trained on, with the labels that the network gives them.
    """


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """
    Attributes:
        width: of the hidden layer.
        steps: of loss-scaled descent (no weight decay), at most.
        goal: log-loss at which training ends; much lower, and gradients underflow even in float64.
        weight_decay: of the second network.
    """

    n_train: int
    width: int
    steps: int
    goal: float = -15.0
    n_held_out: int = 200
    weight_decay: float = 1e-3


SIZES = {
    "smoke": Sizes(n_train=40, width=64, steps=200, n_held_out=50),
    "laptop": Sizes(n_train=100, width=500, steps=1000),
    "paper": Sizes(n_train=500, width=1000, steps=3000, n_held_out=1000),
}


PICKED = 12  # held-out images that a reader picks from, evenly spaced


def stationarity(objective: Objective, theta: Tensor, x: Tensor, y: Tensor) -> float:
    """Eq. (3): ‖∇_θ E(x, y; θ)‖² of images x (n, d) with labels y (n,)."""
    here = Objective(objective.network, y, objective.weight_decay)
    return here.grad(theta[None], x[None]).square().sum().item()


def logit_grad_norm2(network: MLP, theta: Tensor, x: Tensor) -> Tensor:
    """‖∇_θ Φ(x_i; θ)‖² of each image, (n,), for a one-hidden net, by the chain rule and without a
    loop:

    (‖h_i‖² + 1) + ‖δ_i‖² (‖x_i‖² + 1) with hidden activations h_i and δ_i = w2 ⊙ σ'(z_i).
    """
    params = network.unflatten(theta)
    z = x @ params["w1"].mT + params["b1"]
    delta = params["w2"] * (z > 0)
    return z.relu().square().sum(1) + 1 + delta.square().sum(1) * (x.square().sum(1) + 1)


def per_image(network: MLP, theta: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """(|Φ| (n,), ‖∇_θ ℓ‖² (n,)) of each image with the label that the network itself gives it.

    The chain rule's factor is the confidence: ∇_θ ℓ = (σ(Φ) − y) ∇_θ Φ, and |σ(Φ) − y| = σ(−|Φ|)
    for that label.
    """
    confidence = network(network.unflatten(theta), x).abs()
    return confidence, torch.sigmoid(-confidence).square() * logit_grad_norm2(network, theta, x)


def confident_pair(network: MLP, theta: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """The images with the most negative and the most positive logit, (2,) rows of x, and their
    labels (0, 1).
    """
    logits = network(network.unflatten(theta), x)
    return torch.stack([logits.argmin(), logits.argmax()]), torch.tensor([0.0, 1.0], dtype=x.dtype)


def repeated(objective: Objective, theta: Tensor, x: Tensor, m: int) -> tuple[float, Tensor]:
    """Eq. (3) of m images: the most confident one of each class in x (n, d), m/2 times each; and
    which two.
    """
    pair, labels = confident_pair(objective.network, theta, x)
    images = x[pair].repeat_interleave(m // 2, dim=0)
    return stationarity(objective, theta, images, labels.repeat_interleave(m // 2)), pair


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Train without weight decay to high confidence, and once more with it; then repeat single
    examples.
    """
    data = context.dataset(sizes.n_train, sizes.n_held_out)
    mean = data.train.flat.double().mean(0)
    y = data.train.y.double()
    m = len(data.train)
    train, held_out = (part.flat.double() - mean for part in (data.train, data.held_out))
    noise = torch.rand(
        held_out.shape, generator=context.stream("collapse.noise"), dtype=torch.float64
    )
    images = {"train": train, "held_out": held_out, "noise": noise - mean}
    network = one_hidden(sizes.width, train.shape[1])

    def trained(scheme: str) -> tuple[Tensor, Tensor]:
        theta_init = network.flatten(network.init(context.stream("collapse.weights"), scheme))
        fit = train_to_kkt(
            network, train.float(), y.float(), theta_init, KKTSettings(sizes.steps, sizes.goal)
        )
        return theta_init.double(), fit.theta_star.double()

    theta_init, theta = trained("default")
    objective = Objective(network, y, 0.0)
    decayed = Objective(network, y, sizes.weight_decay)
    truth = stationarity(objective, theta, train, y)
    pairs = {kind: repeated(objective, theta, x, m) for kind, x in images.items()}
    with_decay = solve_lbfgs(decayed, train[None], theta_init[None], replace(INNER, tol=1e-8))[0]
    below = {}
    arrays = {
        "x_train": data.train.flat[:: max(1, m // 8)][:8],
        "x_held_out": data.held_out.flat[:: len(data.held_out) // PICKED][:PICKED],
    }
    for kind, x in images.items():  # an image repeated m times has the objective of one
        confidence, alone = per_image(network, theta, x)
        arrays[f"confidence_{kind}"] = confidence
        arrays[f"objective_{kind}"] = alone
        below[f"share_of_{kind}_below_truth"] = (alone <= truth).double().mean().item()
    for kind in ("train", "held_out"):
        arrays[f"x_repeated_{kind}"] = (images[kind][pairs[kind][1]] + mean).float()
    metrics = Metrics(
        n_train=m,
        objective_true=truth,
        objective_repeated_train=pairs["train"][0],
        objective_repeated_heldout=pairs["held_out"][0],
        objective_repeated_noise=pairs["noise"][0],
        **below,
        # where the weights hold little but what training put there
        explained_small_start=_explained(network, trained("small")[1], images, y),
        weight_decay=Record(
            objective_true=stationarity(decayed, with_decay, train, y),
            objective_repeated_train=repeated(decayed, with_decay, train, m)[0],
            objective_repeated_heldout=repeated(decayed, with_decay, held_out, m)[0],
            objective_no_images=(decayed.weight_decay * with_decay).square().sum().item(),
        ),
    )
    return Outcome(metrics, arrays)


def _explained(network: MLP, theta: Tensor, images: Tensors, y: Tensor) -> Record:
    """‖θ − Σ λ_i y_i ∇Φ(x_i)‖² / ‖θ‖² of the training images, of confident pairs, and of n held-out
    images.
    """

    def left(x: Tensor, labels: Tensor) -> float:
        return certificate(network, theta, x, labels).residual ** 2

    pairs = {}
    for kind, x in images.items():
        rows, labels = confident_pair(network, theta, x)
        pairs[f"{kind}_pair"] = left(x[rows], labels)
    others = images["held_out"][: len(y)]
    labels = (network(network.unflatten(theta), others) > 0).double()
    return Record(truth=left(images["train"], y), **pairs, held_out=left(others, labels))
