"""Chapter 22's sentences, with nulls.  Rules were written after a first run on one set of images.

Two further sets have judged those of fully connected networks; how many have judged those of simulated training, the
claims page counts.  The run at 32 × 32 was sized anew after its first result.  That networks have to be trained
(`LEARNT`) was asked for in a review, after all runs.  So was that counts near to their threshold are undecided
(`SURELY`, `HARDLY`), once another processor had turned one."""

from __future__ import annotations

from collections.abc import Iterable

from recon.chapters.architectures.metrics import (
    DECORECO,
    NOTHING,
    SAME_NETWORK,
    SEPARATION,
    START,
    DenseAttack,
    DenseMetrics,
    DenseNet,
    SimulatedMetrics,
    SimulatedNet,
)
from recon.chapters.architectures.sizes import DenseSizes, SimulatedSizes
from recon.chapters.tables import null_text
from recon.scoring.nulls import clears
from recon.store.results import Claim

MOST, FEW = 0.5, 0.1  # of the training images, beyond the best null
SURELY, HARDLY = 3.0, 1.0  # standard errors that one count is above another: it is; it is not
LEARNT = 0.95  # of the loss at the start: a network whose loss stays above counts as not trained
KINKED = ("relu",)
NONE = "undecided"


def dense_claims(metrics: DenseMetrics, _: DenseSizes) -> list[Claim]:
    """Of fully connected networks."""
    deeper = [net for net in metrics.nets if net.classes == 2]
    classes = [net for net in metrics.nets if net.depth == 3]
    return [
        no_protection("arch-depth", "more layers", deeper, metrics.n_train),
        no_protection("arch-classes", "more classes", classes, metrics.n_train),
        unknown_start(metrics),
        more_classes(classes, metrics.n_train),
    ]


