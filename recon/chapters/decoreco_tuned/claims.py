"""Chapter 9's sentences, each with the paper's value, ours, the nulls and a verdict."""

from __future__ import annotations

from collections.abc import Sequence

from recon.chapters.decoreco_tuned.metrics import Metrics, PublishedMetrics, ShownRanks, SizeMetrics
from recon.chapters.decoreco_tuned.sizes import PublishedSizes, Sizes, SizeSizes
from recon.chapters.reference_common import came_text, if_in_full
from recon.chapters.tables import MatchTable, best_text, best_texts
from recon.scoring.nulls import clears
from recon.store.results import Claim, verdict


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """The sentences of Figs. 6 to 8, by our search, and what counting without a null does.

    No verdict unless the search had converged.  Where it ends below the search from the training images is said beside
    it: the latter has half as many candidates, so that this alone is no verdict.
    """
    shown = [] if metrics.shown is None else [_some_are_false(metrics.shown, bool(metrics.converged), _ended(metrics))]
    return [
        _recovers(metrics),
        *shown,
        Claim(
            "decoreco-counting-flatters",
            "",
            "Counting every training image whose best candidate is above NCC 0.6, shared or not, flatters the attack.",
            "the reference code's direction",
            f"{metrics.per_image_ncc_06} so, {metrics.matches.ncc_06} one-to-one" + _ended(metrics),
            f"held out: {metrics.null_per_image_ncc_06} so, {metrics.null.ncc_06} one-to-one",
            _if(
                bool(metrics.converged),
                "finding" if metrics.per_image_ncc_06 > metrics.matches.ncc_06 else "not reproduced",
            ),
            value=metrics.per_image_ncc_06,
            null_value=metrics.null_per_image_ncc_06,
        ),
    ]


def _if(converged: bool, found: str) -> str:
    """The verdict that a sentence gets from a converged search, and from no other."""
    return found if converged else "no verdict"


def _ended(metrics: Metrics) -> str:
    """How the search ended, where it had not converged."""
    if metrics.converged:
        return ""
    found, said = metrics.from_truth, ""
    if found is not None:
        said = (
            f"; energy {found.energy_from_noise:.2g}, from the training images, with half as many candidates, "
            f"{found.energy:.2g} and {found.matches.ncc_06} of them left"
        )
    return said + "; not converged: no verdict"


def against_truth(metrics: Metrics) -> str:
    """Where the search from the training images ends, for a page; nothing where it was not run."""
    found = metrics.from_truth
    if found is None:
        return ""
    return (
        "Does a low energy lead to the training images? The same search, begun at them with one candidate for each, "
        f"keeps {found.matches.ncc_06} of {metrics.n_train} above NCC 0.6 (best null {found.best_null.ncc_06}) and "
        f"ends at energy {found.energy:.2g}. From noise it ends at {found.energy_from_noise:.2g}, with twice as many "
        f"candidates: {'lower, by other images' if found.passed else 'not lower'}. "
    )


def published_claims(metrics: PublishedMetrics, _: PublishedSizes) -> list[Claim]:
    """Fig. 8's sentence, and that of Figs. 6 and 7, by the recipe that they are about.  No verdict unless it ran with
    the paper's full budget, converged or not."""
    arm = metrics.arm
    resemble = Claim(
        "decoreco-tuned-recovers",
        "4.4, Fig. 8",
        "With the tuned scale of the start, reconstructions resemble training images.",
        "40 shown (visual)",
        f"{_counted(arm, metrics.n_train)}; above 0.8 {arm.matches.ncc_08}, by the published recipe, {came_text(arm)}",
        f"{best_text(arm)}; {arm.null.ncc_06} of {metrics.n_train} held-out images; above 0.8 {arm.best_null.ncc_08}",
        if_in_full(arm, verdict(_recovered(arm))),
        value=arm.matches.ncc_06,
        null_value=arm.best_null.ncc_06,
    )
    false = Claim(
        "decoreco-some-are-false",
        "4.4, Figs. 6, 7",
        "Most natural-looking reconstructions resemble a training image; some do not, and look as realistic.",
        "4 of 5 in the top 10; the fifth at rank 51",
        f"{_ranked(metrics.shown)}, by the published recipe, {came_text(arm)}",
        _ranked_by_chance(metrics.shown),
        if_in_full(arm, _most_are_true(metrics.shown)),
        value=metrics.shown.count,
        null_value=metrics.shown.held_out_count,
    )
    return [resemble, false]


