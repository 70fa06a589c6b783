"""The sentences on the start from noise, and on three starts with few images: the paper's value, ours, the nulls and
a verdict."""

from __future__ import annotations

from companion.chapters.decoreco_random.metrics import Metrics, ReferenceMetrics, Variants
from companion.chapters.decoreco_random.sizes import ReferenceTable, Sizes
from companion.chapters.reference_common import UNDECIDED, came_text, if_in_full
from companion.chapters.yardstick import in_words as yardsticks
from companion.chapters.yardstick import recovery
from companion.store.results import Claim, verdict


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """§4.4's sentence on Fig. 5."""
    return [_fails(metrics.variants, metrics.n_train)]


def _fails(variants: Variants, n: int) -> Claim:
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


def reference_claims(metrics: ReferenceMetrics, _: ReferenceTable) -> list[Claim]:
    """The published recipe on few images: from which start it finds them.

    "The scale decides" holds if images are recovered from the tuned scale (`companion.chapters.yardstick`) and from
    N(0, 1) are not; "partly" if the yardsticks disagree.  Undecided unless all arms ran with the published budget,
    converged or not.
    """
    random, tuned, partition = (metrics.arm(start) for start in ("random", "tuned", "partition"))
    arms = {"N(0, 1)": random, "its tuned scale": tuned, "other images": partition}
    there, here = (recovery(arm, arm.competition.ncc_06, metrics.n_train) for arm in (random, tuned))
    verdict_of = "finding" if here.shown and not there.shown else "not reproduced" if here.excluded else "partly"
    ours, null = yardsticks(tuned, tuned.competition.ncc_06, metrics.n_train)
    for arm in arms.values():
        verdict_of = if_in_full(arm, verdict_of) if verdict_of != UNDECIDED else verdict_of
    return [
        Claim(
            "decoreco-reference-start",
            "",
            "With few images the published recipe finds training images, and the scale of its start decides how many.",
            "",
            "SSIM above 0.4: "
            + ", ".join(f"{arm.matches.ssim_04} from {name}" for name, arm in arms.items())
            + f"; from its tuned scale {ours}; from N(0, 1) {came_text(random)}",
            null,
            verdict_of,
            value=tuned.matches.ssim_04,
            null_value=tuned.best_null.ssim_04,
        )
    ]
