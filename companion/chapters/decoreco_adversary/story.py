"""Chapter 7's sentences, each with ours, the nulls and a verdict: of the paper's recipe what can be
judged without weights, and of networks that somebody practised on the rest.

A network has fewer than twenty true candidates that look natural, so the share of true ones among
the twenty most trusted is held against what is attainable, or `SURE` could not be reached.
`book/changes.md` says which rules came late.
"""

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from companion.chapters.base import Tensors
from companion.chapters.claims import claim
from companion.chapters.decoreco_adversary.experiment import Metrics
from companion.chapters.decoreco_adversary.networks import Sizes
from companion.chapters.evidence import SURE, TRUSTED
from companion.chapters.pictures import (
    PAGE,
    REFERENCE,
    SERIES,
    chart,
    image_rows,
    levels,
    note,
    photographs,
)
from companion.store.record import Record
from companion.store.results import Claim, Result, graded

BY_STATIONARITY = ("combined", "agreement")  # the second, where there is nothing to practise on
IN_A_ROW = 10  # candidates, in a figure


def claims(metrics: Metrics, sizes: Sizes) -> list[Claim]:
    """What practice makes of all evidence of stationarity, and what separation adds to it. Whether
    the searches had converged was not recorded: a verdict is about the candidates of this budget.
    """
    decoreco = metrics.arms["decoreco"]
    stopped = (
        f"; searches stopped after {sizes.attack.steps:,} steps; n = {decoreco.n_train}; of these"
        " candidates only"
    )
    return [_practised(decoreco.natural, stopped), _asks_separation(decoreco.natural, stopped)]


def _practised(group: Record, how: str) -> Claim:
    """A finding where they rank better than chance, the interval of the AUC being above 0.5, and
    are not certain; by the first of the kinds of evidence that there is.

    Args:
        how: the candidates came about, in words.
    """
    kind = next((kind for kind in BY_STATIONARITY if kind in group.evidence), None)
    if kind is None:
        ours = f"{group.true} of {group.candidates} natural-looking candidates are true"
        return claim("adversary-practises", ours=ours + how, null=_null(group), verdict="undecided")
    judged = group.evidence[kind]
    better = (judged.auc.low or 0) > 0.5
    return claim(
        "adversary-practises",
        ours=_ours(group, kind) + how,
        null=_null(group),
        verdict=graded(better, better and not certain(judged, group)),
        value=judged.precision_at_20.mean,
        null_value=group.guess.precision_at_20,
    )


def certain(judged: Record, group: Record) -> bool:
    """Whether the share of true ones among the twenty most trusted is at least `SURE` of what is
    attainable, and its interval lies above a guess; or that of the share of true ones among all
    that look natural lies above `SURE`.
    """
    top = judged.precision_at_20
    sure = (top.mean or 0) >= SURE * (group.attainable or 1)
    beyond = (top.low or 0) > (group.guess.precision_at_20 or 0)
    return (group.share_true.low or 0) >= SURE or (sure and beyond)


def _ours(group: Record, kind: str) -> str:
    judged, smooth = group.evidence[kind], group.evidence["smoothness"]
    trusted = in_words(judged.precision_at_20)
    return (
        f"AUC {in_words(judged.auc)} ({kind}; smoothness alone {in_words(smooth.auc)}); {trusted}"
        f" of the 20 they trust most are true, {_text(group.attainable)} at best"
        f" ({group.true} true, {group.negative} negatives,"
        f" {group.doubtful} doubtful, {group.false} false)"
    )


def in_words(number: Record) -> str:
    """A mean over networks, with its interval where it has one."""
    if number.mean is None:
        return "not defined"
    spread = "" if None in (number.low, number.high) else f" [{number.low:.2f}, {number.high:.2f}]"
    return f"{number.mean:.2f}{spread}"


