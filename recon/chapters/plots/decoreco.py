"""Reconstructions beside their nearest images, each figure with its nulls; everything shown is x + mean, rescaled."""

from __future__ import annotations

import matplotlib.pyplot as plt
import seaborn as sns
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import normalize

from recon.chapters.pictures import image_rows, on_white
from recon.scoring.matching import nearest, one_to_one, rescale
from recon.store.results import Result

TRAIN, HELD_OUT, FREE = sns.color_palette("colorblind", 3)
#: the nulls of `recon.scoring.nulls` that need no attack
FREE_NULLS = {
    "span": "mixtures of the span",
    "mixtures": "mixtures of training images",
    "rows": "rows of ±W1",
    "directions": "singular directions",
    "means": "mean images",
}
NULL_LABELS = {**FREE_NULLS, "held_out": "held-out images"}


def shown(result: Result, x: Tensor) -> Tensor:
    """Centred images as one shows them: plus the mean, stretched to [0, 1] each, as in the reference code's figures."""
    return rescale(x + result.array("mean"))


def best_free(result: Result) -> str:
    """The null with the most training images above NCC 0.6 among those that need no attack."""
    counts = result.metrics["nulls"]
    return max(FREE_NULLS, key=lambda name: counts[name]["ncc_0.6"])


def plot_best(result: Result, n: int = 10) -> Figure:
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
    name = best_free(result)
    rows += [
        (f"null: best\n{FREE_NULLS[name].replace(' of ', chr(10) + 'of ')}", free_images(result, name)[:n], "black"),
        ("training\nimage", shown(result, result.array("x_train")[result.array(f"null_best_row_{name}")[:n]]), "grey"),
    ]
    titles += [[f"{score:.2f}" for score in result.array(f"null_ncc_{name}")[:n]], []]
    return image_rows(rows, titles)


def free_images(result: Result, name: str) -> Tensor:
    """The best candidates of a null, at the training images' contrast, as one shows them."""
    norm = result.array("x_train").norm(dim=1).median()
    return shown(result, norm * normalize(result.array(f"null_best_{name}"), dim=1))


def plot_top(result: Result, n: int = 40, columns: int = 10) -> Figure:
    """Fig. 8: the n candidates that contribute most, black, above their nearest training image, grey; NCC printed."""
    x_hat, train = result.array("x_hat")[:n], result.array("x_train")
    match = nearest(x_hat, train, "ncc")
    rows, titles = [], []
    for start in range(0, len(x_hat), columns):
        part = slice(start, start + columns)
        rows.append((f"{start + 1}–{start + len(x_hat[part])}", shown(result, x_hat[part]), "black"))
        rows.append(("nearest", shown(result, train[match.index[part]]), "grey"))
        titles += [[f"{score:.2f}" for score in match.score[part]], []]
    return image_rows(rows, titles)


def plot_scores(result: Result, ax: Axes | None = None) -> Figure:
    """Sorted one-to-one NCC of training images, of held-out ones, and what the best null scores without an attack."""
    ax = ax or plt.subplots(figsize=(6.4, 3.6))[1]
    for key, label, colour, marker in (
        ("x_train", "training images", TRAIN, "o"),
        ("x_held_out", "held-out images (null)", HELD_OUT, "^"),
    ):
        scores = one_to_one(result.array(key), result.array("x_hat")).score.sort(descending=True).values
        ax.plot(range(1, len(scores) + 1), scores, color=colour, label=label, marker=marker, markersize=3)
    name = best_free(result)
    scores = result.array(f"null_ncc_{name}")
    ax.plot(
        range(1, len(scores) + 1), scores, color=FREE, label=f"{FREE_NULLS[name]} (null, no attack)", marker="s", ms=3
    )
    ax.axhline(0.6, color="0.4", linestyle=":", label="threshold 0.6")
    ax.set(xlabel="images, best first", ylabel="NCC of the one-to-one match")
    ax.legend(fontsize=8)
    return on_white(ax.figure)


def plot_size(result: Result, large: Result | None = None, ax: Axes | None = None) -> Figure:
    """Share of images above NCC 0.6, one-to-one, against the number of training images; held out; and the best null.

    large: a run of `decoreco-tuned` of another size and budget, drawn hollow.
    """
    ax = ax or plt.subplots(figsize=(6.4, 3.6))[1]
    n_trains = result.array("n_trains").tolist()
    for key, part, label, colour, marker in (
        ("share", "matches", "training images", TRAIN, "o"),
        ("null", "null", "held-out images (null)", HELD_OUT, "^"),
        ("best_null", "best_null", f"best null: {names_of(result)}", FREE, "s"),
    ):
        ax.plot(n_trains, result.array(key), color=colour, marker=marker, label=label)
        if large is not None and part in large.metrics:
            n = large.metrics["n_train"]
            ax.plot(n, large.metrics[part]["ncc_0.6"] / n, color=colour, marker=marker, fillstyle="none", linestyle="")
    n_trains += [large.metrics["n_train"]] if large is not None else []
    ax.set(xscale="log", xlabel="number of training images", ylabel="share above NCC 0.6", ylim=(0, 1))
    ax.set_xticks(n_trains, [str(n) for n in n_trains])
    ax.minorticks_off()
    ax.legend(fontsize=8)
    return on_white(ax.figure)


