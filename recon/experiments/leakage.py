"""Chapters 12 and 13: Chen & Campbell (2022), Table 1 and Appendix E: ranks, the security metric, four attacks."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import torch
from scipy.stats import spearmanr
from torch import Tensor

from recon.experiments.base import Context, Experiment
from recon.experiments.leakage_shared import (
    DIVERGED,
    FIRST_OF_CLASS,
    METHODS,
    PUBLISHED,
    PUBLISHED_RANK,
    Victims,
    pixels,
)
from recon.experiments.profiles import LEAKAGE_ATTACKS, LEAKAGE_RANK, LeakageAttacks, LeakageRank
from recon.leakage.gradient_matching import COSINE_STEPS, cosine_tv, cosine_tv_authors, dlg, hybrid, victims
from recon.leakage.leak import Leak, mse, psnr
from recon.leakage.networks import SEED, TABLE_1
from recon.leakage.operators import generic_rank, numerical_rank, security_metric, systems
from recon.leakage.rgap import rgap
from recon.plots import leakage as plots
from recon.results import Claim, Outcome, verdict

LABELS = {"rgap": "R-GAP", "dlg": "DLG", "cosine_tv": "CosineTV", "hybrid": "Hybrid"}
WITHIN_MSE, WITHIN_DB = 0.02, 0.15  # of the published mean
PRINTED = 5e-5  # half of the last digit that Appendix E prints


def weights_of(name: str) -> list[Tensor]:
    """PyTorch's default initialisation with seed 10, in float64."""
    return [weight.double() for weight in TABLE_1[name].init(SEED)]


# -------------------------------------------------------------------------------------------------------- ranks


def run_rank(config: LeakageRank, context: Context) -> Outcome:
    """Rank deficiency of every layer's system at the first victim, c(M), and c(M) against the published PSNRs."""
    found = Victims.of(context.pool)
    metrics: dict = {}
    start = time.perf_counter()
    for name in config.networks:
        network, weights = TABLE_1[name], weights_of(name)
        ranks = [numerical_rank(system) for system in systems(network, weights, found.x[:1], found.labels[:1])]
        generic = [
            generic_rank(conv, shape) - math.prod(shape)
            for conv, shape in zip(network.convs, network.shapes(), strict=False)
        ]
        deficiencies = [rank.deficiency for rank in ranks]
        metrics[name] = {
            "rd": deficiencies,
            "c": security_metric(deficiencies),
            "generic_rd": generic,
            "condition": [rank.condition for rank in ranks],
            "unknowns": [math.prod(shape) for shape in network.shapes()[:-1]],
            "published_rd": list(PUBLISHED_RANK[name][0]),
            "published_c": PUBLISHED_RANK[name][1],
        }
    names = list(metrics)
    metrics["seconds"] = round(time.perf_counter() - start, 1)
    metrics["spearman_with_published_psnr"] = correlations(
        {name: metrics[name]["c"] for name in names},
        {
            name: {m: PUBLISHED[name][m][1] for m in METHODS if PUBLISHED[name][m][0] <= DIVERGED}
            | own_rgap(name, found)
            for name in names
        },
    )
    return Outcome(metrics, rank_claims(metrics, names), {})


def own_rgap(name: str, found: Victims) -> dict[str, float]:
    """Our own PSNR (peak 255) by R-GAP, mean over the images; exact solutions count as 300 dB."""
    leak = Leak.of(TABLE_1[name], weights_of(name), found.x, found.labels)
    error = mse(torch.cat([rgap(victim) for victim in victims(leak)]), found.x)
    return {"R-GAP, ours": psnr(error, 255.0).clamp(max=300.0).mean().item()}


def correlations(c: dict[str, int], psnrs: dict[str, dict[str, float]]) -> dict:
    """Spearman correlation of c(M) with each method's PSNR, with and without CNN4 V2; None for < 3 networks."""
    found: dict = {}
    methods = dict.fromkeys(method for row in psnrs.values() for method in row)
    for method in methods:
        for key, left_out in ((method, ()), (f"{method}, without CNN4 V2", ("CNN4 V2",))):
            names = [name for name in c if method in psnrs.get(name, {}) and name not in left_out]
            values = [[c[name] for name in names], [psnrs[name][method] for name in names]]
            enough = len(names) > 2 and all(len(set(column)) > 1 for column in values)
            found[key] = float(spearmanr(*values).statistic) if enough else None
    return found


