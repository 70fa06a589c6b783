"""Chapters 14 and 15: Chen & Campbell (2022), Table 1 and Appendix E: ranks, the security metric, four attacks.

On the paper's two images, by networks of its seed: `recon.chapters.leakage_shared` says why no seed changes them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial

import torch
from scipy.stats import spearmanr
from torch import Tensor

from recon.analysis.identifiability import generic_rank, numerical_rank, security_metric
from recon.attacks.gradient_matching import COSINE_STEPS, cosine_tv, cosine_tv_authors, dlg, hybrid
from recon.attacks.operators import systems
from recon.attacks.rgap import rgap
from recon.chapters.base import Context, Experiment
from recon.chapters.leakage_shared import Attacked, Victims, pixels
from recon.chapters.plots import leakage as plots
from recon.chapters.profiles import LEAKAGE_ATTACKS, LEAKAGE_RANK, LeakageAttacks, LeakageRank
from recon.chapters.published import DIVERGED, LABELS, METHODS, PRE_TRAINED, PUBLISHED, PUBLISHED_RANK
from recon.nets.conv import SEED
from recon.released import Gradient
from recon.scoring.metrics import mse, psnr
from recon.store.results import Claim, Outcome, verdict
from recon.store.sweep import sweep
from recon.training.pretraining import EPOCHS

WITHIN_MSE, WITHIN_DB = 0.02, 0.15  # of the published mean
PRINTED = 5e-5  # half of the last digit that Appendix E prints


# -------------------------------------------------------------------------------------------------------- ranks


def run_rank(config: LeakageRank, context: Context) -> Outcome:
    """Rank deficiency of every layer's system at the first victim, c(M), and c(M) against the published PSNRs."""
    found = Victims.of(context.pool)
    metrics: dict = {}
    start = time.perf_counter()
    for name in config.networks:
        attacked = Attacked.of(name, context.pool)
        network = attacked.network
        ranks = [numerical_rank(u) for u in systems(network, attacked.theta, found.x[:1], found.labels[:1])]
        generic = [
            generic_rank(conv, shape) - math.prod(shape)
            for conv, shape in zip(network.convs, network.image_shapes(), strict=False)
        ]
        deficiencies = [rank.deficiency for rank in ranks]
        metrics[name] = {
            "rd": deficiencies,
            "c": security_metric(deficiencies),
            "generic_rd": generic,
            "condition": [rank.condition for rank in ranks],
            "unknowns": [math.prod(shape) for shape in network.image_shapes()[:-1]],
            "published_rd": list(PUBLISHED_RANK[name][0]),
            "published_c": PUBLISHED_RANK[name][1],
        }
    names = list(metrics)
    metrics["seconds"] = round(time.perf_counter() - start, 1)
    metrics["spearman_with_published_psnr"] = correlations(
        {name: metrics[name]["c"] for name in names},
        {
            name: {m: PUBLISHED[name][m][1] for m in METHODS if PUBLISHED[name][m][0] <= DIVERGED}
            | own_rgap(Attacked.of(name, context.pool), found)
            for name in names
        },
    )
    return Outcome(metrics, rank_claims(metrics, names), {})


def own_rgap(attacked: Attacked, found: Victims) -> dict[str, float]:
    """Our own PSNR (peak 255) by R-GAP, mean over the images; exact solutions count as 300 dB."""
    gradient = Gradient.of(attacked.network, attacked.theta, found.x, found.labels)
    error = mse(torch.cat([rgap(victim) for victim in gradient.split()]), found.x)
    return {"R-GAP, ours": psnr(error, 255.0).clamp(max=300.0).mean().item()}