def names_of(result: Result) -> str:
    """Which nulls are best at the sizes of `decoreco-size`, each named once."""
    return ", ".join(dict.fromkeys(NULL_LABELS[row["best_null_name"]["ncc_0.6"]] for row in result.metrics["sizes"]))


def count_label(label: str, found: dict) -> str:
    """A row's name with its count above NCC 0.6 and the best null's."""
    count, null = found["matches"]["ncc_0.6"], found["best_null"]["ncc_0.6"]
    return f"{label}\n{count}, best null {null}"


def plot_random(result: Result, n: int = 8) -> Figure:
    """Fig. 5: from the untuned start, by the reference recipe, by ours, projected afterwards, and within the span; with
    how many are above NCC 0.6, and how many of the best null."""
    train, rows, titles = result.array("x_train"), [], []
    variants = result.metrics["variants"]
    for key, label in (
        ("reference", "reference\nrecipe"),
        ("pixels", "ours,\nall pixels"),
        ("cleaned", "projected\nafterwards"),
        ("span", "searched\nin the span"),
    ):
        x_hat = result.array(f"x_hat_{key}")
        best = nearest(train, x_hat, "ncc")
        picked = best.score.argsort(descending=True)[:n]
        images = shown(result, x_hat[best.index[picked]])
        rows += [
            (count_label(label, variants["pixels then span" if key == "cleaned" else key]), images, "black"),
            ("training\nimage", shown(result, train[picked]), "grey"),
        ]
        titles += [[f"{score:.2f}" for score in best.score[picked]], []]
    return image_rows(rows, titles)


def plot_random_energy(result: Result, ax: Axes | None = None) -> Figure:
    """Energy against steps for both searches."""
    ax = ax or plt.subplots(figsize=(6.4, 3.6))[1]
    for (key, label), colour in zip(
        (("pixels", "all pixels"), ("span", "span of w1")), sns.color_palette("colorblind", 2), strict=True
    ):
        ax.plot(result.array(f"history_{key}")[:, 0], color=colour, label=label)
    ax.set(yscale="log", xlabel="step", ylabel="energy (layer 1)")
    ax.legend(fontsize=8)
    return on_white(ax.figure)


def plot_partition(result: Result, n: int = 8) -> Figure:
    """Fig. 9: results with their nearest image of the start partition and of the training set, for three searches, with
    how many of each have a training image above NCC 0.6, and how many of the best null."""
    train, start, rows, titles = result.array("x_train"), result.array("x_init"), [], []
    for key, label in (
        ("reference", "reference\nrecipe"),
        ("pixels", "ours,\nall pixels"),
        ("span", "ours,\nin the span"),
    ):
        x_hat = result.array(f"x_hat_{key}")
        picked = torch.linspace(0, len(x_hat) // 2, n).long()
        to_start, to_train = nearest(x_hat[picked], start, "ncc"), nearest(x_hat[picked], train, "ncc")
        rows += [
            (count_label(label, result.metrics["variants"][key]), shown(result, x_hat[picked]), "black"),
            ("nearest\nstart image", shown(result, start[to_start.index]), "grey"),
            ("nearest\ntraining image", shown(result, train[to_train.index]), "grey"),
        ]
        titles += [[], [f"{v:.2f}" for v in to_start.score], [f"{v:.2f}" for v in to_train.score]]
    return image_rows(rows, titles)


def plot_front(result: Result, n: int = 5) -> Figure:
    """Start → reconstruction → nearest training image: the n most alike to a training image of their own, and beside
    them the n that contribute most among those whose nearest training image is below NCC 0.5."""
    x_hat, train, start = (result.array(key) for key in ("x_hat_span", "x_train", "start_span"))
    match, own = nearest(x_hat, train, "ncc"), one_to_one(train, x_hat)
    true = own.index[own.score.argsort(descending=True)[:n]]
    false = (match.score < 0.5).nonzero()[:, 0]
    false = false[result.array("contribution_span")[false].argsort(descending=True)[:n]]
    rows = torch.cat([true, false])
    return image_rows(
        [
            ("start: another\nphotograph", shown(result, start[rows]), "none"),
            ("read out of\nthe weights", shown(result, x_hat[rows]), "black"),
            ("nearest\ntraining image", shown(result, train[match.index[rows]]), "grey"),
        ],
        [["true"] * len(true) + ["false"] * len(false), [], [f"{v:.2f}" for v in match.score[rows]]],
    )
