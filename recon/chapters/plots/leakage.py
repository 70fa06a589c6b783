"""Ranks, the grid of image × network × method, security metric against quality, noise, batches, both threat models."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.figure import Figure

from recon.chapters.plots.decoreco import NULL_LABELS
from recon.chapters.pictures import image_rows, on_white, show_image
from recon.chapters.published import LABELS, METHODS, PUBLISHED
from recon.store.results import Result


def networks_of(result: Result) -> list[str]:
    """Networks in a result, in the order of Table 1."""
    return [name for name in result.metrics if name.startswith("CNN")]


def plot_rank(result: Result) -> Figure:
    """Every layer's rank against its unknowns: what is missing is what cannot be solved for."""
    rows = [
        (f"{name}\nlayer {i}", unknowns, unknowns + rd)
        for name in networks_of(result)
        for i, (unknowns, rd) in enumerate(
            zip(result.metrics[name]["unknowns"], result.metrics[name]["rd"], strict=True), start=1
        )
    ]
    figure, ax = plt.subplots(figsize=(9.5, 4))
    place = np.arange(len(rows))
    ax.bar(place, [r[1] for r in rows], color="#d9d9d9", label="unknowns x_{i−1}")
    ax.bar(place, [r[2] for r in rows], color="#0173b2", width=0.5, label="rank of U_i")
    ax.set_xticks(place, [r[0] for r in rows], fontsize=7, rotation=60)
    ax.set(ylabel="number")
    ax.legend(fontsize=8)
    return finished(figure)


def plot_grid(result: Result) -> Figure:
    """Reconstructions by every method that ran; above each MSE and PSNR (peak 255, as published)."""
    truth, metrics = result.array("truth"), result.metrics
    count = len(truth)
    methods = [m for m in LABELS if any(m in metrics[name] for name in networks_of(result))]
    names = networks_of(result)
    figure, axes = plt.subplots(
        len(names),
        count * (len(methods) + 1),
        figsize=(1.15 * count * (len(methods) + 1) + 1, 1.5 * len(names)),
        squeeze=False,
    )
    for row, name in enumerate(names):
        for k in range(count):
            show_image(axes[row, k], truth[k], "grey", "original" if row == 0 else "")
            for column, method in enumerate(methods, start=1):
                ax = axes[row, count * column + k]
                header = f"{LABELS[method]}\n" if row == 0 and k == 0 else ""
                if method not in metrics[name]:
                    ax.axis("off")
                    ax.set_title(header, fontsize=8)
                    continue
                each = list(metrics[name][method]["per_image"].values())[k]
                title = f"{each['mse']:.4f}\n{each['psnr_255']:.1f} dB" if each and each["mse"] < 100 else "diverged"
                show_image(ax, result.array(f"x_hat {name} {method}")[k], "black", header + title)
                ax.title.set_fontsize(8)
        axes[row, 0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=10)
    return finished(figure)


def plot_scores(result: Result) -> Figure:
    """Our mean PSNR against the published one, every network and method."""
    figure, ax = plt.subplots(figsize=(5.2, 4.4))
    for method, colour in zip(METHODS, sns.color_palette("colorblind", len(METHODS)), strict=True):
        points = [
            (PUBLISHED[name][method][1], result.metrics[name][method]["psnr_255"])
            for name in networks_of(result)
            if method in result.metrics[name] and 0 < PUBLISHED[name][method][1] < 100
        ]
        if points:
            ax.scatter(*zip(*points, strict=True), color=colour, label=LABELS[method])
    low, high = 44, 82
    ax.plot([low, high], [low, high], color="0.6", linestyle=":")
    ax.set(xlabel="published PSNR in dB (peak 255)", ylabel="ours", xlim=(low, high), ylim=(low, high))
    ax.legend(fontsize=8)
    return finished(figure)


