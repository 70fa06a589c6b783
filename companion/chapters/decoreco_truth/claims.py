"""The paper's thesis in energies, with ours and what it is compared with."""

from __future__ import annotations

from companion.chapters.decoreco_truth.metrics import Metrics
from companion.chapters.decoreco_truth.sizes import Sizes
from companion.chapters.tables import null_text
from companion.store.results import Claim
from recon.scoring.nulls import clears

NO = "not reproduced"
AS_GOOD = 1.1  # energies within a tenth of each other count as equal


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """The paper's thesis in energies, before against before and after against after: undecided unless both attacks had
    converged, and where that was not recorded."""
    before, after = metrics.energy_fitted, metrics.energy_after_attack
    found, best = metrics.matches_after_attack.partition.ssim_04, metrics.best_null_after_attack.partition.ssim_04
    name = null_text(best, metrics.best_null_name_after_attack.partition.ssim_04)
    ratio = after.partition / after.truth
    how = "convergence not recorded" if metrics.converged is None else "not converged"
    ended = metrics.converged is not None and metrics.converged.truth and metrics.converged.partition
    return [
        Claim(
            "truth-partition-as-good",
            "1, 4.4",
            "Images that were never trained on satisfy the objective as well as the training images do.",
            "argued from Figs. 3, 4, 9",
            f"after the attack: from the partition {after.partition:.1%}, from the truth {after.truth:.1%}, "
            f"{ratio:.1f} times; before it: partition {before.partition:.1%}, truth {before.truth:.1%}"
            + ("" if ended else f"; {how}: undecided"),
            f"after the attack from noise: {after.random:.1%}; training images among the partition's results: {found} "
            f"(SSIM above 0.4; best null: {name})",
            "undecided" if not ended else NO if ratio > AS_GOOD else "partly" if clears(found, best) else "reproduced",
            value=ratio,
            null_value=after.random / after.truth,
            margin=AS_GOOD - ratio,
        ),
    ]
