"""Appendix A: two ways into the KKT regime, with the certificate on the way."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome
from companion.chapters.common import LAYER_1
from companion.store.record import Record
from recon.images.bundle import Bundle
from recon.nets.mlp import MLP, three_layer
from recon.training.kkt import KKTSettings, Observer, Trained, certificate, train_to_kkt


class Metrics(Record):
    """Both methods from the same start. steps_to_reference_loss: of loss-scaled descent, −1 if it
    never got there; at_reference_loss: what it had then.

    loss-scaled: How it ended, and what was observed on the way. loss-scaled.observed: After `step`
    steps: the natural logarithm of the training loss; what the training images leave of layer 1,
    relative to ‖θ₁‖, with fitted multipliers: with the hard step as ReLU′ (kkt_residual), and with
    the sigmoid by which the attack smooths it (kkt_residual_smoothed). first_layer: How much of a
    layer's random start is left at the end. start_share: κ² ‖W(0)‖² / ‖W‖², κ the factor of W(0) in
    W.
    """


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Training without weight decay.

    Attributes:
        steps: of loss-scaled descent.
        reference_steps: of the reference recipe.
        alpha: slope of the smoothed ReLU′, the attack's.
        reference_goal: log of `recon.training.kkt.FINAL_LOSS`, a goal of ours.
    """

    n_train: int
    width: int
    steps: int
    reference_steps: int
    alpha: float = 100.0
    reference_goal: float = -12.43
    reference_step_size: float = 0.01


SIZES = {
    "smoke": Sizes(n_train=20, width=64, steps=150, reference_steps=150),
    "laptop": Sizes(n_train=100, width=500, steps=1500, reference_steps=800),
    "paper": Sizes(n_train=500, width=1000, steps=3000, reference_steps=1000),
}


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Both methods from the same θ⁰, observed on the way."""
    images = context.images(sizes.n_train)
    network = three_layer(sizes.width, images.dim)
    theta_init = network.flatten(network.init(context.stream("kkt.weights"), "small")).to(
        images.train.device
    )
    descent = KKTSettings(
        sizes.reference_steps, method="gradient-descent", step_size=sizes.reference_step_size
    )
    ours, trained = _train(KKTSettings(sizes.steps), network, theta_init, images, sizes.alpha)
    reference, by_descent = _train(descent, network, theta_init, images, sizes.alpha)
    below = (trained.history <= sizes.reference_goal).nonzero()
    reached, at_reference = int(below[0]) + 1 if len(below) else -1, None
    if reached > 0:  # loss-scaled descent once more, for that many steps
        again = train_to_kkt(network, images.train, images.y, theta_init, KKTSettings(reached))
        at_reference = observed(
            network, again.theta_star, images, sizes.alpha, reached, again.history
        )
    metrics = Metrics(
        n_train=sizes.n_train,
        **{"loss-scaled": ours, "gradient-descent": reference},
        steps_to_reference_loss=reached,
        at_reference_loss=at_reference,
        first_layer=_faded(0, network, trained),
        second_layer=_faded(1, network, trained),
    )
    histories = {
        "history_loss-scaled": trained.history,
        "history_gradient-descent": by_descent.history,
    }
    return Outcome(metrics, histories | {"x_train": images.train})


def observation_steps(steps: int, points: int = 14) -> tuple[int, ...]:
    """About `points` step numbers, evenly spaced on a logarithmic scale, the last one `steps`."""
    return tuple(
        sorted({round(math.exp(v)) for v in torch.linspace(0, math.log(steps), points).tolist()})
    )


def _train(
    settings: KKTSettings, network: MLP, theta_init: Tensor, images: Bundle, alpha: float
) -> tuple[Record, Trained]:
    """How it ended, with what was observed on the way; and the training."""
    looks: dict[int, Tensor] = {}
    observer = Observer(
        observation_steps(settings.steps), lambda k, theta: looks.update({k: theta.clone()})
    )
    trained = train_to_kkt(network, images.train, images.y, theta_init, settings, None, observer)
    looks.setdefault(len(trained.history), trained.theta_star)  # the goal came between two looks
    rows = [
        observed(network, theta, images, alpha, k, trained.history) for k, theta in looks.items()
    ]
    return Record({**rows[-1], "observed": rows}), trained


def observed(
    network: MLP, theta: Tensor, images: Bundle, alpha: float, step: int, history: Tensor
) -> Record:
    """Layer 1 at θ (p,) after so many steps, with the hard step and with the smoothed one;

    Args:
        history: of log-losses.
    """
    hard, smoothed = (
        certificate(network, theta, images.train, images.y, alpha=slope, layer_weights=LAYER_1)
        for slope in (None, alpha)
    )
    return Record(
        step=step,
        kkt_residual=hard.residual_by_layer[0].item(),
        kkt_residual_smoothed=smoothed.residual_by_layer[0].item(),
        log_loss=history[step - 1].item(),
    )


def _faded(layer: int, network: MLP, trained: Trained) -> Record:
    """What is left of the start of W1 (layer 0) or W2 (layer 1)."""
    start, end = (
        network.unflatten(theta.double())[f"w{layer + 1}"]
        for theta in (trained.theta_init, trained.theta_star)
    )
    size = start.square().sum()
    left = ((start * end).sum() / size).item()
    return Record(start_share=left**2 * size.item() / end.square().sum().item())
