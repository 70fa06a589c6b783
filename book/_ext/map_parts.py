"""What the map of knowing shows: its table, a part, and its figures, drawn before pages are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

import matplotlib as mpl
import matplotlib.pyplot as plt
from chapter_pages import EXECUTED
from claim_parts import Sources
from sphinx.application import Sphinx

from recon.analysis.privacy_bounds import least_error
from recon.chapters import registry
from recon.chapters.all_but_one.claims_private import best_null
from recon.press.knowing import KNOWLEDGE, RANKED, Point, found_in, points
from recon.press.knowing.figures import plot_map
from recon.press.numbers import number

FIGURES = "figures"
#: p / (d m): from, below, in words
BINS = ((0.0, 1.0, "below 1"), (1.0, 10.0, "1 to 10"), (10.0, float("inf"), "10 or more"))
COLUMNS = ("what they have", "told", "attacks", "found at best", "found none", "surely", "bound", "chapters")
NOISE = ("noise on", "budget", "the attack", "as the adversary expects", "bound", "without an attack")


def table(sources: Sources) -> str:
    """One row a cell of the map, also where nobody tried."""
    every = points(sources.root, sources.results)
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    for knowledge in KNOWLEDGE:
        for low, high, words in BINS:
            here = [point for point in every if point.knowledge == knowledge and low <= point.told < high]
            lines.append("| " + " | ".join((knowledge, words, *cell(here))) + " |")
    return "\n".join(lines)


def cell(here: Sequence[Point]) -> tuple[str, ...]:
    """The last six columns of a row."""
    if not here:
        return ("none", *[""] * 5)
    asked = [point for point in here if point.sure is not None and point.found > point.null]
    sure, found = sum(point.sure or 0 for point in asked), sum(point.found for point in asked)
    others = sum(point.others for point in here)
    return (
        str(len(here)),
        best_of(here),
        str(sum(point.share == 0 for point in here)),
        surely(f"{sure} of {found}" if asked else "", here),
        f"other images fit {others} of them" if others else "none known",
        ", ".join(chapters_of(here)),
    )


def surely(counted: str, here: Sequence[Point]) -> str:
    """What the adversary is sure of, and the chapters where their evidence is judged by ranks alone."""
    stems = sorted({RANKED[point.experiment] for point in here if point.experiment in RANKED})
    links = ", ".join(f"[{int(stem[:2])}](executed/{stem})" for stem in stems)
    said = [counted] if counted else []
    return "; ".join([*said, *([f"ranked in {links}"] if links else [])]) or "not asked"


def best_of(here: Sequence[Point]) -> str:
    """The largest share beyond the null, of images where any are counted."""
    counted = [point for point in here if point.counted]
    best = max(counted or here, key=lambda point: point.share)
    if not best.share:
        return "none"
    return f"{best.found} of {best.unknown} (null {best.null})" if counted else f"{best.share:.0%} of the error"


def noise(sources: Sources) -> str:
    """What noise leaves of an adversary with all images but one: named candidates, and errors of the direction."""
    sgd, output = (
        found_in(sources.root, sources.results, name).metrics for name in ("informed-sgd", "informed-output")
    )
    lines = ["| " + " | ".join(NOISE) + " |", "|" + "---|" * len(NOISE)]
    for row in sorted(sgd.noises, key=lambda row: row.epsilon):
        shares = [row.right / sgd.runs, row.expected, row.bound, sgd.kappa]
        lines.append(
            f"| steps | ε = {number(row.epsilon)} | " + " | ".join(f"{share:.0%} right" for share in shares) + " |"
        )
    dim = max(row.dim for row in output.budgets)
    null = best_null(output, dim)
    for row in (row for row in output.budgets if row.dim == dim):
        errors = [f"error {number(median(values))}" for values in (row.error, row.predicted)]
        bound = f"error {number(least_error(row.ratio, 1))}"
        cells = ("weights", f"ρ/d = {row.ratio:g}", *errors, bound, f"error {number(null)}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def chapters_of(here: Sequence[Point]) -> list[str]:
    """Links, in the order of the book."""
    stems = sorted({registry()[point.experiment].chapter for point in here})
    return [f"[{int(stem[:2])}](executed/{stem})" for stem in stems]


def write_figures(app: Sphinx) -> None:
    """book/figures/knowing-map.png."""
    root = Path(app.srcdir)
    results, folder = root / EXECUTED / "results", root / "book" / FIGURES
    mpl.use("Agg")
    output, sgd = (found_in(root, results, name).metrics for name in ("informed-output", "informed-sgd"))
    folder.mkdir(exist_ok=True)
    figure = plot_map(points(root, results), output, sgd)
    figure.savefig(folder / "knowing-map.png", dpi=200, facecolor=figure.get_facecolor())
    plt.close(figure)


PARTS = {"knowing": table, "knowing-noise": noise}
