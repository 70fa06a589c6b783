"""The sentences of appendix H: the linear one in closed form, the small network by practice or by
retraining."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.figure import Figure

from companion.chapters.all_but_one.experiment_linear import LinearSizes
from companion.chapters.all_but_one.experiment_linear import Metrics as LinearMetrics
from companion.chapters.pictures import image_rows
from companion.store.record import Record
from companion.store.results import Claim, Result

MOST = 0.9  # a share of images that counts as nearly all


def claims(metrics: LinearMetrics, _: LinearSizes) -> list[Claim]:
    """Exact."""
    return [exact_claim(metrics)]


def share(rows: list[Record], kind: str) -> float:
    """Of all images, of both losses and at every n, that are found."""
    return sum(getattr(row, kind).found for row in rows) / sum(row.n for row in rows)


def counts(rows: list[Record], kind: str) -> str:
    """What was found, loss by loss."""
    words = {"logistic": "logistic", "mse": "squared"}
    said = []
    for loss, word in words.items():
        mine = [row for row in rows if row.loss == loss]
        found: list[Record] = [getattr(row, kind) for row in mine]
        each = ", ".join(f"{one.found} of {row.n}" for one, row in zip(found, mine, strict=True))
        said.append(f"{word} loss {each} (worst distance {max(one.worst_l2 for one in found):.1g})")
    return "; ".join(said)


def nothing(rows: list[Record]) -> str:
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


SHOWN = 6  # images of a strip


def plot_linear_images(result: Result[LinearMetrics]) -> Figure:
    """The missing images, what each state of knowledge gives, and the nearest known image."""
    rows = (
        ("truth", "missing", "grey"),
        ("exact", "closed form", "black"),
        ("single", "from float32", "black"),
        ("wrong", "wrong about\none image", "black"),
        ("known", "nearest known\n(null)", "none"),
    )
    truth = result.array("truth")[:SHOWN]
    titles = []
    for name, _, _ in rows:
        away = (result.array(name)[:SHOWN] - truth).norm(dim=1).tolist()
        titles.append([] if name == "truth" else [_distance(each) for each in away])
    return image_rows([(words, result.array(name)[:SHOWN].clamp(0, 1), frame) for name, words, frame in rows], titles)


def _distance(value: float) -> str:
    """In few characters; what float32 cannot show is 0."""
    return f"{value:.0f}" if value >= 9.5 or value < 1e-9 else f"{value:.1g}"


FIGURES: dict[str, Callable[[Result[LinearMetrics]], Figure]] = {"images": plot_linear_images}
