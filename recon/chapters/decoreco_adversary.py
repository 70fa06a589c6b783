"""Chapters 11 and 12: energies at equal footing, and whether the adversary can tell true reconstructions from false."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score, roc_curve
from torch import Tensor

from recon.attacks.recover import Recovered, recover
from recon.chapters.base import Context, Experiment
from recon.chapters.decoreco_shared import (
    LAYER_1,
    NULL_NAMES,
    Centred,
    ReleasedNet,
    best_text,
    match_table,
    nulls_of,
    train_released,
)
from recon.chapters.plots import adversary as plots
from recon.chapters.profiles import DECORECO_ADVERSARY, DECORECO_TRUTH, DecoReco, DecoRecoAdversary
from recon.scoring.evidence import EVIDENCE, evidence, features, shadow_classifier
from recon.scoring.matching import nearest
from recon.scoring.nulls import null_table
from recon.store.results import Claim, Outcome, verdict
from recon.training.kkt import certificate

STARTS = ("truth", "partition", "random")
GRID = np.linspace(0, 1, 101)


# -------------------------------------------------------------------------------- chapter 11: equal footing


def fitted_energy(released: ReleasedNet, x: Tensor, y: Tensor, alpha: float) -> float:
    """Layer 1's share of R at images x (n, d), labels y in {0, 1}, with fitted multipliers, relative to ‖θ₁‖²."""
    found = certificate(released.network, released.theta_star, x, y, alpha=alpha, layer_weights=LAYER_1)
    return found.residual_by_layer[0].item() ** 2


def run_truth(config: DecoReco, context: Context) -> Outcome:
    """n images each: the truth, the partition, noise, with fitted multipliers; and what the attack makes of each."""
    images = Centred.of(context, config.n_train)
    released = train_released(context, images, config.width, config.train_steps)
    alpha = config.attack.alpha
    truth_order, start_order = images.y.argsort(stable=True), images.init_y.argsort(stable=True)
    noise = torch.rand(images.train.shape, generator=context.generator(3)).to(images.mean) - images.mean
    starts = {"truth": images.train[truth_order], "partition": images.init[start_order], "random": None}
    y = images.y[truth_order]
    before = {
        "truth": fitted_energy(released, images.train, images.y, alpha),
        "partition": fitted_energy(released, images.init, images.init_y, alpha),
        "random": fitted_energy(released, noise, images.y, alpha),
    }
    settings = replace(config.attack, m=config.n_train, restarts=1, distinct=1.0)
    after: dict = {}
    matched: dict = {}
    arrays: dict[str, Tensor] = {}
    for name in STARTS:
        found = recover(
            released.network,
            released.theta_star,
            settings,
            context.generator(2),
            context.checkpoints / name,
            starts[name],
        )
        label = (found.labels + 1) / 2
        after[name] = fitted_energy(released, found.x_hat, label, alpha)
        nulls = nulls_of(context, images, released.network, released.theta_star, len(found.x_hat), found.basis)
        matched[name] = match_table(found.x_hat, images, nulls)
        arrays |= {f"x_hat_{name}": found.x_hat, f"history_{name}": found.history[:, 0]}
    full = recover(
        released.network, released.theta_star, config.attack, context.generator(2), context.checkpoints / "full"
    )
    after["random, 2n candidates"] = fitted_energy(released, full.x_hat, (full.labels + 1) / 2, alpha)
    metrics = {
        "n_train": config.n_train,
        **released.metrics(),
        "energy_fitted": before,
        "energy_after_attack": after,
        "matches_after_attack": {name: table["matches"] for name, table in matched.items()},
        **{
            f"{key}_after_attack": {name: table[key] for name, table in matched.items()}
            for key in ("null", "nulls", "best_null", "best_null_name", "excess")
        },
    }
    arrays |= {"x_train": images.train[truth_order], "mean": images.mean, "y": y, "x_init": images.init[start_order]}
    return Outcome(metrics, truth_claims(metrics), arrays)


