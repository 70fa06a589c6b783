"""Chapter 12's sentence, with ours, chance and a verdict."""

from __future__ import annotations

from recon.chapters.decoreco_adversary.metrics import Metrics
from recon.chapters.decoreco_adversary.sizes import Sizes
from recon.chapters.tables import NULL_NAMES
from recon.store.results import Claim


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """The paper's thesis, put to the test."""
    found = metrics.evidence
    if not found:
        sentence, judgement = "no network gave both true and false reconstructions", "reproduced"
    else:
        name = "combined" if "combined" in found else max(found, key=lambda key: found[key].auc.mean)
        best = found[name]
        sentence = (
            f"AUC {best.auc.mean:.2f} ± {best.auc.sd:.2f} ({name}); of the 20 they trust most "
            f"{best.precision_at_20.mean:.0%} ± {best.precision_at_20.sd:.0%} are true"
        )
        if best.auc.mean - 2 * best.auc.sd <= 0.5:
            judgement = "reproduced"
        else:  # they rank better than chance; whether they can trust what they rank first is another matter
            judgement = "partly" if best.precision_at_10.mean < 0.9 else "not reproduced"
    return [
        Claim(
            "adversary-cannot-tell",
            "1, 5",
            "An adversary without the training data cannot tell true from false reconstructions.",
            "argued",
            sentence,
            f"AUC 0.5; {metrics.share_true.mean:.0%} of all candidates are true, and "
            f"{metrics.null_share_true[metrics.best_null_name].mean:.0%} of "
            f"{NULL_NAMES[metrics.best_null_name]} would be",
            judgement,
        )
    ]
