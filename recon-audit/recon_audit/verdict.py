"""What an audit says in the end: three verdicts on images, three on membership, and all of it in
words.

On images: "leaks" · "not by these attacks", which would have found k of n on a network trained in
the same way · "cannot tell", where the attacks would have found nothing there either, or nothing
can be compared. On membership: inferred, not by these attacks, or cannot tell.

What a report opens with, three lines for whoever must decide and what was tried, are functions of
what report.json holds, so that a report without names says the same. The sentences are in
words.jinja.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recon_audit.attacks import KINDS, RECONSTRUCTIONS
from recon_audit.scoring import LEVEL, Json
from recon_audit.words import say

LEAKS, NOT_BY_THESE = "leaks", "not by these attacks"
CANNOT_TELL, INFERRED = "cannot tell", "inferred"
# shadows that are told apart no better than this say that membership inference is blind here
BLIND_AREA = 0.55
#: macro of words.jinja -> the part of the report that it tells
POWER = {"power": "power", "shadows": "recipe", "member_power": "membership"}


@dataclass(frozen=True)
class Verdict:
    """
    Attributes:
        images, membership (None where not asked): see above.
        on_images, on_membership (empty where not asked): each in words.
    """

    images: str
    membership: str | None
    on_images: str
    on_membership: str = ""


def decide(
    result: Any,
    n: int,
    power: Any,
    membership: Any,
    why_not: str | None,
    misfit: str | None = None,
    unchecked: str = "",
) -> Verdict:
    """
    Args:
        result, power, membership: as in the report; no result where no attack could be tried,
            membership empty where the table could not be made.
        n: images of each kind compared.
        why_not: the two sets cannot be compared.
        misfit: the network does not fit what is read: what came back came back, and nothing else
            can be told.
        unchecked: why the reading is a guess: then silence of the attacks says nothing.
    """
    untold = None if membership is None else CANNOT_TELL
    if why_not is not None:
        return Verdict(CANNOT_TELL, untold, say("nothing", why_not))
    tried = (result or {"attacks": {}})["attacks"]
    ran = sum(about["why_not"] is None for about in tried.values())
    images = CANNOT_TELL
    if ran and result["leak"]:
        images = LEAKS
    # half of the canaries or more
    elif ran and power is not None and 0 < power["canaries"] <= 2 * power["leaking"]:
        images = NOT_BY_THESE
    sentence = say("on_images", images, result, n, power, ran, KINDS)
    if unchecked and images == NOT_BY_THESE:
        images, sentence = CANNOT_TELL, say("misfit", CANNOT_TELL, "", unchecked, untold)
    if misfit is not None:
        images = images if images == LEAKS else CANNOT_TELL
        return Verdict(
            images,
            untold,
            say("misfit", images, sentence, misfit, untold),
            say("who", misfit) if images == LEAKS and untold else "",
        )
    if membership is None:
        return Verdict(images, None, sentence)
    kind = INFERRED if membership["p_value"] < LEVEL else NOT_BY_THESE
    blind = (membership["power"]["auc"] or 0) < BLIND_AREA or membership["p_by_labels"] < LEVEL
    if membership["why_not"] or (kind == NOT_BY_THESE and blind):
        kind = CANNOT_TELL
    if unchecked and kind == NOT_BY_THESE:
        return Verdict(images, CANNOT_TELL, sentence, say("who", unchecked))
    return Verdict(images, kind, sentence, say("on_membership", kind, membership))


def lines(report: Json, verdict: Verdict) -> list[str]:
    """How many images came back and which; how many members can be named; the worst single
    image: the best copy, and the surest member.
    """
    return [say(line, verdict, report) for line in ("first", "second", "worst")]


def attack_states(report: Json) -> list[dict[str, str]]:
    """Every attack: its name, its state ("ran", "did not apply", "not asked", "nothing to
    compare"), and how or why not.
    """
    tried, states = (report["result"] or {"attacks": {}})["attacks"], []
    if table := report["membership"]:
        tried = tried | {"membership": {"why_not": None, "how": say("scores", table)}}
    for name in (*RECONSTRUCTIONS, "membership"):
        about = tried.get(name, {"why_not": None, "how": ""})
        state = "ran" if about["why_not"] is None else "did not apply"
        if report["exchangeability"]["why_not"] is not None:
            state = "nothing to compare"
        if name not in report["attacks_asked"]:
            state = "not asked"
        states.append({"attack": name, "state": state, "said": about["why_not"] or about["how"]})
    return states


def power_words(report: Json) -> list[str]:
    """What the attacks would have found, in sentences: on images, and on members."""
    return [said for name, part in POWER.items() if (said := say(name, report[part]))]