def correlations(c: dict[str, int], psnrs: dict[str, dict[str, float]]) -> dict:
    """Spearman correlation of c(M) with each method's PSNR, with and without CNN4 V2; None for < 3 networks."""
    found: dict = {}
    methods = dict.fromkeys(method for row in psnrs.values() for method in row)
    for method in methods:
        for key, left_out in ((method, ""), (f"{method}, without CNN4 V2", "CNN4 V2")):
            names = [name for name in c if method in psnrs.get(name, {}) and name != left_out]
            ranks, decibels = [c[name] for name in names], [psnrs[name][method] for name in names]
            enough = len(names) > 2 and len(set(ranks)) > 1 and len(set(decibels)) > 1
            found[key] = float(spearmanr(ranks, decibels).statistic) if enough else None
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
            "C&C 4",
            "It is more likely for all methods to have better reconstructions with a bigger c(M).",
            "argued from Table 1 and the figures",
            "Spearman correlation of c(M) with PSNR (published; diverged runs left out): "
            + ", ".join(f"{label(key)} {value:.2f}" for key, value in rho.items() if value is not None),
            "0 ± 0.38 for unrelated numbers of eight networks, 0 ± 0.5 of five",
            predicted(rho),
        ),
    ]


def label(key: str) -> str:
    """A key of `correlations` in words."""
    method, _, rest = key.partition(", ")
    return LABELS.get(method, method) + (f" ({rest})" if rest else "")


def predicted(rho: dict[str, float | None]) -> str:
    """By the correlations with all networks: reproduced if every method's is positive, partly if some are."""
    signs = [value > 0 for key, value in rho.items() if value is not None and "without" not in key]
    if not signs:
        return "finding"
    return verdict(all(signs)) if all(signs) or not any(signs) else "partly"


# ------------------------------------------------------------------------------------------------------ attacks


def run_attacks(config: LeakageAttacks, context: Context) -> Outcome:
    """The attacks on both victims, network by network; and R-GAP on one image per class."""
    found = Victims.of(context.pool)
    unit = partial(attack_network, config, context)
    folder = context.checkpoints / "sweep"
    runs = sweep(unit, list(config.networks), folder, context.workers, context.scheduler, label="networks")
    metrics: dict = {}
    arrays = {"truth": pixels(found.x)}
    for name, tensors in runs.items():
        methods = [key.removeprefix("x_hat ") for key in tensors if key.startswith("x_hat ")]
        metrics[name] = {
            method: scores(tensors[f"x_hat {method}"], found)
            | {"seconds": round(tensors[f"seconds {method}"].item(), 2)}
            for method in sorted(methods, key=list(LABELS).index)
        }
        if name.endswith(PRE_TRAINED):
            metrics[name]["pre_training"] = {
                "epochs": config.epochs,
                "n_train": int(tensors["n_train"]),
                "accuracy": tensors["accuracy"].item(),
            }
        for method in methods:
            arrays[f"x_hat {name} {method}"] = pixels(tensors[f"x_hat {method}"].clamp(-10, 10).nan_to_num())
    gallery = Victims.of_each_class(context.pool)
    arrays["gallery truth"] = pixels(gallery.x)
    for name in config.gallery:
        attacked = Attacked.of(name, context.pool)
        gradient = Gradient.of(attacked.network, attacked.theta, gallery.x, gallery.labels)
        arrays[f"gallery {name}"] = pixels(torch.cat([rgap(victim) for victim in gradient.split()]))
    metrics["images"] = {
        "grey_mse": found.x.square().mean().item(),
        "index": found.index,
        "labels": found.labels.tolist(),
        "the_papers": found.exact,
    }
    metrics["share_of_published_steps"] = config.share
    return Outcome(metrics, attack_claims(metrics, config), arrays)


def attack_network(config: LeakageAttacks, context: Context, name: str) -> dict[str, Tensor]:
    """One unit of the sweep: every attack on one network; images "x_hat METHOD" (B, 3, 32, 32), "seconds METHOD"."""
    images = Victims.of(context.pool)
    attacked = Attacked.of(name, context.pool, config.epochs)
    gradient = Gradient.of(attacked.network, attacked.theta, images.x, images.labels)
    found = {"accuracy": torch.tensor(attacked.accuracy), "n_train": torch.tensor(attacked.n_train)}
    for method, attack in attacks(gradient, config, context, name).items():
        start = time.perf_counter()
        found[f"x_hat {method}"] = attack().double()
        found[f"seconds {method}"] = torch.tensor(time.perf_counter() - start)
    return found


