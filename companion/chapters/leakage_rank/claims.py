"""Chapter 10's sentences: Table 1, the generic rank, and what c(M) predicts."""

from __future__ import annotations

from companion.chapters.leakage_networks import TABLE_1
from companion.chapters.leakage_rank.metrics import IdentifiabilityMetrics, Identified, Metrics, Ranks
from companion.chapters.leakage_rank.sizes import IdentifiabilitySizes, Sizes
from companion.chapters.published import LABELS, METHODS, PUBLISHED_RANK
from companion.store.results import Claim, verdict

LEVEL = 0.05


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """Table 1, and two sentences on what it means."""
    rows = metrics.networks
    same = [row.as_published for row in rows.values()]
    generic = [row.rd == row.generic_rd for row in rows.values()]
    counted = [row.rd == uncorrected(name, row) for name, row in rows.items()]
    return [
        Claim(
            "leakage-table-1",
            "C&C 3.3, Table 1",
            "Rank deficiencies of all layers and the security metric c(M) of the eight networks.",
            "; ".join(f"{name}: {PUBLISHED_RANK[name][1]}" for name in rows),
            f"{sum(same)} of {len(rows)} networks equal in every integer",
            f"by counting equations, all taken for independent: {sum(counted)} of {len(rows)}",
            verdict(all(same)) if all(same) or not any(same) else "partly",
            value=float(sum(same)),
            null_value=float(sum(counted)),
        ),
        Claim(
            "leakage-generic-rank",
            "",
            "rank(U) = min(n_in, n_out + |W| − c_out²) predicts every deficiency from the layer's shape alone.",
            "",
            f"{sum(generic)} of {len(rows)} networks",
            f"without c_out²: {sum(counted)} of {len(rows)}",
            "finding" if all(generic) else ("partly" if sum(generic) > sum(counted) else "not reproduced"),
            value=float(sum(generic)),
            null_value=float(sum(counted)),
        ),
        metric_predicts(metrics),
    ]


def uncorrected(name: str, row: Ranks) -> list[int]:
    """Deficiencies by counting equations, min(0, n_out + |W| − n_in): the generic ones without their c_out²."""
    channels = [conv.channels for conv in TABLE_1[name].convs]
    return [min(0, rd + c**2) if rd else 0 for rd, c in zip(row.generic_rd, channels, strict=True)]


def metric_predicts(metrics: Metrics) -> Claim:
    """By the correlations with all networks: those that networks in random order have in one case of twenty count."""
    rho, chance = metrics.correlations(), metrics.chance
    judged = {key: (chance[key] or 0.0) < LEVEL for key in rho if key in METHODS}  # ours would count R-GAP twice
    counted = sum(judged.values())
    return Claim(
        "leakage-metric-predicts",
        "C&C 4",
        "It is more likely for all methods to have better reconstructions with a bigger c(M).",
        "argued from Table 1 and the figures",
        "Spearman correlation of c(M) with PSNR (published; diverged runs left out): "
        + ", ".join(f"{label(key)} {value:.2f}" for key, value in rho.items()),
        "how often networks in random order have as much: "
        + ", ".join(f"{label(key)} {chance[key] or 0.0:.2g}" for key in judged),
        "undecided" if not judged else (verdict(counted > 0) if counted in (0, len(judged)) else "partly"),
        value=float(counted),
        null_value=LEVEL * len(judged),
    )


def label(key: str) -> str:
    """Method and networks of a correlation, in words."""
    method, _, rest = key.partition(", ")
    return LABELS.get(method, method) + (f" ({rest})" if rest else "")


# ----------------------------------------------------------------------------------------------- identifiability


def identifiability_claims(metrics: IdentifiabilityMetrics, _: IdentifiabilitySizes) -> list[Claim]:
    """What else has the same gradient."""
    return counterfactual(metrics)


def whole(row: Identified) -> bool:
    """Whether the joint system lacks nothing but what the network does not read."""
    return row.joint_deficiency == -row.unread_pixels


def counterfactual(metrics: IdentifiabilityMetrics) -> list[Claim]:
    """Another photograph with the same gradient, on the networks where there is room for it."""
    rows = {name: row.counterfactual for name, row in metrics.networks.items() if not whole(row)}
    if not rows:
        return []
    same = [each.residual <= 1e-8 for each in rows.values()]
    elsewhere = [each.mse_to_victim > each.mse_to_start for each in rows.values()]
    everything = [row for row in metrics.networks.values() if whole(row) and not row.unread_pixels]
    closed = [row.counterfactual.mse_to_victim for row in everything]
    return [
        Claim(
            "identifiability-counterfactual",
            "",
            "Where the gradient does not determine the image, another photograph can be moved, inside the pixels' "
            "range, until it has the same gradient, and stays nearer to what it was than to the victim.",
            "",
            "MSE to the victim and to the start: "
            + "; ".join(f"{name} {each.mse_to_victim:.3f} and {each.mse_to_start:.3f}" for name, each in rows.items())
            + f"; gradients differ by {max(each.residual for each in rows.values()):.0e} at most",
            f"the two photographs: {next(iter(rows.values())).start_mse:.3f}"
            + (
                f"; where all is read and fixed, it ends at the victim: MSE {max(closed):.0e} at most" if closed else ""
            ),
            "finding" if all(same) and all(elsewhere) else ("partly" if any(same) else "not reproduced"),
            value=min(each.mse_to_victim for each in rows.values()),
            null_value=max(closed, default=None),
        )
    ]
