"""Chapter 19's sentences, with nulls; the rules were written before the runs that they judge.

Except these: `features_law` judged the two ends alone, and p = d n itself since a review asked for it, after the runs.
`worth` was narrowed to gradient descent, and `without_start` added, after a first run with one rule for all optimisers.

Numbers of Loo et al. are from their code (github.com/yolky/understanding_reconstruction), those of Iurada et al. from a
summary of their paper.
"""

from __future__ import annotations

from collections.abc import Iterable

from recon.chapters.seed.metrics import (
    FEATURES,
    HIDDEN,
    SEPARATION,
    TANGENT,
    DistributionMetrics,
    DistributionNet,
    LawCell,
    LawMetrics,
    Metrics,
    Net,
    Rung,
)
from recon.chapters.seed.sizes import DistributionSizes, LawSizes, Sizes
from recon.chapters.tables import null_text
from recon.scoring.nulls import clears
from recon.store.results import Claim

MOST, FEW = 0.5, 0.1  # of the training images, beyond the best null
NEARLY, AS_GOOD = 0.1, 0.8  # a start known up to this; share of what θ⁰ itself gives
FAR, NEAR = 0.5, 0.1  # errors of the law that count as lost and as found,
HALF = 0.5  # if they are no more than this share of what costs nothing
MIDDLE = (0.25, 0.75)  # errors that count as one half
AT = (0.5, 2.0)  # p / (d n) that counts as d n


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """What the start is worth."""
    attacked, adam = ([net for net in metrics.nets if chosen(net)] for chosen in (has_tangents, by_adam))
    descent = [net for net in metrics.nets if not by_adam(net)]
    return [
        *((worth(descent), nearly_as_good(descent)) if descent else ()),
        *([without_start(adam)] if adam else ()),
        *(tangent_claims(attacked) if attacked else ()),
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


def nearly_as_good(nets: list[Net]) -> Claim:
    """A start with an error of a tenth of its size."""
    pairs = [(net, at(net, NEARLY), net.of(SEPARATION)[-1]) for net in nets]
    shares = [rung.excess.ncc_07 / max(exact.excess.ncc_07, 1) for _, rung, exact in pairs]
    nothing = all(exact.excess.ncc_07 <= 0 for *_, exact in pairs)
    good = [share >= AS_GOOD for share in shares]
    return Claim(
        "seed-nearly",
        "",
        f"A start that is known up to {NEARLY:.0%} of its size is worth at least {AS_GOOD:.0%} of the start itself.",
        "",
        "above NCC 0.7, so and with θ⁰: "
        + by_size((net, f"{rung.matches.ncc_07} and {exact.matches.ncc_07}", "") for net, rung, exact in pairs),
        "best null: " + best([rung for _, rung, _ in pairs]),
        "undecided" if nothing else ("finding" if all(good) else ("partly" if any(good) else "not reproduced")),
        value=min(shares),
        null_value=AS_GOOD,
    )


def tangent_claims(nets: list[Net]) -> list[Claim]:
    """The published attack with θ⁰, beyond the null; and separation with the same knowledge beside it."""
    ends = [(net, net.of(TANGENT)[-1], net.of(SEPARATION)[-1]) for net in nets]
    found = [clears(rung.matches.ncc_07, rung.best_null.ncc_07) for _, rung, _ in ends]
    more = [simple.excess.ncc_07 > rung.excess.ncc_07 for _, rung, simple in ends]
    null = "best null: " + best([rung for _, rung, _ in ends])
    return [
        Claim(
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
                for net, rung, _ in ends
            ),
            null,
            "reproduced" if all(found) else ("partly" if any(found) else "not reproduced"),
            value=max(rung.matches.ncc_07 / net.n_train for net, rung, _ in ends),
            null_value=max(rung.best_null.ncc_07 / net.n_train for net, rung, _ in ends),
        ),
        Claim(
            "seed-tangent-against-separation",
            "",
            "With θ⁰ known, unmixing the first layer's update finds more images than the published attack.",
            "",
            f"{only(nets)}, above NCC 0.7, separation and tangents: "
            + by_size((net, f"{simple.matches.ncc_07} and {rung.matches.ncc_07}", "") for net, rung, simple in ends),
            null,
            "finding" if all(more) else ("partly" if any(more) else "not reproduced"),
            value=min(simple.excess.ncc_07 / net.n_train for net, _, simple in ends),
            null_value=max(rung.excess.ncc_07 / net.n_train for net, rung, _ in ends),
        ),
    ]


