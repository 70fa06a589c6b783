"""Chapter 17's sentences, one for each question."""

from __future__ import annotations

from recon.chapters.leakage_beyond.metrics import Activations, Metrics, Noise, ThreatModels
from recon.chapters.leakage_beyond.sizes import Sizes
from recon.chapters.tables import best_text
from recon.scoring.nulls import clears
from recon.store.results import Claim


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """One sentence each."""
    return [
        noise_claim(metrics.noise),
        activations_claim(metrics.activations),
        threat_claim(metrics.threat_models),
    ]


def noise_claim(level: Noise) -> Claim:
    """How much noise R-GAP takes."""
    means = [sum(values) / len(values) for values in level.rgap]
    lost = next((s for s, v in zip(level.sigma, means, strict=True) if v <= level.grey), None)
    return Claim(
        "leakage-noise",
        "C&C Appendix G",
        "Noise on the gradient is a defence left open; how much does R-GAP take?",
        "open",
        f"mean PSNR (peak 1) {means[0]:.0f} dB at σ = {level.sigma[0]:g}, {means[-1]:.0f} dB at "
        f"{level.sigma[-1]:g}; "
        + (f"no better than grey from σ = {lost:g}" if lost else "the mean is better than grey throughout")
        + f", single runs down to {min(map(min, level.rgap)):.0f} dB",
        f"a grey image: {level.grey:.0f} dB",
        "finding",
    )


def harder(error: float, other: float) -> str:
    """By a tenth of the other's error, rounding apart."""
    return "harder" if error > 1.1 * other + 1e-6 else "no harder"


def activations_claim(found: Activations) -> Claim:
    """LeakyReLU against Tanh, by both attacks."""
    matching = harder(found.leaky_relu_matching, found.tanh_matching)
    by_rgap = harder(found.leaky_relu_rgap, found.tanh_rgap)
    return Claim(
        "leakage-activations",
        "",
        f"Without any constraint, LeakyReLU is {matching} than Tanh for gradient matching, and {by_rgap} for R-GAP.",
        "LeakyReLU hard for constrained optimisation (Appendix G)",
        "MSE: " + ", ".join(f"{key} {value:.3g}" for key, value in found.rows().items()),
        "ReLU cannot be inverted: no R-GAP",
        "finding",
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
