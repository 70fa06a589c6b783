"""Chapter 20's sentences on models without noise: the linear one in closed form, the small network by practice or by
retraining."""

from __future__ import annotations

from statistics import median

from scipy.stats import norm

from recon.chapters.all_but_one.metrics import Closed, LinearMetrics, Precision, ReaderMetrics
from recon.chapters.all_but_one.sizes import LinearSizes, ReaderSizes
from recon.store.results import Claim

MOST = 0.9  # a share of images that counts as nearly all
ROUNDING = 1e-6  # a doubt below this is rounding
TINY = 1e-30  # under a fraction
SEEN = 0.3  # a rank correlation that is of use
HALF_A_LEVEL = (1 / 510) ** 2  # of a pixel, squared
ONE_SIDED = float(norm.ppf(0.99))


def linear_claims(metrics: LinearMetrics, _: LinearSizes) -> list[Claim]:
    """Exact, in float32, and certain."""
    return [exact_claim(metrics), float32_claim(metrics), certain_claim(metrics)]


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


def float32_claim(metrics: LinearMetrics) -> Claim:
    """As weights are published."""
    rows, found = metrics.rows, share(metrics.rows, "single")
    return Claim(
        "informed-float32",
        "",
        "Weights that are published in float32 are exact enough for that.",
        "",
        f"all pixels within half a grey level: {counts(rows, 'single')}; an error of the weights comes back divided by "
        f"the image's slope, which is {min(row.least_slope for row in rows):.1g} at least",
        nothing(rows),
        "finding" if found == 1 else ("partly" if found >= MOST else "not reproduced"),
        value=found,
        null_value=0.0,
    )


def told_apart(row: Closed) -> bool:
    """Whether from weights in float32 the doubt of every true image is below that of every wrong guess."""
    return row.single.doubt < least_wrong(row)


def least_wrong(row: Closed) -> float:
    """The smallest doubt where something that is taken for known is not so, from weights in float64."""
    return min(row.least_wrong_doubt, row.least_two_doubt)


def from_float32(rows: list[Closed]) -> str:
    """Largest doubt of the true image, loss by loss, and at how many n it is below that of every wrong guess."""
    said = []
    for loss, word in (("logistic", "logistic"), ("mse", "squared")):
        mine = [row for row in rows if row.loss == loss]
        apart = sum(told_apart(row) for row in mine)
        largest = max(row.single.doubt for row in mine)
        said.append(f"{word} loss {largest:.0e} at most, below every wrong guess at {apart} of {len(mine)} sizes")
    return "; ".join(said)


def certain_claim(metrics: LinearMetrics) -> Claim:
    """The label's equation: from weights in float64, and from float32, as weights are published.

    The rule looked at float64 alone until a review asked for float32, after the runs."""
    rows = metrics.rows
    largest = max(row.exact.doubt for row in rows)
    wrong = min(least_wrong(row) for row in rows)
    typical = median(min(row.wrong_doubt, row.two_doubt) for row in rows)
    certain, apart = largest < ROUNDING, all(told_apart(row) for row in rows)
    return Claim(
        "informed-certain",
        "",
        "The adversary sees whether what they take for known is true: only then does the label come out as 0 or 1.",
        "",
        f"the label is off 0 or 1 by {largest:.0e} at most from weights in float64; from weights in float32 by: "
        + from_float32(rows),
        f"if one known image is another one, or if two images are missing: by {typical:.1g} at the median, by "
        f"{wrong:.0e} at the least (weights in float64)",
        "finding"
        if certain and apart and wrong > ROUNDING
        else ("partly" if certain and typical > ROUNDING else "not reproduced"),
        value=max(row.single.doubt / max(least_wrong(row), TINY) for row in rows),
        null_value=1.0,
    )


def reader_claims(metrics: ReaderMetrics, sizes: ReaderSizes) -> list[Claim]:
    """Practice, its simplest form, retraining, and who knows."""
    return [
        practice_claim(metrics),
        matrix_claim(metrics),
        retrain_claim(metrics),
        retrain_certain_claim(metrics),
        practice_certain_claim(metrics, sizes),
    ]


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


def matrix_claim(metrics: ReaderMetrics) -> Claim:
    """Ridge regression in its place: within a tenth counts as as good."""
    ours, theirs = metrics.linear.mse, metrics.network.mse
    return Claim(
        "informed-matrix",
        "",
        "A matrix does as well as the reconstructor network: weights hold the last image almost linearly.",
        "",
        f"mean squared error of ridge regression from weights to pixels {ours:.4f}, of the network {theirs:.4f}",
        free(metrics),
        "finding"
        if ours <= 1.1 * theirs
        else ("partly" if ours < min(metrics.nearest_known, metrics.nearest_prior) else "not reproduced"),
        value=ours,
        null_value=theirs,
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


def retrain_certain_claim(metrics: ReaderMetrics) -> Claim:
    """The residual."""
    rows = metrics.inversions
    right, wrong = max(row.residual for row in rows), min(row.wrong for row in rows)
    return Claim(
        "informed-retrain-certain",
        "",
        "They see that it worked: training on the image gives the released weights again.",
        "",
        f"relative distance of the retrained weights {right:.0e} at most; from weights in float32 "
        f"{max(row.single_residual for row in rows):.0e}",
        f"if one known image is another one: {wrong:.0e} at the least",
        "finding" if right < ROUNDING < wrong else ("partly" if right < wrong else "not reproduced"),
        value=right,
        null_value=wrong,
    )


def practice_certain_claim(metrics: ReaderMetrics, sizes: ReaderSizes) -> Claim:
    """The same residual of the reconstructor's images."""
    chance = ONE_SIDED / max(sizes.asked - 1, 1) ** 0.5
    return Claim(
        "informed-reader-certain",
        "",
        "Retraining on the reconstructor's images tells which of them are good.",
        "",
        f"rank correlation of the residual with the error {metrics.knows:.2f} over {sizes.asked} networks",
        f"by chance above {chance:.2f} once in a hundred times",
        "undecided"
        if SEEN <= metrics.knows <= chance
        else ("finding" if metrics.knows > max(SEEN, chance) else "not reproduced"),
        value=metrics.knows,
        null_value=chance,
    )


__all__ = ["linear_claims", "reader_claims"]
