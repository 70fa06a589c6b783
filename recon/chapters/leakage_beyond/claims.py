"""Chapter 18's sentences, one for each question."""

from __future__ import annotations

from statistics import geometric_mean

from recon.chapters.leakage_beyond.metrics import Metrics, ThreatModels
from recon.chapters.leakage_beyond.sizes import Sizes
from recon.chapters.tables import best_texts
from recon.nets.conv import SLOPE
from recon.scoring.nulls import clears
from recon.store.results import Claim

HALF = 0.5  # of a grey image's error: what counts as something
MUCH = 2.0  # a ratio that is shown to be smaller than this is not much


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """One sentence each."""
    return [
        activations_claim(metrics),
        threat_claim(metrics.threat_models),
    ]


def activations_claim(metrics: Metrics) -> Claim:
    """LeakyReLU against Tanh by both attacks, where the attack gets something out of Tanh."""
    words = {"rgap": "R-GAP", "matching": "CosineTV"}
    said, judged = [], []
    for name, row in metrics.activations.items():
        for method, label in words.items():
            ratio = row.ratio(method)
            if row.exact(method):
                said.append(f"{label} on {name} is exact with either")
            elif row.typical("tanh", method) > HALF * geometric_mean(metrics.grey):
                said.append(f"{label} on {name} {ratio} times, but there it is no better than grey with Tanh already")
            else:
                said.append(f"{label} on {name} {ratio} times")
                judged.append(ratio)
    harder = [ratio.low > 1 for ratio in judged]
    easier = [ratio.high < MUCH for ratio in judged]
    return Claim(
        "leakage-activations",
        "",
        "With LeakyReLU in place of Tanh the same attacks have larger errors.",
        "LeakyReLU is hard for constrained optimisation",
        f"judged by {len(judged)} of {len(said)}: error with LeakyReLU (slope {SLOPE:g}) over that with Tanh, "
        f"geometric mean over {len(metrics.grey)} images: " + "; ".join(said),
        f"a grey image {geometric_mean(metrics.grey):.3g}; Tanh: "
        + "; ".join(
            f"{key.removeprefix('tanh, ')} on {name} {value:.3g}"
            for name, row in metrics.activations.items()
            for key, value in row.rows().items()
            if key.startswith("tanh")
        ),
        "undecided"
        if not judged or not (any(harder) or all(easier))
        else ("finding" if all(harder) else ("partly" if any(harder) else "not reproduced")),
        value=min((ratio.mean for ratio in judged), default=None),
        null_value=1.0,
    )


def threat_claim(measured: ThreatModels) -> Claim:
    """When a gradient holds its image, and when the weights hold theirs.

    The gradient must do so at some step, and the weights' count clear the best null at some step.
    """
    stages, weights = measured.stages, measured.weights
    early = [stage.log_loss for stage in stages if stage.gradient_ncc_32 > 0.99]
    late = [stage.log_loss for stage in stages if stage.gradient_ncc_32 < 0.01]
    held = f"an NCC above 0.99 down to a loss of exp({min(early):.0f})" if early else "never an NCC above 0.99"
    gone = f" and below 0.01 from exp({max(late):.0f}) on, in float32" if late else ""
    counts = ", ".join(f"{row.above_06} (step {row.step})" for row in weights)
    cleared = [row.step for row in weights if clears(row.above_06, row.best_null.ncc_06)]
    clear = (
        f"clear of the best null at step {', '.join(map(str, cleared))}" if cleared else "never clear of the best null"
    )
    holds = (bool(early), bool(cleared))
    clearest = max(weights, key=lambda row: row.above_06 - row.best_null.ncc_06)
    return Claim(
        "leakage-two-threat-models",
        "",
        "During training one gradient holds its image until it underflows, and the weights come to hold images.",
        "",
        f"the gradient's image has {held}{gone}; from the weights DecoReco has {counts} of {measured.n_train} images "
        f"above NCC 0.6, {clear}",
        "best null: " + best_texts(weights) + "; held out: " + ", ".join(str(row.null_above_06) for row in weights),
        "finding" if all(holds) else "partly" if any(holds) else "not reproduced",
        value=float(clearest.above_06),
        null_value=float(clearest.best_null.ncc_06),
    )
