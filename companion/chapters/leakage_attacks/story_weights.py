"""Chapter 11 on the weight of the prior: who wins once it is tuned, and what it decides."""

from __future__ import annotations

from collections.abc import Iterable

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

from companion.chapters.base import Tensors
from companion.chapters.claims import claim
from companion.chapters.leakage_attacks.experiment_weights import (
    WAYS,
    Metrics,
    WeightSizes,
    key_of,
    logs,
)
from companion.chapters.leakage_common import Ratio
from companion.chapters.pictures import (
    PAGE,
    REFERENCE,
    SERIES,
    chart,
    image_rows,
    levels,
    photographs,
)
from companion.store.results import Claim, Result

#: of `plot_classes`, and their heads
COLUMNS = {
    "gauss_newton": "any\nsolution",
    "cosine_tv": "CosineTV,\nAdam",
    "cosine_tv_geiping": "CosineTV,\nsigned steps",
    "hybrid": "Hybrid,\nAdam",
    "smoothest": "smoothest\nsolution",
}


def claims(metrics: Metrics, _: WeightSizes) -> list[Claim]:
    """Judged over networks, the unit that the sentences speak of; over images beside."""
    return [tuned(metrics), prior_decides(metrics), *smoothest(metrics)]


def both_ways(differences: np.ndarray) -> dict[str, str]:
    """The ratio of two errors, from differences of logarithms (networks, images), with its interval
    over either.
    """
    over = {"networks": Ratio.of(differences.mean(1)), "images": Ratio.of(differences.mean(0))}
    return {f"over_{unit}": str(ratio) for unit, ratio in over.items()}


def tuned(metrics: Metrics) -> Claim:
    """A finding if the error of CosineTV over Hybrid's, each in its authors' steps and at the best
    of its weights on the tuning images, is below 1 over networks; not reproduced if it is above.
    """
    cosine, hybrid = metrics.errors("cosine_tv_geiping"), metrics.errors("hybrid")
    ratio = Ratio.of((cosine - hybrid).mean(1))
    same = Ratio.of((cosine - metrics.errors("hybrid_geiping")).mean(1))
    grey = Ratio.of((cosine - logs(metrics.grey)).mean(1))
    numbers = {"networks": len(cosine), "images": len(metrics.index), "same": str(same)}
    return claim(
        "leakage-tuned",
        {**numbers, **both_ways(cosine - hybrid), "grey": str(grey)},
        verdict={True: "finding", False: "not reproduced", None: "undecided"}[ratio.lower],
        value=ratio.mean,
        null_value=1.0,
    )


def prior_decides(metrics: Metrics) -> Claim:
    """A finding if, over networks, the weights that CosineTV's authors used are farther apart than
    the two attacks are at their best weights: ratio of largest to least error of the former, over
    that of the latter, above 1.
    """
    weights = WAYS["cosine_tv_geiping"].published

    def spread(errors: Iterable[np.ndarray]) -> np.ndarray:
        """Of means over images; (networks,)."""
        return np.ptp([error.mean(1) for error in errors], axis=0)

    by_weight = spread(metrics.errors("cosine_tv_geiping", weight) for weight in weights)
    by_attack = spread(map(metrics.errors, ("cosine_tv_geiping", "hybrid")))
    more = Ratio.of(by_weight - by_attack)
    ratios = {"weight": by_weight, "attack": by_attack, "more": by_weight - by_attack}
    return claim(
        "leakage-prior-decides",
        {
            "weights": len(weights),
            "networks": len(by_weight),
            **{name: str(Ratio.of(spreads)) for name, spreads in ratios.items()},
        },
        verdict={True: "not reproduced", False: "finding", None: "undecided"}[more.lower],
        value=more.mean,
        null_value=1.0,
    )


