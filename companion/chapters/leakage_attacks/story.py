"""Chapter 11's sentences: Appendix E, method by method, and what the paper says of its table."""

import math
from collections.abc import Callable

import numpy as np
import torch
from matplotlib.figure import Figure

from companion.chapters.base import Tensors
from companion.chapters.claims import claim
from companion.chapters.leakage_attacks.experiment import Metrics, Sizes
from companion.chapters.leakage_common import EPOCHS, TABLE_1
from companion.chapters.pictures import (
    image_rows,
    levels,
    photographs,
)
from companion.chapters.published import (
    DIVERGED,
    LABELS,
    METHODS,
    PRE_TRAINED,
    PUBLISHED,
    PUBLISHED_RANK,
)
from companion.store.kept import LEVELS
from companion.store.record import Record
from companion.store.results import Claim, Result, graded

# of the published mean
WITHIN_MSE = 0.02
WITHIN_DB = 0.15
PRE_TRAINED_ON = 10_000  # images, Appendix F
PRINTED = 5e-5  # half of the last digit that Appendix E prints


def claims(metrics: Metrics, sizes: Sizes) -> list[Claim]:
    """On the networks that were run."""
    made = [each for method in METHODS for each in method_claims(method, metrics, sizes)]
    if both_ran(metrics, "rgap", "hybrid"):
        made += [hybrid_against(parent, metrics, sizes) for parent in ("rgap", "cosine_tv")]
        made.append(full_at_zero(metrics, sizes))
    names = metrics.networks
    trained = [n for n in names if n.endswith(PRE_TRAINED) and n.removesuffix(PRE_TRAINED) in names]
    return [*made, pre_trained_claim(trained, metrics)] if trained else made


def both_ran(metrics: Metrics, *methods: str) -> list[str]:
    """Untrained networks on which all these methods ran."""
    untrained = [name for name in metrics.networks if not name.endswith(PRE_TRAINED)]
    return [name for name in untrained if set(methods) <= metrics.networks[name].methods.keys()]


def deviation(row: Record, published: tuple[float, float]) -> tuple[bool, float]:
    """Whether a row is within 2 % of the published MSE, 0.15 dB or the last printed digit; the
    relative deviation.
    """
    if row.diverged or row.mse is None or row.psnr_255 is None:
        return False, math.inf
    relative = abs(row.mse / published[0] - 1)
    near = relative <= WITHIN_MSE or abs(row.mse - published[0]) <= PRINTED
    return near or abs(row.psnr_255 - published[1]) <= WITHIN_DB, relative


# --------------------------------------------------------------------------------- method by method
def method_claims(method: str, metrics: Metrics, sizes: Sizes) -> list[Claim]:
    """Appendix E for one method, on the untrained networks: reproduced if all fare as in the paper,
    partly if any network with an error is near it. None where the paper has zeros alone.
    """
    # networks with an error, with none as the attack diverged, and with one printed as 0.0000
    near = dict[str, tuple[bool, float]]()
    away = list[bool]()
    zeros = list[bool]()
    published = {name: PUBLISHED[name][method] for name in both_ran(metrics, method)}
    for name, theirs in published.items():
        row = metrics.networks[name].methods[method]
        if theirs[0] == 0:
            zeros.append(metrics.mse(name, method) < PRINTED)
        elif theirs[0] <= DIVERGED:
            near[name] = deviation(row, theirs)
        else:
            away.append(row.diverged)
    if not near and not away:
        return []
    alike = sum(ok for ok, _ in near.values())
    remark = ""
    if method != "rgap" and (sizes.share != 1.0 or (method == "dlg" and sizes.dlg_steps != 300)):
        remark = f" ({sizes.share:.0%} of the published steps)"
    if not metrics.images.the_papers:
        remark = " (other images)"
    judgement = "partly" if alike else "not reproduced"
    if alike == len(near) and all(away) and all(zeros):
        judgement = "reproduced"
    grey = metrics.images.grey_mse
    errors = [metrics.mse(name, method) for name in published]
    by_grey = sum(abs(grey - error) <= WITHIN_MSE * error for error, _ in published.values())
    return [
        claim(
            f"leakage-{method.replace('_', '-')}",
            {
                "near": alike,
                "printed": len(near),
                "worst": farthest(method, metrics, near) if near else "",
                "diverged": sum(away),
                "away": len(away),
                "exact": sum(zeros),
                "zeros": len(zeros),
                "remark": remark,
                "grey": grey,
                "worse": sum(error > grey for error in errors),
                "networks": len(published),
                "by_grey": by_grey,
            },
            paper="; ".join(
                f"{name}: {error:.4g}" for name, (error, _) in published.items() if error
            ),
            verdict="undecided" if remark else judgement,
            value=alike,
            null_value=by_grey,
        )
    ]


def farthest(method: str, metrics: Metrics, near: dict[str, tuple[bool, float]]) -> str:
    """The network that is farthest from the paper, in words."""
    worst = max(near, key=lambda name: near[name][1])
    value = metrics.mse(worst, method)
    ours = f"{worst} diverged" if value == math.inf else f"farthest {worst}: MSE {value:.4f}"
    return f"{ours} against {PUBLISHED[worst][method][0]:.4f}"