def no_protection(name: str, what: str, nets: list[DenseNet], n: int) -> Claim:
    """Separation on both trainings of every network."""
    pairs = [(net, net.of(SEPARATION, known)) for net in nets for known in (START, NOTHING)]
    found = [_share(attack, n) >= MOST for _, attack in pairs]
    ends = "; ".join(
        f"{net.name}: {net.of(SEPARATION, START).matches.ncc_07} and {net.of(SEPARATION, NOTHING).matches.ncc_07}"
        for net in nets
    )
    return Claim(
        name,
        "",
        f"A fully connected network with {what} gives its images away all the same, by separation of its first layer: "
        "with a start that is known, or from a small one that is not.",
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


def more_classes(nets: list[DenseNet], n: int) -> Claim:
    """DecoReco on the network of the fewest and of the most classes: does it find more with the most, than with the
    fewest and than the best null?

    A finding if both are so by `SURELY` standard errors, "not reproduced" if what it finds with the most is not above
    the null by even `HARDLY`, "partly" if it clearly is and not above what the fewest give.  Otherwise undecided: the
    counts are nearer to the two standard errors of `clears` than one.
    """
    few, many = (choose(nets, key=lambda net: net.classes).of(DECORECO, NOTHING) for choose in (min, max))
    found, least, null = many.matches.ncc_07, few.matches.ncc_07, many.best_null.ncc_07
    real, more = errors_above(found, null), errors_above(found, least)
    if real <= HARDLY:
        turned = "not reproduced"
    elif real > SURELY and (more > SURELY or more <= HARDLY):
        turned = "finding" if more > SURELY else "partly"
    else:
        turned = NONE
    return Claim(
        "arch-classes-decoreco",
        "",
        "The more classes a network tells apart, the more of its images DecoReco finds.",
        "Buzaglo et al. 2023, code: 10 classes with 50 images each; no count to compare with",
        f"above NCC 0.7 of {n}: "
        + ", ".join(f"{net.of(DECORECO, NOTHING).matches.ncc_07} with {net.classes} classes" for net in nets),
        "best null with the most: "
        + null_text(null, many.best_null_name.ncc_07)
        + f"; {found} is {real:.1f} standard errors above it, and {more:.1f} above {least}: more than {SURELY:g} are "
        f"enough, up to {HARDLY:g} too few, and between it is undecided",
        turned,
        value=found / n,
        null_value=max(least, null) / n,
    )


def errors_above(count: int, other: int) -> float:
    """By how many standard errors of the difference of two Poisson counts one is above another; 0 for none and none.

    >>> errors_above(10, 6), errors_above(0, 0), errors_above(2, 7)
    (1.0, 0.0, -1.6666666666666667)
    """
    return (count - other) / (count + other or 1) ** 0.5


def simulated_claims(metrics: SimulatedMetrics, _: SimulatedSizes) -> list[Claim]:
    """Of networks of convolutions, whose training is simulated."""
    smooth = [net for net in metrics.nets if net.activation not in KINKED and net.enough]
    kinked = [net for net in metrics.nets if net.activation in KINKED and net.enough]
    short = [net for net in metrics.nets if not net.enough]
    residual = [net for net in metrics.nets if net.residual_net]
    n = metrics.n_train
    return [
        *([published(residual, n)] if residual else []),
        *([inverted(smooth, n)] if smooth else []),
        *([stuck(kinked, smooth, n)] if kinked and smooth else []),
        *([ambiguous(short, n)] if short else []),
    ]


def learnt(net: SimulatedNet) -> bool:
    """Whether training brought its loss down to `LEARNT` of what it was; False where it diverged."""
    return net.loss <= LEARNT * net.loss_init


def untrained(nets: list[SimulatedNet]) -> bool:
    """Whether none of them was trained: what rests on them alone is undecided."""
    return not any(map(learnt, nets))


def judged(nets: list[SimulatedNet]) -> list[SimulatedNet]:
    """Those that were trained; all of them where none was, for the numbers of a claim without a verdict."""
    return [net for net in nets if learnt(net)] or nets


def published(nets: list[SimulatedNet], n: int) -> Claim:
    """The sentence of Tian et al. (2025), on networks with a residual block and batch norm."""
    counted = judged(nets)
    most = [net.best > n / 2 and clears(net.best, net.best_null) for net in counted]
    some = any(clears(net.best, net.best_null) for net in counted)
    return Claim(
        "arch-simulated-residual",
        "Tian et al. 2025, abstract",
        "Most training samples can be reconstructed from a trained ResNet's parameters, its start being known.",
        "most of 20 to 120 images, ResNet-18",
        f"above NCC 0.7 of {n}, one residual block: " + "; ".join(_line(net, net.best) for net in nets),
        "best null: " + "; ".join(_null(net) for net in nets),
        NONE if untrained(nets) else "reproduced" if all(most) else "partly" if some else "not reproduced",
        value=min(net.best for net in counted) / n,
        null_value=max(net.best_null for net in counted) / n,
    )


def inverted(nets: list[SimulatedNet], n: int) -> Claim:
    """Smooth activations, more parameters than unknowns."""
    counted = judged(nets)
    holds = [
        net.found == n and net.explained and (net.rank is None or net.sure) and clears(net.found, net.best_null)
        for net in counted
    ]
    return Claim(
        "arch-simulated-smooth",
        "",
        "With a smooth activation, and more parameters than pixels to find, simulated training finds every image of a "
        "network of convolutions, and the adversary can tell.",
        "",
        f"above NCC 0.7 of {n}: " + "; ".join(_line(net, net.found) for net in nets),
        "best null: " + "; ".join(_null(net) for net in nets),
        NONE if untrained(nets) else _verdict(holds),
        value=min(net.found for net in counted) / n,
        null_value=max(net.best_null for net in counted) / n,
    )


def stuck(nets: list[SimulatedNet], smooth: list[SimulatedNet], n: int) -> Claim:
    """ReLU: the same search, judged by what is left."""
    counted = judged(nets)
    worst = max(net.residual for net in judged(smooth))
    holds = [not net.explained and net.residual > worst for net in counted]
    return Claim(
        "arch-simulated-relu",
        "",
        "With ReLU the same search gets stuck before it explains the weights, and the adversary sees that too.",
        "",
        f"left of θ* − θ⁰, and above NCC 0.7 of {n}: " + "; ".join(_line(net, net.found) for net in nets),
        f"left with smooth activations, at most: {worst:.1g}",
        NONE if untrained(nets) or untrained(smooth) else _verdict(holds),
        value=min(net.residual for net in counted),
        null_value=worst,
    )


def ambiguous(nets: list[SimulatedNet], n: int) -> Claim:
    """Fewer parameters than unknowns."""
    counted = judged(nets)
    holds = [net.explained and net.found < n for net in counted]
    return Claim(
        "arch-simulated-few",
        "",
        "With fewer parameters than pixels to find, images that are wrong train to the same weights.",
        "",
        f"left of θ* − θ⁰, and above NCC 0.7 of {n}: " + "; ".join(_line(net, net.found) for net in nets),
        "best null: " + "; ".join(_null(net) for net in nets),
        NONE if untrained(nets) else _verdict(holds),
        value=max(net.found for net in counted) / n,
        null_value=max(net.best_null for net in counted) / n,
    )


def _share(attack: DenseAttack, n: int) -> float:
    return attack.excess.ncc_07 / n


def _most(attacks: Iterable[DenseAttack]) -> int:
    return max(attack.best_null.ncc_07 for attack in attacks)


def _verdict(holds: list[bool]) -> str:
    return "finding" if all(holds) else ("partly" if any(holds) else "not reproduced")


def _line(net: SimulatedNet, found: int) -> str:
    said = "" if learnt(net) else ", not trained"
    return f"{found} ({net.name}{said}, {net.residual:.1g} of θ* − θ⁰ left)"


def _null(net: SimulatedNet) -> str:
    return f"{net.best_null} ({net.best_null_name})"
