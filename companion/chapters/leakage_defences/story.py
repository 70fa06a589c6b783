"""The sentences of appendix D, each with what decides it."""

import math
from itertools import takewhile
from statistics import fmean as mean

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from companion.chapters.claims import claim
from companion.chapters.leakage_defences.experiment import AttackSizes, Metrics
from companion.chapters.pictures import BASELINE, PAGE, REFERENCE, SERIES, chart
from companion.store.record import Record
from companion.store.results import Claim, Result, graded

WITHIN = 2.0  # factor between predicted and found error
NO_BETTER = 0.8  # of the null's error: what counts as nothing left


def claims(metrics: Metrics, _: AttackSizes) -> list[Claim]:
    """Noise, its prediction, and c(M)."""
    made = (noise_claim, reduces_claim, predicted_claim, metric_claim)
    return [judge(metrics) for judge in made]


def noise_claim(metrics: Metrics) -> Claim:
    """The least noise that leaves nothing, by network."""
    hides = {}
    lost: dict[str, float] = {}
    for name, rows in metrics.noise.items():
        grey = mean(metrics.grey[name])
        hides[name] = hidden_from(rows, grey)
        worse = [row.z for row in rows if row.rgap is not None and mean(row.rgap) > grey]
        lost |= {name: min(worse)} if worse else {}
    words = {
        name: {"images": len(metrics.grey[name]), "z": in_words(z)} for name, z in hides.items()
    }
    return claim(
        "leakage-noise",
        {"hides": words, "lost": lost, "no_better": NO_BETTER},
        verdict=graded(*map(math.isfinite, hides.values())),
        value=max(hides.values()),
        null_value=max(row.z for row in next(iter(metrics.noise.values()))),
    )


def hidden_from(rows: list[Record], null: float) -> float:
    """The least z from which on the most probable image's error stays above `NO_BETTER` of the
    null's; ∞ where there is none.
    """
    better = takewhile(lambda row: mean(row.mse) >= NO_BETTER * null, reversed(rows))
    return min((row.z for row in better), default=math.inf)


def in_words(z: float) -> str:
    """Of the least z that hides."""
    return f"z = {z:g}" if math.isfinite(z) else "no z that was tried"


def reduces_claim(metrics: Metrics) -> Claim:
    """Reproduced if the most noise leaves a larger error than the least, on every network and for
    both attacks.
    """
    attacks = {"the most probable image": "mse", "R-GAP": "rgap"}
    rows = [
        {"name": name, "attack": attack, "least": mean(noise[0][key]), "most": mean(noise[-1][key])}
        for name, noise in metrics.noise.items()
        for attack, key in attacks.items()
        if noise[0][key]
    ]
    larger = [row["most"] > row["least"] for row in rows]
    return claim(
        "leakage-noise-reduces",
        {"rows": rows},
        verdict=graded(*larger, best="reproduced"),
        value=sum(larger),
        null_value=0.0,
    )


def predicted_claim(metrics: Metrics) -> Claim:
    """The adversary's own estimate of their error."""
    ratios = {
        name: [mean(row.mse) / mean(row.predicted) for row in rows]
        for name, rows in metrics.noise.items()
    }
    every = np.concatenate(list(ratios.values()))
    near = np.mean((every >= 1 / WITHIN) & (every <= WITHIN))
    off = max(mean(metrics.grey[name]) / mean(rows[0].mse) for name, rows in metrics.noise.items())
    ends = {name: {"least": min(row), "most": max(row)} for name, row in ratios.items()}
    return claim(
        "defences-predicted",
        {"ratios": ends, "off": off},
        verdict=graded(bool(near == 1), bool(near >= 0.8)),
        value=float(max(every.max(), 1 / every.min())),
        null_value=WITHIN,
    )


def metric_claim(metrics: Metrics) -> Claim:
    """The paper's one sentence on a defence: reproduced if every larger noise lowers c(M) on every
    network, partly if any does.
    """
    lowered = [c < row.c[0] for row in metrics.deficiency for c in row.c[1:]]
    rows = [
        {"network": row.network, "c": [{"z": z, "c": c} for z, c in zip(row.z, row.c, strict=True)]}
        for row in metrics.deficiency
    ]
    return claim(
        "defences-metric",
        {"rows": rows},
        verdict=graded(*lowered, best="reproduced"),
        value=sum(lowered),
        null_value=0.0,
    )


@chart
def plot_noise(result: Result[Metrics]) -> Figure:
    """Error over a grey image's against z: every most probable image a dot, their mean, and what
    the adversary expects of it.
    """
    metrics = result.metrics
    figure, ax = plt.subplots(figsize=(PAGE, 3.6))
    ax.set(xscale="log", yscale="log", xlabel="noise multiplier z", ylabel="error over grey's")
    for (name, rows), colour in zip(metrics.noise.items(), SERIES, strict=False):
        grey = np.array(metrics.grey[name])
        z = [row.z for row in rows]
        ax.plot(z, [np.mean(row.mse) / grey.mean() for row in rows], color=colour, label=name)
        ax.plot(z, [np.mean(row.predicted) / grey.mean() for row in rows], "--", color=colour)
        ax.plot(z, np.array([row.mse for row in rows]) / grey, ".", color=colour, alpha=0.4)
    ax.plot([], [], "--", color=REFERENCE, label="as the adversary\nexpects it")
    ax.axhline(1, color=BASELINE, linestyle=":", label="grey image (baseline)")
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


FIGURES = {"noise": plot_noise}
