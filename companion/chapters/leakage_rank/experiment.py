"""Chapter 10: rank deficiency of every layer's system at the first victim, c(M), and c(M) against
PSNRs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import permutation_test, spearmanr

from companion.chapters.base import Context, Outcome
from companion.chapters.leakage_common import TABLE_1, Attacked, Networks, Victims
from companion.chapters.published import DIVERGED, METHODS, PUBLISHED, PUBLISHED_RANK
from companion.store.record import Record
from recon.analysis.identifiability import rank_deficiency, security_metric
from recon.attacks.rgap import generic_deficiencies, rgap, systems
from recon.released import Gradient
from recon.scoring.metrics import mse, psnr


def as_published(ranks: Record) -> bool:
    """Whether every integer is that of Table 1."""
    return ranks.rd == ranks.published_rd and ranks.c == ranks.published_c


OURS = "R-GAP, ours"
WITHOUT = ", without CNN4 V2"


class Metrics(Networks):
    """networks: by name · spearman_with_published_psnr: rank correlation of c(M) with each method's
    published PSNR, and with `OURS`, with and `WITHOUT` CNN4 V2; None for fewer than three networks
    · chance: how often networks in random order have a correlation as large.

    networks: One network, layer by layer from the image on. rd: rank deficiency of each layer's
    system · generic_rd: by the formula in the layer's shape · unknowns: dim x_{i−1} · c: the
    security metric c(M) · published_…: in Table 1.
    """

    def correlations(self) -> dict[str, float]:
        """Those that there are, in the order of Appendix E."""
        found = self.spearman_with_published_psnr
        keys = [key for method in (*METHODS, OURS) for key in (method, method + WITHOUT)]
        return {key: value for key in keys if (value := found.get(key)) is not None}


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """
    Attributes:
        networks: names in `companion.chapters.leakage_common.TABLE_1`.
    """

    networks: tuple[str, ...] = tuple(TABLE_1)


SIZES = {"smoke": Sizes(networks=("CNN3 V2", "CNN3 V4")), "laptop": Sizes(), "paper": Sizes()}
PERMUTATIONS = 2000  # of the networks


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Table 1, and the correlation of c(M) with the published PSNRs and with our own by R-GAP."""
    found = Victims.of(context.pool)
    attacked = {name: Attacked.of(name, context.pool) for name in sizes.networks}
    networks = {name: ranks(name, network, found) for name, network in attacked.items()}
    psnrs = {
        name: {m: PUBLISHED[name][m][1] for m in METHODS if PUBLISHED[name][m][0] <= DIVERGED}
        | {OURS: own_psnr(network, found)}
        for name, network in attacked.items()
    }
    ranked = correlations({name: row.c for name, row in networks.items()}, psnrs)
    rho, chance = ({key: each and each[k] for key, each in ranked.items()} for k in (0, 1))
    return Outcome(Metrics(**networks, spearman_with_published_psnr=rho, chance=chance), {})


def ranks(name: str, attacked: Attacked, found: Victims) -> Record:
    """One row of Table 1, at the first victim."""
    network = attacked.network
    layers = systems(network, attacked.theta, found.x[:1], found.labels[:1])
    deficiencies = [rank_deficiency(u) for u in layers]
    return Record(
        rd=deficiencies,
        generic_rd=generic_deficiencies(network),
        unknowns=[math.prod(shape) for shape in network.image_shapes()[:-1]],
        c=security_metric(deficiencies),
        published_rd=list(PUBLISHED_RANK[name][0]),
        published_c=PUBLISHED_RANK[name][1],
    )


def own_psnr(attacked: Attacked, found: Victims) -> float:
    """Our own PSNR (peak 255) by R-GAP, mean over the images; exact solutions count as 300 dB."""
    gradient = Gradient.each(attacked.network, attacked.theta, found.x, found.labels)
    error = mse(torch.cat([rgap(victim) for victim in gradient.split()]), found.x)
    return psnr(error, 255.0).clamp(max=300.0).mean().item()


def correlations(
    c: dict[str, int], psnrs: dict[str, dict[str, float]]
) -> dict[str, tuple[float, float] | None]:
    """Spearman correlation of c(M) with each method's PSNR, with and without CNN4 V2, and the share
    of permutations of the networks with one as large; None for < 3 networks.
    """
    found: dict[str, tuple[float, float] | None] = {}
    for method in dict.fromkeys(method for row in psnrs.values() for method in row):
        for key, left_out in ((method, ""), (method + WITHOUT, "CNN4 V2")):
            names = [name for name in c if method in psnrs.get(name, {}) and name != left_out]
            metric, decibels = [c[name] for name in names], [psnrs[name][method] for name in names]
            found[key] = None
            if len(names) > 2 and len(set(metric)) > 1 and len(set(decibels)) > 1:
                tested = permutation_test(
                    (np.array(metric),),
                    lambda x, y=decibels: spearmanr(x, y).statistic,
                    permutation_type="pairings",
                    alternative="greater",
                    n_resamples=PERMUTATIONS,
                    rng=np.random.default_rng(0),
                )
                found[key] = float(tested.statistic), float(tested.pvalue)
    return found
