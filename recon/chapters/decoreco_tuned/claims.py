"""Chapter 9's sentences, each with the paper's value, ours, the nulls and a verdict."""

from __future__ import annotations

from collections.abc import Sequence

from recon.chapters.decoreco_tuned.metrics import Metrics, MostSimilar, PublishedMetrics, ShownRanks, SizeMetrics
from recon.chapters.decoreco_tuned.ranking import CHANCE
from recon.chapters.decoreco_tuned.sizes import PublishedSizes, Sizes, SizeSizes
from recon.chapters.reference_common import came_text, if_in_full
from recon.scoring.nulls import clears
from recon.scoring.yardstick import in_words as yardsticks
from recon.scoring.yardstick import recovery
from recon.store.results import Claim


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """The sentences of Figs. 6 to 8, by our search, and what counting without a null does.

    Undecided unless the search had converged.  Where it ends below the search from the training images is said beside
    it: the latter has half as many candidates, so that this alone decides nothing.
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
    return found if converged else "undecided"


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
    return said + "; not converged: undecided"


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
    """Fig. 8's sentence, and that of Figs. 6 and 7, by the recipe that they are about.  Undecided unless it ran with
    the paper's full budget, converged or not."""
    arm = metrics.arm
    found = recovery(arm, arm.competition.ncc_06, metrics.n_train)
    ours, null = yardsticks(arm, arm.competition.ncc_06, metrics.n_train)
    resemble = Claim(
        "decoreco-tuned-recovers",
        "4.4, Fig. 8",
        "With the tuned scale of the start, reconstructions resemble training images.",
        "40 shown (visual)",
        f"{ours}, by the published recipe, {came_text(arm)}",
        null,
        if_in_full(arm, found.verdict),
        value=arm.matches.ssim_04,
        null_value=arm.best_null.ssim_04,
        margin=found.margin,
    )
    shown = metrics.shown
    false = Claim(
        "decoreco-some-are-false",
        "4.4, Figs. 6, 7",
        "Most natural-looking reconstructions resemble a training image; some do not, and look as realistic.",
        "4 of 5 in the top 10; the fifth at rank 51",
        f"{_similar(shown.similar)}, by the published recipe, {came_text(arm)}",
        "" if shown.similar is None else f"with images nobody trained on {shown.similar.held_out_true:.1f}",
        if_in_full(arm, _resemble(shown.similar)),
        value=None if shown.similar is None else shown.similar.true,
        null_value=None if shown.similar is None else shown.similar.held_out_true,
    )
    return [resemble, false, _by_contribution(shown, if_in_full(arm, _tells(shown)), came_text(arm))]


def _similar(found: MostSimilar | None) -> str:
    if found is None:
        return "not ranked by similarity, and its reconstructions were not kept: undecided"
    return (
        f"of the {found.top} natural-looking ones most like a training image (SSIM) {found.true} are so beyond chance "
        f"and blends (p = {found.p_value:.1g})"
    )


def _resemble(found: MostSimilar | None) -> str:
    """More of the most similar natural-looking ones must resemble training images than in 99 % of lists of others, and
    not all; "partly" where all do."""
    if found is None:
        return "undecided"
    if found.p_value > CHANCE:
        return "not reproduced"
    return "reproduced" if found.true < found.top else "partly"


def _by_contribution(found: ShownRanks, judged: str, came: str) -> Claim:
    """What the adversary has in the place of that order: how much of the weights a reconstruction explains."""
    return Claim(
        "decoreco-contribution",
        "",
        "The adversary cannot pick the true ones out: of the natural-looking reconstructions that explain most of the "
        "weights no more are true than of other lists.",
        "",
        f"{_ranked(found)}; of the first {found.top40} by contribution {found.top40_true} are true, {came}",
        f"{_ranked_by_chance(found)}; of the first {found.top40} {found.held_out_top40_true:.1f}",
        judged,
        value=found.count,
        null_value=found.held_out_count,
    )


def _tells(found: ShownRanks) -> str:
    """ "not reproduced" if contribution finds true ones beyond chance."""
    return "not reproduced" if found.p_value <= CHANCE else "finding"


def _some_are_false(found: ShownRanks, converged: bool, ended: str = "") -> Claim:
    """`_most_are_true`, of our search; undecided unless converged."""
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
    """`recon.scoring.yardstick`, of our search; undecided unless converged."""
    table, n = metrics.null_table(), metrics.n_train
    assert table is not None  # every run that is published has its nulls
    ours, null = yardsticks(table, metrics.competition.ncc_06, n)
    found = recovery(table, metrics.competition.ncc_06, n).verdict
    return Claim(
        "decoreco-search-recovers",
        "",
        "By our search, in the span of w1, reconstructions resemble training images.",
        "",
        ours + _ended(metrics),
        null,
        _if(bool(metrics.converged), "finding" if found == "reproduced" else found),
        value=metrics.matches.ssim_04,
        null_value=table.best_null.ssim_04,
    )


def size_claims(metrics: SizeMetrics, sizes: SizeSizes) -> list[Claim]:
    """The share that comes out falls with n.

    Judged by SSIM above 0.4, over the best null: the excess must be smaller for the most images than for the fewest,
    where the count must clear it.
    Undecided unless all searches converged.
    """
    rows = metrics.sizes
    first, last = rows[0], rows[-1]
    cleared = clears(first.matches.ssim_04, first.best_null.ssim_04)
    falls = last.excess.ssim_04 / last.n_train < first.excess.ssim_04 / first.n_train
    found = ", ".join(f"{row.matches.ssim_04} of {row.n_train}" for row in rows)
    converged = sum(bool(row.converged) for row in rows)
    grid = sizes.attack.multiplier_scales
    return [
        Claim(
            "decoreco-size",
            "",
            "At a fixed width, with steps in proportion to their number, the share of training images that come back "
            "falls as there are more of them.",
            "",
            f"SSIM above 0.4: {found}"
            + f"; scale of λ {', '.join(scale_text(row.multiplier_scale, grid) for row in rows)}"
            + ("" if converged == len(rows) else f"; {converged} of {len(rows)} searches converged: undecided"),
            "best null: " + ", ".join(str(row.best_null.ssim_04) for row in rows),
            _if(converged == len(rows), "finding" if cleared and falls else "not reproduced"),
            value=last.excess.ssim_04 / last.n_train,
            null_value=first.excess.ssim_04 / first.n_train,
        )
    ]


def scale_text(scale: float, grid: Sequence[float]) -> str:
    """A scale that the adversary chose; whether a wider grid might have led to another.

    >>> scale_text(0.003, (0.001, 0.003, 0.01)), scale_text(0.01, (0.001, 0.003, 0.01))
    ('0.003', '0.01 (edge of the grid)')
    """
    return f"{scale:g}" + (" (edge of the grid)" if len(grid) > 1 and scale in (min(grid), max(grid)) else "")
