"""What a report opens with: three lines for whoever must decide, and what was tried, by attack.

Both are functions of what report.json holds, so that a report without names says the same.
"""

from __future__ import annotations

from typing import Any

from recon.auditing.attacks import RECONSTRUCTIONS
from recon.auditing.images import printable
from recon.auditing.verdict import Verdict

FIRST = 3  # names in a line, then "and N more"
SURE = "where half of those in question were"
NOT_APPLIED, RAN = "did not apply", "ran"


def lines(report: dict[str, Any], verdict: Verdict) -> list[str]:
    """How many images came back and which; how many members can be named; the worst single image."""
    recovered = [each for each in report["leaked"] if each["how"] != "membership"]
    first = verdict.on_images
    if recovered:
        first += f" They are {enumerated([printable(each['image']) for each in recovered])}."
    asked = "membership" in report["attacks_asked"]
    second = verdict.on_membership or (
        "Nor can it be told who was trained on."
        if asked
        else "Whether it can be inferred who was trained on was not asked."
    )
    return [first, second, worst(report["leaked"])]


def enumerated(names: list[str], most: int = FIRST) -> str:
    """
    >>> enumerated(["a", "b", "c", "d", "e"]), enumerated(["a", "b"])
    ('a, b, c and 2 more', 'a and b')
    """
    more = len(names) - most
    if more > 0:
        return f"{', '.join(names[:most])} and {more} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def worst(leaked: list[dict[str, Any]]) -> str:
    """The image that came back best, and the surest member; the list has the most probable first."""
    recovered = [each for each in leaked if each["how"] != "membership"]
    members = [each for each in leaked if each["how"] == "membership"]
    said = []
    if recovered:
        best = max(recovered, key=lambda each: each["score"])
        said.append(f"{printable(best['image'])}, which came back at a likeness (NCC) of {best['score']:.2f}")
    if members:
        surest = members[0]
        odds = f"{surest['probability']:.0%} {SURE}"
        said.append(f"{printable(surest['image'])}, which was trained on with a probability of {odds}")
    if not said:
        return "The worst single image: none was found to be given away."
    return f"The worst single image: {'; and '.join(said)}."


def tried(report: dict[str, Any]) -> list[dict[str, str]]:
    """Every attack: its name, its state ("ran", "did not apply", "not asked", "nothing to compare"), and how or why
    not."""
    found = []
    results = (report["result"] or {}).get("attacks", {})
    for name in (*RECONSTRUCTIONS, "membership"):
        state, said = "not asked", ""
        if name in report["attacks_asked"]:
            if report["exchangeability"]["why_not"] is not None or report["images"]["scored"] == 0:
                state = "nothing to compare"
            elif name == "membership":
                state, said = RAN, _on_members(report["membership"])
            else:
                about = results[name]
                state = RAN if about["why_not"] is None else NOT_APPLIED
                said = about["why_not"] or about["how"]
        found.append({"attack": name, "state": state, "said": said})
    return found


def _on_members(table: dict[str, Any]) -> str:
    said = f"{len(table['scores'])} scores, {table['shadows']} shadow networks"
    return f"{said}. {table['multipliers_why_not']}" if table["multipliers_why_not"] else said


def power_words(report: dict[str, Any]) -> list[str]:
    """What the attacks would have found, in sentences: on images, and on members."""
    found = []
    images, members = report["power"], report["membership"]
    if images is None:
        found.append("What the attacks on images would have found was not measured.")
    else:
        many = images["canaries"] > 1
        found.append(
            f"In {images['canaries']} network{'s' * many} trained in the same way, the attacks on images found "
            f"{images['found']:.1f} of {images['n']} training images{' on average' * many}, and {images['leaking']} "
            f"{'were' if images['leaking'] != 1 else 'was'} found to leak."
        )
    if members is not None and members["power"]["auc"] is not None:
        share = members["power"]["tpr_0.01"]
        found.append(
            f"Of such a network's own training images, {share:.0%} can be named at 1 % false alarms, or at none where "
            "fewer than 100 images were held out."
        )
    return found
