"""Chapter 8's sentences, each with the paper's value, ours, the nulls and a verdict."""

from __future__ import annotations

from recon.chapters.decoreco_random.metrics import Metrics
from recon.chapters.decoreco_random.sizes import Sizes
from recon.chapters.tables import MatchTable, best_text
from recon.scoring.nulls import clears
from recon.store.results import Claim, verdict


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """§4.4's sentence on Fig. 5, and how far it depends on the optimiser.

    "fails" holds if at most three more training than held-out images are found, and in part if that is so only of the
    excess over the best null.  "needs no tuning" asks that both results in the span clear their best null.
    """
    variants, n = metrics.variants, metrics.n_train
    reference = variants.reference
    ours = (variants.pixels, variants.pixels_then_span, variants.span)
    few = reference.matches.ncc_06 - reference.null.ncc_06 <= 3
    few_in_excess = reference.excess.ncc_06 <= 3
    in_span = [clears(found.matches.ncc_06, found.best_null.ncc_06) for found in ours[1:]]
    return [
        Claim(
            "decoreco-random-fails",
            "4.4, Fig. 5",
            "From x ~ N(0, 1), variance not tuned, at most the first three reconstructions resemble natural images.",
            "at most 3 (visual)",
            f"{reference.matches.ncc_06} of {n} training images above NCC 0.6 by the reference's optimiser "
            f"({variants.reference_tuned_scale.matches.ncc_06} from its tuned scale, same budget)",
            f"{best_text(reference)}; {reference.null.ncc_06} held-out images",
            "partly" if few_in_excess and not few else verdict(few),
        ),
        Claim(
            "decoreco-random-needs-no-tuning",
            "",
            "The untuned start is no protection: Adam and logarithmic multipliers find images from it, and the noise "
            "outside the span of w1 can be projected away.",
            "",
            _counted(*ours, variants.span.searched_dimensions),
            "best null: "
            + ", ".join(best_text(found) for found in ours)
            + "; held out: "
            + ", ".join(str(found.null.ncc_06) for found in ours),
            "finding" if all(in_span) else "partly" if any(in_span) else "not reproduced",
        ),
    ]


def _counted(pixels: MatchTable, afterwards: MatchTable, span: MatchTable, dimensions: int) -> str:
    return (
        f"above NCC 0.6: {pixels.matches.ncc_06} as they are, {afterwards.matches.ncc_06} projected afterwards, "
        f"{span.matches.ncc_06} searched within the {dimensions} dimensions"
    )