def truth_claims(metrics: dict) -> list[Claim]:
    """The paper's thesis in energies; and what "the loss of the original data" is."""
    before, after = metrics["energy_fitted"], metrics["energy_after_attack"]
    found, null = (metrics[f"{kind}_after_attack"]["partition"]["ncc_0.6"] for kind in ("matches", "null"))
    partition = {key: metrics[f"{key}_after_attack"]["partition"] for key in ("best_null", "best_null_name")}
    as_good = verdict(after["partition"] <= before["truth"])
    return [
        Claim(
            "truth-energy",
            "",
            "The true training images are not the minimum: reconstructions have a lower energy than they do.",
            "",
            f"share of layer 1 unexplained: truth {before['truth']:.1%}, reconstructions {after['random']:.1%} with as "
            f"many candidates, {after['random, 2n candidates']:.1%} with twice as many",
            f"images of the partition {before['partition']:.1%}, noise {before['random']:.1%}",
            "finding",
        ),
        Claim(
            "truth-partition-as-good",
            "1, 4.4",
            "Images that were never trained on satisfy the objective as well as the training images do.",
            "argued from Figs. 3, 4, 9",
            f"energy after the attack from the partition {after['partition']:.1%}, but {found} of its results are by "
            f"then training images (NCC 0.6; best null: {best_text(partition)}, held out: {null}); from the truth "
            f"{after['truth']:.1%}",
            f"before it: partition {before['partition']:.1%}, truth {before['truth']:.1%}",
            "partly" if as_good == "reproduced" and found > null else as_good,
        ),
    ]


# ------------------------------------------------------------------------------ chapter 12: true from false?


def attack_once(
    config: DecoRecoAdversary, context: Context, images: Centred, offset: int
) -> tuple[dict[str, Tensor], Tensor, Recovered, dict[str, Tensor]]:
    """Train, recover, measure: (evidence, which candidates are true (m,), reconstructions, nulls)."""
    released = train_released(context, images, config.width, config.train_steps, offset)
    found = recover(
        released.network,
        released.theta_star,
        config.attack,
        context.generator(20 + offset),
        context.checkpoints / f"attack-{offset}",
    )
    measured = evidence(released.network, released.theta_star, found, config.attack.alpha, config.attack.layer_weights)
    nulls = nulls_of(context, images, released.network, released.theta_star, len(found.x_hat), found.basis)
    return measured, is_true(found.x_hat, images, config.threshold), found, nulls


def is_true(x: Tensor, images: Centred, threshold: float) -> Tensor:
    """Which of the candidates (m, d) have NCC above the threshold with a training image, and less with any held-out."""
    score = nearest(x, images.train, "ncc").score
    return (score > threshold) & (score > nearest(x, images.held_out, "ncc").score)


def run_adversary(config: DecoRecoAdversary, context: Context) -> Outcome:
    """A shadow net on the partition's images teaches what true looks like; then the released nets, each trained on
    images of its own, are judged by it."""
    sets = context.datasets(config.n_train, config.networks, config.n_train)
    shadow = Centred.from_data(sets[0], context.device, released="init")
    measured, true, _, _ = attack_once(config, context, shadow, offset=0)
    trainable = 0 < int(true.sum()) < len(true)
    model = shadow_classifier(measured, true) if trainable else None
    rows: dict[str, list] = {name: [] for name in (*EVIDENCE, "combined")}
    share, last = [], None
    null_share: dict[str, list[float]] = {}
    counted = []
    for k, data in enumerate(sets, start=1):
        images = Centred.from_data(data, context.device)
        measured, true, last, nulls = attack_once(config, context, images, offset=k)
        for name, x in nulls.items():
            null_share.setdefault(name, []).append(is_true(x, images, config.threshold).float().mean().item())
        counted.append(null_table(nulls, images.train, images.held_out, images.mean, last.x_hat))
        truth = true.cpu().numpy()
        if not 0 < truth.sum() < len(truth):
            continue
        share.append(float(truth.mean()))
        scores = {name: measured[name].cpu().numpy() for name in EVIDENCE}
        if model is not None:
            scores["combined"] = model.predict_proba(features(measured))[:, 1]
        for name, score in scores.items():
            rows[name].append(judge(truth, score))
    null_share_true = {name: mean_sd(values) for name, values in null_share.items()}
    metrics = {
        "n_train": config.n_train,
        "width": config.width,
        "networks": len(share),
        "share_true": mean_sd(share),
        "null_share_true": null_share_true,
        "best_null_name": max(null_share_true, key=lambda name: null_share_true[name]["mean"]),
        "counts": counted,
        "evidence": {name: summary(runs) for name, runs in rows.items() if runs},
    }
    assert last is not None
    arrays = {
        f"{kind}_{name}": torch.tensor(np.stack([run[kind] for run in runs]))
        for name, runs in rows.items()
        for kind in ("roc", "precision")
        if runs
    }
    return Outcome(metrics, adversary_claims(metrics), arrays)