def rank_claims(metrics: dict, names: list[str]) -> list[Claim]:
    """Table 1, the generic rank, and what c(M) predicts."""
    same = [
        metrics[n]["rd"] == metrics[n]["published_rd"] and metrics[n]["c"] == metrics[n]["published_c"] for n in names
    ]
    generic = [metrics[n]["rd"] == metrics[n]["generic_rd"] for n in names]
    rho = metrics["spearman_with_published_psnr"]
    return [
        Claim(
            "leakage-table-1",
            "C&C 3.3, Table 1",
            "Rank deficiencies of all layers and the security metric c(M) of the eight networks.",
            "; ".join(f"{n}: {PUBLISHED_RANK[n][1]}" for n in names),
            f"{sum(same)} of {len(names)} networks equal in every integer",
            "",
            verdict(all(same)),
        ),
        Claim(
            "leakage-generic-rank",
            "",
            "rank(U) = min(n_in, n_out + |W| − c_out²) predicts every deficiency from the layer's shape alone.",
            "",
            f"{sum(generic)} of {len(names)} networks",
            "",
            "finding",
        ),
        Claim(
            "leakage-metric-predicts",
            "C&C 3.3, 4",
            "A larger c(M) means that more leaks.",
            "argued from Table 1 and Appendix E",
            "Spearman correlation with PSNR (published; diverged runs left out): "
            + ", ".join(f"{LABELS.get(m, m)} {value:.2f}" for m, value in rho.items() if value is not None),
            "0",
            "finding",
        ),
    ]


# ------------------------------------------------------------------------------------------------------ attacks


def run_attacks(config: LeakageAttacks, context: Context) -> Outcome:
    """Four attacks on both victims, network by network; and R-GAP on one image per class."""
    found = Victims.of(context.pool)
    metrics: dict = {}
    arrays = {"truth": pixels(found.x)}
    for name in config.networks:
        leak = Leak.of(TABLE_1[name], weights_of(name), found.x, found.labels)
        rows: dict = {}
        for method, attack in attacks(leak, config, context, name).items():
            start = time.perf_counter()
            x_hat = attack().double()
            rows[method] = scores(x_hat, found) | {"seconds": round(time.perf_counter() - start, 2)}
            arrays[f"x_hat {name} {method}"] = pixels(x_hat.clamp(-10, 10).nan_to_num())
        metrics[name] = rows
    gallery = Victims.of(context.pool, tuple(FIRST_OF_CLASS.values()))
    arrays["gallery truth"] = pixels(gallery.x)
    for name in config.gallery:
        leak = Leak.of(TABLE_1[name], weights_of(name), gallery.x, gallery.labels)
        arrays[f"gallery {name}"] = pixels(torch.cat([rgap(victim) for victim in victims(leak)]))
    grey = found.x.square().mean().item()
    metrics["images"] = {
        "grey_mse": grey,
        "index": found.index,
        "labels": found.labels.tolist(),
        "the_papers": found.exact,
    }
    metrics["share_of_published_steps"] = config.share
    return Outcome(metrics, attack_claims(metrics, config, found), arrays)


def attacks(leak: Leak, config: LeakageAttacks, context: Context, name: str) -> dict[str, Callable[[], Tensor]]:
    """Method -> a call that returns the images (B, 3, 32, 32).  Matching runs in float32, as published."""
    found: dict[str, Callable[[], Tensor]] = {"rgap": lambda: torch.cat([rgap(victim) for victim in victims(leak)])}
    if name not in config.matched:
        return found
    single, shape = leak.to(torch.float32), (len(leak.labels), *leak.network.shape)
    steps = max(1, round(config.share * COSINE_STEPS))
    folder = context.checkpoints / name.replace(" ", "-")
    found["cosine_tv"] = lambda: cosine_tv(single, SEED, steps, folder / "cosine.safetensors").x_hat.view(shape)
    found["cosine_tv_authors"] = lambda: cosine_tv_authors(
        single, SEED, steps, folder / "cosine-authors.safetensors"
    ).x_hat.view(shape)
    found["hybrid"] = lambda: hybrid(single, config.share, folder)
    if config.dlg_steps:
        found["dlg"] = lambda: dlg(single, SEED, config.dlg_steps)[0]
    return found


def scores(x_hat: Tensor, found: Victims) -> dict:
    """Mean over images of MSE and PSNR, the latter with peak 255 as published and with peak 1; and each image's."""
    error = mse(x_hat, found.x)
    decibels = psnr(error, 255.0)
    each = {
        str(i): {"mse": error[k].item(), "psnr_255": decibels[k].item()} if torch.isfinite(error[k]) else None
        for k, i in enumerate(found.index)
    }
    finite = bool(torch.isfinite(error).all())
    return {
        "mse": error.mean().item() if finite else None,
        "psnr_255": decibels.mean().item() if finite else None,
        "psnr_1": psnr(error).mean().item() if finite else None,
        "diverged": not finite or error.mean().item() > DIVERGED,
        "per_image": each,
    }


def deviation(row: dict, published: tuple[float, float]) -> tuple[bool, float]:
    """Whether a row is within 2 % of the published MSE, 0.15 dB or the last printed digit; the relative deviation."""
    if row["diverged"]:
        return False, math.inf
    relative = abs(row["mse"] / published[0] - 1)
    near = relative <= WITHIN_MSE or abs(row["mse"] - published[0]) <= PRINTED
    return near or abs(row["psnr_255"] - published[1]) <= WITHIN_DB, relative


