"""What the map of knowing shows: its table, a part, and its figures, drawn before pages are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean, median

import matplotlib as mpl
import matplotlib.pyplot as plt
from chapter_pages import EXECUTED
from claim_parts import Sources
from sphinx.application import Sphinx

from recon.analysis.privacy_bounds import least_error
from recon.chapters import registry
from recon.chapters.all_but_one.claims_private import best_null
from recon.chapters.leakage_defences.metrics import Public
from recon.press.knowing import KNOWLEDGE, RANKED, UNDISTURBED, Point, found_in, noisy, points
from recon.press.knowing.figures import plot_map
from recon.press.numbers import number

FIGURES = "figures"
#: p / (d m): from, below, in words
BINS = ((0.0, 1.0, "below 1"), (1.0, 10.0, "1 to 10"), (10.0, float("inf"), "10 or more"))
COLUMNS = ("what they have", "told", "attacks", "found at best", "found none", "surely", "bound", "chapters")
LEAST = 1e-3  # of a bound that is worth a number
STEPS = ("budget", "the attack", "as the adversary expects", "no attack can pass", "without an attack")
OUTPUT = (
    "budget",
    "the attack",
    "as the adversary expects",
    "weights that never saw the image",
    "without an attack",
    "bound for Gaussian images, mean squared error",
)
NETWORK = ("network", "found", "best null", "surely", "accuracy on other images")


def table(sources: Sources) -> str:
    """One row a cell of the map, also where nobody tried."""
    every = points(sources.root, sources.results)
    rows = []
    for knowledge in KNOWLEDGE:
        for low, high, words in BINS:
            here = [point for point in every if point.knowledge == knowledge and low <= point.told < high]
            rows.append((knowledge, words, *cell(here)))
    return lines(COLUMNS, rows)


def lines(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    head = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join([*head, *("| " + " | ".join(row) + " |" for row in rows)])


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


def noise_on_steps(sources: Sources) -> str:
    """What DP-SGD leaves of an adversary with all images but one: how often they name the right candidate."""
    sgd = found_in(sources.root, sources.results, "informed-sgd").metrics
    rows = []
    for row in sorted(sgd.noises, key=lambda row: row.epsilon):
        shares = (row.right / sgd.runs, row.expected, row.bound, sgd.kappa)
        rows.append((f"ε = {number(row.epsilon)}", *(f"{share:.0%} right" for share in shares)))
    return lines(STEPS, rows)


def noise_on_weights(sources: Sources) -> str:
    """What noise on a linear regression's weights leaves of the same adversary: errors of the direction, and beside
    them a bound on another error of other images."""
    output = found_in(sources.root, sources.results, "informed-output").metrics
    dim = max(row.dim for row in output.budgets)
    null, rows = best_null(output, dim), []
    for row in (row for row in output.budgets if row.dim == dim):
        errors = [median(values) for values in (row.error, row.predicted, row.placebo)]
        bound = least_error(row.ratio, 1)
        said = number(bound) if bound >= LEAST else f"under {LEAST:g}"
        rows.append((f"ρ/d = {row.ratio:g}", *map(number, (*errors, null)), said))
    return lines(OUTPUT, rows)


def noise_on_network(sources: Sources) -> str:
    """What noise leaves of separation, for an adversary with the weights alone; first each network without it."""
    cells = found_in(sources.root, sources.results, "separation-recipes").metrics.cells
    rows = []
    for each in (each for each in cells if each.cell in UNDISTURBED or noisy(each.cell)):
        sure, accuracy = each.certainty, each.test_accuracy
        rows.append(
            (
                each.cell if noisy(each.cell) else f"{each.cell}, without noise",
                f"{each.matches.ncc_07} of {each.n_train}",
                str(each.best_null.ncc_07),
                f"{sure.true_among_sure} of {sure.sure}",
                "not measured" if accuracy is None else f"{accuracy:.0%}",
            )
        )
    return lines(NETWORK, rows)


def noise_on_gradient(sources: Sources) -> str:
    """What noise on a gradient leaves of its image for an adversary who knows photographs: error over a grey image's,
    geometric means, and as they expect it; last the mean photograph, which takes no gradient."""
    metrics = found_in(sources.root, sources.results, "leakage-prior").metrics
    names = list(metrics.noise)
    rows = []
    for z in sorted({row.z for by_z in metrics.noise.values() for row in by_z}):
        here = [next((row for row in metrics.noise[name] if row.z == z), None) for name in names]
        rows.append((f"{z:g}", *(over_grey(row, metrics.grey[name]) for row, name in zip(here, names, strict=True))))
    nulls = (geometric_mean(metrics.mean[name]) / geometric_mean(metrics.grey[name]) for name in names)
    return lines(("noise", *names), [*rows, ("mean photograph", *map(number, nulls))])


def over_grey(row: Public | None, grey: Sequence[float]) -> str:
    """Error over a grey image's, and what the adversary expects; nothing where that noise was not tried."""
    if row is None:
        return ""
    found, expected = (number(geometric_mean(values) / geometric_mean(grey)) for values in (row.mse, row.predicted))
    return f"{found} ({expected})"


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


PARTS = {
    "knowing": table,
    "knowing-noise": noise_on_steps,
    "knowing-noise-weights": noise_on_weights,
    "knowing-noise-network": noise_on_network,
    "knowing-noise-gradient": noise_on_gradient,
}
