"""§4.4's sentences on the tuned start, each with the paper's value, ours, the nulls and a verdict."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.figure import Figure
from torch.nn.functional import normalize

from companion.chapters.decoreco_tuned.experiment import Metrics as PublishedMetrics
from companion.chapters.decoreco_tuned.experiment import PublishedSizes
from companion.chapters.decoreco_tuned.ranking import CHANCE
from companion.chapters.pictures import FREE_NULLS, image_rows, shown
from companion.chapters.reference_common import came_text, if_in_full
from companion.chapters.yardstick import in_words as yardsticks
from companion.chapters.yardstick import recovery
from companion.store.record import Record
from companion.store.results import Claim, Result
from recon.scoring.matching import one_to_one


def claims(metrics: PublishedMetrics, _: PublishedSizes) -> list[Claim]:
    """Fig. 8's sentence, and that of Figs. 6 and 7, by the recipe that they are about.  Undecided unless it ran with
    the paper's full budget, converged or not."""
    arm = metrics.arm
    found = recovery(arm, arm.competition.ncc_06, metrics.n_train)
    ours, null = yardsticks(arm, arm.competition.ncc_06, metrics.n_train)
    resemble = Claim(
        "decoreco-tuned-recovers",
        "4.4, Fig. 8",
        "With the tuned scale of the start, reconstructions resemble training images.",
        "40 shown (visual)",
        f"{ours}, by the published recipe, {came_text(arm)}",
        null,
        if_in_full(arm, found.verdict),
        value=arm.matches.ssim_04,
        null_value=arm.best_null.ssim_04,
        margin=found.margin,
    )
    shown = metrics.shown
    false = Claim(
        "decoreco-some-are-false",
        "4.4, Figs. 6, 7",
        "Most natural-looking reconstructions resemble a training image; some do not, and look as realistic.",
        "4 of 5 in the top 10; the fifth at rank 51",
        f"{_similar(shown.similar)}, by the published recipe, {came_text(arm)}",
        "" if shown.similar is None else f"with images nobody trained on {shown.similar.held_out_true:.1f}",
        if_in_full(arm, _resemble(shown.similar)),
        value=None if shown.similar is None else shown.similar.true,
        null_value=None if shown.similar is None else shown.similar.held_out_true,
    )
    return [resemble, false]


def _similar(found: Record | None) -> str:
    if found is None:
        return "not ranked by similarity, and its reconstructions were not kept: undecided"
    return (
        f"of the {found.top} natural-looking ones most like a training image (SSIM) {found.true} are so beyond chance "
        f"and blends (p = {found.p_value:.1g})"
    )


def _resemble(found: Record | None) -> str:
    """More of the most similar natural-looking ones must resemble training images than in 99 % of lists of others, and
    not all; "partly" where all do."""
    if found is None:
        return "undecided"
    if found.p_value > CHANCE:
        return "not reproduced"
    return "reproduced" if found.true < found.top else "partly"


def plot_best(result: Result[PublishedMetrics], n: int = 7) -> Figure:
    """The n best one-to-one matches with their training images; and the n best of the null that matches most above NCC
    0.6 of those that need no attack, at the training images' contrast."""
    train, x_hat = result.array("x_train"), result.array("x_hat")
    match = one_to_one(train, x_hat)
    picked = match.score.argsort(descending=True)[:n]
    nulls = result.metrics.arm.nulls
    name = max(FREE_NULLS, key=lambda each: nulls[each].ncc_06)
    free = train.norm(dim=1).median() * normalize(result.array(f"null_best_{name}")[:n], dim=1)
    words = FREE_NULLS[name].replace(" of ", "\nof ").replace("of training images", "of training\nimages")
    scores = match.score[picked], result.array(f"null_ncc_{name}")[:n]
    return image_rows(
        [
            ("best", shown(result, x_hat[match.index[picked]]), "black"),
            ("training\nimage", shown(result, train[picked]), "grey"),
            (f"null: best\n{words}", shown(result, free), "black"),
            ("training\nimage", shown(result, train[result.array(f"null_best_row_{name}")[:n]]), "grey"),
        ],
        [[f"{score:.2f}" for score in scores[0]], [], [f"{score:.2f}" for score in scores[1]], []],
    )


FIGURES: dict[str, Callable[[Result[PublishedMetrics]], Figure]] = {"matches": plot_best}
