"""Chapter 14's sentences: Table 1, the generic rank, and what c(M) predicts."""

from __future__ import annotations

from recon.chapters.leakage_rank.metrics import WITHOUT, Metrics
from recon.chapters.leakage_rank.sizes import Sizes
from recon.chapters.published import LABELS, PUBLISHED_RANK
from recon.store.results import Claim, verdict


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """Table 1, and two sentences on what it means."""
    rows, rho = metrics.networks, metrics.correlations()
    same = [row.as_published for row in rows.values()]
    generic = [row.rd == row.generic_rd for row in rows.values()]
    return [
        Claim(
            "leakage-table-1",
            "C&C 3.3, Table 1",
            "Rank deficiencies of all layers and the security metric c(M) of the eight networks.",
            "; ".join(f"{name}: {PUBLISHED_RANK[name][1]}" for name in rows),
            f"{sum(same)} of {len(rows)} networks equal in every integer",
            "",
            verdict(all(same)),
        ),
        Claim(
            "leakage-generic-rank",
            "",
            "rank(U) = min(n_in, n_out + |W| − c_out²) predicts every deficiency from the layer's shape alone.",
            "",
            f"{sum(generic)} of {len(rows)} networks",
            "",
            "finding",
        ),
        Claim(
            "leakage-metric-predicts",
            "C&C 4",
            "It is more likely for all methods to have better reconstructions with a bigger c(M).",
            "argued from Table 1 and the figures",
            "Spearman correlation of c(M) with PSNR (published; diverged runs left out): "
            + ", ".join(f"{label(key)} {value:.2f}" for key, value in rho.items()),
            "0 ± 0.38 for unrelated numbers of eight networks, 0 ± 0.5 of five",
            predicted(rho),
        ),
    ]


def label(key: str) -> str:
    """Method and networks of a correlation, in words."""
    method, _, rest = key.partition(", ")
    return LABELS.get(method, method) + (f" ({rest})" if rest else "")


def predicted(rho: dict[str, float]) -> str:
    """By the correlations with all networks: reproduced if every method's is positive, partly if some are."""
    signs = [value > 0 for key, value in rho.items() if not key.endswith(WITHOUT)]
    if not signs:
        return "finding"
    return verdict(all(signs)) if all(signs) or not any(signs) else "partly"