def _some_are_false(found: ShownRanks, converged: bool, ended: str = "") -> Claim:
    """`_most_are_true`, of our search; no verdict unless converged."""
    return Claim(
        "decoreco-search-some-are-false",
        "",
        "Most natural-looking reconstructions of our search resemble a training image; some do not, and look as "
        "realistic.",
        "",
        _ranked(found) + ended,
        _ranked_by_chance(found),
        _if(converged, {"reproduced": "finding"}.get(truth := _most_are_true(found), truth)),
        value=found.count,
        null_value=found.held_out_count,
    )


def _most_are_true(found: ShownRanks) -> str:
    """Most of the shown, and not all, must be more like a training image than chance explains, and at most 1 % of the
    lists made with other images may have as many; "partly" where all of them are."""
    shown = len(found.rank)
    if found.p_value > 0.01 or 2 * found.count <= shown:
        return "not reproduced"
    return "reproduced" if found.count < shown else "partly"


def _ranked(found: ShownRanks) -> str:
    return (
        f"{found.count} of {len(found.rank)} beyond chance; ranks among {found.reconstructions} reconstructions: "
        f"{', '.join(map(str, found.rank)) or '–'}; {found.high} in the top 10"
    )


def _ranked_by_chance(found: ShownRanks) -> str:
    return (
        f"images nobody trained on in their place: {found.held_out_count:.2f} beyond chance, "
        f"{found.held_out_high:.1f} in the top 10"
    )


def _recovers(metrics: Metrics) -> Claim:
    """`_recovered`, of our search; no verdict unless converged."""
    table, n = metrics.null_table(), metrics.n_train
    assert table is not None  # every run that is published has its nulls
    return Claim(
        "decoreco-search-recovers",
        "",
        "By our search, in the span of w1, reconstructions resemble training images.",
        "",
        _counted(metrics, n) + _ended(metrics),
        f"{best_text(table)}; {metrics.null.ncc_06} of {n} held-out images",
        _if(bool(metrics.converged), "finding" if _recovered(metrics) else "not reproduced"),
        value=metrics.matches.ncc_06,
        null_value=table.best_null.ncc_06,
    )


def _recovered(found: Metrics | MatchTable) -> bool:
    """More than twice the best null, and more training than held-out images in competition."""
    assert found.best_null is not None
    return found.competition.ncc_06.p_value < 1e-3 and found.matches.ncc_06 > 2 * found.best_null.ncc_06


def _counted(found: Metrics | MatchTable, n: int) -> str:
    assert found.excess is not None
    return (
        f"{found.matches.ncc_06} of {n} training images above NCC 0.6, one-to-one; {found.excess.ncc_06:+d} over the "
        f"best null; in competition with held-out images p = {found.competition.ncc_06.p_value:.0e} (exchangeable "
        "given the candidates, which those in the span are not)"
    )


def size_claims(metrics: SizeMetrics, sizes: SizeSizes) -> list[Claim]:
    """The share that comes out falls with n.

    Judged by its excess over the best null: smaller for the most images than for the fewest, where it must clear it.
    No verdict unless all searches converged.
    """
    rows = metrics.sizes
    first, last = rows[0], rows[-1]
    cleared = clears(first.matches.ncc_06, first.best_null.ncc_06)
    falls = last.excess.ncc_06 / last.n_train < first.excess.ncc_06 / first.n_train
    found = ", ".join(f"{row.matches.ncc_06} of {row.n_train}" for row in rows)
    held_out = ", ".join(f"{row.null.ncc_06} of {row.n_train}" for row in rows)
    converged = sum(bool(row.converged) for row in rows)
    grid = sizes.attack.multiplier_scales
    return [
        Claim(
            "decoreco-size",
            "",
            "At a fixed width, with steps in proportion to their number, the share of training images that come back "
            "falls as there are more of them.",
            "",
            f"{found}; over the best null "
            + ", ".join(f"{row.excess.ncc_06:+d}" for row in rows)
            + f"; scale of λ {', '.join(scale_text(row.multiplier_scale, grid) for row in rows)}"
            + ("" if converged == len(rows) else f"; {converged} of {len(rows)} searches converged: no verdict"),
            "best null: " + best_texts(rows) + f"; held out: {held_out}",
            _if(converged == len(rows), "finding" if cleared and falls else "not reproduced"),
            value=last.excess.ncc_06 / last.n_train,
            null_value=first.excess.ncc_06 / first.n_train,
        )
    ]


def scale_text(scale: float, grid: Sequence[float]) -> str:
    """A scale that the adversary chose; whether a wider grid might have led to another.

    >>> scale_text(0.003, (0.001, 0.003, 0.01)), scale_text(0.01, (0.001, 0.003, 0.01))
    ('0.003', '0.01 (edge of the grid)')
    """
    return f"{scale:g}" + (" (edge of the grid)" if len(grid) > 1 and scale in (min(grid), max(grid)) else "")
