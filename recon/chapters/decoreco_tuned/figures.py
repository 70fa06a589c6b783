"""Reconstructions beside their nearest images, each figure with its nulls; everything shown is x + mean, rescaled."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import normalize

from recon.chapters.decoreco_tuned.metrics import Metrics, PublishedMetrics, SizeMetrics
from recon.chapters.pictures import (
    FREE,
    FREE_NULLS,
    HELD_OUT,
    NULL_LABELS,
    PAGE,
    REFERENCE,
    TRAIN,
    Colour,
    chart,
    end_labels,
    image_rows,
    shown,
)
from recon.scoring.matching import nearest, one_to_one
from recon.store.results import Result

Matched = Result[Metrics] | Result[PublishedMetrics]


def best_free(result: Matched) -> str:
    """The null with the most training images above NCC 0.6 among those that need no attack."""
    counts = result.metrics.nulls
    assert counts is not None  # only the kept run has none, and it has no arrays to draw either
    return max(FREE_NULLS, key=lambda name: counts[name].ncc_06)


def plot_best(result: Matched, n: int = 10) -> Figure:
    """One-to-one matches: the n best and n around the median for training images, the n best for held-out ones; and the
    n best of the candidates that score most without any attack."""
    x_hat, rows, titles = result.array("x_hat"), [], []
    for name, key, where in (
        ("best", "x_train", 0.0),
        ("median", "x_train", 0.5),
        ("null: best\nheld out", "x_held_out", 0.0),
    ):
        images = result.array(key)
        match = one_to_one(images, x_hat)
        order = match.score.argsort(descending=True)
        first = max(0, min(int(where * len(order)) - (n // 2 if where else 0), len(order) - n))
        picked = order[first : first + n]
        partner = "held-out\nimage" if key == "x_held_out" else "training\nimage"
        rows += [
            (name, shown(result, x_hat[match.index[picked]]), "black"),
            (partner, shown(result, images[picked]), "grey"),
        ]
        titles += [[f"{score:.2f}" for score in match.score[picked]], []]
    _add_null(rows, titles, result, n)
    return image_rows(rows, titles)


def _add_null(rows: list[tuple[str, Tensor, str]], titles: list[list[str]], result: Matched, n: int) -> None:
    """Two more rows: the n best candidates that need no attack, and the training images that they resemble."""
    name = best_free(result)
    trained = shown(result, result.array("x_train")[result.array(f"null_best_row_{name}")[:n]])
    words = FREE_NULLS[name].replace(" of ", "\nof ").replace("of training images", "of training\nimages")
    rows += [(f"null: best\n{words}", free_images(result, name)[:n], "black"), ("training\nimage", trained, "grey")]
    titles += [[f"{score:.2f}" for score in result.array(f"null_ncc_{name}")[:n]], []]


def free_images(result: Matched, name: str) -> Tensor:
    """The best candidates of a null, at the training images' contrast, as one shows them."""
    norm = result.array("x_train").norm(dim=1).median()
    return shown(result, norm * normalize(result.array(f"null_best_{name}"), dim=1))


def plot_top(result: Matched, n: int = 40, columns: int = 10) -> Figure:
    """Fig. 8: the n candidates that contribute most, black, above their nearest training image, grey; NCC printed.
    Last, the null: the best candidates that need no attack."""
    x_hat, train = result.array("x_hat")[:n], result.array("x_train")
    match = nearest(x_hat, train, "ncc")
    rows: list[tuple[str, Tensor, str]] = []
    titles: list[list[str]] = []
    for start in range(0, len(x_hat), columns):
        part = slice(start, start + columns)
        rows.append((f"{start + 1}–{start + len(x_hat[part])}", shown(result, x_hat[part]), "black"))
        rows.append(("nearest", shown(result, train[match.index[part]]), "grey"))
        titles += [[f"{score:.2f}" for score in match.score[part]], []]
    _add_null(rows, titles, result, columns)
    return image_rows(rows, titles)


@chart
def plot_scores(result: Result[Metrics]) -> Figure:
    """Sorted one-to-one NCC of training images, of held-out ones, and what the best null scores without an attack."""
    figure, ax = plt.subplots(figsize=(PAGE, 3.4))
    free = best_free(result)
    curves = [
        (one_to_one(result.array(key), result.array("x_hat")).score.sort(descending=True).values, words, colour, marker)
        for key, words, colour, marker in (
            ("x_train", "training images", TRAIN, "o"),
            ("x_held_out", "held-out images\n(null)", HELD_OUT, "^"),
        )
    ]
    words = FREE_NULLS[free].replace(" of ", "\nof ")
    curves.append((result.array(f"null_ncc_{free}"), f"{words}\n(null, no attack)", FREE, "s"))
    for scores, _, colour, marker in curves:
        ax.plot(range(1, len(scores) + 1), scores, color=colour, marker=marker, markersize=3)
    ax.axhline(0.6, color=REFERENCE, linestyle=":")
    ax.set(xlabel="images, best first", ylabel="NCC of the one-to-one match")
    ends: list[tuple[float, str, Colour]] = [(float(scores[-1]), words, colour) for scores, words, colour, _ in curves]
    end_labels(ax, [*ends, (0.6, "threshold 0.6", REFERENCE)])
    return figure


@chart
def plot_size(result: Result[SizeMetrics], large: Result[Metrics] | None = None) -> Figure:
    """Share of images above NCC 0.6, one-to-one, against the number of training images; held out; and the best null.

    large: a run of `decoreco-tuned` of another size and budget, drawn hollow.
    """
    figure, ax = plt.subplots(figsize=(PAGE, 3.4))
    n_trains = result.array("n_trains").tolist()
    ends: list[tuple[float, str, Colour]] = []
    for name, label, colour, marker in (
        ("share", "training images", TRAIN, "o"),
        ("null", "held-out images\n(null)", HELD_OUT, "^"),
        ("best_null", "best null:\n" + names_of(result).replace(", ", ",\n"), FREE, "s"),
    ):
        ax.plot(n_trains, result.array(name), color=colour, marker=marker)
        ends.append((float(result.array(name)[-1]), label, colour))
    if large is not None:
        n = large.metrics.n_train
        found = (large.metrics.matches, large.metrics.null, large.metrics.best_null)
        for k, (counts, marker) in enumerate(zip(found, "o^s", strict=True)):
            if counts is not None:
                _, label, colour = ends[k]
                ax.plot(n, counts.ncc_06 / n, color=colour, marker=marker, fillstyle="none", linestyle="")
                ends[k] = (counts.ncc_06 / n, label, colour)
        n_trains.append(n)
    ax.set(xscale="log", xlabel="number of training images", ylabel="share above NCC 0.6", ylim=(0, 1))
    ax.set_xticks(n_trains, [str(n) for n in n_trains])
    ax.minorticks_off()
    end_labels(ax, ends)
    return figure


def names_of(result: Result[SizeMetrics]) -> str:
    """Which nulls are best at the sizes of `decoreco-size`, each named once."""
    return ", ".join(dict.fromkeys(NULL_LABELS[row.best_null_name.ncc_06] for row in result.metrics.sizes))


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {
    "matches": plot_best,
    "top40": plot_top,
    "scores": plot_scores,
}
PUBLISHED_FIGURES: dict[str, Callable[[Result[PublishedMetrics]], Figure]] = {"top40": plot_top, "matches": plot_best}
SIZE_FIGURES: dict[str, Callable[[Result[SizeMetrics]], Figure]] = {"size": plot_size}
