"""The sentences of appendix J, with nulls.  Rules were written after a first run on one set of images; two further sets
have judged them."""

from __future__ import annotations

from collections.abc import Iterable

from companion.chapters.architectures.metrics import (
    NOTHING,
    SAME_NETWORK,
    SEPARATION,
    START,
    DenseAttack,
    DenseMetrics,
)
from companion.chapters.architectures.sizes import DenseSizes
from companion.store.results import Claim

MOST, FEW = 0.5, 0.1  # of the training images, beyond the best null


def dense_claims(metrics: DenseMetrics, _: DenseSizes) -> list[Claim]:
    """Of fully connected networks."""
    return [no_protection(metrics), unknown_start(metrics)]


def no_protection(metrics: DenseMetrics) -> Claim:
    """Separation on both trainings of every network of two classes."""
    n, nets = metrics.n_train, [net for net in metrics.nets if net.classes == 2]
    pairs = [(net, net.of(SEPARATION, known)) for net in nets for known in (START, NOTHING)]
    found = [_share(attack, n) >= MOST for _, attack in pairs]
    ends = "; ".join(
        f"{net.name}: {net.of(SEPARATION, START).matches.ncc_07} and {net.of(SEPARATION, NOTHING).matches.ncc_07}"
        for net in nets
    )
    return Claim(
        "arch-depth",
        "",
        "A fully connected network with more layers gives its images away all the same, by separation of its first "
        "layer: with a start that is known, or from a small one that is not.",
        "",
        f"above NCC 0.7 of {n}, start known, and small start unknown: {ends}",
        f"best null: {_most(attack for _, attack in pairs)} of {n}",
        _verdict(found),
        value=min(attack.matches.ncc_07 for _, attack in pairs) / n,
        null_value=max(attack.best_null.ncc_07 for _, attack in pairs) / n,
    )


def unknown_start(metrics: DenseMetrics) -> Claim:
    """The same networks as with θ⁰ known, without it."""
    n = metrics.n_train
    pairs = [(net.of(SEPARATION, START), net.of(SAME_NETWORK, NOTHING)) for net in metrics.nets]
    holds = [_share(known, n) >= MOST and _share(hidden, n) <= FEW for known, hidden in pairs]
    return Claim(
        "arch-start",
        "",
        "What hides the images of all these networks from our separation is a start of the usual size that nobody else "
        "knows.",
        "",
        f"above NCC 0.7 of {n}, the start known and not: "
        + "; ".join(
            f"{net.name}: {known.matches.ncc_07} and {hidden.matches.ncc_07}"
            for net, (known, hidden) in zip(metrics.nets, pairs, strict=True)
        ),
        f"best null, the start not known: {_most(hidden for _, hidden in pairs)} of {n}",
        _verdict(holds),
        value=max(hidden.matches.ncc_07 for _, hidden in pairs) / n,
        null_value=max(hidden.best_null.ncc_07 for _, hidden in pairs) / n,
    )


def _share(attack: DenseAttack, n: int) -> float:
    return attack.excess.ncc_07 / n


def _most(attacks: Iterable[DenseAttack]) -> int:
    return max(attack.best_null.ncc_07 for attack in attacks)


def _verdict(holds: list[bool]) -> str:
    return "finding" if all(holds) else ("partly" if any(holds) else "not reproduced")
