"""Chapter 5's sentences, each with our value and what it is compared with."""

from __future__ import annotations

from recon.chapters.kkt_training.metrics import Metrics, Observed
from recon.chapters.kkt_training.sizes import Sizes
from recon.store.results import Claim

NO = "not reproduced"


def claims(metrics: Metrics, sizes: Sizes) -> list[Claim]:
    """What convergence the attack needs, and what the recipe of 10⁶ epochs is not needed for."""
    ours, reference = metrics.loss_scaled, metrics.gradient_descent
    decay, reached, steps = metrics.weight_decay, metrics.at_reference_loss, metrics.steps_to_reference_loss
    then = f" (layer 1 left: {_both(reached)})" if reached else ""
    later = ours.observed[len(ours.observed) // 2 :]
    smooth = min(later, key=lambda row: row.kkt_residual_smoothed)
    hard = min(later, key=lambda row: row.kkt_residual)
    rises = (ours.kkt_residual_smoothed / smooth.kkt_residual_smoothed, ours.kkt_residual / hard.kkt_residual)
    both = [each >= 1.05 for each in rises]
    first, second, needed = metrics.first_layer, metrics.second_layer, metrics.needed
    gap = abs(decay.implied_residual / decay.gradient_over_decay - 1)
    return [
        Claim(
            "kkt-loss-scaled",
            "",
            "Descent on the logarithm of the loss reaches the reference's final loss, 4e-6, within a thousand steps.",
            f"{sizes.reference_epochs:,} epochs at n = 500".replace(",", " "),
            f"n = {metrics.n_train}: {steps} steps{then}; after {ours.step}: log-loss {ours.log_loss:.0f}, normalised "
            f"margin {ours.min_normalised_margin:.2g}, layer 1 left: {_both(ours)}",
            f"plain gradient descent after {reference.step}: log-loss {reference.log_loss:.2g}, margin "
            f"{reference.min_normalised_margin:.2g}, layer 1 left: {_both(reference)}",
            NO if steps < 0 else "finding" if steps <= 1000 else "partly",
            value=steps,
            null_value=sizes.reference_epochs,
        ),
        Claim(
            "kkt-residual-rises",
            "",
            "More training does not bring the images ever nearer to a KKT point: the residual of layer 1 has a minimum "
            "on the way and rises after it.",
            "",
            f"smoothed: {smooth.kkt_residual_smoothed:.1%} at step {smooth.step}, {ours.kkt_residual_smoothed:.1%} at "
            f"step {ours.step}; hard: {hard.kkt_residual:.1%} at step {hard.step}, {ours.kkt_residual:.1%} at the end",
            "no images: 100%; no rise: 1",
            "finding" if all(both) else "partly" if any(both) else NO,
            value=min(rises),
            null_value=1.0,
        ),
        Claim(
            "kkt-second-layer",
            "",
            "The second layer's random start does not fade: it is most of that layer's norm at the end.",
            "",
            f"{second.start_share:.0%} of ‖W2‖² = {second.end_norm:.0f}, {second.start_norm:.0f} at the start; "
            f"the images leave {second.left:.0%}; for a share of {needed.share:.0%} training would have to go to a "
            f"log-loss of about {needed.log_loss:.1g}",
            f"first layer: {first.start_share:.1%}",
            "finding" if second.start_share >= 0.5 else "partly" if second.start_share > first.start_share else NO,
            value=second.start_share,
            null_value=first.start_share,
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
            NO if gap > 1e-3 else "finding" if decay.kkt_residual <= decay.implied_residual else "partly",
            value=gap,
            null_value=abs(1 / decay.gradient_over_decay - 1),
        ),
    ]


def _both(row: Observed) -> str:
    return f"{row.kkt_residual:.0%} hard, {row.kkt_residual_smoothed:.0%} smoothed"
