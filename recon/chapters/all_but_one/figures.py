"""Figures of chapter 20: images beside their nulls, error against the budget, success against noise."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from recon.analysis.privacy_bounds import least_error
from recon.chapters.all_but_one.claims_private import best_null, dims
from recon.chapters.all_but_one.metrics import Budget, LinearMetrics, OutputMetrics, ReaderMetrics, SgdMetrics
from recon.chapters.pictures import (
    HELD_OUT,
    NOISE,
    PAGE,
    REFERENCE,
    SERIES,
    TRAIN,
    Colour,
    chart,
    end_labels,
    image_rows,
    note,
)
from recon.store.results import Result


def plot_linear_images(result: Result[LinearMetrics]) -> Figure:
    """The missing images, what each state of knowledge gives, and the nearest known image."""
    rows = (
        ("truth", "missing", "grey"),
        ("exact", "closed form", "black"),
        ("single", "from float32", "black"),
        ("wrong", "wrong about\none image", "black"),
        ("two", "two missing", "black"),
        ("known", "nearest known\n(null)", "none"),
    )
    truth = result.array("truth")
    titles = []
    for name, _, _ in rows:
        away = (result.array(name) - truth).norm(dim=1).tolist()
        titles.append([] if name == "truth" else [_distance(each) for each in away])
    return image_rows([(words, result.array(name).clamp(0, 1), frame) for name, words, frame in rows], titles)


def _distance(value: float) -> str:
    """In few characters; what float32 cannot show is 0."""
    return f"{value:.0f}" if value >= 10 or value < 1e-9 else f"{value:.1g}"


@chart
def plot_collapse(result: Result[OutputMetrics]) -> Figure:
    """Median error against ρ/d and against ρ, a curve each size of image; dashed, with the prior; nulls at the side."""
    metrics = result.metrics
    figure, axes = plt.subplots(2, 1, figsize=(PAGE, 6.2))
    scales: tuple[tuple[str, Callable[[Budget], float]], ...] = (
        ("budget for each pixel value, ρ/d", lambda row: row.ratio),
        ("budget ρ", lambda row: row.rho),
    )
    for ax, (label, scale) in zip(axes, scales, strict=True):
        ends: list[tuple[float, str, Colour]] = []
        for dim, colour in zip(dims(metrics), SERIES, strict=False):
            rows = metrics.of(dim)
            ax.plot([scale(row) for row in rows], [median(row.error) for row in rows], "o-", color=colour, ms=4)
            ends.append((median(rows[-1].error), f"d = {dim}", colour))
            if ax is axes[0]:
                ax.plot([scale(row) for row in rows], [median(row.with_prior) for row in rows], "--", color=colour)
        ax.set(xscale="log", yscale="log", ylim=(1e-3, 1.5), xlabel=label, ylabel="1 − cos²")
        end_labels(ax, ends)
    _bounds(axes[0], metrics)
    return figure


def _bounds(ax: Axes, metrics: OutputMetrics) -> None:
    """What no attack on Gaussian images can do better, where a usual ε ends, and the nearest other image."""
    low, high = ax.get_xlim()
    ratios = np.geomspace(low, high, 200)
    dim = dims(metrics)[-1]
    ax.plot(ratios, [max(least_error(ratio * dim, dim), 1e-9) for ratio in ratios], ":", color=REFERENCE)
    null = min(best_null(metrics, each) for each in dims(metrics))
    ax.axhspan(null, max(best_null(metrics, each) for each in dims(metrics)), color=HELD_OUT, alpha=0.15, lw=0)
    ax.set_xlim(low, high)
    note(ax, "nearest other image (null)", (low, null), (6, -9), HELD_OUT)
    note(ax, "bound for\nGaussian images", (4.5, 2e-3), (0, 0), REFERENCE)


def plot_output_images(result: Result[OutputMetrics]) -> Figure:
    """Targets of the largest images at every budget."""
    metrics = result.metrics
    dim = dims(metrics)[-1]
    side = round((dim / 3) ** 0.5)
    truth, rows = result.array(f"truth {side}"), metrics.of(dim)
    shown = np.linspace(0, len(truth) - 1, min(8, len(truth))).round().astype(int)
    found = result.array(f"x_hat {side}")
    lines = [("missing", truth[shown], "grey")]
    titles: list[list[str]] = [[]]
    for row, x in zip(reversed(rows), found.flip(0), strict=True):
        lines.append((f"ρ/d = {row.ratio:g}", x[shown], "black"))
        titles.append([f"{row.with_prior[k]:.2g}" for k in shown])
    return image_rows(lines, titles)


@chart
def plot_success(result: Result[SgdMetrics]) -> Figure:
    """Success against σ: by all steps, with intervals, by the last weights, beside the bound, right angles, chance."""
    metrics = result.metrics
    rows = sorted(metrics.noises, key=lambda row: row.noise)
    noise = [row.noise for row in rows]
    figure, ax = plt.subplots(figsize=(PAGE, 4))
    for name, colour, label, style in (
        ("right", TRAIN, "by all steps", "o"),
        ("final", NOISE, "by the last\nweights alone", "s"),
    ):
        low, high = ("low", "high") if name == "right" else ("final_low", "final_high")
        middle = np.array([getattr(row, name) / metrics.runs for row in rows])
        ends = np.array([[getattr(row, low), getattr(row, high)] for row in rows])
        ax.errorbar(noise, middle, np.abs(ends.T - middle), fmt=style, color=colour, ms=5, capsize=3, lw=1.2)
        ax.plot([], [], style, color=colour, label=label)
    ax.plot(noise, [row.bound for row in rows], "-", color=SERIES[0], label="bound\n(Hayes et al.)")
    ax.plot(noise, [row.orthogonal for row in rows], "--", color=SERIES[1], label="gradients at\nright angles")
    ax.axhline(metrics.kappa, color=REFERENCE, linestyle=":", label="chance")
    ax.set(xscale="log", ylim=(0, 1.02), xlabel="noise multiplier σ (in units of the clip); below, ε", ylabel="success")
    ax.set_xticks(noise, [f"{value:g}\n{row.epsilon:.2g}" for value, row in zip(noise, rows, strict=True)])
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


def plot_candidates(result: Result[SgdMetrics]) -> Figure:
    """The candidates, and the probabilities that the adversary gives them in one run at each σ."""
    rows = sorted(result.metrics.noises, key=lambda row: row.noise)
    candidates = result.array("candidates")
    lines, titles = [], []
    for row in rows:
        chance = result.array(f"probability {row.noise:g}")[0]
        target = int(result.array(f"target {row.noise:g}")[0])
        lines.append((f"σ = {row.noise:g}", candidates, "none"))
        words = [f"{value:.2f}" for value in chance.tolist()]
        words[target] += "*"
        titles.append(words)
    return image_rows(lines, titles, size=0.7)


def plot_digits(result: Result[ReaderMetrics]) -> Figure:
    """The missing digits, and three ways to them."""
    truth = result.array("truth")
    lines = [("missing", truth, "grey")]
    titles: list[list[str]] = [[]]
    for name, words, frame in (
        ("inverted", "retraining", "black"),
        ("network", "reconstructor", "black"),
        ("linear", "a matrix", "black"),
        ("known", "nearest known\n(null)", "none"),
    ):
        x = result.array(name)
        lines.append((words, x, frame))
        titles.append([f"{error:.1g}" for error in (x - truth[: len(x)]).square().mean(1).tolist()])
    return image_rows(lines, titles)


def closed_table(metrics: LinearMetrics) -> pd.DataFrame:
    """A row for each loss and n; doubts are the largest of the true image, and the median (least) of wrong guesses."""
    words = {"logistic": "logistic", "mse": "squared"}
    return pd.DataFrame(
        {
            f"{words[row.loss]}, n = {row.n}": {
                "found": f"{row.exact.found} of {row.n}",
                "worst distance": f"{row.exact.worst_l2:.0e}",
                "found, float32": f"{row.single.found} of {row.n}",
                "worst, float32": f"{row.single.worst_l2:.0e}",
                "doubt": f"{row.exact.doubt:.0e}",
                "doubt, float32": f"{row.single.doubt:.0e}",
                "one wrong (least)": f"{row.wrong_doubt:.0e} ({row.least_wrong_doubt:.0e})",
                "two missing (least)": f"{row.two_doubt:.0e} ({row.least_two_doubt:.0e})",
                "nearest other image": f"{row.nearest_other:.1f}",
            }
            for row in metrics.rows
        }
    ).T


def budget_table(metrics: OutputMetrics) -> pd.DataFrame:
    """A row for each budget, at the largest d."""
    dim = dims(metrics)[-1]
    return pd.DataFrame(
        {
            f"ρ/d = {row.ratio:g}": {
                "ε": f"{row.epsilon:.3g}",
                "error": f"{median(row.error):.2g}",
                "expected": f"{median(row.predicted):.2g}",
                "with a prior": f"{median(row.with_prior):.2g}",
                "expected ": f"{median(row.prior_predicted):.2g}",
                "never trained on": f"{median(row.placebo):.2g}",
                "nearest other image": f"{best_null(metrics, dim):.2f}",
                "accuracy": f"{row.accuracy:.0%}",
            }
            for row in metrics.of(dim)
        }
    ).T


def success_table(metrics: SgdMetrics) -> pd.DataFrame:
    """A row for each σ."""
    return pd.DataFrame(
        {
            f"σ = {row.noise:g}": {
                "ε": f"{row.epsilon:.3g}",
                "bound": f"{row.bound:.3f}",
                "right angles": f"{row.orthogonal:.3f}",
                "all steps": f"{row.right / metrics.runs:.3f}",
                "expected": f"{row.expected:.3f}",
                "last weights": f"{row.final / metrics.runs:.3f}",
                "advantage": f"{row.advantage:.3f}",
                "its bound": f"{row.advantage_bound:.3f}",
                "chance": f"{metrics.kappa:.3f}",
            }
            for row in metrics.noises
        }
    ).T


def digits_table(metrics: ReaderMetrics) -> pd.Series:
    """Mean squared errors."""
    return pd.Series(
        {
            "retraining, the worst": f"{max(row.mse for row in metrics.inversions):.0e}",
            "retraining from float32, the worst": f"{max(row.single_mse for row in metrics.inversions):.0e}",
            "reconstructor network": f"{metrics.network.mse:.4f}",
            "a matrix (ridge regression)": f"{metrics.linear.mse:.4f}",
            "nearest image of the shadow networks": f"{metrics.nearest_prior:.4f}",
            "nearest known image": f"{metrics.nearest_known:.4f}",
            "mean of its class": f"{metrics.class_mean:.4f}",
            "mean of all": f"{metrics.mean:.4f}",
        },
        name="mean squared error",
    )


LINEAR_FIGURES: dict[str, Callable[[Result[LinearMetrics]], Figure]] = {"images": plot_linear_images}
OUTPUT_FIGURES: dict[str, Callable[[Result[OutputMetrics]], Figure]] = {
    "collapse": plot_collapse,
    "images": plot_output_images,
}
SGD_FIGURES: dict[str, Callable[[Result[SgdMetrics]], Figure]] = {
    "success": plot_success,
    "candidates": plot_candidates,
}
READER_FIGURES: dict[str, Callable[[Result[ReaderMetrics]], Figure]] = {"digits": plot_digits}
