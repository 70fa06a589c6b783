"""The chapter's sentences, with nulls; the rules were written before the runs that they judge."""

from __future__ import annotations

from recon.chapters.candidates.metrics import CellRow, MemberCell, MemberMetrics, Rates, SetMetrics
from recon.chapters.candidates.names import FREE, HELD_OUT, KKT, NOISE, NOT_BLIND, PHOTOGRAPH, SHADOWED, TRUTH
from recon.chapters.candidates.sizes import MemberSizes, SetSizes
from recon.chapters.tables import null_text
from recon.scoring.nulls import clears
from recon.store.results import Claim

NO = "not reproduced"
ROUNDING = 1e-10  # a relative difference below this is rounding in float64
HARDLY = 0.8  # of the way that black and white leave: then a cell hardly restricts
UNKNOWN = FREE[:-1]  # the scores that need no knowledge of the start


def set_claims(metrics: SetMetrics, _: SetSizes) -> list[Claim]:
    """Other sets: exact, no photographs, the same run, what separation makes of them, the cell, the floor."""
    return [exact(metrics), photographs(metrics), same_run(metrics), separated(metrics), cell(metrics), floor(metrics)]


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


def same_run(metrics: SetMetrics) -> Claim:
    """Not only where training ends."""
    run = metrics.same_run
    same, told = run.pairs <= ROUNDING, run.not_blind >= 1e-3
    return Claim(
        "counterfactual-same-run",
        "",
        "Training on the pairs is the same training, step by step, from the same start: whoever knows the start does "
        "not know more.",
        "",
        f"after {run.steps} steps of descent the weights differ by {run.pairs:.0e} of the way they went",
        f"the training images in another order: {run.reordered:.0e}; pairs in directions that the network sees: "
        f"{run.not_blind:.2g}",
        ("finding" if told else "partly") if same else NO,
        value=run.pairs,
        null_value=run.not_blind,
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


def cell(metrics: SetMetrics) -> Claim:
    """The widest network that was tried."""
    small, default = (widest(metrics, start) for start in ("small", "default"))
    return Claim(
        "counterfactual-cell",
        "",
        "After a small start it hardly restricts the pairs that all hidden units must stay active or silent, even "
        "where no direction is blind.",
        "",
        f"{small.reach:.0%} of the way that black and white leave, at width {small.width} of {small.inputs} inputs",
        f"after PyTorch's own start: {default.reach:.0%}",
        "finding" if small.reach >= HARDLY else "partly" if small.reach >= 0.5 else NO,
        value=small.reach,
        null_value=default.reach,
    )


def widest(metrics: SetMetrics, start: str) -> CellRow:
    """The row of a start with the largest width."""
    return max((row for row in metrics.cells if row.start == start), key=lambda row: row.width)


def floor(metrics: SetMetrics) -> Claim:
    """Held-out images beside the training images, with the random start and without it."""
    truth, others = metrics.energies[TRUTH], metrics.energies[HELD_OUT]
    kept, gone = others.with_floor / truth.with_floor, others.without / truth.without
    return Claim(
        "counterfactual-floor",
        "",
        "Without the random start's own norm the energy of the KKT conditions tells the training images from others "
        "far better.",
        "",
        f"without the start: training images {truth.without:.3g}, held-out ones {others.without:.3g}, {gone:.1f} times",
        f"with it: {truth.with_floor:.4g} and {others.with_floor:.4g}, {kept:.2f} times; ‖θ⁰‖² = {metrics.floor:.4g}",
        "finding" if gone >= 2 * kept else "partly" if gone > kept else NO,
        value=gone,
        null_value=kept,
    )


# ------------------------------------------------------------------------------------------------------ membership


def member_claims(metrics: MemberMetrics, _: MemberSizes) -> list[Claim]:
    """Multipliers against shadow networks, against what costs nothing, and with fewer training images in the pool."""
    return [against_shadows(metrics), against_nothing(metrics), with_coverage(metrics)]


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


def against_nothing(metrics: MemberMetrics) -> Claim:
    """Every network, whoever does not know the start."""
    pairs = [(each, many(each, KKT[0]).tpr_1, *best_of(each, UNKNOWN)) for each in metrics.cells]
    won = [ours > theirs.tpr_1 for _, ours, _, theirs in pairs]
    return Claim(
        "membership-one-line",
        "",
        "The multipliers tell more than tests that take one line: the margin, the common margin, the rows and the span "
        "of the first layer.",
        "",
        "TPR at 1 % FPR: "
        + ", ".join(f"{each.recipe}, n = {each.n_train}, width {each.width}: {ours:.2f}" for each, ours, _, _ in pairs),
        "the best of these: " + ", ".join(f"{theirs.tpr_1:.2f} ({name})" for _, _, name, theirs in pairs),
        "finding" if all(won) else "partly" if any(won) else NO,
        value=sum(won) / len(won),
        null_value=0.0,
    )


def with_coverage(metrics: MemberMetrics) -> Claim:
    """The smallest share of the training images that was tried."""
    tried = [each for each in metrics.cells if each.coverage]
    share = min(tried[0].coverage, key=float)
    pairs = [(each.recipe, many(each, KKT[0]).tpr_1, each.coverage[share].tpr_1) for each in tried]
    lost = [less <= full / 2 for _, full, less in pairs]
    return Claim(
        "membership-coverage",
        "",
        "The multipliers need most of the training images in the pool.",
        "",
        f"TPR at 1 % FPR with {float(share):.0%} of them in it: "
        + ", ".join(f"{recipe} {less:.2f}" for recipe, _, less in pairs),
        "with all of them: " + ", ".join(f"{full:.2f}" for _, full, _ in pairs),
        "finding" if all(lost) else "partly" if any(lost) else NO,
        value=max(less / max(full, 1e-9) for _, full, less in pairs),
        null_value=1.0,
    )
