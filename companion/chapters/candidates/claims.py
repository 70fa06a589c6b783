"""The chapter's sentences, with nulls; the rules were written before the runs that they judge."""

from __future__ import annotations

from companion.chapters.candidates.metrics import MemberCell, MemberMetrics, Rates, SetMetrics
from companion.chapters.candidates.names import KKT, NOISE, NOT_BLIND, PHOTOGRAPH, SHADOWED, TRUTH
from companion.chapters.candidates.sizes import MemberSizes, SetSizes
from companion.chapters.tables import null_text
from companion.store.results import Claim
from recon.scoring.nulls import clears

NO = "not reproduced"
ROUNDING = 1e-10  # a relative difference below this is rounding in float64


def set_claims(metrics: SetMetrics, _: SetSizes) -> list[Claim]:
    """Other sets: exact, no photographs, and what separation makes of them."""
    return [exact(metrics), photographs(metrics), separated(metrics)]


def exact(metrics: SetMetrics) -> Claim:
    """To rounding, and far away."""
    ours, null, n = metrics.sets[NOISE], metrics.sets[NOT_BLIND], metrics.n_train
    kept = max(ours.difference, ours.margin_change) <= ROUNDING and ours.smallest_multiplier >= 0
    told = null.difference > 1e6 * ours.difference
    return Claim(
        "counterfactual-exact",
        "Refael et al. 2026, abstract",
        "Without prior knowledge of the data, other training sets explain the weights exactly as well, and may lie far "
        "from the true one.",
        "“infinitely many alternative solutions that may lie arbitrarily far from the true training set”",
        f"{ours.images} images with pixels in [0, 1]: the sum of gradients differs by {ours.difference:.0e}, a margin "
        f"by {ours.margin_change:.0e} at most; {metrics.freedom.blind} free directions an image; of {ours.far} of {n} "
        "pairs both images correlate less than 0.7 with the training image between",
        f"pairs as far apart in directions that the network sees: sums differ by {null.difference:.2g}",
        ("reproduced" if ours.far >= n / 2 else "partly") if kept and told else NO,
        value=ours.difference,
        null_value=null.difference,
    )


def photographs(metrics: SetMetrics) -> Claim:
    """What they look like."""
    truth, noise, near = (metrics.sets[name] for name in (TRUTH, NOISE, PHOTOGRAPH))
    reached = near.far > metrics.n_train / 10 and near.natural > truth.natural / 2
    strict = noise.natural <= 0.1 * truth.natural and not reached
    return Claim(
        "counterfactual-photographs",
        "",
        "The exact sets that lie far from the training images do not look like photographs, and towards another "
        "photograph the free directions hardly lead.",
        "",
        f"{noise.natural:.0%} of the far pairs' images look natural; towards another photograph {near.far} of "
        f"{metrics.n_train} pairs get below NCC 0.7, the median stays at {near.ncc:.2f}",
        f"training images {truth.natural:.0%}, other photographs {metrics.null_natural:.0%}",
        "finding" if strict else "partly" if noise.natural <= 0.5 * truth.natural else NO,
        value=noise.natural,
        null_value=metrics.null_natural,
    )


def separated(metrics: SetMetrics) -> Claim:
    """Who was never trained on, and is found."""
    twin, n = metrics.twin, metrics.n_train
    found, null = twin.matches.ncc_07, twin.best_null.ncc_07
    above = clears(found, null)
    return Claim(
        "counterfactual-separated",
        "",
        "From a network that was trained on the pairs, separation returns the images between them, on which nobody "
        "trained.",
        "",
        f"{found} of {n} images between the pairs above NCC 0.7, {twin.nearer} of the results nearer to them than to "
        f"either image that was trained on; of the {2 * n} that were, {twin.members.ncc_07} above 0.7; from the "
        f"network trained on the images themselves {twin.original.ncc_07} of {n}",
        f"above 0.7: {null_text(null, twin.best_null_name.ncc_07)}",
        ("finding" if twin.nearer > found / 2 else "partly") if above else NO,
        value=found,
        null_value=null,
    )


# ------------------------------------------------------------------------------------------------------ membership


def member_claims(metrics: MemberMetrics, _: MemberSizes) -> list[Claim]:
    """Multipliers against shadow networks."""
    return [against_shadows(metrics)]


def many(each: MemberCell, name: str) -> Rates:
    """Of a score, in the larger pool."""
    return each.scores[name].many


def best_of(each: MemberCell, names: tuple[str, ...]) -> tuple[str, Rates]:
    """The score among these with the largest TPR at 1 % FPR."""
    name = max(names, key=lambda one: many(each, one).tpr_1)
    return name, many(each, name)


def against_shadows(metrics: MemberMetrics) -> Claim:
    """Intervals apart, recipe by recipe.  A finding of ours: theirs is of a ResNet-18, at rates that our pools cannot
    measure."""
    tried = [each for each in metrics.cells if each.shadows]
    pairs = [(each.recipe, many(each, KKT[0]), *best_of(each, SHADOWED)) for each in tried]
    won = [ours.tpr_1_interval[0] > theirs.tpr_1_interval[1] for _, ours, _, theirs in pairs]
    return Claim(
        "membership-shadows",
        "",
        "Of small fully connected networks, KKT multipliers name the training images in a pool better than attacks "
        "with shadow networks do.",
        "",
        f"TPR at 1 % FPR, n = {tried[0].n_train}: "
        + ", ".join(f"{recipe} {ours.tpr_1:.2f} (AUC {ours.auc:.2f})" for recipe, ours, _, _ in pairs),
        "the best with shadow networks trained alike: "
        + ", ".join(f"{name} {theirs.tpr_1:.2f} (AUC {theirs.auc:.2f})" for _, _, name, theirs in pairs),
        "finding" if all(won) else "partly" if any(won) else NO,
        value=min(ours.tpr_1 for _, ours, _, _ in pairs),
        null_value=max(theirs.tpr_1 for _, _, _, theirs in pairs),
    )