def smoothest(metrics: Metrics) -> list[Claim]:
    """On the networks that leave something open: a finding if its error over that of CosineTV and
    over that of Hybrid is below 1 over networks, "not reproduced" if one is above, else undecided.
    """
    rows = [row.open for row in metrics.networks.values()]
    if not any(rows):
        return []
    against = {
        name: (metrics.errors("smoothest") - metrics.errors(attack))[rows]
        for name, attack in (("CosineTV", "cosine_tv_geiping"), ("Hybrid", "hybrid"))
    }
    lower = [Ratio.of(differences.mean(1)).lower for differences in against.values()]
    judgement = "finding" if all(lower) else "undecided"
    return [
        claim(
            "leakage-smoothest",
            {
                "networks": sum(rows),
                "against": {name: both_ways(logs) for name, logs in against.items()},
                "solution": both_ways(
                    (metrics.errors("smoothest") - metrics.errors("gauss_newton"))[rows]
                ),
            },
            verdict="not reproduced" if False in lower else judgement,
        )
    ]


@chart
def plot_weights(result: Result[Metrics]) -> Figure:
    """Error on the tuning images by weight of the total variation, one panel a network; a ring
    where the error is least; dotted, a grey image.
    """
    metrics = result.metrics
    names = list(metrics.networks)
    columns = min(4, len(names))
    rows = -(-len(names) // columns)
    size = (PAGE, 1.0 + 2.1 * rows)
    figure, axes = plt.subplots(
        rows, columns, figsize=size, sharex=True, sharey=True, squeeze=False
    )
    for ax, name in zip(axes.flat, names, strict=False):
        for (attack, way), colour in zip(WAYS.items(), SERIES, strict=False):
            row = metrics.networks[name][attack]
            weights, best = sorted(map(float, row.tuning)), row.best
            errors = [row.tuning[key_of(weight)] for weight in weights]
            ax.plot(weights, errors, color=colour, label=way.label)
            ax.plot(best, row.tuning[key_of(best)], "o", color=colour, markerfacecolor="none")
        grey = float(np.mean(metrics.grey))
        ax.axhline(grey, color=REFERENCE, linestyle=":", label="a grey image (null)")
        ax.set(xscale="log", yscale="log", title=name)
    figure.supxlabel("weight of the total variation")
    figure.supylabel("mean squared error")
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def classes_network(metrics: Metrics) -> str:
    """The network of `plot_classes`: of those that leave something open, the one on which attacks
    differ most. Where none does, of all.
    """
    spread = np.ptp([metrics.errors(attack).mean(1) for attack in COLUMNS], axis=0)
    spreads = dict(zip(metrics.networks, spread, strict=True))
    names = [name for name, row in metrics.networks.items() if row.open]
    return max(names or spreads, key=lambda name: float(spreads[name]))


def selected(metrics: Metrics, arrays: Tensors) -> Tensors:
    """Three images, and what attacks make of them, (images, attacks, d); the paper's two are not
    among them where there are others.
    """
    first, name = min(2, len(metrics.index) - 1), classes_network(metrics)
    x_hat = torch.stack([arrays[f"x_hat {name} {attack}"] for attack in COLUMNS], 1)
    images = {"truth": arrays["truth"], "x_hat": x_hat}
    return {key: levels(x[first : first + 3]) for key, x in images.items()}


@photographs
def plot_classes(result: Result[Metrics]) -> Figure:
    """Images by every attack on one network, one a row, the errors above; last the null, a grey
    image.
    """
    metrics = result.metrics
    name, first = classes_network(metrics), min(2, len(metrics.index) - 1)
    at = list(metrics.networks).index(name)
    errors = 10 ** np.stack(
        [*(metrics.errors(attack)[at] for attack in COLUMNS), logs(metrics.grey)], axis=1
    )
    grey = torch.full(result.figure("truth")[0].shape, 0.5)
    rows, titles = [], []
    for k, image in enumerate(result.figure("truth")):
        rows.append(("" if k else f"on {name}", [image, *result.figure("x_hat")[k], grey], "black"))
        titles.append(["", *(f"{error:.3f}" for error in errors[first + k])])
    heads = ["original", *COLUMNS.values(), "grey\n(null)"]
    titles[0] = [f"{head}\n{error}".strip() for head, error in zip(heads, titles[0], strict=True)]
    return image_rows(rows, titles)


FIGURES = {"weights": plot_weights, "classes": plot_classes}