def attacks(gradient: Gradient, config: LeakageAttacks, context: Context, name: str) -> dict[str, Callable[[], Tensor]]:
    """Method -> a call that returns the images (B, 3, 32, 32).  Matching runs in float32, as published."""
    found: dict[str, Callable[[], Tensor]] = {"rgap": lambda: torch.cat([rgap(victim) for victim in gradient.split()])}
    if name not in config.matched:
        return found
    single, shape = gradient.to(torch.float32), (len(gradient.labels), *gradient.network.shape)
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


def attack_claims(metrics: dict, config: LeakageAttacks) -> list[Claim]:
    """Appendix E, method by method, on the networks that were run; and what the paper says of its table.

    A function of the metrics alone, so that `recon keep` can make the claims of a long run again.
    """
    made = []
    papers_images = metrics["images"]["the_papers"]
    untrained = [n for n in config.networks if not n.endswith(PRE_TRAINED)]
    for method in METHODS:
        names = [n for n in untrained if method in metrics[n] and PUBLISHED[n][method][0] > 0]
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
        zeros = [n for n in untrained if method in metrics[n] and PUBLISHED[n][method][0] == 0]
        solved = [n for n in zeros if metrics[n][method]["mse"] is not None and metrics[n][method]["mse"] < PRINTED]
        ours += f"; exact on {len(solved)} of the {len(zeros)} printed as 0.0000" if zeros else ""
        exact = all(ok for ok, _ in near.values()) and diverged == len(away) and len(solved) == len(zeros)
        if not papers_images or not full:
            judgement = "finding"
            ours += " (other images)" if not papers_images else f" ({config.share:.0%} of the published steps)"
        else:
            judgement = verdict(exact) if exact or not any(ok for ok, _ in near.values()) else "partly"
        made.append(
            Claim(
                f"leakage-{method.replace('_', '-')}",
                "C&C 4, Appendix E",
                f"Mean squared error of {LABELS[method]} over the two images, untrained networks.",
                "; ".join(f"{n}: {PUBLISHED[n][method][0]:.4g}" for n in names),
                ours,
                f"a grey image: {metrics['images']['grey_mse']:.4f}",
                judgement,
            )
        )
    if hybrid_rows(metrics, config):
        made += [hybrid_against(parent, metrics, config) for parent in ("rgap", "cosine_tv")]
        made.append(authors_claim(metrics, config))
    trained = [n for n in config.networks if n.endswith(PRE_TRAINED) and n.removesuffix(PRE_TRAINED) in untrained]
    return [*made, pre_trained_claim(trained, metrics)] if trained else made


def authors_claim(metrics: dict, config: LeakageAttacks) -> Claim:
    """Hybrid against CosineTV as Geiping et al. run it, which the paper does not."""
    names = hybrid_rows(metrics, config)
    rows = {n: (metrics[n]["cosine_tv_authors"]["mse"], metrics[n]["hybrid"]["mse"]) for n in names}
    better = [n for n, (authors, hybrid) in rows.items() if at_least_as_good(authors, hybrid)]
    return Claim(
        "leakage-authors-setting",
        "",
        "CosineTV in its own authors' setting, on some networks better than Hybrid, on some not.",
        "not run",
        f"lower MSE on {len(better)} of {len(names)}: "
        + "; ".join(f"{n} {number(authors)} against {number(hybrid)}" for n, (authors, hybrid) in rows.items()),
        f"a grey image: {metrics['images']['grey_mse']:.4f}",
        "finding",
    )


def number(error: float | None) -> str:
    """A mean squared error, or that it is infinite."""
    return "diverged" if error is None else f"{error:.4f}"


