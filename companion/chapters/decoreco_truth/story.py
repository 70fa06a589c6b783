"""The paper's thesis in energies, with ours and what it is compared with."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from companion.chapters.decoreco_truth.experiment import Metrics, Sizes
from companion.chapters.pictures import PAGE, STARTS, Colour, chart, end_labels, note
from companion.chapters.tables import null_text
from companion.store.results import Claim, Result
from recon.scoring.nulls import clears

AS_GOOD = 1.1  # energies within a tenth of each other count as equal


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """The paper's thesis in energies, before against before and after against after: undecided unless both attacks had
    converged."""
    before, after = metrics.energy_fitted, metrics.energy_after_attack
    found, best = metrics.matches_after_attack.partition.ssim_04, metrics.best_null_after_attack.partition.ssim_04
    name = null_text(best, metrics.best_null_name_after_attack.partition.ssim_04)
    ratio = after.partition / after.truth
    ended = metrics.converged.truth and metrics.converged.partition
    said = "not reproduced" if ratio > AS_GOOD else "partly" if clears(found, best) else "reproduced"
    return [
        Claim(
            "truth-partition-as-good",
            "1, 4.4",
            "Images that were never trained on satisfy the objective as well as the training images do.",
            "argued from Figs. 3, 4, 9",
            f"after the attack: from the partition {after.partition:.1%}, from the truth {after.truth:.1%}, "
            f"{ratio:.1f} times; before it: partition {before.partition:.1%}, truth {before.truth:.1%}"
            + ("" if ended else "; not converged: undecided"),
            f"after the attack from noise: {after.random:.1%}; training images among the partition's results: {found} "
            f"(SSIM above 0.4; best null: {name})",
            said if ended else "undecided",
            value=ratio,
            null_value=after.random / after.truth,
            margin=AS_GOOD - ratio,
        )
    ]


NAMES = {"truth": "training images", "partition": "other photographs", "random": "noise"}


@chart
def plot_energies(result: Result[Metrics]) -> Figure:
    """Share of layer 1 left unexplained: n images with fitted multipliers, and the same after the attack."""
    before, after = result.metrics.energy_fitted, result.metrics.energy_after_attack
    figure, (above, below) = plt.subplots(2, 1, figsize=(PAGE, 4.9), height_ratios=(2, 3))
    ends: list[tuple[float, str, Colour]] = []
    for y, (name, words) in enumerate(NAMES.items()):
        colour, (old, new) = STARTS[name], (getattr(before, name), getattr(after, name))
        above.plot([new, old], [y, y], color="#cccccc", lw=2, zorder=1)
        above.plot(old, y, "o", color=colour, markersize=8, markerfacecolor="white", markeredgewidth=1.8)
        above.plot(new, y, "o", color=colour, markersize=8)
        for value, label in ((old, "as they are"), (new, "attacked")):
            text = f"{value:.2g}" + (f", {label}" if y == 0 else "")
            if value == min(old, new):
                note(above, text, (value, y), (-8, 0), colour, "right")
            else:
                note(above, text, (value, y), (8, 0), colour)
        history = result.array(f"history_{name}")
        below.plot(history, color=colour)
        ends.append((float(history[-1]), f"from {words}", colour))
    above.set_yticks(range(len(NAMES)), list(NAMES.values()))
    above.set(xscale="log", ylim=(2.5, -0.6), xlabel="unexplained share of ‖θ₁‖²")
    for value in (before.truth, after.truth):
        above.axvline(value, color=STARTS["truth"], linestyle=":", lw=1, zorder=0)
    values = [getattr(shares, name) for shares in (before, after) for name in NAMES]
    above.set_xlim(min(values) / 10, max(values) * 3)
    below.set(yscale="log", xlabel="step", ylabel="energy (layer 1)", xlim=(0, len(history) - 1))
    end_labels(below, ends)
    return figure


FIGURES = {"energy": plot_energies}
