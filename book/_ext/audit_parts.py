"""What the page on audits shows of benchmarks: tables and a figure, never typed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from audit_calibration import alarms, plot_calibration
from claim_parts import Sources
from scipy.stats import binomtest
from sphinx.application import Sphinx

from companion.press.numbers import benchmark
from recon.scoring.membership import RARE, guessed

FIGURE = "audit-calibration.png"
# levels at which false alarms are told; an audit's rule is at 5 %
PROMISED = (0.01, 0.02, 0.05, 0.1)


def table(columns: tuple[str, ...], rows: list[list[Any]]) -> str:
    """In Markdown."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


# -------------------------------------------------------------------------------------- calibration


def calibration(sources: Sources) -> str:
    """Verdicts by kind of network; false alarms at every threshold beside what is promised; names
    beside guesses.
    """
    told = benchmark(sources.root, "audit_calibration")
    networks, by_kind = told["networks"], {}
    for network in networks:
        by_kind.setdefault(network["kind"], []).append(network)
    columns = (
        "networks",
        "how many",
        "own images: leaks",
        "members inferred",
        "other images: leaks",
        "members inferred",
        "sets differ",
    )
    rows = [[name, *verdicts(group)] for name, group in by_kind.items()]
    rows.append(["all", *verdicts(networks)])
    kinds = [
        [name, *(alarmed(group, level) for level in PROMISED)] for name, group in by_kind.items()
    ]
    kinds.append(["all", *(alarmed(networks, level) for level in PROMISED)])
    promised = table(
        ("false alarms (95 %)", *(f"{level:.0%} allowed" for level in PROMISED)), kinds
    )
    return f"{table(columns, rows)}\n\n{promised}\n\n{names_beside_guesses(networks, told['n'])}"


def alarmed(networks: list[dict[str, Any]], level: float) -> str:
    """Share of audits of other images with a p below the level, all looks paid for, and its 95 %
    interval.
    """
    wrong = int((alarms(networks, "null", "either") < level).sum())
    low, high = binomtest(wrong, len(networks)).proportion_ci(0.95)
    return f"{wrong / len(networks):.1%} ({100 * low:.1f}–{100 * high:.1f})"


def names_beside_guesses(networks: list[dict[str, Any]], n: int) -> str:
    """A sentence on the members that are named at 1 % false alarms where nobody is one."""
    compared = [each["null"] for each in networks if each["null"]["scores"]]
    counts = [round(n * each["scores"][each["best"]][2]) for each in compared]
    allowed = n // 100
    most = [guessed(n, n, allowed, RARE / len(each["scores"]))[1] for each in compared]
    more = sum(count > limit for count, limit in zip(counts, most, strict=True))
    low, high = binomtest(more, len(counts)).proportion_ci(0.95)
    return (
        f"On other images, the best score named {sum(counts) / len(counts):.1f} of {n} at 1 % false"
        f" alarms, where a guess names {guessed(n, n, allowed)[0]:.1f}: it is the best of several"
        " scores. More than the report says a guess rarely exceeds came in"
        f" {more / len(counts):.1%} of audits (95 % interval {low:.1%} to {high:.1%}), and 5 % are"
        " allowed."
    )


def second_opinion(sources: Sources) -> str:
    """Our membership and ml_privacy_meter's own audit of the same networks, side by side."""
    told = benchmark(sources.root, "membership")
    pairs = [each["second opinion"] for each in told["networks"]]
    rows = []
    for name, shown_as in (("recon", "`recon.audit`"), ("ml_privacy_meter", "ml_privacy_meter")):
        values = [[each[name][key] for each in pairs] for key in ("auc", "tpr_0.01", "seconds")]
        cells = (
            f"{sum(v) / len(v):.{digits}f} ({min(v):.{digits}f}–{max(v):.{digits}f})"
            for v, digits in zip(values, (3, 3, 1), strict=True)
        )
        rows.append([shown_as, *cells])
    return table(
        ("audit", "area", "members found at 1 % false alarms", "seconds after training"), rows
    )


def verdicts(networks: list[dict[str, Any]]) -> list[int]:
    """How many; leaks and inferred on own and on other images; audits in which the sets could not
    be compared.
    """
    counts = [len(networks)]
    for case in ("own", "null"):
        counts.append(sum(each[case]["verdict"] == "leaks" for each in networks))
        counts.append(sum(each[case]["membership"] == "inferred" for each in networks))
    return [
        *counts,
        sum(not each[case]["comparable"] for each in networks for case in ("own", "null")),
    ]


