"""Chapter 14: rank deficiency of every layer's system at the first victim, c(M), and c(M) against PSNRs."""

from __future__ import annotations

import math
import time

import torch
from scipy.stats import spearmanr

from recon.analysis.identifiability import numerical_rank, security_metric
from recon.attacks.operators import generic_rank, systems
from recon.attacks.rgap import rgap
from recon.chapters.base import Context, Outcome
from recon.chapters.leakage_common import Attacked, Victims
from recon.chapters.leakage_rank.metrics import OURS, WITHOUT, Metrics, Ranks
from recon.chapters.leakage_rank.sizes import Sizes
from recon.chapters.published import DIVERGED, METHODS, PUBLISHED, PUBLISHED_RANK
from recon.released import Gradient
from recon.scoring.metrics import mse, psnr


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Table 1, and the correlation of c(M) with the published PSNRs and with our own by R-GAP."""
    found, start = Victims.of(context.pool), time.perf_counter()
    attacked = {name: Attacked.of(name, context.pool) for name in sizes.networks}
    networks = {name: ranks(name, network, found) for name, network in attacked.items()}
    seconds = round(time.perf_counter() - start, 1)
    psnrs = {
        name: {m: PUBLISHED[name][m][1] for m in METHODS if PUBLISHED[name][m][0] <= DIVERGED}
        | {OURS: own_psnr(network, found)}
        for name, network in attacked.items()
    }
    c = {name: row.c for name, row in networks.items()}
    spearman = correlations(c, psnrs)
    return Outcome(Metrics(networks=networks, seconds=seconds, spearman_with_published_psnr=spearman), {})


def ranks(name: str, attacked: Attacked, found: Victims) -> Ranks:
    """One row of Table 1, at the first victim."""
    network, shapes = attacked.network, attacked.network.image_shapes()
    each = [numerical_rank(u) for u in systems(network, attacked.theta, found.x[:1], found.labels[:1])]
    deficiencies = [rank.deficiency for rank in each]
    generic = zip(network.convs, shapes, strict=False)
    return Ranks(
        rd=deficiencies,
        generic_rd=[generic_rank(conv, shape) - math.prod(shape) for conv, shape in generic],
        condition=[rank.condition for rank in each],
        unknowns=[math.prod(shape) for shape in shapes[:-1]],
        c=security_metric(deficiencies),
        published_rd=list(PUBLISHED_RANK[name][0]),
        published_c=PUBLISHED_RANK[name][1],
    )


def own_psnr(attacked: Attacked, found: Victims) -> float:
    """Our own PSNR (peak 255) by R-GAP, mean over the images; exact solutions count as 300 dB."""
    gradient = Gradient.of(attacked.network, attacked.theta, found.x, found.labels)
    error = mse(torch.cat([rgap(victim) for victim in gradient.split()]), found.x)
    return psnr(error, 255.0).clamp(max=300.0).mean().item()


def correlations(c: dict[str, int], psnrs: dict[str, dict[str, float]]) -> dict[str, float | None]:
    """Spearman correlation of c(M) with each method's PSNR, with and without CNN4 V2; None for < 3 networks."""
    found: dict[str, float | None] = {}
    methods = dict.fromkeys(method for row in psnrs.values() for method in row)
    for method in methods:
        for key, left_out in ((method, ""), (method + WITHOUT, "CNN4 V2")):
            names = [name for name in c if method in psnrs.get(name, {}) and name != left_out]
            metric, decibels = [c[name] for name in names], [psnrs[name][method] for name in names]
            enough = len(names) > 2 and len(set(metric)) > 1 and len(set(decibels)) > 1
            found[key] = float(spearmanr(metric, decibels).statistic) if enough else None
    return found
