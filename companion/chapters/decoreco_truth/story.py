"""The paper's thesis in energies, with ours and what it is compared with."""

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from companion.chapters.claims import claim
from companion.chapters.decoreco_truth.experiment import Metrics, Sizes
from companion.chapters.pictures import PAGE, STARTS, chart, note
from companion.chapters.tables import null_text
from companion.store.results import Claim, Result
from recon.scoring.nulls import clears

AS_GOOD = 1.1  # energies within a tenth of each other count as equal


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """The paper's thesis in energies, before against before and after against after: undecided
    unless both attacks had converged.
    """
    after, matches = metrics.energy_after_attack, metrics.matches_after_attack.partition.ssim_04
    best = metrics.best_null_after_attack.partition.ssim_04
    name = metrics.best_null_name_after_attack.partition.ssim_04
    ratio = after.partition / after.truth
    ended = metrics.converged.truth and metrics.converged.partition
    judged = (
        "not reproduced" if ratio > AS_GOOD else "partly" if clears(matches, best) else "reproduced"
    )
    so_far = "" if ended else "; not converged: undecided"
    return [
        claim(
            "truth-partition-as-good",
            {**metrics, "ratio": ratio, "best": null_text(best, name), "so_far": so_far},
            verdict=judged if ended else "undecided",
            value=ratio,
            null_value=after.random / after.truth,
            margin=AS_GOOD - ratio,
        )
    ]


NAMES = {"truth": "training images", "partition": "other photographs", "random": "noise"}


@chart
def plot_energies(result: Result[Metrics]) -> Figure:
    """Share of layer 1 left unexplained: n images with fitted multipliers, and the same after the
    attack.
    """
    metrics, rows = result.metrics, range(len(NAMES))
    colours = [STARTS[name] for name in NAMES]
    before, after = (
        [energies[name] for name in NAMES]
        for energies in (metrics.energy_fitted, metrics.energy_after_attack)
    )
    figure, ax = plt.subplots(figsize=(PAGE, 2.2))
    ax.hlines(rows, before, after, "#cccccc", zorder=1)
    ax.scatter(before, rows, 60, "white", edgecolors=colours, linewidths=1.8)
    ax.scatter(after, rows, 60, colours)
    for values, label in ((before, ", as they are"), (after, ", attacked")):
        for y, (value, colour) in enumerate(zip(values, colours, strict=True)):
            left = value == min(before[y], after[y])
            words = f"{value:.2g}" + (label if y == 0 else "")
            note(ax, words, (value, y), (-8 if left else 8, 0), colour, "right" if left else "left")
        ax.axvline(values[0], color=STARTS["truth"], linestyle=":", lw=1, zorder=0)
    ax.set_yticks(rows, list(NAMES.values()))
    ax.set(xscale="log", ylim=(2.5, -0.6), xlabel="unexplained share of ‖θ₁‖²")
    ax.set_xlim(min(before + after) / 10, max(before + after) * 3)
    return figure


FIGURES = {"energy": plot_energies}
