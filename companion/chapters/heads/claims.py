"""The chapter's sentences; the rules were written before the runs that they judge."""

from __future__ import annotations

from companion.chapters.heads.metrics import HeadCell, Metrics
from companion.chapters.heads.sizes import SGD, Sizes
from companion.store.results import Claim
from recon.scoring.nulls import clears

PRECISE, MOST = 0.95, 0.5
#: what people do to a head without thinking of privacy
HABITS = (
    *("dropout 0.5", "batch norm", "standardised features", "flips and shifts", "early stopping"),
    *("8-bit weights", "half of the weights pruned", "average of five checkpoints"),
)


def claims(metrics: Metrics, sizes: Sizes) -> list[Claim]:
    """What the chapter says; of the first cell, and of what else was run."""
    default = metrics.at(recipe="AdamW, default", n_train=sizes.n_train)
    same = [
        c
        for c in metrics.cells
        if (c.recipe, c.width) == (SGD, metrics.cells[0].width) and 3 * c.n_train <= c.width * 2
    ]
    found = [_unmixed(max(same, key=lambda c: c.n_train)), _certified(metrics)]
    found += [_members(default)] if default else []
    habits = [cell for cell in metrics.cells if cell.recipe in HABITS]
    return found + ([_habits(habits)] if habits else [])


def _unmixed(first: HeadCell) -> Claim:
    """Of the most images that are at most two thirds of the hidden units."""
    ours, null, ica = first.matches.cos_09, first.best_null.cos_09, first.fast_ica or first.null
    return Claim(
        "heads-unmix",
        "",
        "The first layer of a head trained with weight decay gives nearly all training features back.",
        "",
        f"{ours} of {first.n_train} above cosine 0.9, {first.matches.cos_08} above 0.8; FastICA: "
        f"{ica.cos_09} and {ica.cos_08}",
        f"above 0.9: {null} (best of held-out features, mixtures of the span, public features and their projections)",
        "finding" if ours > MOST * first.n_train and clears(ours, null) else "not reproduced",
        value=ours,
        null_value=null,
        margin=ours - max(MOST * first.n_train, null),
    )


def _certified(metrics: Metrics) -> Claim:
    """By plain SGD, where its start is gone or known exactly: there the span is exact, which the proof asks for."""
    exact = [c for c in metrics.cells if c.recipe == SGD or (c.recipe.startswith("SGD") and c.start == "known")]
    said, true = sum(c.certified for c in exact), sum(c.certified_true for c in exact)
    asked = sum(c.n_train for c in exact)
    share = true / max(said, 1)
    holds = share >= PRECISE and true > MOST * asked
    return Claim(
        "heads-certified",
        "",
        "The adversary knows which features are true without any other head: true ones have more zeros than chance.",
        "",
        f"{true} of {said} certified features are true, in {len(exact)} heads with {asked} training images",
        "by chance: the zeros of an extreme vector of the span",
        "finding" if holds else "not reproduced",
        value=share,
        margin=min(share - PRECISE, true / asked - MOST),
    )


def _members(cell: HeadCell) -> Claim:
    ours, null = cell.filter.tpr_at_1pct, cell.margin.tpr_at_1pct
    return Claim(
        "heads-members",
        "",
        "AdamW as it comes and a secret start hide the features, and not who was trained on.",
        "",
        f"{ours:.0%} of the members at 1 % false alarms by a matched filter, {cell.filter.tpr_at_01pct:.0%} at 0.1 %, "
        f"AUC {cell.filter.auc:.3f}; {cell.matches.cos_08} features above cosine 0.8",
        f"the head's own confidence: {null:.0%}, AUC {cell.margin.auc:.3f}",
        "finding" if ours > MOST and ours > 2 * null else "not reproduced",
        value=ours,
        null_value=null,
        margin=ours - max(MOST, 2 * null),
    )


def _habits(cells: list[HeadCell]) -> Claim:
    worst = min(cells, key=lambda c: max(c.matches.cos_08 / c.n_train, c.filter.tpr_at_1pct))
    value = max(worst.matches.cos_08 / worst.n_train, worst.filter.tpr_at_1pct)
    return Claim(
        "heads-habits",
        "",
        "No habit of training or compressing a head hides both the features and the members.",
        "",
        "; ".join(f"{c.recipe}: {c.matches.cos_08} of {c.n_train}, {c.filter.tpr_at_1pct:.0%}" for c in cells),
        "features above cosine 0.8, members at 1 % false alarms; half is asked for of one of them",
        "finding" if value > MOST else "not reproduced",
        value=value,
        margin=value - MOST,
    )
