"""Chapter 10's sentences: Table 1, the generic rank, and what c(M) predicts."""

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from companion.chapters.base import Tensors
from companion.chapters.claims import claim
from companion.chapters.elements import element
from companion.chapters.leakage_common import TABLE_1
from companion.chapters.leakage_rank.experiment import Metrics, Sizes, as_published
from companion.chapters.pictures import PAGE, SERIES, chart, image_rows, note, photographs
from companion.chapters.published import LABELS, METHODS, PUBLISHED_RANK
from companion.store.record import Record
from companion.store.results import Claim, Result, graded

LEVEL = 0.05


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """Table 1, and two sentences on what it means."""
    rows = metrics.networks
    same = [as_published(row) for row in rows.values()]
    generic = sum(row.rd == row.generic_rd for row in rows.values())
    counted = sum(row.rd == uncorrected(name, row) for name, row in rows.items())
    values = {"networks": len(rows), "same": sum(same), "generic": generic, "counted": counted}
    return [
        claim(
            "leakage-table-1",
            values,
            paper="; ".join(f"{name}: {PUBLISHED_RANK[name][1]}" for name in rows),
            verdict=graded(*same, best="reproduced"),
            value=sum(same),
            null_value=counted,
        ),
        claim(
            "leakage-generic-rank",
            values,
            verdict="finding" if generic == len(rows) else graded(False, generic > counted),
            value=generic,
            null_value=counted,
        ),
        metric_predicts(metrics),
        local(metrics),
    ]


def local(metrics: Metrics) -> Claim:
    """Several images of full rank with one gradient; without pooling there is one."""
    pooled = metrics.pooled
    flat = metrics.flat
    verdict = "finding" if pooled.distinct > flat.distinct else "not reproduced"
    return claim(
        "full-rank-is-local",
        metrics,
        verdict=verdict if pooled.certificate == flat.certificate == "local" else "undecided",
        value=pooled.distinct,
        null_value=flat.distinct,
    )


def selected(_: Metrics, arrays: Tensors) -> Tensors:
    """Those of the digit."""
    return arrays


@photographs
def plot_shifts(result: Result[Metrics]) -> Figure:
    """A digit, and all images that have its gradient by the two networks."""
    rows = (
        ("the image", "truth", "training"),
        ("without pooling", "flat", "recovered"),
        ("with pooling", "pooled", "recovered"),
    )
    return image_rows([(words, result.figure(name), frame) for words, name, frame in rows])


def uncorrected(name: str, row: Record) -> list[int]:
    """Deficiencies by counting equations, min(0, n_out + |W| − n_in): the generic ones without
    their c_out².
    """
    channels = [conv.channels for conv in TABLE_1[name].convs]
    return [min(0, rd + c**2) if rd else 0 for rd, c in zip(row.generic_rd, channels, strict=True)]


def metric_predicts(metrics: Metrics) -> Claim:
    """By the correlations with all networks: those that networks in random order have in one case
    of twenty count.
    """
    rho = metrics.correlations()
    chance = metrics.chance
    judged = {label(key): chance[key] or 0.0 for key in rho if key in METHODS}
    beyond = [p_value < LEVEL for p_value in judged.values()]
    return claim(
        "leakage-metric-predicts",
        {"rho": {label(key): value for key, value in rho.items()}, "chance": judged},
        verdict=graded(*beyond, best="reproduced") if judged else "undecided",
        value=sum(beyond),
        null_value=LEVEL * len(judged),
    )


def label(key: str) -> str:
    """Method and networks of a correlation, in words."""
    method, _, rest = key.partition(", ")
    return LABELS.get(method, method) + (f" ({rest})" if rest else "")


@chart
def plot_rank(result: Result[Metrics]) -> Figure:
    """Every layer's rank against its unknowns: what is missing is what cannot be solved for."""
    rows = [
        (f"{name}, layer {i}", unknowns, unknowns + rd)
        for name, row in result.metrics.networks.items()
        for i, (unknowns, rd) in enumerate(zip(row.unknowns, row.rd, strict=True), start=1)
    ]
    names, unknowns, ranks = zip(*rows, strict=True)
    y = range(len(rows))
    figure, ax = plt.subplots(figsize=(PAGE, 0.22 * len(rows) + 1.0), layout="constrained")
    ax.hlines(y, ranks, unknowns, color="#cccccc", lw=2, zorder=1)
    hollow: dict[str, Any] = {"mfc": "white", "mec": SERIES[0], "mew": 1.6, "ms": 8}
    ax.plot(unknowns, y, "o", **hollow, label="unknowns $x_{i-1}$")
    words = "rank of $U_i$; number: what is missing"
    ax.plot(ranks, y, "o", color=SERIES[0], ms=5, label=words)
    for at, (_, number, rank) in zip(y, rows, strict=True):
        if rank < number:
            note(ax, f"{rank - number}".replace("-", "−"), (rank, at), (-6, 0), ha="right")
    ax.set_yticks(y, names)
    ax.set(xlabel="number", ylim=(len(rows) - 0.4, -0.6), xlim=(-0.1 * max(unknowns), None))
    figure.legend(loc="outside upper center", ncols=2)
    return figure


def drawing() -> str:
    """Eq. (4) in the browser: draw an image, see its gradient, get it back, with a batch and with
    noise.

    The network is one softmax layer with a bias on 16 × 16 pixels, made in the page.
    """
    body = (
        '<p class="plain ask">A drawing pad is here where scripts are allowed.</p><div'
        ' class="panels" hidden><figure><canvas class="pad" width="16" height="16" tabindex="0"'
        ' role="application" aria-label="Drawing pad of 16 by 16 pixels: draw with the pointer, or'
        ' move with the arrow keys and switch a pixel with Space"></canvas><figcaption><span'
        ' class="ask">Your image. Draw on it.</span><span class="paper">An'
        ' image.</span></figcaption></figure><figure><canvas class="seen" width="16" height="16"'
        ' role="img" aria-label="One row of the gradient"></canvas><figcaption>Sent: the gradient'
        " of the weights. Shown: one of ten rows.</figcaption></figure><figure><canvas"
        ' class="back" width="16" height="16" role="img" aria-label="The image got'
        ' back"></canvas><figcaption>That row divided by its entry of the gradient of the bias: eq.'
        ' (4).</figcaption></figure></div><p class="said" role="status"></p><label hidden>Images in'
        ' the batch: yours and others <input type="range" name="batch" min="1" max="16" step="1"'
        ' value="1"></label><label hidden>Noise on the gradient <input type="range" name="sigma"'
        ' min="0" max="7" step="1" value="0"></label><button type="button" class="clear"'
        " hidden>Clear the drawing</button>"
    )
    return element(
        "drawing",
        "Draw an image and get it back from its gradient",
        body,
        ask=(
            "Draw an image in the left square. Then put other images into the batch, or noise on"
            " the gradient."
        ),
        paper=(
            "On the web page one draws the image, and can put other images into the batch or noise"
            " on the gradient."
        ),
    )


FIGURES = {"rank": plot_rank, "shifts": plot_shifts}
