"""Appendix A's sentence, with our value and what it is compared with."""

from __future__ import annotations

from companion.chapters.kkt_training.metrics import Metrics
from companion.chapters.kkt_training.sizes import Sizes
from companion.store.results import Claim


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """Whether more training always brings the images nearer to a KKT point."""
    ours = metrics.loss_scaled
    later = ours.observed[len(ours.observed) // 2 :]
    smooth = min(later, key=lambda row: row.kkt_residual_smoothed)
    hard = min(later, key=lambda row: row.kkt_residual)
    rises = (ours.kkt_residual_smoothed / smooth.kkt_residual_smoothed, ours.kkt_residual / hard.kkt_residual)
    both = [each >= 1.05 for each in rises]
    return [
        Claim(
            "kkt-residual-rises",
            "",
            "More training does not bring the images ever nearer to a KKT point: the residual of layer 1 has a minimum "
            "on the way and rises after it.",
            "",
            f"smoothed: {smooth.kkt_residual_smoothed:.1%} at step {smooth.step}, {ours.kkt_residual_smoothed:.1%} at "
            f"step {ours.step}; hard: {hard.kkt_residual:.1%} at step {hard.step}, {ours.kkt_residual:.1%} at the end",
            "no images: 100%; no rise: 1",
            "finding" if all(both) else "partly" if any(both) else "not reproduced",
            value=min(rises),
            null_value=1.0,
        ),
    ]
