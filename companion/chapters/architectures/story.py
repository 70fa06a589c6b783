"""The sentences of appendix J, with nulls.  Rules were written after a first run on one set of images; two further sets
have judged them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.chapters.architectures.experiment import (
    DECORECO,
    NOTHING,
    SAME_NETWORK,
    SEPARATION,
    START,
    DenseSizes,
    attack_of,
    title,
)
from companion.chapters.architectures.experiment import Metrics as DenseMetrics
from companion.chapters.pictures import FREE, PAGE, SERIES, Colour, chart, end_labels
from companion.store.record import Record
from companion.store.results import Claim, Result

MOST, FEW = 0.5, 0.1  # of the training images, beyond the best null


def claims(metrics: DenseMetrics, _: DenseSizes) -> list[Claim]:
    """Of fully connected networks."""
    return [no_protection(metrics), unknown_start(metrics)]


def no_protection(metrics: DenseMetrics) -> Claim:
    """Separation on both trainings of every network of two classes."""
    n, nets = metrics.n_train, [net for net in metrics.nets if net.classes == 2]
    pairs = [(net, attack_of(net, SEPARATION, known)) for net in nets for known in (START, NOTHING)]
    found = [_share(attack, n) >= MOST for _, attack in pairs]
    ends = "; ".join(
        f"{title(net)}: "
        + " and ".join(str(attack_of(net, SEPARATION, known).matches.ncc_07) for known in (START, NOTHING))
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
    pairs = [(attack_of(net, SEPARATION, START), attack_of(net, SAME_NETWORK, NOTHING)) for net in metrics.nets]
    holds = [_share(known, n) >= MOST and _share(hidden, n) <= FEW for known, hidden in pairs]
    return Claim(
        "arch-start",
        "",
        "What hides the images of all these networks from our separation is a start of the usual size that nobody else "
        "knows.",
        "",
        f"above NCC 0.7 of {n}, the start known and not: "
        + "; ".join(
            f"{title(net)}: {known.matches.ncc_07} and {hidden.matches.ncc_07}"
            for net, (known, hidden) in zip(metrics.nets, pairs, strict=True)
        ),
        f"best null, the start not known: {_most(hidden for _, hidden in pairs)} of {n}",
        _verdict(holds),
        value=max(hidden.matches.ncc_07 for _, hidden in pairs) / n,
        null_value=max(hidden.best_null.ncc_07 for _, hidden in pairs) / n,
    )


def _share(attack: Record, n: int) -> float:
    return attack.excess.ncc_07 / n


def _most(attacks: Iterable[Record]) -> int:
    return max(attack.best_null.ncc_07 for attack in attacks)


def _verdict(holds: list[bool]) -> str:
    return "finding" if all(holds) else ("partly" if any(holds) else "not reproduced")


#: attack, what is known, words, colour
LINES: list[tuple[str, str, str, Colour]] = [
    (SEPARATION, START, "separation,\nstart known", SERIES[0]),
    (SEPARATION, NOTHING, "separation,\nsmall start", SERIES[1]),
    (DECORECO, NOTHING, "DecoReco,\nsmall start", SERIES[2]),
    (SAME_NETWORK, NOTHING, "separation,\nstart unknown", SERIES[3]),
]


@chart
def plot_dense(result: Result[DenseMetrics]) -> Figure:
    """Share of the training images above NCC 0.7, against layers and against classes; the best null dotted."""
    metrics = result.metrics
    figure, axes = plt.subplots(1, 2, figsize=(PAGE, 3.2), sharey=True)
    deeper = [net for net in metrics.nets if net.classes == 2]
    classes = [net for net in metrics.nets if net.depth == 3]
    axes[0].set(xlabel="linear layers (two classes)", ylabel="share of the training images", ylim=(-0.04, 1.06))
    axes[1].set(xlabel="classes (three layers)")
    _panel(axes[0], deeper, [net.depth for net in deeper], metrics.n_train)
    end_labels(axes[1], _panel(axes[1], classes, [net.classes for net in classes], metrics.n_train))
    return figure


def _panel(ax: Axes, nets: list[Record], x: list[int], n: int) -> list[tuple[float, str, Colour]]:
    """Curves, and the names of their ends."""
    ends: list[tuple[float, str, Colour]] = []
    for attack, known, words, colour in LINES:
        found = [attack_of(net, attack, known).matches.ncc_07 / n for net in nets]
        ax.plot(x, found, "o-", color=colour)
        ends.append((found[-1], words, colour))
    null = [max(each.best_null.ncc_07 for each in net.attacks) / n for net in nets]
    ax.plot(x, null, ":", color=FREE)
    ax.set_xticks(x)
    return [*ends, (null[-1], "best null", FREE)]


FIGURES: dict[str, Callable[[Result[DenseMetrics]], Figure]] = {"dense": plot_dense}
