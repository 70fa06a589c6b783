"""Chapter 6's sentences, with nulls; the rules were written before the runs that they judge."""

from __future__ import annotations

from recon.chapters.separation.metrics import Assessed, Metrics
from recon.chapters.separation.sizes import Sizes
from recon.chapters.tables import null_text
from recon.scoring.nulls import clears
from recon.store.results import Claim, verdict


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """What the chapter says."""
    matches, n, best, names = metrics.matches, metrics.n_train, metrics.best_null, metrics.best_null_name
    simpler, sure = metrics.simpler, metrics.certainty
    null = f"above 0.7: {null_text(best.ncc_07, names.ncc_07)}; above 0.8: {null_text(best.ncc_08, names.ncc_08)}"
    at_once = simpler.one_stage.matches.ncc_08
    return [
        Claim(
            "separation-unmixes",
            "",
            "Independent component analysis of pixel differences reads most training images out of the first layer.",
            "",
            f"{matches.ncc_07} of {n} above NCC 0.7, {matches.ncc_08} above 0.8, from the first layer alone",
            null,
            "finding" if clears(matches.ncc_07, best.ncc_07) else "not reproduced",
            value=matches.ncc_07,
            null_value=best.ncc_07,
        ),
        Claim(
            "separation-would-know",
            "1, 5",
            "An adversary without the training data cannot tell true from false reconstructions.",
            "argued",
            f"AUC {text(sure.auc)}; {text(sure.precision_sure)} of those rated above 0.95 are true, "
            f"which are {sure.recall_sure:.2f} of all true ones ({sure.true} of {sure.candidates} candidates)",
            f"a guess: {sure.true / max(sure.candidates, 1):.2f} are true",
            verdict(not knows(sure)),
            value=sure.precision_sure,
            null_value=sure.true / max(sure.candidates, 1),
        ),
        Claim(
            "separation-stages",
            "",
            "Searching few directions first, then more, finds more than searching all at once.",
            "",
            f"{matches.ncc_08} of {n} above NCC 0.8 in stages, {at_once} at once, "
            f"{simpler.fast_ica.matches.ncc_08} by FastICA as it comes",
            null,
            "finding" if matches.ncc_08 > at_once else "not reproduced",
            value=matches.ncc_08,
            null_value=at_once,
        ),
    ]


def knows(found: Assessed) -> bool:
    """Whether an adversary who says "sure" is right, and says it of a fifth of the true ones."""
    return found.precision_sure is not None and found.precision_sure >= 0.95 and found.recall_sure > 0.2


def text(value: float | None) -> str:
    """Two digits, or "not defined"."""
    return "not defined" if value is None else f"{value:.2f}"
