"""The sentences of chapter 9's table on networks and starts, each with ours, the null and a verdict."""

from __future__ import annotations

from functools import cache

from scipy.stats import permutation_test, spearmanr

from recon.chapters.decoreco_regimes.metrics import Cell, Metrics
from recon.chapters.decoreco_regimes.sizes import Sizes
from recon.store.results import Claim

UNSETTLED = "; not converged: undecided"
GOAL = 0.08  # share of the images beyond the best null: 40 of 500


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """Whether the truth's residual predicts the matches, and whether any way reaches the goal with the most images."""
    return [*_predicts(metrics), _many(metrics)]


def _predicts(metrics: Metrics) -> list[Claim]:
    """Asks for a rank correlation, over the networks attacked from noise, that at most 5 % of their permutations have;
    in part below 0.  Undecided unless all searches converged."""
    rho, rows = metrics.rank_correlation, metrics.of("noise")
    if rho is None:
        return []
    chance, converged = as_low(rows), all(cell.converged for cell in rows)
    judged = "finding" if rho < 0 and chance <= 0.05 else "partly" if rho < 0 else "not reproduced"
    return [
        Claim(
            "decoreco-truth-predicts",
            "",
            "What the training images themselves leave unexplained of the first layer tells, before any attack, on "
            "which networks it will find them.",
            "",
            f"rank correlation {rho:.2f} between that share and the images found beyond the best null, "
            f"{len(rows)} networks; shares {min(c.truth_share[0] for c in rows):.1%} to "
            f"{max(c.truth_share[0] for c in rows):.1%}; the attack's energy ends below the "
            f"truth's on {sum(bool(c.below_truth) for c in rows)} of them" + ("" if converged else UNSETTLED),
            f"no relation: 0, and as low in {chance:.2f} of all orders",
            judged if converged else "undecided",
            value=rho,
            null_value=0.0,
        )
    ]


def _many(metrics: Metrics) -> Claim:
    """Asks for an excess of SSIM above 0.4 over the best null of 8 % of the images in one way, on the networks with the
    most images; in part where the excess is above 0.  Undecided unless all searches there converged."""
    rows = [cell for cell in metrics.cells if cell.n_train == metrics.n_train]
    best = max(rows, key=lambda cell: cell.excess.ssim_04)
    found, converged = best.excess.ssim_04, all(row.converged for row in rows)
    judged = "finding" if found >= GOAL * metrics.n_train else "partly" if found > 0 else "not reproduced"
    return Claim(
        "decoreco-many-images",
        "",
        "With many images, weight decay or a start from separated sources lets DecoReco find at least 8 % of them "
        "beyond the best null.",
        "",
        f"of {metrics.n_train} SSIM above 0.4: "
        + ", ".join(f"{row.matches.ssim_04} ({_named(row)})" for row in rows)
        + ("" if converged else UNSETTLED),
        "best null: " + ", ".join(str(row.best_null.ssim_04) for row in rows),
        judged if converged else "undecided",
        value=best.matches.ssim_04,
        null_value=best.best_null.ssim_04,
    )


def as_low(rows: list[Cell]) -> float:
    """Share of all orders of the rows that have as low a rank correlation as theirs (2,000 drawn if there are more)."""
    return _as_low(tuple(row.truth_share[0] for row in rows), tuple(row.excess_share for row in rows))


@cache  # a book's claims are made many times
def _as_low(shares: tuple[float, ...], excess: tuple[float, ...]) -> float:
    if len(set(shares)) < 2 or len(set(excess)) < 2:
        return 1.0
    test = permutation_test(
        (shares,),
        lambda x: spearmanr(x, excess).statistic,
        permutation_type="pairings",
        alternative="less",
        n_resamples=2000,
        rng=0,
    )
    return float(test.pvalue)


def _named(row: Cell) -> str:
    return f"{row.way}, {row.regime}"