def attack_claims(metrics: dict, config: LeakageAttacks, found: Victims) -> list[Claim]:
    """Appendix E, method by method, on the networks that were run; and two observations of the paper's table."""
    made = []
    for method in METHODS:
        names = [n for n in config.networks if method in metrics[n] and PUBLISHED[n][method][0] >= 1e-3]
        stable = [n for n in names if PUBLISHED[n][method][0] <= DIVERGED]
        near = {n: deviation(metrics[n][method], PUBLISHED[n][method]) for n in stable}
        away = [n for n in names if n not in stable]
        diverged = sum(metrics[n][method]["diverged"] for n in away)
        full = method == "rgap" or (config.share == 1.0 and (method != "dlg" or config.dlg_steps == 300))
        if not names:
            continue
        worst = max(near, key=lambda n: near[n][1]) if near else None
        ours = f"{sum(ok for ok, _ in near.values())} of {len(stable)} networks within 2 %, 0.15 dB or the last digit"
        value = metrics[worst][method]["mse"] if worst else None
        ours += f"; farthest {worst}: MSE {value:.4f}" if value is not None else f"; {worst} diverged" if worst else ""
        ours += f" against {PUBLISHED[worst][method][0]:.4f}" if worst else ""
        ours += f"; diverged on {diverged} of the {len(away)} that diverged there" if away else ""
        zeros = [n for n in config.networks if method in metrics[n] and PUBLISHED[n][method][0] == 0]
        solved = [n for n in zeros if metrics[n][method]["mse"] is not None and metrics[n][method]["mse"] < PRINTED]
        ours += f"; exact on {len(solved)} of the {len(zeros)} printed as 0.0000" if zeros else ""
        exact = all(ok for ok, _ in near.values()) and diverged == len(away) and len(solved) == len(zeros)
        if not found.exact or not full:
            judgement = "finding"
            ours += " (other images)" if not found.exact else f" ({config.share:.0%} of the published steps)"
        else:
            judgement = verdict(exact) if exact or not any(ok for ok, _ in near.values()) else "partly"
        made.append(
            Claim(
                f"leakage-{method.replace('_', '-')}",
                "C&C 4, Appendix E",
                f"Mean squared error of {LABELS[method]} over the two images.",
                "; ".join(f"{n}: {PUBLISHED[n][method][0]:.4g}" for n in names),
                ours,
                "a grey image: " + f"{found.x.square().mean().item():.4f}",
                judgement,
            )
        )
    if not hybrid_rows(metrics, config):
        return made
    return [*made, *(hybrid_against(parent, metrics, config, found) for parent in ("rgap", "cosine_tv"))]


def hybrid_rows(metrics: dict, config: LeakageAttacks) -> list[str]:
    """Networks on which both R-GAP and Hybrid ran."""
    return [name for name in config.networks if {"rgap", "hybrid"} <= metrics[name].keys()]


def hybrid_against(parent: str, metrics: dict, config: LeakageAttacks, found: Victims) -> Claim:
    """The paper's sentence that Hybrid improves on its parents, network by network."""
    names = [name for name in hybrid_rows(metrics, config) if parent in metrics[name]]
    worse = [n for n in names if not at_least_as_good(metrics[n]["hybrid"]["mse"], metrics[n][parent]["mse"])]
    theirs = [n for n in names if PUBLISHED[n]["hybrid"][0] > PUBLISHED[n][parent][0]]
    comparable = found.exact and config.share == 1.0
    return Claim(
        f"leakage-hybrid-against-{parent.replace('_', '-')}",
        "C&C 4, Appendix E",
        f"Hybrid improves on {LABELS[parent]}.",
        f"not on {len(theirs)} of these {len(names)}: {', '.join(theirs) or '–'}",
        f"not on {len(worse)}: {', '.join(worse) or '–'}",
        "",
        ("reproduced" if not worse else "partly" if worse == theirs else "not reproduced") if comparable else "finding",
    )


def at_least_as_good(ours: float | None, other: float | None) -> bool:
    """Of two errors, None being infinite."""
    return ours is not None and (other is None or ours <= other)


RANK = Experiment(
    name="leakage-rank",
    chapter="12-leakage-rank",
    section="C&C 3.3",
    summary="gradients as linear systems: rank deficiency of every layer and the security metric, Table 1",
    cost={"smoke": "5 s", "laptop": "1 min", "paper": "1 min"},
    configs=LEAKAGE_RANK,
    run=run_rank,
    figures={"rank": plots.plot_rank},
)
ATTACKS = Experiment(
    name="leakage-attacks",
    chapter="13-leakage-attacks",
    section="C&C 4",
    summary="R-GAP, DLG, CosineTV and Hybrid on the paper's two images, Appendix E",
    cost={"smoke": "10 s", "laptop": "4 min", "paper": "half an hour"},
    configs=LEAKAGE_ATTACKS,
    run=run_attacks,
    figures={"grid": plots.plot_grid, "scores": plots.plot_scores, "gallery": plots.plot_gallery},
)
