"""The map in five bars: what the adversary has, and what share of the images is recovered, beside
its baseline; and the members of a head in three.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from sphinx.application import Sphinx

from companion.chapters import kept, load
from companion.chapters.heads.story_members import plot_three_bars
from companion.chapters.pictures import BASELINE, PAGE, RECOVERED, chart


@dataclass(frozen=True)
class Bar:
    """
    Attributes:
        label: what the adversary has.
        found, null: shares of the images, in [0, 1].
        counts: as a reader sees them.
    """

    label: str
    found: float
    null: float
    counts: str


def bars(root: Path) -> list[Bar]:
    """From the runs that the book keeps at the paper's size; no number is typed here."""

    def metrics(name: str) -> Any:
        return load(root / "book" / "paper-size" / name, arrays=False).metrics

    cells = metrics("separation-recipes").cells
    size = metrics("separation-size").widest()

    def recipe(label: str, cell: str, known: str = "unknown") -> Bar:
        row = next(each for each in cells if (each.cell, each.known) == (cell, known))
        return counted(label, row.matches.ncc_07, row.best_null.ncc_07, row.n_train)

    many = next(each for each in size if each.n_train == 500)
    head = metrics("heads-members").at(recipe="AdamW, default", n_train=100)
    members = [count / head.n_train for count in head.attacks["matched filter"].at_1pct]
    return [
        recipe("weights, SGD without decay", "SGD, decay 0"),
        recipe("weights and their initial weights", "SGD, decay 0", "known"),
        recipe("weights whose initial weights are erased by decay", "SGD, decay 0.02"),
        counted(
            "weights from small initial ones, 500 images",
            many.matches.ncc_08,  # above 0.7 photographs themselves match a tenth
            many.best_null.ncc_08,
            many.n_train,
        ),
        Bar(
            "a head's weights, the image itself, and 2,000 of its kind (who was trained on?)",
            min(members),
            0.01,
            f"{100 * min(members):.0f} to {100 * max(members):.0f} % of the members",
        ),
    ]


def counted(label: str, found: int, null: int, n: int) -> Bar:
    return Bar(label, found / n, null / n, f"{found} of {n}")


@chart
def plot_bars(found: list[Bar]) -> Figure:
    """Each bar ends at the share that comes out; the mark on it is the best null, or the false
    alarms allowed.
    """
    figure, ax = plt.subplots(figsize=(PAGE, 3.6))
    for k, bar in enumerate(reversed(found)):
        ax.barh(k, bar.found, height=0.42, color=RECOVERED)
        ax.plot([bar.null] * 2, [k - 0.24, k + 0.24], color=BASELINE, lw=2.5)
        ax.text(0, k + 0.3, bar.label, va="bottom", fontsize=8.5)
        ax.text(max(bar.found, bar.null) + 0.01, k, bar.counts, va="center", fontsize=8.5)
    ax.plot([], [], color=BASELINE, lw=2.5, label="baseline: chance, or blends of photographs")
    ax.set(
        xlim=(0, 1.22),
        ylim=(-0.6, len(found)),
        xlabel="share of the images that is recovered",
        yticks=[],
    )
    ax.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "all"])
    ax.spines["left"].set_visible(False)
    ax.legend(loc="upper right")
    return figure


def write_bars(app: Sphinx) -> None:
    """Before pages are read: both figures, in the folder of the page."""
    root = Path(app.srcdir)
    if not (root / "book" / "publish.md").is_file():
        return  # no page shows them
    mpl.use("Agg")
    folder = root / "book" / "figures"
    folder.mkdir(exist_ok=True)
    for name, figure in {
        "knowledge": plot_bars(bars(root)),
        "members": plot_three_bars(kept("heads-members")),
    }.items():
        figure.savefig(
            folder / f"{name}.png", dpi=200, facecolor=figure.get_facecolor(), bbox_inches="tight"
        )
        plt.close(figure)
