"""The sentences on the start from noise, and on three starts with few images: the paper's value, ours, the nulls and
a verdict."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.figure import Figure

from companion.chapters.decoreco_random.experiment import Metrics, Sizes
from companion.chapters.pictures import count_label, image_rows, shown
from companion.chapters.reference_common import came_text, if_in_full
from companion.chapters.yardstick import in_words as yardsticks
from companion.chapters.yardstick import recovery
from companion.store.record import Record
from companion.store.results import Claim, Result, verdict
from recon.scoring.matching import nearest


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """§4.4's sentence on Fig. 5."""
    return [_fails(metrics.variants, metrics.n_train)]


def _fails(variants: Record, n: int) -> Claim:
    """Holds where no yardstick (`companion.chapters.yardstick`) shows that images are recovered, fails where they do,
    and is in part so where they disagree.  Undecided unless the recipe ran with the paper's full budget, which is what
    the sentence is about, converged or not."""
    reference, tuned = variants.reference, variants.reference_tuned_scale
    found = recovery(reference, reference.competition.ncc_06, n)
    ours, null = yardsticks(reference, reference.competition.ncc_06, n)
    also = "" if tuned is None else f"; from its tuned scale, {tuned.steps:,} steps, SSIM {tuned.matches.ssim_04}"
    return Claim(
        "decoreco-random-fails",
        "4.4, Fig. 5",
        "From x ~ N(0, 1), variance not tuned, at most the first three reconstructions resemble natural images.",
        "at most 3 (visual)",
        f"{ours}, by the published recipe, {came_text(reference)}{also}",
        null,
        if_in_full(reference, "partly" if not found.shown and not found.excluded else verdict(found.excluded)),
        value=reference.matches.ssim_04,
        null_value=reference.best_null.ssim_04,
        margin=-found.margin,
    )


def plot_random(result: Result[Metrics], n: int = 8) -> Figure:
    """Fig. 5: the results of the published recipe that are most like a training image, with how many are above NCC 0.6,
    and how many of the best null; above them their starts, below them those training images."""
    train, x_hat = result.array("x_train"), result.array("x_hat_random")
    best = nearest(train, x_hat, "ncc")
    picked = best.score.argsort(descending=True)[:n]
    found = best.index[picked]
    return image_rows(
        [
            ("its start", shown(result, result.array("x_init_random")[found]), "none"),
            (count_label("published\nrecipe", result.metrics.variants.reference), shown(result, x_hat[found]), "black"),
            ("training\nimage", shown(result, train[picked]), "grey"),
        ],
        [[], [f"{score:.2f}" for score in best.score[picked]], []],
    )


FIGURES: dict[str, Callable[[Result[Metrics]], Figure]] = {"rows": plot_random}
