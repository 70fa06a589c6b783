"""The paper's thesis in energies, with ours and what it is compared with."""

from __future__ import annotations

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
    before, after = metrics.energy_fitted, metrics.energy_after_attack
    found, best = (
        metrics.matches_after_attack.partition.ssim_04,
        metrics.best_null_after_attack.partition.ssim_04,
    )
    name = null_text(best, metrics.best_null_name_after_attack.partition.ssim_04)
    ratio = after.partition / after.truth
    ended = metrics.converged.truth and metrics.converged.partition
    said = (
        "not reproduced" if ratio > AS_GOOD else "partly" if clears(found, best) else "reproduced"
    )
    return [
        claim(
            "truth-partition-as-good",
            ours=(
                f"after the attack: from the partition {after.partition:.1%}, from the truth"
                f" {after.truth:.1%}, {ratio:.2f} times; before it: partition"
                f" {before.partition:.1%}, truth {before.truth:.1%}"
            )
            + ("" if ended else "; not converged: undecided"),
            null=(
                f"after the attack from noise: {after.random:.1%}; training images among the"
                f" partition's results: {found} (SSIM above 0.4; best null: {name})"
            ),
            verdict=said if ended else "undecided",
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
    before, after = result.metrics.energy_fitted, result.metrics.energy_after_attack
    figure, ax = plt.subplots(figsize=(PAGE, 2.2))
    for y, name in enumerate(NAMES):
        colour, ends = STARTS[name], {before[name]: "as they are", after[name]: "attacked"}
        ax.plot([*ends], [y, y], color="#cccccc", lw=2, zorder=1)
        ax.plot(
            before[name],
            y,
            "o",
            color=colour,
            markersize=8,
            markerfacecolor="white",
            markeredgewidth=1.8,
        )
        ax.plot(after[name], y, "o", color=colour, markersize=8)
        for value, label in ends.items():
            text, left = f"{value:.2g}" + (f", {label}" if y == 0 else ""), value == min(ends)
            note(ax, text, (value, y), (-8 if left else 8, 0), colour, "right" if left else "left")
    ax.set_yticks(range(len(NAMES)), list(NAMES.values()))
    ax.set(xscale="log", ylim=(2.5, -0.6), xlabel="unexplained share of ‖θ₁‖²")
    for value in (before.truth, after.truth):
        ax.axvline(value, color=STARTS["truth"], linestyle=":", lw=1, zorder=0)
    values = [shares[name] for shares in (before, after) for name in NAMES]
    ax.set_xlim(min(values) / 10, max(values) * 3)
    return figure


FIGURES = {"energy": plot_energies}
