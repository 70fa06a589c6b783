"""Chapter 18's sentences, one for each question."""

from __future__ import annotations

from recon.chapters.leakage_beyond.metrics import Activations, Metrics, ThreatModels
from recon.chapters.leakage_beyond.sizes import Sizes
from recon.chapters.tables import best_text
from recon.nets.conv import SLOPE
from recon.scoring.nulls import clears
from recon.store.results import Claim, verdict


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """One sentence each."""
    return [
        activations_claim(metrics.activations),
        threat_claim(metrics.threat_models),
    ]


def activations_claim(found: dict[str, Activations]) -> Claim:
    """LeakyReLU against Tanh, by both attacks."""
    words = {"rgap": "R-GAP", "matching": "CosineTV"}
    said, harder, ratios = [], [], []
    for name, row in found.items():
        for method, label in words.items():
            ratio = row.ratio(method)
            said.append(f"{label} on {name}: " + ("exact with either" if row.exact(method) else f"{ratio} times"))
            ratios.append(ratio.mean)
            harder += [] if row.exact(method) else [ratio.low > 1]
    return Claim(
        "leakage-activations",
        "C&C Appendix G",
        "With LeakyReLU the attacks have a harder time than with Tanh.",
        "LeakyReLU hard for constrained optimisation",
        f"error with LeakyReLU (slope {SLOPE:g}) over that with Tanh, geometric mean over images: " + "; ".join(said),
        "Tanh: "
        + "; ".join(
            f"{key} on {name} {value:.3g}"
            for name, row in found.items()
            for key, value in row.rows().items()
            if key.startswith("tanh")
        ),
        verdict(all(harder)) if all(harder) or not any(harder) else "partly",
        value=max(ratios),
        null_value=1.0,
    )


def threat_claim(measured: ThreatModels) -> Claim:
    """When a gradient holds its image, and when the weights hold theirs.

    The gradient must do so at some step, and the weights' count clear the best null at some step.
    """
    stages, weights = measured.stages, measured.weights
    early = [stage.log_loss for stage in stages if stage.gradient_ncc_32 > 0.99]
    late = [stage.log_loss for stage in stages if stage.gradient_ncc_32 < 0.01]
    held = f"NCC above 0.99 down to a loss of exp({min(early):.0f})" if early else "never above NCC 0.99"
    gone = f", below 0.01 from exp({max(late):.0f}) on, in float32" if late else ""
    counts = ", ".join(f"{row.above_06} (step {row.step})" for row in weights)
    cleared = [row.step for row in weights if clears(row.above_06, row.best_null.ncc_06)]
    clear = (
        f"clear of the best null at step {', '.join(map(str, cleared))}" if cleared else "never clear of the best null"
    )
    holds = (bool(early), bool(cleared))
    return Claim(
        "leakage-two-threat-models",
        "",
        "During training one gradient holds its image until it underflows, and the weights come to hold images.",
        "",
        f"gradient: {held}{gone}; weights: {counts} of {measured.n_train} images above NCC 0.6, {clear}",
        "best null: "
        + ", ".join(best_text(row) for row in weights)
        + "; held out: "
        + ", ".join(str(row.null_above_06) for row in weights),
        "finding" if all(holds) else "partly" if any(holds) else "not reproduced",
    )