def write_calibration(app: Sphinx) -> None:
    """Before pages are read: the figure, in the folder of the page."""
    root = Path(app.srcdir)
    if not (root / "benchmarks" / "audit_calibration.json").is_file():
        return  # a page that shows it will say so
    mpl.use("Agg")
    folder = root / "book" / "figures"
    folder.mkdir(exist_ok=True)
    figure = plot_calibration(benchmark(root, "audit_calibration")["networks"])
    figure.savefig(folder / FIGURE, dpi=200)
    plt.close(figure)


# --------------------------------------------------------------------------------------- membership


def scores_compared(sources: Sources) -> str:
    """Every score of benchmarks/membership.json: area and true rate, mean and range over
    networks.
    """
    told = benchmark(sources.root, "membership")["networks"]
    rows = []
    for name in told[0]["scores"]:
        areas, rates = ([each["scores"][name][key] for each in told] for key in ("auc", "tpr_0.01"))
        shown = name.replace("lira", "LiRA").replace("rmia", "RMIA")
        rows.append(
            [shown, *(f"{sum(v) / len(v):.3f} ({min(v):.3f}–{max(v):.3f})" for v in (areas, rates))]
        )
    return table(("score", "area under the ROC curve", "members found at 1 % false alarms"), rows)


# ------------------------------------------------------------------------------------------ gallery


def gallery(sources: Sources) -> str:
    """Verdicts on the networks of benchmarks/audit_gallery.json, and a sentence on what
    one reads off them.
    """
    networks: dict[str, dict[str, Any]] = benchmark(sources.root, "audit_gallery")["networks"]
    columns = ("network", "images", "came back", "members", "minutes of a core")
    rows = [
        [
            f"{name}, {each['n']} images",
            each["verdict"],
            came_back(each),
            (
                f"{each['membership']} (area {each['area']:.2f})"
                if each["area"] is not None
                else each["membership"]
            ),
            f"{each['processor_seconds'] / 60:.1f} (`{each['profile']}`)",
        ]
        for name, each in networks.items()
    ]
    trained = [
        f"- **{name}**: {each['trained']}. Accuracy {each['accuracy']['train']:.0%}, on images held"
        f" out {each['accuracy']['held_out']:.0%}.{unfit(each['did_not_apply'])}"
        for name, each in networks.items()
    ]
    slowest = max(networks, key=lambda name: networks[name]["processor_seconds"])
    said = (
        f"Images came back from {among(networks, 'verdict', 'leaks')}; members could be inferred of"
        f" {among(networks, 'membership', 'inferred')}; and the longest audit, of {slowest}, took"
        f" {networks[slowest]['processor_seconds'] / 60:.0f} minutes of one core."
    )
    how = "\n".join(trained)
    return (
        f"{table(columns, rows)}\n\n{said}\n\nHow each was trained, and which attacks do not apply"
        f" to it:\n\n{how}"
    )


def came_back(network: dict[str, Any]) -> str:
    """Images named by the deciding attack, and in how many networks trained in the same way the
    attacks found any.
    """
    named = (
        f"{network['leaked']} of {network['n']}, by {network['by']}"
        if network["leaked"]
        else "none"
    )
    power = network["power"]
    if power is None:
        return f"{named}: no attack on images applies" if network["did_not_apply"] else named
    return f"{named}; of {power['canaries']} canaries {power['leaking']} leaked"


def unfit(reasons: dict[str, str]) -> str:
    """Attacks by the reason why they do not apply, as sentences that follow others."""
    attacks: dict[str, list[str]] = {}
    for name, why_not in reasons.items():
        attacks.setdefault(why_not, []).append(name)
    return "".join(f" No {' and '.join(names)}: {why_not}" for why_not, names in attacks.items())


def among(networks: dict[str, dict[str, Any]], key: str, value: str) -> str:
    """Of which of them that is said: "2 of 6 networks (A; B)"."""
    names = [name for name, each in networks.items() if each[key] == value]
    which = f" ({'; '.join(names)})" if 0 < len(names) < len(networks) else ""
    return f"{len(names)} of {len(networks)} networks{which}"


PARTS = {
    "audit-calibration": calibration,
    "audit-gallery": gallery,
    "audit-second-opinion": second_opinion,
    "audit-scores": scores_compared,
}
