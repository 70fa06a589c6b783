"""The sentences of appendix G, with nulls; the rules were written before the runs that they judge.

Except these: `worth` was narrowed to gradient descent, and `without_start` added, after a first run with one rule for
all optimisers.  Numbers of Loo et al. are from their code (github.com/yolky/understanding_reconstruction).
"""

from __future__ import annotations

from collections.abc import Iterable

from companion.chapters.seed.metrics import SEPARATION, TANGENT, Metrics, Net, Rung
from companion.chapters.seed.sizes import Sizes
from companion.chapters.tables import null_text
from companion.store.results import Claim
from recon.scoring.nulls import clears

MOST, FEW = 0.5, 0.1  # of the training images, beyond the best null


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """What the start is worth."""
    attacked, adam = ([net for net in metrics.nets if chosen(net)] for chosen in (has_tangents, by_adam))
    descent = [net for net in metrics.nets if not by_adam(net)]
    return [
        *([worth(descent)] if descent else ()),
        *([without_start(adam)] if adam else ()),
        *([tangent_claim(attacked)] if attacked else ()),
    ]


def has_tangents(net: Net) -> bool:
    """Whether the tangent attack was run on it."""
    return bool(net.of(TANGENT))


def by_adam(net: Net) -> bool:
    """Whether Adam trained it."""
    return net.optimiser == "adam"


def without_start(nets: list[Net]) -> Claim:
    """Adam's first steps are as long in every entry: what they add stands out of the start.

    Seen in a first run, whose rule for all optimisers alike failed; other sets of images judge it.
    """
    ends = [(net, net.of(SEPARATION)[0], net.of(SEPARATION)[-1]) for net in nets]
    found = [clears(first.matches.ncc_07, first.best_null.ncc_07) for _, first, _ in ends]
    return Claim(
        "seed-adam",
        "",
        "Adam moves the first layer so far that images come out without knowing the start.",
        "",
        "above NCC 0.7, without and with θ⁰: "
        + by_size(
            (net, f"{first.matches.ncc_07} and {last.matches.ncc_07}", f"W1 moved by {net.moved:.0%}")
            for net, first, last in ends
        ),
        "best null without: " + best([first for _, first, _ in ends]),
        "finding" if all(found) else ("partly" if any(found) else "not reproduced"),
        value=min(first.matches.ncc_07 / net.n_train for net, first, _ in ends),
        null_value=max(first.best_null.ncc_07 / net.n_train for net, first, _ in ends),
    )


def worth(nets: list[Net]) -> Claim:
    """With θ⁰ against without anything."""
    ends = [(net, net.of(SEPARATION)[0], net.of(SEPARATION)[-1]) for net in nets]
    holds = [net.share(last) >= MOST and net.share(first) <= FEW for net, first, last in ends]
    gains = [
        clears(last.matches.ncc_07, last.best_null.ncc_07) and last.matches.ncc_07 > first.matches.ncc_07
        for _, first, last in ends
    ]
    return Claim(
        "seed-worth",
        "",
        "With θ⁰ in hand an adversary reads most training images out of a network that gives none away without it "
        "(gradient descent).",
        "",
        "above NCC 0.7, without and with θ⁰: "
        + by_size((net, f"{first.matches.ncc_07} and {last.matches.ncc_07}", "") for net, first, last in ends),
        "best null with θ⁰: " + best([last for *_, last in ends]),
        "finding" if all(holds) else ("partly" if all(gains) else "not reproduced"),
        value=min(net.share(last) for net, _, last in ends),
        null_value=max(last.best_null.ncc_07 / net.n_train for net, _, last in ends),
    )


def tangent_claim(nets: list[Net]) -> Claim:
    """The published attack with θ⁰, beyond the null."""
    ends = [(net, net.of(TANGENT)[-1]) for net in nets]
    found = [clears(rung.matches.ncc_07, rung.best_null.ncc_07) for _, rung in ends]
    return Claim(
        "seed-tangent",
        "Loo et al. 2024",
        "With θ⁰ known, matching θ* − θ⁰ by tangents recovers training images.",
        "the entire training set “in the infinite width regime”, and a success that “heavily depends on "
        "deviations” from it (abstract, in the readme.md of their code; no count there); their example, "
        "basic_example.ipynb, has n = 200 and width 2048",
        f"{only(nets)}, above NCC 0.7: "
        + by_size(
            (
                net,
                str(rung.matches.ncc_07),
                f"W1 moved by {net.moved:.0%}, {rung.left:.1%} of ‖θ* − θ⁰‖² left",
            )
            for net, rung in ends
        ),
        "best null: " + best([rung for _, rung in ends]),
        "reproduced" if all(found) else ("partly" if any(found) else "not reproduced"),
        value=max(rung.matches.ncc_07 / net.n_train for net, rung in ends),
        null_value=max(rung.best_null.ncc_07 / net.n_train for net, rung in ends),
    )


def by_size(rows: Iterable[tuple[Net, str, str]]) -> str:
    """Networks, what was counted in each, and what more there is to say: those of one optimiser and as many images
    together, from the narrowest to the widest."""
    groups: dict[tuple[str, int], list[tuple[Net, str, str]]] = {}
    for row in rows:
        groups.setdefault((row[0].optimiser, row[0].n_train), []).append(row)
    return "; ".join(
        f"{', '.join(count for _, count, _ in group)} of {n} "
        f"(width {', '.join(str(net.width) for net, *_ in group)}, {OPTIMISERS[optimiser]})"
        + "".join(f", {more}" for *_, more in group if more)
        for (optimiser, n), group in groups.items()
    )


def only(nets: list[Net]) -> str:
    """Sizes of the networks that tangents were matched on, which are not those of the whole run."""
    parts = (("n", {net.n_train for net in nets}), ("width", {net.width for net in nets}))
    return " and ".join(f"{name} = {', '.join(map(str, sorted(values)))}" for name, values in parts) + " only"


def best(rungs: list[Rung]) -> str:
    """The best nulls at NCC 0.7 in words; their numbers alone, in the order of the networks, where there are many."""
    if len(rungs) > 4:
        return ", ".join(str(rung.best_null.ncc_07) for rung in rungs)
    return "; ".join(null_text(rung.best_null.ncc_07, rung.best_null_name.ncc_07) for rung in rungs)


OPTIMISERS = {"gd": "gradient descent", "adam": "Adam"}