def judge(truth: np.ndarray, score: np.ndarray) -> dict:
    """ROC AUC, average precision, precision among the 10, 20 and 40 best, and both curves on a common grid."""
    false_rate, true_rate, _ = roc_curve(truth, score)
    precision, recall, _ = precision_recall_curve(truth, score)
    best = truth[np.argsort(-score)]
    return {
        "auc": float(roc_auc_score(truth, score)),
        "average_precision": float(average_precision_score(truth, score)),
        **{f"precision_at_{k}": float(best[:k].mean()) for k in (10, 20, 40)},
        "roc": np.interp(GRID, false_rate, true_rate),
        "precision": np.interp(GRID, recall[::-1], precision[::-1]),
    }


def summary(runs: list[dict]) -> dict:
    """Mean and standard deviation over networks, and so over images, of every number in `judge`."""
    return {key: mean_sd([run[key] for run in runs]) for key in runs[0] if key not in ("roc", "precision")}


def mean_sd(values: list[float]) -> dict:
    """{"mean", "sd"}; sd 0 of a single value, NaN-free for none."""
    array = np.array(values or [0.0])
    return {"mean": float(array.mean()), "sd": float(array.std(ddof=1)) if len(array) > 1 else 0.0}


def adversary_claims(metrics: dict) -> list[Claim]:
    """The paper's thesis, put to the test."""
    found = metrics["evidence"]
    if not found:
        sentence, judgement = "no network gave both true and false reconstructions", "reproduced"
    else:
        name = "combined" if "combined" in found else max(found, key=lambda key: found[key]["auc"]["mean"])
        best = found[name]
        sentence = (
            f"AUC {best['auc']['mean']:.2f} ± {best['auc']['sd']:.2f} ({name}); of the 20 he trusts most "
            f"{best['precision_at_20']['mean']:.0%} ± {best['precision_at_20']['sd']:.0%} are true"
        )
        if best["auc"]["mean"] - 2 * best["auc"]["sd"] <= 0.5:
            judgement = "reproduced"
        else:  # he ranks better than chance; whether he can trust what he ranks first is another matter
            judgement = "partly" if best["precision_at_10"]["mean"] < 0.9 else "not reproduced"
    return [
        Claim(
            "adversary-cannot-tell",
            "1, 5",
            "An adversary without the training data cannot tell true from false reconstructions.",
            "argued",
            sentence,
            f"AUC 0.5; {metrics['share_true']['mean']:.0%} of all candidates are true, and "
            f"{metrics['null_share_true'][metrics['best_null_name']]['mean']:.0%} of "
            f"{NULL_NAMES[metrics['best_null_name']]} would be",
            judgement,
        )
    ]


TRUTH = Experiment(
    name="decoreco-truth",
    chapter="11-decoreco-truth",
    section="4.4",
    summary="the energy of the true training set, of other images and of reconstructions, at equal footing",
    cost={"smoke": "5 s", "laptop": "2 min", "paper": "an hour"},
    configs=DECORECO_TRUTH,
    run=run_truth,
    figures={"energy": plots.plot_energies},
)
ADVERSARY = Experiment(
    name="decoreco-adversary",
    chapter="12-decoreco-adversary",
    section="1",
    summary="can an adversary tell true from false reconstructions? ROC and precision over networks",
    cost={"smoke": "10 s", "laptop": "4 min", "paper": "hours"},
    configs=DECORECO_ADVERSARY,
    run=run_adversary,
    figures={"roc": plots.plot_roc},
)
