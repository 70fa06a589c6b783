"""Chapter 8's sentences, each with the paper's value, ours, the nulls and a verdict."""

from __future__ import annotations

from recon.chapters.decoreco_random.metrics import Metrics, ReferenceMetrics, Search, Variants
from recon.chapters.decoreco_random.sizes import ReferenceTable, Sizes
from recon.chapters.reference_common import NO_VERDICT, came_text, if_in_full
from recon.chapters.tables import MatchTable, best_text, best_texts
from recon.scoring.nulls import clears
from recon.store.results import Claim, verdict


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """§4.4's sentence on Fig. 5, and how far it depends on the optimiser."""
    return [_fails(metrics.variants, metrics.n_train), _needs_no_tuning(metrics.variants)]


def _fails(variants: Variants, n: int) -> Claim:
    """Holds if at most three more training than held-out images are found, and in part if that is so only of the excess
    over the best null.  No verdict unless the recipe ran with the paper's full budget, which is what the sentence is
    about, converged or not."""
    reference, tuned = variants.reference, variants.reference_tuned_scale
    few = reference.matches.ncc_06 - reference.null.ncc_06 <= 3
    also = "" if tuned is None else f"; from its tuned scale, {tuned.steps:,} steps, {tuned.matches.ncc_06}"
    found = "partly" if reference.excess.ncc_06 <= 3 and not few else verdict(few)
    return Claim(
        "decoreco-random-fails",
        "4.4, Fig. 5",
        "From x ~ N(0, 1), variance not tuned, at most the first three reconstructions resemble natural images.",
        "at most 3 (visual)",
        f"{reference.matches.ncc_06} of {n} training images above NCC 0.6 by the published recipe, "
        f"{came_text(reference)}{also}",
        f"{best_text(reference)}; {reference.null.ncc_06} held-out images",
        if_in_full(reference, found),
        value=reference.matches.ncc_06,
        null_value=reference.best_null.ncc_06,
    )


def _needs_no_tuning(variants: Variants) -> Claim:
    """Asks that both results in the span clear their best null; no verdict unless the three searches converged."""
    ours = (variants.pixels, variants.pixels_then_span, variants.span)
    there = variants.span_reference_net
    converged = all(search.converged for search in (variants.pixels, variants.span, there))
    in_span = [clears(found.matches.ncc_06, found.best_null.ncc_06) for found in ours[1:]]
    return Claim(
        "decoreco-random-needs-no-tuning",
        "",
        "The untuned start is no protection: Adam and logarithmic multipliers find images from it, and the noise "
        "outside the span of w1 can be projected away.",
        "",
        _counted(*ours, variants.span.searched_dimensions)
        + f"; {_there(there)}"
        + ("" if converged else "; not converged: no verdict"),
        f"best null: {best_texts((*ours, there))}; held out: "
        + ", ".join(str(found.null.ncc_06) for found in (*ours, there)),
        NO_VERDICT if not converged else "finding" if all(in_span) else "partly" if any(in_span) else "not reproduced",
        value=min(found.matches.ncc_06 for found in ours[1:]),
        null_value=max(found.best_null.ncc_06 for found in ours[1:]),
    )


def _counted(pixels: MatchTable, afterwards: MatchTable, span: MatchTable, dimensions: int) -> str:
    return (
        f"above NCC 0.6: {pixels.matches.ncc_06} as they are, {afterwards.matches.ncc_06} projected afterwards, "
        f"{span.matches.ncc_06} searched within the {dimensions} dimensions"
    )


def _there(found: Search) -> str:
    return f"{found.matches.ncc_06} so on the network of the published recipe"


def reference_claims(metrics: ReferenceMetrics, _: ReferenceTable) -> list[Claim]:
    """The published recipe on few images: from which start it finds them.

    "The scale decides" holds if the tuned scale clears its best null and N(0, 1) finds fewer; "not reproduced"
    otherwise.  No verdict unless all arms ran with the published budget, converged or not.
    """
    random, tuned, partition = (metrics.arm(start) for start in ("random", "tuned", "partition"))
    arms = {"N(0, 1)": random, "its tuned scale": tuned, "other images": partition}
    decides = clears(tuned.matches.ncc_06, tuned.best_null.ncc_06) and random.matches.ncc_06 < tuned.matches.ncc_06
    verdict_of = "finding" if decides else "not reproduced"
    for arm in arms.values():
        verdict_of = if_in_full(arm, verdict_of) if verdict_of != NO_VERDICT else verdict_of
    return [
        Claim(
            "decoreco-reference-start",
            "",
            "With few images the published recipe finds training images, and the scale of its start decides how many.",
            "",
            f"of {metrics.n_train} above NCC 0.6: "
            + ", ".join(f"{arm.matches.ncc_06} from {name}" for name, arm in arms.items())
            + f"; from N(0, 1) {came_text(random)}",
            "best null: " + best_texts(list(arms.values())),
            verdict_of,
            value=tuned.matches.ncc_06,
            null_value=tuned.best_null.ncc_06,
        )
    ]