def plot_gallery(result: Result) -> Figure:
    """Appendix H: one image per class, by R-GAP."""
    truth = result.array("gallery truth")
    rows = [("original", truth, "grey")]
    for key in sorted(result.arrays):
        if key.startswith("gallery CNN"):
            rows.append((key.removeprefix("gallery "), result.array(key), "black"))
    return image_rows(rows)


def plot_noise(result: Result) -> Figure:
    """PSNR against noise on the gradient: mean and range over images and draws."""
    metrics = result.metrics["noise"]
    figure, ax = plt.subplots(figsize=(6, 3.6))
    sigma = np.array(metrics["sigma"])
    for key, label, colour in (
        ("rgap", "R-GAP, image (range 1)", "#0173b2"),
        ("features", "eq. (4), features (range 2)", "#de8f05"),
    ):
        values = np.array(metrics[key])
        ax.plot(sigma, values.mean(1), color=colour, marker="o", label=label)
        ax.fill_between(sigma, values.min(1), values.max(1), color=colour, alpha=0.2)
    ax.axhline(metrics["grey"], color="0.5", linestyle=":", label="a grey image")
    ax.set(xscale="log", xlabel="σ / root mean square of each gradient tensor", ylabel="PSNR in dB")
    ax.legend(fontsize=8)
    return finished(figure)


def plot_stages(result: Result) -> Figure:
    """What one image's gradient gives away during training, in both precisions, and what the weights do."""
    figure, ax = plt.subplots(figsize=(6, 3.2))
    measured = result.metrics["threat_models"]
    x = {stage["step"]: max(-stage["log_loss"], 0.5) for stage in measured["stages"]}
    for bits, style in (("32", "-o"), ("64", "--^")):
        values = [stage[f"gradient_ncc_{bits}"] for stage in measured["stages"]]
        ax.plot(list(x.values()), values, style, label=f"one gradient, float{bits}")
    nulls = dict.fromkeys(NULL_LABELS[row["best_null_ncc_name"]] for row in measured["weights"])
    for key, style, label in (
        ("ncc", "-s", "weights, training images"),
        ("null_ncc", ":s", "weights, held-out images"),
        ("best_null_ncc", "-.s", f"best null: {', '.join(nulls)}"),
    ):
        values = [row[key] for row in measured["weights"]]
        ax.plot([x[row["step"]] for row in measured["weights"]], values, style, color="#029e73", label=label)
    ax.set(xscale="log", xlabel="−log of the training loss", ylabel="mean NCC", ylim=(-0.05, 1.05))
    ax.legend(fontsize=8)
    return finished(figure)


def plot_batches(result: Result) -> Figure:
    """What eq. (4) returns for averaged gradients of a fully connected net: mixtures."""
    rows: list = [("images", result.array("batch truth"), "grey")]
    rows += [(f"batch of {n}", result.array(f"batch {n}"), "black") for n in result.metrics["batches"]["sizes"]]
    width = max(len(images) for _, images, _ in rows)
    return image_rows([(label, images[:width], frame) for label, images, frame in rows])


def plot_activations(result: Result) -> Figure:
    """Truth, and the best of each method, by activation."""
    rows: list = [("original", result.array("truth"), "grey")]
    rows += [(key, result.array(f"activation {key}"), "black") for key in result.metrics["activations"]]
    return image_rows(rows)


def plot_threat_models(result: Result) -> Figure:
    """The same images: from one gradient of the untrained net, of the trained net, and from the trained weights."""
    titles = {"weights": [f"{v:.2f}" for v in result.metrics["threat_models"]["ncc"]["weights"]]}
    rows: list = [("training\nimage", result.array("threat truth"), "grey")]
    labels = {
        "gradient, untrained": "one gradient,\nuntrained net",
        "gradient, trained": "one gradient,\ntrained net",
        "weights": "trained\nweights",
    }
    rows += [(label, result.array(f"threat {key}"), "black") for key, label in labels.items()]
    return image_rows(rows, [[], *(titles.get(key, []) for key in labels)])


def finished(figure: Figure) -> Figure:
    """White ground, tight."""
    figure.tight_layout(pad=0.4)
    return on_white(figure)