def pre_trained_claim(names: list[str], metrics: dict) -> Claim:
    """The paper's sentence on its pre-trained networks, method by method; its own R-GAP on CNN4 V2 contradicts it."""
    methods = [m for m in METHODS if all(m in metrics[n] for n in names)]

    def changes(mse: Callable[[str, str], float | None]) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        for method in methods:
            pairs = [(mse(name, method), mse(name.removesuffix(PRE_TRAINED), method)) for name in names]
            found[method] = [after / before if after is not None and before else math.inf for after, before in pairs]
        return found

    def said(found: dict[str, list[float]]) -> str:
        each = (f"{LABELS[m]} {', '.join(f'{value:.2g}' for value in values)}" for m, values in found.items())
        return f"MSE times ({', '.join(names)}): " + "; ".join(each)

    theirs = changes(lambda name, method: PUBLISHED[name][method][0])
    ours = changes(lambda name, method: metrics[name][method]["mse"])
    degraded = [value > 1 for values in ours.values() for value in values]
    trained = metrics[names[0]]["pre_training"]
    accuracies = ", ".join(f"{metrics[name]['pre_training']['accuracy']:.0%}" for name in names)
    judgement = verdict(all(degraded)) if all(degraded) or not any(degraded) else "partly"
    return Claim(
        "leakage-pre-trained",
        "C&C 4, Appendices E, F",
        "On pre-trained networks the quality of reconstructions has degraded for all methods.",
        said(theirs),
        said(ours)
        + f"; our own variant: {trained['n_train']} images, not 10 000, {trained['epochs']} epochs of 300, training "
        + f"accuracy {accuracies}",
        "1 (no change)",
        judgement if metrics["images"]["the_papers"] and trained["epochs"] == EPOCHS else "finding",
    )


def hybrid_rows(metrics: dict, config: LeakageAttacks) -> list[str]:
    """Untrained networks on which both R-GAP and Hybrid ran."""
    names = [name for name in config.networks if not name.endswith(PRE_TRAINED)]
    return [name for name in names if {"rgap", "hybrid"} <= metrics[name].keys()]


def hybrid_against(parent: str, metrics: dict, config: LeakageAttacks) -> Claim:
    """The paper's sentence that Hybrid improves on its parents, network by network."""
    names = [name for name in hybrid_rows(metrics, config) if parent in metrics[name]]
    worse = [n for n in names if not at_least_as_good(metrics[n]["hybrid"]["mse"], metrics[n][parent]["mse"])]
    theirs = [n for n in names if PUBLISHED[n]["hybrid"][0] > PUBLISHED[n][parent][0]]
    comparable = metrics["images"]["the_papers"] and config.share == 1.0
    return Claim(
        f"leakage-hybrid-against-{parent.replace('_', '-')}",
        "C&C 4, Appendix E",
        f"Hybrid improves on {LABELS[parent]}.",
        better_on(names, theirs),
        better_on(names, worse),
        "half of the networks",
        ("reproduced" if not worse else "partly" if worse == theirs else "not reproduced") if comparable else "finding",
    )


def better_on(names: list[str], worse: list[str]) -> str:
    """In words."""
    return f"on {len(names) - len(worse)} of {len(names)}" + (f", not on {', '.join(worse)}" if worse else "")


def at_least_as_good(ours: float | None, other: float | None) -> bool:
    """Of two errors, None being infinite."""
    return ours is not None and (other is None or ours <= other)


RANK = Experiment(
    name="leakage-rank",
    chapter="14-leakage-rank",
    section="C&C 3.3",
    summary="gradients as linear systems: rank deficiency of every layer and the security metric, Table 1",
    cost={"smoke": "5 s", "laptop": "1 min", "paper": "1 min"},
    configs=LEAKAGE_RANK,
    run=run_rank,
    figures={"rank": plots.plot_rank},
)
ATTACKS = Experiment(
    name="leakage-attacks",
    chapter="15-leakage-attacks",
    section="C&C 4",
    summary="R-GAP, DLG, CosineTV and Hybrid on the paper's two images, Appendix E",
    cost={"smoke": "10 s", "laptop": "4 min", "paper": "half an hour"},
    configs=LEAKAGE_ATTACKS,
    run=run_attacks,
    figures={"grid": plots.plot_grid, "scores": plots.plot_scores, "gallery": plots.plot_gallery},
)
