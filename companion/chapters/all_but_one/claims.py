"""The sentences of appendix H: the linear one in closed form, the small network by practice or by
retraining."""

from __future__ import annotations

from statistics import median

from companion.chapters.all_but_one.metrics import Closed, LinearMetrics, Precision, ReaderMetrics
from companion.chapters.all_but_one.sizes import LinearSizes, ReaderSizes
from companion.store.results import Claim

MOST = 0.9  # a share of images that counts as nearly all
HALF_A_LEVEL = (1 / 510) ** 2  # of a pixel, squared


def linear_claims(metrics: LinearMetrics, _: LinearSizes) -> list[Claim]:
    """Exact."""
    return [exact_claim(metrics)]


def share(rows: list[Closed], kind: str) -> float:
    """Of all images, of both losses and at every n, that are found."""
    return sum(getattr(row, kind).found for row in rows) / sum(row.n for row in rows)


def counts(rows: list[Closed], kind: str) -> str:
    """What was found, loss by loss."""
    words = {"logistic": "logistic", "mse": "squared"}
    said = []
    for loss, word in words.items():
        mine = [row for row in rows if row.loss == loss]
        found: list[Precision] = [getattr(row, kind) for row in mine]
        each = ", ".join(f"{one.found} of {row.n}" for one, row in zip(found, mine, strict=True))
        said.append(f"{word} loss {each} (worst distance {max(one.worst_l2 for one in found):.1g})")
    return "; ".join(said)


def nothing(rows: list[Closed]) -> str:
    """Distances of what costs nothing, at the largest n."""
    last = rows[-1]
    return (
        f"at n = {last.n} the nearest known image is {last.nearest_known:.1f} away (L2), the nearest that nobody "
        f"trained on {last.nearest_other:.1f}, the mean of the known {last.mean:.1f}"
    )


def exact_claim(metrics: LinearMetrics) -> Claim:
    """Every image, and its label."""
    rows = metrics.rows
    all_right = all(row.exact.found == row.exact.labels == row.n for row in rows)
    return Claim(
        "informed-exact",
        "Balle et al. 2022, abstract",
        "Of a linear model, whoever knows all training images but one reads off the last one, and its label.",
        "“simple and can be derived in closed-form”",
        "every image in turn, all pixels within half a grey level: " + counts(rows, "exact"),
        nothing(rows),
        "reproduced" if all_right else ("partly" if share(rows, "exact") >= MOST else "not reproduced"),
        value=max(row.exact.worst_l2 for row in rows),
        null_value=min(row.nearest_other for row in rows),
    )


def reader_claims(metrics: ReaderMetrics, _: ReaderSizes) -> list[Claim]:
    """Practice, and retraining."""
    return [practice_claim(metrics), retrain_claim(metrics)]


def free(metrics: ReaderMetrics) -> str:
    """What needs no weights."""
    return (
        f"nearest known image {metrics.nearest_known:.3f}, nearest image of the shadow networks "
        f"{metrics.nearest_prior:.3f} (both chosen by whoever knows the answer), mean of the class "
        f"{metrics.class_mean:.3f}, mean of all {metrics.mean:.3f}; against another network's image "
        f"{metrics.network.other:.3f}"
    )


def practice_claim(metrics: ReaderMetrics) -> Claim:
    """The reconstructor against everything that needs no weights."""
    ours = metrics.network.mse
    by_known = min(metrics.nearest_known, metrics.class_mean, metrics.mean)
    return Claim(
        "informed-reader",
        "Balle et al. 2022, code",
        "A reconstructor network, fitted to shadow networks, reads the last image off the weights.",
        "mean squared error 0.0224, absolute 0.0457 on MNIST, in somebody else's run of their notebook (epoch 190 in "
        "authors_code.ipynb of github.com/kbarbora/database-reconstruction); their own informed_adversary_mnist_"
        "reconstruction.ipynb is kept without outputs",
        f"mean squared error {ours:.4f}, absolute {metrics.network.mae:.4f}, on 8 × 8 digits, {metrics.shadows} shadow "
        f"networks that share {metrics.n_train - 1} images",
        free(metrics),
        "reproduced"
        if ours < min(by_known, metrics.nearest_prior)
        else ("partly" if ours < by_known else "not reproduced"),
        value=ours,
        null_value=min(by_known, metrics.nearest_prior),
    )


def retrain_claim(metrics: ReaderMetrics) -> Claim:
    """Gauss–Newton through training."""
    rows = metrics.inversions
    found = [row.label_right and row.mse < HALF_A_LEVEL for row in rows]
    single = [row.label_right and row.single_mse < HALF_A_LEVEL for row in rows]
    return Claim(
        "informed-retrain",
        "",
        "Whoever also knows the start and the recipe needs no practice: solving for the image by retraining gives it "
        "and its label exactly.",
        "",
        f"{sum(found)} of {len(rows)} images to half a grey level, mean squared error at most "
        f"{max(row.mse for row in rows):.0e}, in at most {max(row.steps for row in rows)} steps; from weights in "
        f"float32 {sum(single)} of {len(rows)}, at most {max(row.single_mse for row in rows):.0e}",
        f"where it starts, the mean of the class: {median(row.start for row in rows):.3f}; the reconstructor: "
        f"{metrics.network.mse:.4f}",
        "finding" if all(found) and all(single) else ("partly" if any(found) else "not reproduced"),
        value=max(row.mse for row in rows),
        null_value=metrics.network.mse,
    )


__all__ = ["linear_claims", "reader_claims"]
