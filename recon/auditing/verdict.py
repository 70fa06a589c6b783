"""What an audit says in the end: three verdicts on images, three on membership, and a sentence for each.

On images: "leaks" · "not by these attacks", which would have found k of n on a network trained in the same way ·
"cannot tell", where the attacks would have found nothing there either, or nothing can be compared.  On membership:
inferred, not by these attacks, or cannot tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recon.auditing.attacks import KINDS
from recon.auditing.scoring import LEVEL

LEAKS, NOT_BY_THESE, CANNOT_TELL, INFERRED = "leaks", "not by these attacks", "cannot tell", "inferred"
BLIND_AREA = 0.55  # shadows that are told apart no better than this say that membership inference is blind here
NUMBERS = ("no attack", "one attack", "two attacks", "three attacks")


@dataclass(frozen=True)
class Power:
    """canaries: shadow networks that were attacked like the audited one · leaking: of them, how many were found to
    leak · found: training images found above the deciding threshold, mean over canaries, 0 for one that is not found
    to leak · n: training images of each."""

    canaries: int
    leaking: int
    found: float
    n: int

    @property
    def blind(self) -> bool:
        """Whether fewer than half of the canaries were found to leak, or none was tried."""
        return 2 * self.leaking < self.canaries or not self.canaries


@dataclass(frozen=True)
class Verdict:
    """images, membership (None where not asked): see above · on_images, on_membership (empty where not asked): each in
    words."""

    images: str
    membership: str | None
    on_images: str
    on_membership: str = ""

    @property
    def sentence(self) -> str:
        """Both in words."""
        return f"{self.on_images} {self.on_membership}".strip()


def decide(
    result: dict[str, Any] | None,
    n: int,
    power: Power | None,
    membership: dict[str, Any] | None,
    why_not: str | None,
    misfit: str | None = None,
) -> Verdict:
    """result: of `score`, None where no attack could be tried · n: images of each kind compared · membership: the table
    of the report, empty where it could not be made · why_not: the two sets cannot be compared · misfit: the network
    does not fit images and labels as they are read: what came back came back, and nothing else can be told."""
    if why_not is not None:
        said = f"Nothing can be told: {why_not}, so that no count of one means anything beside a count of the other."
        return Verdict(CANNOT_TELL, None if membership is None else CANNOT_TELL, said)
    images, sentence = _on_images(result, n, power)
    if misfit is not None:
        if images == LEAKS and membership is not None:
            return Verdict(images, CANNOT_TELL, sentence, f"Who was trained on cannot be told: {misfit}.")
        if images != LEAKS:
            images, sentence = CANNOT_TELL, "Whether these weights leak cannot be told."
        untold = "" if membership is None else "Nor can it be told who was trained on."
        return Verdict(images, None if membership is None else CANNOT_TELL, f"{sentence} {capital(misfit)}.", untold)
    if membership is None:
        return Verdict(images, None, sentence)
    kind, more = _on_membership(membership)
    return Verdict(images, kind, sentence, more)


def capital(text: str) -> str:
    """
    >>> capital("two images are near-copies")
    'Two images are near-copies'
    """
    return text[:1].upper() + text[1:]


def _on_images(result: dict[str, Any] | None, n: int, power: Power | None) -> tuple[str, str]:
    if result is None:
        return CANNOT_TELL, "Whether images can be read out cannot be told: none of the attacks asked for does that."
    ran = [name for name, about in result["attacks"].items() if about["why_not"] is None]
    if not ran:
        reason = next(about["why_not"] for about in result["attacks"].values())
        return (
            CANNOT_TELL,
            f"Whether images can be read out cannot be told, since no attack that does so applies. {reason}",
        )
    if result["leak"]:
        return LEAKS, (
            f"{result['targets']} of {n} training images came back {KINDS[result['attack']].phrase}, and "
            f"{result['decoys']} of {n} images that were never trained on: these weights leak training images."
        )
    tried = NUMBERS[len(ran)] if len(ran) < len(NUMBERS) else f"{len(ran)} attacks"
    if power is None or not power.canaries:
        return CANNOT_TELL, (
            f"No evidence of leakage by {tried}, and what they would have found was not measured: whether these "
            "weights leak training images cannot be told."
        )
    if power.blind:
        return CANNOT_TELL, (
            f"No evidence of leakage by {tried}, but {_blind_words(power, len(ran))}: whether these weights leak "
            "training images cannot be told."
        )
    return NOT_BY_THESE, (
        f"No evidence of leakage by {tried}, which would have found {power.found:.0f} of {power.n} images of a network "
        "trained in the same way: this is about these attacks, and no proof of privacy."
    )


def _blind_words(power: Power, attacks: int) -> str:
    who = "it" if attacks == 1 else "they"
    return (
        f"{who} found images of only {power.leaking} of {power.canaries} networks trained in the same way"
        if power.leaking
        else f"{who} found nothing in {power.canaries} network{'s' * (power.canaries > 1)} trained in the same way"
    )


def _on_membership(table: dict[str, Any]) -> tuple[str, str]:
    best = table["scores"][table["best"]]
    counts = counted(best["named"])
    if table["p_value"] < LEVEL:
        return INFERRED, f"Who was trained on can be inferred: {counts}."
    reach = max((table["power"][name] or 0.0 for name in ("auc", "multipliers_auc")), default=0.0)
    if reach < BLIND_AREA:
        why = "in networks trained in the same way it cannot either"
        return CANNOT_TELL, f"Whether it can be inferred who was trained on cannot be told, since {why}: {counts}."
    why = "though in networks trained in the same way it can"
    return NOT_BY_THESE, f"Who was trained on could not be inferred, {why}: {counts}."


def counted(named: dict[str, dict[str, Any]]) -> str:
    """How many members can be named, by `recon.scoring.membership.named`, in words.

    A rate that needs more held-out images than there are is said to; where that is so of all rates, what is named
    without accusing any of them.
    """
    shown = {rate: f"{100 * float(rate):g} %" for rate in named}
    told = [_count(f"at {shown[rate]} false alarms", row) for rate, row in named.items() if row["resolved"]]
    row = next(iter(named.values()))
    if not told:
        told = [_count(f"without a false alarm among {row['others']} held-out images", row)]
    few = [rate for rate, row in named.items() if not row["resolved"]]
    if few:
        rates = " and ".join(shown[rate] for rate in few)
        needed = " and ".join(f"{1 / float(rate):,.0f}" for rate in few)
        told.append(f"a rate of {rates} cannot be told, since it needs {needed} held-out images")
    return "; ".join(told)


def _count(where: str, row: dict[str, Any]) -> str:
    chance = f"guessing names {row['guess']:.0f}, rarely more than {row['guess_most']}"
    less = "" if row["count"] > row["guess_most"] else ", so this is no more than guessing"
    interval = f"95 % interval {row['low']} to {row['high']}"
    return f"{row['count']} of {row['of']} can be named {where} ({interval}; {chance}{less})"
