"""Chapter 8's sentences: where separation ends, and what decides whether weights leak."""

from __future__ import annotations

import math

from scipy.stats import spearmanr

from companion.chapters.weights_leak.cells import KNOWN
from companion.chapters.weights_leak.metrics import RecipeCell, RecipeMetrics, SizeMetrics
from companion.chapters.weights_leak.sizes import MapSizes, RecipeSizes
from companion.store.results import Claim
from recon.scoring.nulls import clears


def size_claims(metrics: SizeMetrics, _: MapSizes) -> list[Claim]:
    """Where separation ends."""
    here = [cell for cell in metrics.widest() if cell.side == 32]
    shares = [cell.excess.ncc_07 / cell.n_train for cell in here]
    listed = ", ".join(f"{cell.matches.ncc_07} of {cell.n_train}" for cell in here)
    return [
        Claim(
            "separation-size",
            "",
            "Up to some number of images separation finds most of them; beyond it ever fewer.",
            "",
            f"above NCC 0.7 at width {here[0].width}: {listed}",
            "best null: " + ", ".join(str(cell.best_null.ncc_07) for cell in here),
            "finding" if max(shares) > 0.5 and shares[-1] < max(shares) / 2 else "not reproduced",
            value=max(shares),
            null_value=max(cell.best_null.ncc_07 / cell.n_train for cell in here),
        ),
    ]


def recipe_claims(metrics: RecipeMetrics, _: RecipeSizes) -> list[Claim]:
    """What decides: how much of the start is left, and whether its place is known."""
    return [_start_erased(metrics), _known_start(metrics)]


def _start_erased(metrics: RecipeMetrics) -> Claim:
    law = [cell for cell in metrics.of("decay", "start") if cell.known == KNOWN[0]]
    excess = [cell.excess.ncc_07 for cell in law]
    rho = float(spearmanr([cell.start_over_update for cell in law], excess).statistic) if len(law) > 2 else math.nan
    decay = [cell for cell in law if cell.family == "decay"]
    erased = [cell for cell in decay if (cell.erased or 0.0) >= 3]
    stands = [cell for cell in decay if cell.erased is not None and cell.erased < 0.5]
    holds = erased and all(map(found_more, erased)) and not any(map(found_more, stands))
    return Claim(
        "leak-start-erased",
        "",
        "From PyTorch's own start, gradient descent gives its images away when weight decay has erased that start "
        "(Σ lr · decay / (1 − momentum) of 3 or more), and not while it stands (below 0.5).",
        "",
        f"above NCC 0.7 where erased: {_found(erased)}; where it stands: {_found(stands)} of {metrics.cells[0].n_train}"
        f"; rank correlation of the excess with what is left of the start: {rho:.2f}",
        f"best null where erased: {_null(erased)}; where it stands: {_null(stands)}",
        "finding" if holds else "not reproduced",
        value=min((cell.matches.ncc_07 for cell in erased), default=None),
        null_value=max((cell.best_null.ncc_07 for cell in erased), default=None),
    )


def _known_start(metrics: RecipeMetrics) -> Claim:
    known = [cell for cell in metrics.of("decay") if cell.known == KNOWN[1] and cell.erased == 0.0]
    by_sgd = [cell for cell in known if cell.cell.startswith("SGD")]
    by_adam = [cell for cell in known if cell.cell.startswith("Adam")]
    return Claim(
        "leak-known-start",
        "",
        "Whoever knows the start needs no decay where training follows the gradient: the difference is enough.",
        "",
        f"above NCC 0.7, without decay: {_found(by_sgd)} of {metrics.cells[0].n_train} by SGD, "
        f"{_found(by_adam)} by Adam, whose steps leave the span of the images",
        f"best null: {_null(by_sgd)} by SGD, {_null(by_adam)} by Adam",
        "finding" if by_sgd and all(map(found_more, by_sgd)) else "not reproduced",
        value=min((cell.matches.ncc_07 for cell in by_sgd), default=None),
        null_value=max((cell.best_null.ncc_07 for cell in by_sgd), default=None),
    )


def found_more(cell: RecipeCell) -> bool:
    """Whether a cell's count at NCC 0.7 clears its best null."""
    return clears(cell.matches.ncc_07, cell.best_null.ncc_07)


def _found(cells: list[RecipeCell]) -> str:
    return ", ".join(str(cell.matches.ncc_07) for cell in cells) or "none run"


def _null(cells: list[RecipeCell]) -> str:
    return ", ".join(str(cell.best_null.ncc_07) for cell in cells) or "none run"