# ---------------------------------------------------------------------------- method against method
def hybrid_against(parent: str, metrics: Metrics, sizes: Sizes) -> Claim:
    """The paper's sentence that Hybrid improves on its parents, network by network: reproduced if
    it does on all, and a grey image does not; partly if a grey image does as well, or where the
    paper's own table has the same exceptions.
    """
    names = both_ran(metrics, "rgap", "hybrid", parent)
    count = len(names)
    errors = {name: metrics.mse(name, parent) for name in names}
    worse = [name for name in names if metrics.mse(name, "hybrid") > errors[name]]
    theirs = [n for n in names if PUBLISHED[n]["hybrid"][0] > PUBLISHED[n][parent][0]]
    comparable = metrics.images.the_papers and sizes.share == 1.0
    grey = sum(metrics.images.grey_mse <= error for error in errors.values())
    if worse or grey == count:
        judgement = "partly" if worse == theirs else "not reproduced"
    else:
        judgement = "reproduced"

    def text(not_on: list[str]) -> str:
        others = f", not on {', '.join(not_on)}" if not_on else ""
        return f"on {count - len(not_on)} of {count}{others}"

    return claim(
        f"leakage-hybrid-against-{parent.replace('_', '-')}",
        {"networks": count, "grey": grey},
        paper=text(theirs),
        ours=text(worse),
        verdict=judgement if comparable else "undecided",
        value=count - len(worse),
        null_value=grey,
    )


def full_at_zero(metrics: Metrics, sizes: Sizes) -> Claim:
    """Where c(M) = 0: reproduced if Hybrid's start, R-GAP's solution, and its end are as exact as
    Appendix E prints, partly if one is. Undecided where no such network ran, or too few steps.
    """
    names = [name for name in both_ran(metrics, "rgap", "hybrid") if not PUBLISHED_RANK[name][1]]
    errors = {way: [metrics.mse(name, way) for name in names] for way in ("rgap", "hybrid")}
    exact = (all(error <= PRINTED for error in by_way) for by_way in errors.values())
    return claim(
        "leakage-full-at-zero",
        {**errors, "names": names, "grey": metrics.images.grey_mse},
        verdict=graded(*exact, best="reproduced") if names and sizes.share == 1 else "undecided",
    )


# ------------------------------------------------------------------------------------- pre-training
def pre_trained_claim(names: list[str], metrics: Metrics) -> Claim:
    """The paper's sentence on its pre-trained networks, method by method.

    Its own R-GAP on CNN4 V2 contradicts it, and our networks are trained on fewer images: "partly"
    at best.
    """
    methods = [m for m in LABELS if all(m in metrics.networks[n].methods for n in names)]

    def changes(mse: Callable[[str, str], float]) -> np.ndarray:
        """Error on each pre-trained network over that on the untrained one, (methods, networks);
        infinite where it diverged.
        """
        return np.array(
            [[mse(n, m) / mse(n.removesuffix(PRE_TRAINED), m) for n in names] for m in methods]
        )

    def text(table: np.ndarray) -> str:
        rows = [", ".join(f"{value:.2g}" for value in row) for row in table]
        changed = [f"{LABELS[m]} {row}" for m, row in zip(methods, rows, strict=True)]
        return (
            f"MSE times ({', '.join(names)}): {'; '.join(changed)}:"
            f" {(table > 1).sum()} of {table.size}"
        )

    theirs = changes(lambda name, method: PUBLISHED[name][method][0])
    ours = changes(metrics.mse)
    degraded = ours > 1
    trained = [metrics.networks[name].pre_training for name in names]
    as_theirs = trained[0].n_train == PRE_TRAINED_ON and bool((theirs > 1).all())
    comparable = metrics.images.the_papers and trained[0].epochs == EPOCHS
    judgement = graded(as_theirs, *degraded.flat, best="reproduced")
    if not degraded.any():
        judgement = "not reproduced"
    return claim(
        "leakage-pre-trained",
        {**trained[0], "text": text(ours), "accuracies": [row.accuracy for row in trained]},
        paper=f"{text(theirs)} degraded",
        verdict=judgement if comparable else "undecided",
        value=float(degraded.sum()),
        null_value=degraded.size / 2,
    )


def drawn_networks(metrics: Metrics) -> list[str]:
    """Those of the grid: untrained, attacked by gradient matching too, of one or of three
    convolutions where there are such.
    """
    names = both_ran(metrics, "hybrid")
    return [name for name in names if TABLE_1[name].depth != 2] or names


def drawn_methods(metrics: Metrics) -> dict[str, str]:
    """Those of the grid, and their heads."""
    ran = metrics.networks[drawn_networks(metrics)[0]].methods
    return {method: label for method, label in LABELS.items() if method in ran}


def selected(metrics: Metrics, arrays: Tensors) -> Tensors:
    """The first image, and what attacks make of it, (methods, d) of each network of the grid."""
    images = {"truth": arrays["truth"][0]}
    for name in drawn_networks(metrics):
        by_method = [arrays[f"x_hat {name} {method}"][0] for method in drawn_methods(metrics)]
        images[name] = torch.stack(by_method)
    return {name: levels(x) for name, x in images.items()}


@photographs
def plot_grid(result: Result[Metrics]) -> Figure:
    """The first image by every attack, on the networks of fewest and of most layers; its mean
    squared error above each, and below all the null, a grey image.
    """
    truth = result.figure("truth")
    methods = drawn_methods(result.metrics)
    rows = [("original", [truth], "training")]
    titles: list[list[str]] = [[]]
    for name in drawn_networks(result.metrics):
        runs = result.metrics.networks[name].methods
        rows.append((name, list(result.figure(name)), "recovered"))
        firsts = [next(iter(runs[method].per_image.values())) for method in methods]
        titles.append(
            [
                f"{score.mse:.4f}" if score and score.mse < DIVERGED else "diverged"
                for score in firsts
            ]
        )
    heads = methods.values()
    titles[1] = [f"{head}\n{error}" for head, error in zip(heads, titles[1], strict=True)]
    grey = torch.full(truth.shape, 0.5)
    rows.append(("a grey image\n(baseline)", [grey], "baseline"))
    titles.append([f"{(truth / LEVELS - grey).square().mean().item():.4f}"])
    return image_rows(rows, titles)


FIGURES = {"grid": plot_grid}
