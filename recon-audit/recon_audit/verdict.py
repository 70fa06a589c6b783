"""What an audit says in the end: three verdicts on images, three on membership, and all of it in
words.

On images: "leaks" · "not by these attacks", which would have found k of n on a network trained in
the same way · "cannot tell", where the attacks would have found nothing there either, or nothing
can be compared. On membership: inferred, not by these attacks, or cannot tell.

What a report opens with, three lines for whoever must decide and what was tried, are functions of
what report.json holds, so that a report without names says the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from recon_audit.attacks import KINDS, RECONSTRUCTIONS
from recon_audit.images import printable
from recon_audit.scoring import LEVEL, Json

LEAKS, NOT_BY_THESE = "leaks", "not by these attacks"
CANNOT_TELL, INFERRED = "cannot tell", "inferred"
# shadows that are told apart no better than this say that membership inference is blind here
BLIND_AREA = 0.55
NUMBERS = ("no attack", "one attack", "two attacks", "three attacks")
FIRST = 3  # names in a line, then "and N more"
SURE = "where half of those in question were"
NOT_APPLIED, RAN = "did not apply", "ran"


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
    result: Json | None,
    n: int,
    power: Json | None,
    membership: Json | None,
    why_not: str | None,
    misfit: str | None = None,
) -> Verdict:
    """
    Args:
        result, power, membership: as in the report; no result where no attack could be tried,
            membership empty where the table could not be made.
        n: images of each kind compared.
        why_not: the two sets cannot be compared.
        misfit: the network does not fit what is read: what came back came back, and nothing else
            can be told.
    """
    if why_not is not None:
        reason = (
            f"Nothing can be told: {why_not}, so that no count of one means anything beside a count"
            " of the other."
        )
        return Verdict(CANNOT_TELL, None if membership is None else CANNOT_TELL, reason)
    images, sentence = _on_images(result, n, power)
    if misfit is not None:
        told = None if membership is None else CANNOT_TELL
        if images == LEAKS and told:
            return Verdict(images, told, sentence, f"Who was trained on cannot be told: {misfit}.")
        if images != LEAKS:
            images, sentence = CANNOT_TELL, "Whether these weights leak cannot be told."
        return Verdict(images, told, f"{sentence} {misfit[:1].upper()}{misfit[1:]}.")
    kind, more = (None, "") if membership is None else _on_membership(membership)
    return Verdict(images, kind, sentence, more)


def _on_images(result: Json | None, n: int, power: Json | None) -> tuple[str, str]:
    untold = "Whether images can be read out cannot be told"
    if result is None:
        return CANNOT_TELL, f"{untold}: none of the attacks asked for does that."
    ran = [name for name, about in result["attacks"].items() if about["why_not"] is None]
    if not ran:
        reason = next(about["why_not"] for about in result["attacks"].values())
        return CANNOT_TELL, f"{untold}, since no attack that does so applies. {reason}"
    if result["leak"]:
        return (
            LEAKS,
            (
                f"{result['targets']} of {n} training images came back"
                f" {KINDS[result['attack']].phrase}, and {result['decoys']} of {n} images that were"
                " never trained on: these weights leak training images."
            ),
        )
    silence = f"No evidence of leakage by {NUMBERS[len(ran)]}"
    if power is None or not power["canaries"]:
        blind = ", and what they would have found was not measured"
    elif 2 * power["leaking"] < power["canaries"]:  # fewer than half of the canaries
        leaking = f"{power['leaking']} of {power['canaries']}"
        blind = f", which found images in only {leaking} networks trained in the same way"
    else:
        images = f"{power['found']:.0f} of {power['n']} images of a network trained in the same way"
        proof = "this is about these attacks, and no proof of privacy"
        return NOT_BY_THESE, f"{silence}, which would have found {images}: {proof}."
    return (
        CANNOT_TELL,
        f"{silence}{blind}: whether these weights leak training images cannot be told.",
    )


def _on_membership(table: Json) -> tuple[str, str]:
    counts, groups = table["scores"][table["best"]]["named"], table["groups"]
    words = count_words(counts, " groups" if groups else "")
    if table["why_not"] is not None:
        untold = "Whether it can be inferred who was trained on cannot be told"
        return CANNOT_TELL, f"{untold}: {table['why_not']}."
    if table["p_value"] < LEVEL:
        inferred = "Who was trained on can be inferred"
        if all(row["count"] <= row["guess_most"] for row in counts.values()):
            inferred += ", of training images as a whole and not one by one"
        return INFERRED, f"{inferred}: {words}."
    there = "in networks trained in the same way it can"
    if max(table["power"][name] or 0.0 for name in ("auc", "multipliers_auc")) < BLIND_AREA:
        sentence = (
            f"Whether it can be inferred who was trained on cannot be told, since {there}not either"
        )
        return CANNOT_TELL, f"{sentence}: {words}."
    return NOT_BY_THESE, f"Who was trained on could not be inferred, though {there}: {words}."


def epsilon_words(table: Json) -> str:
    """The lower bound of ε beside what is claimed, in a sentence; what it assumes, see
    `recon_audit.membership.epsilon_bound`.
    """
    bound = table["epsilon"]
    lower = (
        f"ε is at least {bound['lower']:.2f} at δ = {bound['delta']:.2g}, with a confidence of 95 %"
        f" ({bound['right']} of {bound['guesses']} guesses are right)"
    )
    if bound["claimed"] is None:
        return f"{lower}."
    size = f" for groups of up to {bound['size']} images" if bound["size"] > 1 else ""
    return f"{lower}: the claim of ε = {bound['claimed']:g}{size} is {bound['verdict']}."


def count_words(named: dict[str, Json], unit: str = "") -> str:
    """How many members can be named, by `recon.scoring.membership.named`, in words.

    A rate that needs more held-out images than there are is said to; where that is so of all rates,
    what is named without accusing any of them.
    """
    percent = {rate: f"{100 * float(rate):g} %" for rate in named}
    few = [rate for rate, row in named.items() if not row["resolved"]]
    counts = [
        _count(f"at {percent[rate]} false alarms", row, unit)
        for rate, row in named.items()
        if rate not in few
    ]
    if not counts:
        row = next(iter(named.values()))
        others = f"{row['others']} held-out{unit or ' images'}"
        counts = [_count(f"without a false alarm among {others}", row, unit)]
    if few:
        rates = " and ".join(percent[rate] for rate in few)
        needed = " and ".join(f"{1 / float(rate):,.0f}" for rate in few)
        needed += f" held-out{unit or ' images'}"
        counts.append(f"a rate of {rates} cannot be told, since it needs {needed}")
    return "; ".join(counts)


def _count(where: str, row: Json, unit: str) -> str:
    chance = f"guessing names {row['guess']:.0f}, rarely more than {row['guess_most']}"
    less = "" if row["count"] > row["guess_most"] else ", so this is no more than guessing"
    interval = f"95 % interval {row['low']} to {row['high']}"
    counted = f"{row['count']} of {row['of']}{unit} can be named {where}"
    return f"{counted} ({interval}; {chance}{less})"


# ------------------------------------------------------------------------------- what a report says


def lines(report: Json, verdict: Verdict) -> list[str]:
    """How many images came back and which; how many members can be named; the worst single
    image.
    """
    recovered = [image for image in report["leaked"] if image["how"] != "membership"]
    first = verdict.on_images
    if recovered:
        first += f" They are {enumerate_names([printable(image['image']) for image in recovered])}."
    second = "Whether it can be inferred who was trained on was not asked."
    if "membership" in report["attacks_asked"]:
        second = verdict.on_membership or "Nor can it be told who was trained on."
        table = report["membership"]
        if table and table["epsilon"]["claimed"] is not None:
            second += f" {epsilon_words(table)[:1].upper()}{epsilon_words(table)[1:]}"
    return [first, second, worst(report["leaked"])]


def enumerate_names(names: list[str]) -> str:
    """
    >>> enumerate_names(["a", "b", "c", "d", "e"]), enumerate_names(["a", "b"])
    ('a, b, c and 2 more', 'a and b')
    """
    if len(names) > FIRST:
        return f"{', '.join(names[:FIRST])} and {len(names) - FIRST} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def worst(leaked: list[Json]) -> str:
    """The image that came back best, and the surest member; the list has the most probable
    first.
    """
    recovered = [image for image in leaked if image["how"] != "membership"]
    members = [image for image in leaked if image["how"] == "membership"]
    parts = []
    if recovered:
        best = max(recovered, key=lambda image: image["score"])
        parts.append(
            f"{printable(best['image'])}, which came back at a likeness (NCC) of"
            f" {best['score']:.2f}"
        )
    if members:
        odds = f"{members[0]['probability']:.0%} {SURE}"
        parts.append(
            f"{printable(members[0]['image'])}, which was trained on with a probability of {odds}"
        )
    return f"The worst single image: {'; and '.join(parts) or 'none was found to be given away'}."


def attack_states(report: Json) -> list[dict[str, str]]:
    """Every attack: its name, its state ("ran", "did not apply", "not asked", "nothing to
    compare"), and how or why not.
    """
    states = []
    results = (report["result"] or {}).get("attacks", {})
    for name in (*RECONSTRUCTIONS, "membership"):
        state, words = "not asked", ""
        if name in report["attacks_asked"]:
            if report["exchangeability"]["why_not"] is not None or report["images"]["scored"] == 0:
                state = "nothing to compare"
            elif name == "membership":
                table = report["membership"]
                state, words = (
                    RAN,
                    f"{len(table['scores'])} scores, {table['shadows']} shadow networks",
                )
                words += f". {table['multipliers_why_not']}" if table["multipliers_why_not"] else ""
            else:
                about = results[name]
                state = RAN if about["why_not"] is None else NOT_APPLIED
                words = about["why_not"] or about["how"]
        states.append({"attack": name, "state": state, "said": words})
    return states


def power_words(report: Json) -> list[str]:
    """What the attacks would have found, in sentences: on images, and on members."""
    sentences = []
    images, members, recipe = report["power"], report["membership"], report["recipe"]
    if recipe is not None and recipe["shadows"] < recipe["asked"]:
        sentences.append(
            f"There was time for {recipe['shadows']} of {recipe['asked']} shadow networks."
        )
    if images is None:
        sentences.append("What the attacks on images would have found was not measured.")
    else:
        sentences.append(
            f"In networks trained in the same way ({images['canaries']}), the attacks on images"
            f" found {images['found']:.1f} of {images['n']} training images on average, and"
            f" {images['leaking']} of them were found to leak."
        )
    if members is not None and members["power"]["auc"] is not None:
        share = members["power"]["tpr_0.01"]
        sentences.append(
            f"Of such a network's own training images, {share:.0%} can be named at 1 % false"
            " alarms, or at none where fewer than 100 images were held out."
        )
    return sentences
