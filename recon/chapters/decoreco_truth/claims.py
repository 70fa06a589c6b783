"""Chapter 11's sentences, each with ours and what it is compared with."""

from __future__ import annotations

from recon.chapters.decoreco_truth.metrics import Metrics
from recon.chapters.decoreco_truth.sizes import Sizes
from recon.chapters.tables import null_text
from recon.store.results import Claim, verdict


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """The paper's thesis in energies; and what "the loss of the original data" is."""
    before, after = metrics.energy_fitted, metrics.energy_after_attack
    found, null = metrics.matches_after_attack.partition.ncc_06, metrics.null_after_attack.partition.ncc_06
    best = null_text(
        metrics.best_null_after_attack.partition.ncc_06, metrics.best_null_name_after_attack.partition.ncc_06
    )
    as_good = verdict(after.partition <= before.truth)
    return [
        Claim(
            "truth-energy",
            "",
            "The true training images are not the minimum: reconstructions have a lower energy than they do.",
            "",
            f"share of layer 1 unexplained: truth {before.truth:.1%}, reconstructions {after.random:.1%} with as "
            f"many candidates, {after.random_twice:.1%} with twice as many",
            f"images of the partition {before.partition:.1%}, noise {before.random:.1%}",
            "finding",
        ),
        Claim(
            "truth-partition-as-good",
            "1, 4.4",
            "Images that were never trained on satisfy the objective as well as the training images do.",
            "argued from Figs. 3, 4, 9",
            f"energy after the attack from the partition {after.partition:.1%}, but {found} of its results are by "
            f"then training images (NCC 0.6; best null: {best}, held out: {null}); from the truth "
            f"{after.truth:.1%}",
            f"before it: partition {before.partition:.1%}, truth {before.truth:.1%}",
            "partly" if as_good == "reproduced" and found > null else as_good,
        ),
    ]
