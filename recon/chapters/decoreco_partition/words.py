"""Chapter 10's tables, as dictionaries of columns; all from the metrics."""

from __future__ import annotations

from recon.chapters.decoreco_partition.metrics import Metrics, Search
from recon.chapters.reference_common import Ended, ReferenceArm, ReferenceNet, in_table
from recon.chapters.tables import best_text

RECIPE = "published recipe"
NOT_MEASURED = "–"


def ended(found: Ended) -> dict[str, int]:
    """Where the results of a search ended, with the nulls of what moved."""
    return {
        "nearest to their own start image": found.nearest_is_own_start,
        "nearest to the start partition": found.nearest_is_start_partition,
        "moved to a training image": found.moved_to_training,
        "moved to a held-out image (null)": found.moved_to_held_out,
        "moved to a training image (best null)": found.best_null_moved,
    }


def by_recipe(arm: ReferenceArm, net: ReferenceNet) -> dict[str, object]:
    """A column for a run of the published recipe: counts, nulls, how far it came, and where it ended."""
    return {"candidates": arm.m, **in_table(arm, net), **ended(arm)}


def compared(metrics: Metrics, steps: int) -> dict[str, dict[str, object]]:
    """A column for each search: the recipe's, and of ours what the result holds of the same.  steps: of ours."""
    variants = metrics.variants
    recipe = by_recipe(variants.reference, metrics.reference_net)
    ours = {"ours, all pixels": variants.pixels, "ours, in the span": variants.span}
    columns = {RECIPE: recipe}
    for name, found in ours.items():
        column = {**_counts(found, steps), "candidates": metrics.ours, **ended(found)}
        columns[name] = {row: column.get(row, NOT_MEASURED) for row in recipe}
    return columns


def _counts(found: Search, steps: int) -> dict[str, object]:
    converged = "" if found.converged else ", not converged" if found.converged is False else ", converged or not"
    return {
        "above NCC 0.6": str(found.matches.ncc_06),
        "best null": best_text(found),
        "held out": str(found.null.ncc_06),
        "steps": f"{steps:,}{converged}",
    }
