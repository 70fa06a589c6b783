"""Chapter 12's tables, as dictionaries of rows, and its sentences with numbers; all from the metrics."""

from __future__ import annotations

from recon.chapters.decoreco_adversary.figures import ARM_TITLES, LABELS, SHOWN
from recon.chapters.decoreco_adversary.metrics import Group, Metrics

GUESS = "a guess (null)"


def counted(metrics: Metrics) -> dict[str, dict[str, object]]:
    """A row for each attack, all candidates and those that look natural: how many are true."""
    rows: dict[str, dict[str, object]] = {}
    for name, arm in metrics.arms.items():
        for looks, group in (("all", arm.every), ("natural-looking", arm.natural)):
            rows[f"{ARM_TITLES[name]}, n = {arm.n_train}: {looks}"] = {
                "candidates": group.candidates,
                "true": group.true,
                "negatives": group.negative,
                "doubtful": group.doubtful,
                "false": group.false,
                "share true": str(group.share_true),
            }
    return rows


def measured(group: Group, arm: str) -> dict[str, dict[str, str]]:
    """A row for each kind of evidence that figures show, and the null: every measure with its interval."""
    null = group.guess
    rows = {LABELS.get(kind, kind): group.evidence[kind] for kind in SHOWN[arm] if kind in group.evidence}
    table = {
        kind: {
            "AUC": str(found.auc),
            "without the doubtful": str(found.auc_clear),
            "negatives are true": str(found.auc_either),
            "TPR at 1 % FPR": str(found.tpr_at_1pct_fpr),
            "true of the top 20": str(found.precision_at_20),
            "rank correlation with NCC": str(found.rank_correlation),
        }
        for kind, found in rows.items()
    }
    table[GUESS] = {
        "AUC": f"{null.auc:.2f}",
        "without the doubtful": f"{null.auc:.2f}",
        "negatives are true": f"{null.auc:.2f}",
        "TPR at 1 % FPR": _text(null.tpr_at_1pct_fpr),
        "true of the top 20": _text(null.precision_at_20),
        "rank correlation with NCC": f"{null.rank_correlation:.2f}",
    }
    return table


def take_away(metrics: Metrics) -> str:
    """The chapter in one sentence with two numbers."""
    top = [
        metrics.arms[arm].natural.evidence[kind].precision_at_20.mean
        for arm, kind in (("decoreco", "combined"), ("more", "certainty"))
        if kind in metrics.arms[arm].natural.evidence
    ]
    if len(top) < 2:
        return "Too few networks gave natural-looking images of both kinds, true and false, to learn from."
    return (
        f"Of the twenty natural-looking images that a practised adversary trusts most, {top[0]:.0%} are true if "
        f"DecoReco made them, and {top[1]:.0%} if separation did."
    )


def by_guess(metrics: Metrics) -> str:
    """What chance has of the same twenty; the two kinds are of networks with other numbers of images."""
    decoreco, separated = (metrics.arms[arm].natural.guess.precision_at_20 for arm in ("decoreco", "more"))
    return (
        f"By a guess it would be {_text(decoreco)} and {_text(separated)} of them: the networks of the second kind are "
        "others, with other numbers of images, so the two are to be read against their guesses."
    )


def _text(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.2f}"
