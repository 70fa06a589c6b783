"""Chapter 2's sentences, with the true training data's objective as the bar."""

from __future__ import annotations

from companion.chapters.collapse.metrics import Metrics
from companion.chapters.collapse.sizes import Sizes
from companion.store.results import Claim, orders_below, verdict


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """§3.2, and what weight decay changes."""
    truth, decay, no = metrics.objective_true, metrics.weight_decay, "not reproduced"
    blocked = decay.objective_true <= 0.5 * min(decay.objective_repeated_heldout, decay.objective_repeated_train)
    bar = f"true training data: {truth:.1e}"
    return [
        Claim(
            "collapse-repeated-train",
            "3.2",
            "It is sufficient to find a single example with the desired output and repeat it many times.",
            "argued, not measured",
            f"objective {metrics.objective_repeated_train:.1e}",
            bar,
            verdict(metrics.objective_repeated_train <= truth),
            value=metrics.objective_repeated_train,
            null_value=metrics.objective_repeated_noise,
            margin=orders_below(metrics.objective_repeated_train, truth),
        ),
        Claim(
            "collapse-repeated-heldout",
            "3.2",
            "The collapse can happen with any example classified with extremely high confidence, also one never seen.",
            "argued, not measured",
            f"objective {metrics.objective_repeated_heldout:.1e} for the most confident held-out pair; "
            f"{metrics.share_of_held_out_below_truth:.0%} of all held-out images, each alone, are below the truth",
            bar,
            verdict(metrics.objective_repeated_heldout <= truth),
            value=metrics.objective_repeated_heldout,
            null_value=metrics.objective_repeated_noise,
            margin=orders_below(metrics.objective_repeated_heldout, truth),
        ),
        Claim(
            "collapse-weight-decay",
            "",
            "With weight decay in the objective the collapse onto one natural image per class no longer passes.",
            "footnote 1 of the paper asks for the decay, for another reason",
            f"held-out pair {decay.objective_repeated_heldout:.1e}",
            f"true training data: {decay.objective_true:.1e}; no images at all: {decay.objective_no_images:.1e}",
            "finding" if blocked else "partly" if decay.objective_repeated_heldout > decay.objective_true else no,
            value=decay.objective_repeated_heldout / decay.objective_true,
            null_value=decay.objective_no_images / decay.objective_true,
        ),
    ]
