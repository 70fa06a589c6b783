"""Chapter 14's sentences: Table 1, the generic rank, and what c(M) predicts."""

from __future__ import annotations

import math
from statistics import geometric_mean

from recon.attacks.operators import generic_deficiencies
from recon.chapters.leakage_common import CERTAIN, by_coins, more_than_half
from recon.chapters.leakage_rank.metrics import IdentifiabilityMetrics, Identified, Metrics, PairsMetrics, Ranks
from recon.chapters.leakage_rank.sizes import IdentifiabilitySizes, PairsSizes, Sizes
from recon.chapters.published import DIVERGED, LABELS, METHODS, PUBLISHED, PUBLISHED_RANK
from recon.nets.conv import TABLE_1
from recon.store.results import Claim, verdict

LEVEL = 0.05
LITTLE = 0.1  # of what a layer lacks


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
    """What is determined, what is found, what is known, and what else has the same gradient."""
    return [
        singular_layer(metrics),
        found_and_known(metrics),
        joint_predicts(metrics),
        virtual(metrics),
        *counterfactual(metrics),
    ]


def whole(row: Identified) -> bool:
    """Whether the joint system lacks nothing but what the network does not read."""
    return row.joint_deficiency == -row.unread_pixels


def singular_layer(metrics: IdentifiabilityMetrics) -> Claim:
    """c(M) < 0 where the image is determined all the same; counting equations is the null."""
    rows = {name: row for name, row in metrics.networks.items() if row.c < 0}
    jointly = [name for name, row in rows.items() if whole(row)]
    counted = [name for name in rows if equations(name) >= math.prod(TABLE_1[name].shape)]
    right = sum((name in counted) == (name in jointly) for name in rows)
    return Claim(
        "identifiability-singular-layer",
        "",
        "A singular layer does not mean an undetermined image: all layers together can fix what one of them loses.",
        "c(M) sums what single layers lose",
        f"every entry of the image that is read is fixed by {len(jointly)} of {len(rows)} networks with c(M) < 0; "
        "c(M) and joint deficiency: "
        + "; ".join(f"{name} {row.c} and {row.joint_deficiency}" for name, row in rows.items())
        + "; never read: "
        + ", ".join(f"{name} {row.unread_pixels}" for name, row in rows.items() if row.unread_pixels),
        f"by counting equations, of the last layer's input and of the convolutions' weights, {len(counted)} of "
        f"{len(rows)} have as many as an image has entries; that is right of {right}",
        "finding" if jointly else "not reproduced",
        value=float(len(jointly)),
        null_value=float(len(counted)),
    )


def equations(name: str) -> int:
    """Entries of the last layer's input and of the convolutions' weights, all taken for independent."""
    network = TABLE_1[name]
    weights = sum(math.prod(shape) for key, shape in network.shapes().items() if key not in network.last)
    return math.prod(network.image_shapes()[-1]) + weights


def found_and_known(metrics: IdentifiabilityMetrics) -> Claim:
    """The three counts, told apart."""
    counts = {name: row.counts for name, row in metrics.networks.items()}
    every = sum(each.determined for each in counts.values())
    known = sum(each.known for each in counts.values())
    false = sum(each.falsely_known for each in counts.values())
    by_rgap = sum(row.rgap_found for row in metrics.networks.values())
    alone = sum(each.known for name, each in counts.items() if metrics.networks[name].c == 0)
    total = metrics.n_images * len(counts)
    holds = false == 0 and known == every
    return Claim(
        "identifiability-known",
        "",
        "Where the gradient determines the image, solving all layers, those of full rank first and one by one as R-GAP "
        "does, finds it from grey to half a grey level, and the adversary can tell; nothing else is certified.",
        "",
        f"of {total} pairs of an image and a network {every} are determined, "
        f"{sum(each.found for each in counts.values())} found, {known} known to be found, {false} certified but wrong"
        + (f" (below {min(3 / known, 1):.1%} with 95 % confidence)" if known and not false else "")
        + f"; of the known ones {alone} are of networks without a singular layer, where the attack is R-GAP, and "
        f"{known - alone} need all layers at once",
        f"found by R-GAP: {by_rgap}",
        "undecided"
        if not every
        else ("finding" if holds else ("partly" if false == 0 and known >= 0.9 * every else "not reproduced")),
        value=float(known),
        null_value=float(by_rgap),
    )


