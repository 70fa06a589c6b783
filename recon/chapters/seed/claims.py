"""Chapter 19's sentences, with nulls; the rules were written before the runs that they judge."""

from __future__ import annotations

from recon.chapters.seed.metrics import SEPARATION, TANGENT, LawCell, LawMetrics, Metrics, Net, Rung
from recon.chapters.seed.sizes import LawSizes, Sizes
from recon.chapters.tables import null_text
from recon.scoring.nulls import clears
from recon.store.results import Claim

MOST, FEW = 0.5, 0.1  # of the training images, beyond the best null
NEARLY, AS_GOOD = 0.1, 0.8  # a start known up to this; share of what θ⁰ itself gives
FAR, NEAR = 0.5, 0.1  # errors of the law that count as lost and as found


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """What the start is worth."""
    attacked = [net for net in metrics.nets if net.of(TANGENT)]
    return [worth(metrics.nets), nearly_as_good(metrics.nets), *(tangent_claims(attacked) if attacked else ())]


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
        "With θ⁰ in hand an adversary reads most training images out of a network that gives none away without it.",
        "",
        "above NCC 0.7, without and with θ⁰: "
        + "; ".join(f"{first.matches.ncc_07} and {last.matches.ncc_07} of {name(net)}" for net, first, last in ends),
        "best null with θ⁰: " + "; ".join(best(last) for *_, last in ends),
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
        "above NCC 0.7: "
        + "; ".join(
            f"{rung.matches.ncc_07} of {name(net)}, {exact.matches.ncc_07} with θ⁰" for net, rung, exact in pairs
        ),
        "best null: " + "; ".join(best(rung) for _, rung, _ in pairs),
        "no verdict" if nothing else ("finding" if all(good) else ("partly" if any(good) else "not reproduced")),
        value=min(shares),
        null_value=AS_GOOD,
    )


def tangent_claims(nets: list[Net]) -> list[Claim]:
    """The published attack with θ⁰, beyond the null; and separation with the same knowledge beside it."""
    ends = [(net, net.of(TANGENT)[-1], net.of(SEPARATION)[-1]) for net in nets]
    found = [clears(rung.matches.ncc_07, rung.best_null.ncc_07) for _, rung, _ in ends]
    more = [simple.excess.ncc_07 > rung.excess.ncc_07 for _, rung, simple in ends]
    null = "best null: " + "; ".join(best(rung) for _, rung, _ in ends)
    return [
        Claim(
            "seed-tangent",
            "",
            "With θ⁰ known, matching θ* − θ⁰ by tangents recovers training images (Loo et al.).",
            "the whole set in the infinite-width limit; fewer images the farther training moves the tangents",
            "above NCC 0.7: "
            + "; ".join(
                f"{rung.matches.ncc_07} of {name(net)}, W1 moved by {net.moved:.0%}, {rung.left:.1%} of θ* − θ⁰ left"
                for net, rung, _ in ends
            ),
            null,
            "finding" if all(found) else ("partly" if any(found) else "not reproduced"),
            value=max(rung.matches.ncc_07 / net.n_train for net, rung, _ in ends),
            null_value=max(rung.best_null.ncc_07 / net.n_train for net, rung, _ in ends),
        ),
        Claim(
            "seed-tangent-against-separation",
            "",
            "With θ⁰ known, unmixing the first layer's update finds more images than the published attack.",
            "",
            "above NCC 0.7, separation and tangents: "
            + "; ".join(
                f"{simple.matches.ncc_07} and {rung.matches.ncc_07} of {name(net)}" for net, rung, simple in ends
            ),
            null,
            "finding" if all(more) else ("partly" if any(more) else "not reproduced"),
            value=min(simple.excess.ncc_07 / net.n_train for net, _, simple in ends),
            null_value=max(rung.excess.ncc_07 / net.n_train for net, rung, _ in ends),
        ),
    ]


def law_claims(metrics: LawMetrics, _: LawSizes) -> list[Claim]:
    """Iurada et al.: at p = d n the images begin to be determined."""
    narrow, wide = ends_of(metrics)
    lost = narrow is not None and narrow.error >= FAR
    found = wide is not None and wide.error <= NEAR
    ours = "; ".join(
        f"{cell.error:.2f} at p = {cell.equations_per_unknown:.2g} d n" for cell in (narrow, wide) if cell is not None
    )
    null = "; ".join(f"{cell.null_error:.2f}" for cell in (narrow, wide) if cell is not None)
    return [
        Claim(
            "seed-law",
            "",
            "Weights hold all training images from p ≈ d n parameters on, and lose them below (Iurada et al.).",
            "error about 1 at p = n, 0.5 at p = d n, 0 at p = 10 d n, random features",
            f"1 − NCC² in the mean, θ⁰ known, one hidden layer: {ours}",
            f"the best that costs nothing: {null}",
            "no verdict"
            if narrow is None or wide is None
            else ("finding" if lost and found else ("partly" if lost or found else "not reproduced")),
            value=None if wide is None else wide.error,
            null_value=None if wide is None else wide.null_error,
        )
    ]


def ends_of(metrics: LawMetrics) -> tuple[LawCell | None, LawCell | None]:
    """The widest network of at most d n / 2 parameters, the narrowest of at least 10 d n; None where none was run."""
    below = [cell for cell in metrics.cells if cell.equations_per_unknown <= 0.5]
    above = [cell for cell in metrics.cells if cell.equations_per_unknown >= 10]
    return (below[-1] if below else None), (above[0] if above else None)


def at(net: Net, noise: float) -> Rung:
    """Separation with this error in θ⁰; the last rung where it was not run."""
    rungs = net.of(SEPARATION)
    return next((rung for rung in rungs if rung.noise == noise), rungs[-1])


def name(net: Net) -> str:
    """Images, width and optimiser in words."""
    return f"{net.n_train} (width {net.width}, {OPTIMISERS[net.optimiser]})"


def best(rung: Rung) -> str:
    """The best null at NCC 0.7 in words."""
    return null_text(rung.best_null.ncc_07, rung.best_null_name.ncc_07)


OPTIMISERS = {"gd": "gradient descent", "adam": "Adam"}
