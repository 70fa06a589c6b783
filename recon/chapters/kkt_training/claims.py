"""Chapter 5's sentences, each with our value and what it is compared with."""

from __future__ import annotations

from recon.chapters.kkt_training.metrics import Metrics
from recon.chapters.kkt_training.sizes import Sizes
from recon.store.results import Claim


def claims(metrics: Metrics, sizes: Sizes) -> list[Claim]:
    """What convergence the attack needs, and what the recipe of 10⁶ epochs is not needed for."""
    ours, reference = metrics.loss_scaled, metrics.gradient_descent
    decay = metrics.weight_decay
    return [
        Claim(
            "kkt-loss-scaled",
            "",
            "Descent on the logarithm of the loss reaches the reference's final loss, 4e-6, in hundreds of steps.",
            f"{sizes.reference_epochs:,} epochs".replace(",", " "),
            f"{metrics.steps_to_reference_loss} steps; after {metrics.steps}: log-loss {ours.log_loss:.0f}, normalised "
            f"margin {ours.min_normalised_margin:.2g}, residual of layer 1 {ours.kkt_residual:.0%}",
            f"plain gradient descent after {metrics.steps}: log-loss {reference.log_loss:.2g}, margin "
            f"{reference.min_normalised_margin:.2g}, residual {reference.kkt_residual:.0%}",
            "finding",
        ),
        Claim(
            "kkt-weight-decay-identity",
            "",
            "With weight decay the residual with the multipliers that training implies is the gradient over the decay; "
            "multipliers fitted afterwards do at least as well.",
            "",
            f"implied {decay.implied_residual:.2g}, gradient over decay {decay.gradient_over_decay:.2g}, fitted "
            f"{decay.kkt_residual:.2g}",
            "no images at all: 1",
            "finding",
        ),
    ]