def joint_predicts(metrics: IdentifiabilityMetrics) -> Claim:
    """c(M) beside the joint rank, by the paper's attacks; Gauss–Newton's own success is the joint rank's definition."""
    rho = {name: each for name, each in metrics.spearman.items() if each.c is not None and each.joint is not None}
    judged = {name: (each.c or 0.0, each.joint or 0.0) for name, each in rho.items() if name in METHODS}
    better = [name for name, (c, joint) in judged.items() if over_networks(joint, ran(name))[0] > max(c, 0.0)]
    worse = [name for name, (c, joint) in judged.items() if over_networks(joint, ran(name))[1] < c]
    mine, own = judged.get("cosine_tv"), rho.get("gauss_newton")
    return Claim(
        "identifiability-predicts",
        "",
        "The joint rank orders the networks by what the paper's attacks get out of them better than c(M) does.",
        "c(M)",
        "Spearman correlation over networks with published PSNR, of c(M) and of the joint rank with its 95 % interval: "
        + "; ".join(
            f"{LABELS[name]} ({ran(name)} networks) {c:.2f} and {joint:.2f} [{{:.2f}}, {{:.2f}}]".format(
                *over_networks(joint, ran(name))
            )
            for name, (c, joint) in judged.items()
        )
        + (
            f"; Gauss–Newton, which succeeds where the joint rank is full and so nearly by definition, {own.c:.2f} and "
            f"{own.joint:.2f}"
            if own is not None
            else ""
        ),
        "0, and c(M)'s correlation, inside the joint rank's interval; it lies above both for "
        f"{len(better)} of {len(judged)} attacks",
        "undecided"
        if not better and not worse
        else ("not reproduced" if not better else ("finding" if len(better) == len(judged) else "partly")),
        value=None if mine is None else mine[1],
        null_value=None if mine is None else mine[0],
    )


def ran(method: str) -> int:
    """Networks of Table 1 on which an attack of the paper did not diverge."""
    return sum(PUBLISHED[name][method][0] <= DIVERGED for name in TABLE_1)


def over_networks(rho: float, count: int) -> tuple[float, float]:
    """95 % interval of a rank correlation over `count` ≥ 4 networks, by Fieller, Hartley & Pearson (1957):
    tanh(artanh ρ ± 1.96 √(1.06/(n − 3))).

    >>> tuple(round(end, 2) for end in over_networks(0.93, 8))
    (0.64, 0.99)
    """
    middle, half = math.atanh(max(min(rho, 1 - 1e-9), -1 + 1e-9)), 1.96 * math.sqrt(1.06 / (count - 3))
    return math.tanh(middle - half), math.tanh(middle + half)


def virtual(metrics: IdentifiabilityMetrics) -> Claim:
    """What the layers before say of a layer's input; layers from the second on."""
    lacks: dict[str, int] = {}
    counted: dict[str, int] = {}
    for name in metrics.networks:
        network, deficiencies = TABLE_1[name], generic_deficiencies(TABLE_1[name])
        worst = min(range(network.depth), key=deficiencies.__getitem__)
        if worst > 0:
            shapes = network.image_shapes()
            lacks[name] = -deficiencies[worst]
            counted[name] = max(0, math.prod(shapes[0]) - math.prod(shapes[worst]) + lacks[name])
    together = {name: -metrics.networks[name].joint_deficiency for name in lacks}
    much = [together[name] < (1 - LITTLE) * lacks[name] for name in lacks]
    return Claim(
        "identifiability-virtual",
        "",
        "Counted by ranks, what the layers before say of a layer's input (R-GAP's virtual constraints, as we read "
        "them) supplies much of what the layer's own system lacks.",
        "redundant if all layers are solved jointly; very little improvement when added to the objective",
        "equations that the worst layer lacks by itself, and that all layers lack together: "
        + "; ".join(f"{name} {lacks[name]} and {together[name]}" for name in lacks)
        + "; as counting has it, since the layer's input is a function of the image and has no more unknowns than it: "
        + "; ".join(f"{name} {counted[name]}" for name in lacks)
        + "; no attack was run with and without them, which is what the paper's sentence is about",
        f"nothing supplied: as many as the layer lacks; less than {LITTLE:.0%} counts as nothing",
        "undecided" if not lacks else ("finding" if all(much) else ("partly" if any(much) else "not reproduced")),
        value=max((together[name] / lacks[name] for name in lacks), default=None),
        null_value=1.0,
    )


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


def pairs_claims(metrics: PairsMetrics, _: PairsSizes) -> list[Claim]:
    """Whether what one pair showed is so for others."""
    rows = metrics.networks
    same = {name: [each <= CERTAIN for each in row.residual] for name, row in rows.items()}
    stays = {
        name: [ok and there > here for ok, there, here in zip(same[name], row.to_victim, row.to_start, strict=True)]
        for name, row in rows.items()
    }
    held = sum(map(sum, stays.values()))
    total = sum(map(len, same.values()))
    return [
        Claim(
            "pairs-counterfactual",
            "",
            "Where the gradient does not determine the image, other photographs can be moved, inside the pixels' "
            "range, until they have the same gradient, and stay nearer to what they were than to the victim.",
            "",
            f"of {len(metrics.index)} pairs, with the same gradient to {CERTAIN:g}, of these nearer to what they were, "
            "and typical MSE to victim and to start: "
            + "; ".join(
                f"{name} {sum(same[name])}, {sum(stays[name])}, {geometric_mean(row.to_victim):.3f} and "
                f"{geometric_mean(row.to_start):.3f}"
                for name, row in rows.items()
            ),
            f"the two photographs: {geometric_mean(next(iter(rows.values())).between):.3f}; half of them are nearer by "
            f"tossing coins, and {held} or more of {total} in {by_coins(held, total):.1g} of all cases",
            "undecided"
            if not more_than_half(total, total)
            else ("finding" if held == total else "partly" if more_than_half(held, total) else "not reproduced"),
            value=held / total,
            null_value=0.5,
        )
    ]
