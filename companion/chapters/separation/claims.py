"""Chapter 6's sentences, with nulls; the rules were written before the runs that they judge."""

from __future__ import annotations

from scipy.stats import binomtest, hypergeom

from companion.chapters.separation.metrics import Assessed, Certainty, Metrics
from companion.chapters.separation.sizes import Sizes
from companion.chapters.tables import null_text
from companion.store.results import Claim, by_another_attack
from recon.scoring.nulls import clears

LEVEL = 0.01


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """What the chapter says."""
    matches, n, best, names = metrics.matches, metrics.n_train, metrics.best_null, metrics.best_null_name
    null = f"above 0.7: {null_text(best.ncc_07, names.ncc_07)}; above 0.8: {null_text(best.ncc_08, names.ncc_08)}"
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
        _would_know(metrics.certainty),
    ]


def _would_know(certainty: Certainty) -> Claim:
    """On the network with the most images, where many candidates are false: where nearly all are true, "believe
    everything" does as well.  The sentence is contradicted if they know (`knows`), "partly" if the lift alone is beyond
    chance."""
    name, found = max(certainty.networks.items(), key=lambda item: item[1].candidates)
    share, right = found.true / max(found.candidates, 1), round((found.precision_sure or 0.0) * found.sure)
    lift = (found.precision_sure or 0.0) / max(share, 1e-9)
    low, high = binomtest(right, found.sure).proportion_ci() if found.sure else (0.0, 1.0)
    found_out = "not reproduced" if knows(found) else "partly" if by_chance(found) < LEVEL else "reproduced"
    return by_another_attack(
        Claim(
            "separation-would-know",
            "1, 5",
            "An adversary without the training data cannot tell true from false reconstructions.",
            "argued",
            f"{name}: {right} of the {found.sure} rated above 0.95 are true, {text(found.precision_sure)} [{low:.2f}, "
            f"{high:.2f}], {lift:.2f} times the base rate; they are {found.recall_sure:.2f} of all true ones; AUC "
            f"{text(found.auc)}",
            f"a guess: {found.true} of {found.candidates} candidates are true, {share:.2f}",
            found_out,
            value=found.precision_sure,
            null_value=share,
            margin=share - low,
        )
    )


def by_chance(found: Assessed) -> float:
    """Probability that as many of the sure ones are true, if these are drawn from all candidates."""
    right = round((found.precision_sure or 0.0) * found.sure)
    return float(hypergeom.sf(right - 1, found.candidates, found.true, found.sure))


def knows(found: Assessed) -> bool:
    """Whether an adversary who says "sure" is right, says it of a fifth of the true ones, and beats the base rate."""
    precise = found.precision_sure is not None and found.precision_sure >= 0.95
    return precise and found.recall_sure > 0.2 and by_chance(found) < LEVEL


def text(value: float | None) -> str:
    """Two digits, or "not defined"."""
    return "not defined" if value is None else f"{value:.2f}"
