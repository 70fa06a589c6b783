"""Chapter 10: rank deficiency of every layer's system at the first victim, c(M), c(M) against
PSNRs, and a digit whose shifts have its gradient.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy.stats import permutation_test, spearmanr
from torch import nn

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.leakage_common import TABLE_1, Attacked, Networks, Victims, count_found
from companion.chapters.pictures import levels
from companion.chapters.published import DIVERGED, METHODS, PUBLISHED, PUBLISHED_RANK
from companion.store.record import Record
from recon.analysis.identifiability import rank_deficiency, security_metric
from recon.attacks import by_gauss_newton
from recon.attacks.from_gradients import GaussNewtonSettings
from recon.attacks.rgap import generic_deficiencies, systems
from recon.images.registry import load_pool
from recon.optim.rng import named
from recon.released import Gradient


def as_published(ranks: Record) -> bool:
    """Whether every integer is that of Table 1."""
    return ranks.rd == ranks.published_rd and ranks.c == ranks.published_c


WITHOUT = ", without CNN4 V2"


class Metrics(Networks):
    """networks: by name · spearman_with_published_psnr: rank correlation of c(M) with each method's
    published PSNR, with and `WITHOUT` CNN4 V2; None for fewer than three networks · chance: how
    often networks in random order have a correlation as large.

    networks: One network, layer by layer from the image on. rd: rank deficiency of each layer's
    system · generic_rd: by the formula in the layer's shape · unknowns: dim x_{i−1} · c: the
    security metric c(M) · published_…: in Table 1.

    pooled, flat: A digit of 64 pixels by two convolutions with circular padding and a dense layer,
    with pooling over all positions before it and without; by Gauss–Newton from several initial
    images. rank: of all layers together · condition · certificate: by the attack · distinct: images
    with the gradient · same: those that have the digit's pixels, in any order.
    """

    def correlations(self) -> dict[str, float]:
        """Those that there are, in the order of Appendix E."""
        keys = [key for method in METHODS for key in (method, method + WITHOUT)]
        rho = {key: self.spearman_with_published_psnr.get(key) for key in keys}
        return {key: value for key, value in rho.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """
    Attributes:
        networks: names in `companion.chapters.leakage_common.TABLE_1`.
        starts: initial images of the digit.
    """

    networks: tuple[str, ...] = tuple(TABLE_1)
    starts: int = 12


SIZES = {
    "smoke": Sizes(networks=("CNN3 V2", "CNN3 V4"), starts=4),
    "laptop": Sizes(),
    "paper": Sizes(),
}
PERMUTATIONS = 2000  # of the networks


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Table 1, the correlation of c(M) with the published PSNRs and with our own by R-GAP, and the
    digit.
    """
    victims = Victims.of(context.pool)
    networks = {}
    c = {}
    psnrs = {}
    for name in sizes.networks:
        networks[name] = ranks(name, Attacked.of(name, context.pool), victims)
        c[name] = networks[name].c
        published = PUBLISHED[name].items()
        psnrs[name] = {method: p for method, (error, p) in published if error <= DIVERGED}
    ranked = correlations(c, psnrs)
    rho = {key: pair and pair[0] for key, pair in ranked.items()}
    chance = {key: pair and pair[1] for key, pair in ranked.items()}
    rows, arrays = digits(sizes, context)
    metrics = Metrics(**networks, **rows, spearman_with_published_psnr=rho, chance=chance)
    return Outcome(metrics, arrays)


def digits(sizes: Sizes, context: Context) -> tuple[dict[str, Record], Tensors]:
    """scikit-learn's first, by weights N(0, 0.3²)."""
    digit = torch.from_numpy(load_pool("digits").images[:1]).double() / 255 - 0.5
    circular: dict[str, Any] = {"padding": 1, "padding_mode": "circular"}
    rows = {}
    arrays = {"truth": levels(digit + 0.5)}
    for name, side in (("flat", 8), ("pooled", 1)):
        layers = nn.Conv2d(1, 8, 3, **circular), nn.Tanh(), nn.Conv2d(8, 16, 3, **circular)
        last = nn.AdaptiveAvgPool2d(side), nn.Flatten(), nn.Linear(16 * side**2, 10)
        network = nn.Sequential(*layers, nn.Tanh(), *last).double().eval()
        generator = named(context.seed, "digits")
        for parameter in network.parameters():
            nn.init.normal_(parameter, std=0.3, generator=generator)
        gradient = Gradient.of(network, F.cross_entropy, digit, 0)
        settings = GaussNewtonSettings(sizes.starts)
        about = by_gauss_newton(gradient, (1, 8, 8), settings, generator).diagnostics
        solutions = torch.cat([digit[:0], *about["solutions"][0]])
        arrays[name] = levels(solutions + 0.5)
        same = count_found(solutions.flatten(1).sort().values, digit.flatten().sort().values)
        numbers = {key: about[key][0] for key in ("rank", "condition", "certificate")}
        rows[name] = Record(**numbers, distinct=len(solutions), same=same)
    return rows, arrays


def ranks(name: str, attacked: Attacked, victims: Victims) -> Record:
    """One row of Table 1, at the first victim."""
    network = attacked.network
    layers = systems(network, attacked.theta, victims.x[:1], victims.labels[:1])
    deficiencies = [rank_deficiency(u) for u in layers]
    return Record(
        rd=deficiencies,
        generic_rd=generic_deficiencies(network),
        unknowns=[math.prod(shape) for shape in network.image_shapes()[:-1]],
        c=security_metric(deficiencies),
        published_rd=list(PUBLISHED_RANK[name][0]),
        published_c=PUBLISHED_RANK[name][1],
    )


#: Spearman's ρ and its chance, None where there are too few networks, by a name
Correlations = dict[str, tuple[float, float] | None]


def correlations(c: dict[str, int], psnrs: dict[str, dict[str, float]]) -> Correlations:
    """Spearman correlation of c(M) with each method's PSNR, with and without CNN4 V2, and the share
    of permutations of the networks with one as large; None for < 3 networks.
    """
    pairs: Correlations = {}
    for method in dict.fromkeys(method for row in psnrs.values() for method in row):
        for key, left_out in ((method, ""), (method + WITHOUT, "CNN4 V2")):
            names = [name for name in c if method in psnrs[name] and name != left_out]
            metric = [c[name] for name in names]
            decibels = [psnrs[name][method] for name in names]
            pairs[key] = None
            if len(names) > 2 and len(set(metric)) > 1 and len(set(decibels)) > 1:
                test = permutation_test(
                    (np.array(metric),),
                    lambda x, y=decibels: spearmanr(x, y).statistic,
                    permutation_type="pairings",
                    alternative="greater",
                    n_resamples=PERMUTATIONS,
                    rng=np.random.default_rng(0),
                )
                pairs[key] = float(test.statistic), float(test.pvalue)
    return pairs
