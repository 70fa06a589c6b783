"""The sentences of appendix G, with nulls; the rules were written before the runs that they judge.

Except these: `worth` was narrowed to gradient descent, and `without_start` added, after a first run with one rule for
all optimisers.  Numbers of Loo et al. are from their code (github.com/yolky/understanding_reconstruction).
"""

from __future__ import annotations

from collections.abc import Iterable

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from companion.chapters.pictures import FREE, PAGE, SERIES, Colour, chart, end_labels, image_rows
from companion.chapters.seed.experiment import SEPARATION, TANGENT, Metrics, Sizes, rungs_of, share
from companion.chapters.tables import null_text
from companion.store.record import Record
from companion.store.results import Claim, Result
from recon.scoring.nulls import clears

MOST, FEW = 0.5, 0.1  # of the training images, beyond the best null


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """What the start is worth."""
    descent, adam = ([net for net in metrics.nets if (net.optimiser == "adam") == by_adam] for by_adam in (False, True))
    attacked = [net for net in metrics.nets if rungs_of(net, TANGENT)]
    parts = ((worth, descent), (without_start, adam), (tangent_claim, attacked))
    return [claim(nets) for claim, nets in parts if nets]


def ends_of(nets: list[Record]) -> list[tuple[Record, Record, Record]]:
    """Networks with what separation finds knowing nothing, and knowing θ⁰."""
    return [(net, rungs_of(net, SEPARATION)[0], rungs_of(net, SEPARATION)[-1]) for net in nets]


def beyond(rung: Record) -> bool:
    """More images above NCC 0.7 than the best null has."""
    return clears(rung.matches.ncc_07, rung.best_null.ncc_07)


def without_start(nets: list[Record]) -> Claim:
    """Adam's first steps are as long in every entry: what they add stands out of the start.

    Seen in a first run, whose rule for all optimisers alike failed; other sets of images judge it.
    """
    ends = ends_of(nets)
    found = [beyond(first) for _, first, _ in ends]
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


def worth(nets: list[Record]) -> Claim:
    """With θ⁰ against without anything."""
    ends = ends_of(nets)
    holds = [share(net, last) >= MOST and share(net, first) <= FEW for net, first, last in ends]
    gains = [beyond(last) and last.matches.ncc_07 > first.matches.ncc_07 for _, first, last in ends]
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
        value=min(share(net, last) for net, _, last in ends),
        null_value=max(last.best_null.ncc_07 / net.n_train for net, _, last in ends),
    )


def tangent_claim(nets: list[Record]) -> Claim:
    """The published attack with θ⁰, beyond the null."""
    ends = [(net, rungs_of(net, TANGENT)[-1]) for net in nets]
    found = [beyond(rung) for _, rung in ends]
    moved = "W1 moved by {:.0%}, {:.1%} of ‖θ* − θ⁰‖² left".format
    return Claim(
        "seed-tangent",
        "Loo et al. 2024",
        "With θ⁰ known, matching θ* − θ⁰ by tangents recovers training images.",
        "the entire training set “in the infinite width regime”, and a success that “heavily depends on "
        "deviations” from it (abstract, in the readme.md of their code; no count there); their example, "
        "basic_example.ipynb, has n = 200 and width 2048",
        f"{only(nets)}, above NCC 0.7: "
        + by_size((net, str(rung.matches.ncc_07), moved(net.moved, rung.left)) for net, rung in ends),
        "best null: " + best([rung for _, rung in ends]),
        "reproduced" if all(found) else ("partly" if any(found) else "not reproduced"),
        value=max(rung.matches.ncc_07 / net.n_train for net, rung in ends),
        null_value=max(rung.best_null.ncc_07 / net.n_train for net, rung in ends),
    )


def by_size(rows: Iterable[tuple[Record, str, str]]) -> str:
    """Networks, what was counted in each, and what more there is to say: those of one optimiser and as many images
    together, from the narrowest to the widest."""
    groups: dict[tuple[str, int], list[tuple[Record, str, str]]] = {}
    for row in rows:
        groups.setdefault((row[0].optimiser, row[0].n_train), []).append(row)
    return "; ".join(
        f"{', '.join(count for _, count, _ in group)} of {n} "
        f"(width {', '.join(str(net.width) for net, *_ in group)}, {OPTIMISERS[optimiser]})"
        + "".join(f", {more}" for *_, more in group if more)
        for (optimiser, n), group in groups.items()
    )


