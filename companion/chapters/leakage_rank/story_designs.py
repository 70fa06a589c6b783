"""What the paper advises builders of networks, and what the joint rank says instead."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from scipy.stats import bootstrap, rankdata

from companion.chapters.claims import claim
from companion.chapters.leakage_rank.experiment_designs import Metrics, Sizes, decibels
from companion.chapters.pictures import PAGE, SERIES, chart
from companion.store.results import Claim, Result

FEW = 8  # designs, below which a correlation says nothing


def claims(metrics: Metrics, sizes: Sizes) -> list[Claim]:
    """Advice, wide layers at the beginning, and condition numbers where no layer lacks rank."""
    rows = metrics.designs
    solvable = [row for row in rows if not row.c]
    stable = ([row[name] for row in solvable] for name in ("condition", "amplified"))
    return [
        recommendation(metrics, sizes),
        ranked("designs-wide", [row.width for row in rows], [decibels(row) for row in rows]),
        ranked("designs-condition", *stable),
    ]


def correlation(x: list[float], y: list[float]) -> tuple[float, float, float] | None:
    """Spearman's ρ and the central 95 % of its bootstrap; None where there are too few, or no two
    different ones.
    """
    if len(x) < FEW or len(set(x)) < 2 or len(set(y)) < 2:
        return None
    drawn = bootstrap(
        (x, y),
        spearman,
        paired=True,
        vectorized=False,
        n_resamples=1000,
        method="percentile",
        rng=np.random.default_rng(0),
    )
    interval = drawn.confidence_interval
    return spearman(x, y), float(interval.low), float(interval.high)


def spearman(x: Sequence[float], y: Sequence[float]) -> float:
    """Spearman's ρ; 0 where one side does not vary, as in some draws of a bootstrap."""
    a, b = (rankdata(values) - (len(values) + 1) / 2 for values in (x, y))
    norms = np.linalg.norm(a) * np.linalg.norm(b)
    return float((a * b).sum() / norms) if norms else 0.0


def in_words(found: tuple[float, float, float] | None) -> str:
    """ρ with its interval."""
    return "too few" if found is None else f"{found[0]:.2f} [{found[1]:.2f}, {found[2]:.2f}]"


def chance(count: int) -> float:
    """What 95 % of the rank correlations of unrelated numbers stay below."""
    return 1.96 / max(count - 1, 1) ** 0.5


def recommendation(metrics: Metrics, sizes: Sizes) -> Claim:
    """A small c(M) as advice."""
    rows = metrics.designs
    psnr = [decibels(row) for row in rows]
    by_c = correlation([row.c for row in rows], psnr)
    by_rank = correlation([min(row.missing) for row in rows], psnr)
    low = [row for row in rows if row.c < 0]
    given = sum(all(row.found) for row in low)
    judgement = "partly" if given else "reproduced"
    return claim(
        "leakage-recommendation",
        {
            "networks": len(rows),
            "side": sizes.side,
            "by_c": in_words(by_c),
            "by_rank": in_words(by_rank),
            "low": len(low),
            "given": given,
            "chance": chance(len(rows)),
        },
        verdict=judged(by_c, judgement),
        value=by_c and by_c[0],
        null_value=by_rank and by_rank[0],
    )


def judged(found: tuple[float, float, float] | None, holds: str = "reproduced") -> str:
    """A verdict: `holds` if the interval of a correlation is above 0."""
    return "undecided" if found is None else holds if found[1] > 0 else "not reproduced"


def ranked(name: str, x: list[float], y: list[float]) -> Claim:
    """The claim of this name, by a rank correlation over networks."""
    found = correlation(x, y)
    return claim(
        name,
        {"by": in_words(found), "networks": len(x), "chance": chance(len(x))},
        verdict=judged(found),
        value=found and found[0],
        null_value=0.0,
    )


@chart
def plot_designs(result: Result[Metrics]) -> Figure:
    """CosineTV's PSNR against c(M), and against what all layers together lack; full dots: found by
    Gauss–Newton.
    """
    figure, axes = plt.subplots(1, 2, figsize=(PAGE, 3.6), sharey=True, layout="constrained")
    rows = result.metrics.designs
    psnr = np.array([decibels(row) for row in rows])
    given = np.array([all(row.found) for row in rows])
    panels = {
        "−c(M): missing in single layers, weighted": [-row.c for row in rows],
        "missing in all layers together": [-min(row.missing) for row in rows],
    }
    for ax, (label, numbers) in zip(axes, panels.items(), strict=True):
        x = np.array(numbers)
        words = "Gauss–Newton recovers all that is read"
        ax.plot(x[given], psnr[given], "o", color=SERIES[0], label=words)
        ax.plot(x[~given], psnr[~given], "o", color=SERIES[0], mfc="none", label="it does not")
        ax.set(xscale="symlog", xlabel=f"{label} (equations)")
        ax.set_xlim(left=-0.3)
        ax.set_xticks([0, *ax.get_xticks()[ax.get_xticks() >= 10][::2]])
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    axes[0].set_ylabel("PSNR of CosineTV (dB, peak 1)")
    return figure


FIGURES = {"designs": plot_designs}