def _null(group: Record) -> str:
    return f"a guess: AUC 0.5, {_text(group.guess.precision_at_20)}"


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _asks_separation(group: Record, how: str) -> Claim:
    """A finding if the interval of the AUC lies above those of the practised adversary and of
    smoothness; "partly" if only above a guess.
    """
    asked, best, smooth = map(group.evidence.get, ("separated", "combined", "smoothness"))
    ours, judged = "not defined", "not reproduced"
    if asked is not None:
        by = "" if best is None else f" (by stationarity AUC {_both(best, '; ')})"
        ours = f"AUC {_both(asked, '; ')} of the 20 most like a separated image are true{by}{how}"
        highs = [other.auc.high for other in (best, smooth) if other is not None]
        tells = (asked.auc.low or 0) > 0.5
        judged = graded(tells, tells and all(asked.auc.low > (high or 0) for high in highs))
    return claim(
        "adversary-asks-separation",
        ours=ours,
        null=_null(group),
        verdict=judged,
        value=None if asked is None else asked.auc.mean,
        null_value=0.5 if smooth is None else smooth.auc.mean,
    )


def _both(judged: Record, between: str) -> str:
    return in_words(judged.auc) + between + in_words(judged.precision_at_20)


def selected(_: Metrics, arrays: Tensors) -> Tensors:
    """What the adversary trusts, of each attack, as `most_trusted` has it."""
    shown = {name: array for name, array in arrays.items() if array.dim()}
    return {name: levels(x) if x.dim() == 2 else x.clone() for name, x in shown.items()}


#: what is drawn of each attack: its title, and the kinds of evidence in words, from below
SHOWN = {
    "decoreco": (
        "DecoReco",
        {
            "separated": "separation finds it too",
            "combined": "stationarity, practised",
            "edges": "sparse edges: looks alone",
        },
    ),
    "more": (
        "separation",
        {"certainty": "certainty, practised", "edges": "sparse edges: looks alone"},
    ),
}


@chart
def plot_told(result: Result[Metrics]) -> Figure:
    """Share of true ones among the twenty natural-looking candidates that each kind of evidence
    trusts most, with its interval; dotted, a guess; dashed, what can be reached where there are
    fewer than twenty true ones.
    """
    heights = [len(kinds) for _, kinds in SHOWN.values()]
    figure, axes = plt.subplots(
        len(SHOWN), 1, figsize=(PAGE, 3.5), height_ratios=heights, sharex=True
    )
    for ax, (arm, (attack, kinds)) in zip(axes, SHOWN.items(), strict=True):
        group, n = result.metrics.arms[arm].natural, result.metrics.arms[arm].n_train
        for y, kind in enumerate(kinds):
            top = group.evidence[kind].precision_at_20 if kind in group.evidence else Record()
            if top.get("low") is not None:
                spread = [[top.mean - top.low], [top.high - top.mean]]
                ax.errorbar(top.mean, y, xerr=spread, fmt="o", color=SERIES[2], linewidth=1.5)
        ax.set(xlim=(0, 1.03), ylim=(-0.5, len(kinds)))
        ax.set_yticks(range(len(kinds)), kinds.values())
        for value, style, words, aside in (
            (group.guess.precision_at_20, ":", "a guess", -22),
            (group.attainable, "--", "at best", 22),
        ):
            if value is not None and value < 1:
                ax.axvline(value, color=REFERENCE, linestyle=style, linewidth=1)
                note(ax, words, (value, len(kinds) - 0.3), (aside, 0), REFERENCE, "center")
        ax.set_title(f"{attack}, {n} images in each network", loc="left")
    axes[-1].set_xlabel(f"share of true ones among the {TRUSTED} most trusted")
    return figure


@photographs
def plot_trusted(result: Result[Metrics], arm: str = "decoreco") -> Figure:
    """The twenty natural-looking candidates that the practised adversary trusts most in the network
    of median AUC, black, above the training images of the largest |NCC|, grey: ✓ true, ✗ not, with
    the NCC; below 0 it is a negative.
    """
    parts = ("x_hat", "train", "ncc", "true")
    x, train, scores, true = (result.figure(f"{arm}.{part}") for part in parts)
    marks = [
        f"{'✓' if so else '✗'} {score:.2f}".replace("-", "−")
        for score, so in zip(scores.tolist(), true.tolist(), strict=True)
    ]
    rows, titles = [], []
    for start in range(0, max(len(x), 1), IN_A_ROW):
        part = slice(start, start + IN_A_ROW)
        rows += [
            (f"{start + 1}–{start + len(x[part])}", x[part], "recovered"),
            ("nearest\ntraining image", train[part], "training"),
        ]
        titles += [marks[part], []]
    return image_rows(rows, titles)


FIGURES = {
    "told": plot_told,
    "trusted": plot_trusted,
    "trusted_more": lambda result: plot_trusted(result, "more"),
}