def only(nets: list[Record]) -> str:
    """Sizes of the networks that tangents were matched on, which are not those of the whole run."""
    parts = (("n", {net.n_train for net in nets}), ("width", {net.width for net in nets}))
    return " and ".join(f"{name} = {', '.join(map(str, sorted(values)))}" for name, values in parts) + " only"


def best(rungs: list[Record]) -> str:
    """The best nulls at NCC 0.7 in words; their numbers alone, in the order of the networks, where there are many."""
    if len(rungs) > 4:
        return ", ".join(str(rung.best_null.ncc_07) for rung in rungs)
    return "; ".join(null_text(rung.best_null.ncc_07, rung.best_null_name.ncc_07) for rung in rungs)


OPTIMISERS = {"gd": "gradient descent", "adam": "Adam"}
SHOWN = 5  # images of a strip


def in_words(noise: float | None) -> str:
    """Of an error in θ⁰."""
    return "nothing" if noise is None else ("θ⁰ itself" if noise == 0 else f"θ⁰ up to\n{noise:.0%}")


@chart
def plot_knowledge(result: Result[Metrics]) -> Figure:
    """Images above NCC 0.7, as a share, against what is known of the start: a colour for each number of training
    images, a line for each width after gradient descent, dashes after Adam; the largest of all best nulls dotted."""
    nets = result.metrics.nets
    counts = sorted({net.n_train for net in nets})
    figure, ax = plt.subplots(figsize=(PAGE, 3.4))
    ax.set(ylim=(-0.03, 1.05), ylabel="share of the training images", xlabel="what the adversary knows of the start")
    places = range(len(rungs_of(nets[0], SEPARATION)))
    ends: dict[tuple[str, int], tuple[float, str, Colour]] = {}
    for net in nets:
        colour = SERIES[counts.index(net.n_train)]
        share = [rung.matches.ncc_07 / net.n_train for rung in rungs_of(net, SEPARATION)]
        ax.plot(places, share, "o-" if net.optimiser == "gd" else "s--", color=colour, ms=4, lw=1.4)
        words = f"{net.n_train} images,\n{OPTIMISERS[net.optimiser]}"
        ends[net.optimiser, net.n_train] = (share[-1], words, colour)
    nulls = [max(rungs_of(net, SEPARATION)[k].best_null.ncc_07 / net.n_train for net in nets) for k in places]
    ax.plot(places, nulls, ":", color=FREE)
    ax.set_xticks(places, [in_words(rung.noise) for rung in rungs_of(nets[0], SEPARATION)])
    end_labels(ax, [*ends.values(), (nulls[-1], "largest null", FREE)])
    return figure


def plot_images(result: Result[Metrics], net: int = 1) -> Figure:
    """Training images of one network, and the candidate nearest to each: by what is known, and without an attack."""
    k = min(net, len(result.metrics.nets) - 1)
    found = result.metrics.nets[k]
    rows = [("training\nimage", "truth", "grey")]
    for rung in rungs_of(found, SEPARATION):
        if rung.noise in (None, 0.1, 0.0):
            words = in_words(rung.noise).replace("\n", " ")
            rows.append((f"{words}:\n{rung.matches.ncc_07} found", f"{SEPARATION} {rung.noise}", "black"))
    for rung in rungs_of(found, TANGENT)[-1:]:
        rows.append((f"tangents, θ⁰:\n{rung.matches.ncc_07} found", f"{TANGENT} {rung.noise}", "black"))
    rows.append(("nearest image\nnever seen", "null", "black"))
    mean = result.array(f"mean {k}")
    return image_rows(
        [(label, (result.array(f"{of} {k}")[:SHOWN] + mean).clamp(0, 1), frame) for label, of, frame in rows]
    )


FIGURES = {"knowledge": plot_knowledge, "images": plot_images}