def distribution_claims(metrics: DistributionMetrics, _: DistributionSizes) -> list[Claim]:
    """The distribution of the start beside nothing: no more images beyond the best null, up to `FEW` of them."""
    more = [(net.distribution.excess.ncc_07 - net.nothing.excess.ncc_07) / net.n_train for net in metrics.nets]
    holds = [each <= FEW for each in more]
    return [
        Claim(
            "seed-distribution",
            "",
            "Knowing how the start was drawn, and nothing else of it, gives our separation no more images than knowing "
            "nothing.",
            "",
            "above NCC 0.7, so and knowing nothing: "
            + by_size(
                (net, f"{net.distribution.matches.ncc_07} and {net.nothing.matches.ncc_07}", "") for net in metrics.nets
            )
            + "; directions searched: "
            + ", ".join(f"{net.distribution.candidates} and {net.nothing.candidates}" for net in metrics.nets),
            "best null: " + best([net.distribution for net in metrics.nets]),
            "finding" if all(holds) else ("partly" if any(holds) else "not reproduced"),
            value=max(more),
            null_value=FEW,
        )
    ]


def law_claims(metrics: LawMetrics, _: LawSizes) -> list[Claim]:
    """Iurada et al.: at p = d n the images begin to be determined; and what that number means for a first layer."""
    return [features_law(metrics.of(FEATURES)), hidden_law(metrics.of(HIDDEN))]


def features_law(cells: list[LawCell]) -> Claim:
    """The law where it was proved, for random features: lost below d n, about one half at it, found far above."""
    few, many = ends_of(cells)
    at_law = next((cell for cell in cells if AT[0] < cell.equations_per_unknown < AT[1]), None)
    lost = few is not None and few.error >= FAR
    half = at_law is not None and MIDDLE[0] <= at_law.error <= MIDDLE[1]
    found = many is not None and many.error <= min(NEAR, HALF * many.null_error)
    unknown = few is None or many is None or at_law is None
    held = [lost, half, found]
    return Claim(
        "seed-law",
        "Iurada et al. 2026",
        "Weights lose the training images at p = n parameters, hold half of them at p = d n, and all at p = 10 d n.",
        "error about 1 at p = n, 0.5 at p = d n, 0 at p = 10 d n, for random features, as cited by a summary of the "
        "paper (papernotes.org: CIFAR-10, n = 100, ReLU); we have not seen their figure, and their code measures "
        "another distance (rf_experiments.py)",
        "random features, θ⁰ known, mean of 1 − NCC²: " + along(cells, [cell.error for cell in cells]),
        "the best that costs nothing: " + along(cells, [cell.null_error for cell in cells]),
        "undecided" if unknown else ("reproduced" if all(held) else ("partly" if any(held) else "not reproduced")),
        value=None if many is None else many.error,
        null_value=None if many is None else many.null_error,
    )


def hidden_law(cells: list[LawCell]) -> Claim:
    """A first layer of h units has about h d parameters: p ≥ d n is h ≥ n, as many rows as images."""
    fewer = [cell for cell in cells if 2 * cell.width <= cell.n_train]
    enough = [cell for cell in cells if cell.width >= 2 * cell.n_train]
    unmixed = [cell.separation_error if cell.separation_error is not None else 1.0 for cell in cells]
    by_width = dict(zip((cell.width for cell in cells), unmixed, strict=True))
    lost = bool(fewer) and by_width[fewer[-1].width] >= FAR
    found = bool(enough) and by_width[enough[-1].width] <= min(NEAR, HALF * enough[-1].null_error)
    unknown = not fewer or not enough
    return Claim(
        "seed-law-rows",
        "",
        "In a network with one hidden layer p ≥ d n means as many rows as images; then separation finds them all, and "
        "with half as many rows it does not.",
        "",
        "mean of 1 − NCC² by separation, θ⁰ known: "
        + along(cells, unmixed)
        + "; by tangents: "
        + along(cells, [cell.error for cell in cells]),
        "the best that costs nothing: " + along(cells, [cell.null_error for cell in cells]),
        "undecided"
        if unknown
        else ("finding" if lost and found else ("partly" if lost or found else "not reproduced")),
        value=by_width[enough[-1].width] if enough else None,
        null_value=enough[-1].null_error if enough else None,
    )


def along(cells: list[LawCell], values: list[float]) -> str:
    """Values with their p in units of d n."""
    return ", ".join(f"{v:.2f} at {cell.equations_per_unknown:.2g} d n" for cell, v in zip(cells, values, strict=True))


def ends_of(cells: list[LawCell]) -> tuple[LawCell | None, LawCell | None]:
    """That of the most parameters below d n / 2, and that of the fewest above 9.9 d n; None where none was run."""
    below = [cell for cell in cells if cell.equations_per_unknown <= 0.5]
    above = [cell for cell in cells if cell.equations_per_unknown >= 9.9]
    return (below[-1] if below else None), (above[0] if above else None)


def at(net: Net, noise: float) -> Rung:
    """Separation with this error in θ⁰; the last rung where it was not run."""
    rungs = net.of(SEPARATION)
    return next((rung for rung in rungs if rung.noise == noise), rungs[-1])


def by_size(rows: Iterable[tuple[Net | DistributionNet, str, str]]) -> str:
    """Networks, what was counted in each, and what more there is to say: those of one optimiser and as many images
    together, from the narrowest to the widest."""
    groups: dict[tuple[str, int], list[tuple[Net | DistributionNet, str, str]]] = {}
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
