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
            "TPR at 1 % FPR": str(found.tpr_at_1pct_fpr),
            "true of the top 20": str(found.precision_at_20),
            "rank correlation with NCC": str(found.rank_correlation),
        }
        for kind, found in rows.items()
    }
    table[GUESS] = {
        "AUC": f"{null.auc:.2f}",
        "without the doubtful": f"{null.auc:.2f}",
        "TPR at 1 % FPR": _text(null.tpr_at_1pct_fpr),
        "true of the top 20": _text(null.precision_at_20),
        "rank correlation with NCC": f"{null.rank_correlation:.2f}",
    }
    return table


def take_away(metrics: Metrics) -> str:
    """The chapter in one sentence with two numbers, of those candidates of DecoReco that look natural."""
    judged = metrics.arms["decoreco"].natural.evidence
    if not {"combined", "separated"} <= set(judged):
        return "No network gave natural-looking reconstructions of both kinds, true and false."
    by, asked = (judged[name].precision_at_20.mean for name in ("combined", "separated"))
    return (
        f"Of the twenty natural-looking reconstructions that they trust most, {by:.0%} are true for an adversary who "
        f"looks at stationarity alone, and {asked:.0%} for one who asks which of them separation finds as well."
    )


def _text(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.2f}"
