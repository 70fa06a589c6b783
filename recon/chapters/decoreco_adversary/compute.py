"""Chapter 12: a shadow net on the partition's images teaches what true looks like; then the released nets, each trained
on images of its own, are judged by it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score, roc_curve
from sklearn.pipeline import Pipeline
from torch import Tensor

from recon.attacks.recover import energy_gradient, recover
from recon.chapters.base import Context, Outcome, Tensors
from recon.chapters.common import nulls_of, train_released
from recon.chapters.decoreco_adversary.metrics import Judged, MeanSd, Metrics
from recon.chapters.decoreco_adversary.sizes import Sizes
from recon.chapters.tables import NullTable
from recon.images.bundle import Bundle
from recon.scoring.evidence import EVIDENCE, evidence, features, shadow_classifier, sharpness
from recon.scoring.matching import nearest
from recon.scoring.nulls import null_table

GRID = np.linspace(0, 1, 101)


@dataclass(frozen=True)
class Attempt:
    """One network attacked: evidence by kind (m,), which candidates are true (m,), reconstructions (m, d), nulls."""

    measured: dict[str, Tensor]
    true: Tensor
    x_hat: Tensor
    nulls: dict[str, Tensor]


@dataclass(frozen=True)
class Judgement:
    """One kind of evidence on one network: numbers, and both curves on `GRID`."""

    numbers: Judged[float]
    roc: np.ndarray
    precision: np.ndarray


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """The shadow net's answers are known to the adversary; those of the released nets score them only."""
    sets = context.datasets(sizes.n_train, sizes.networks, sizes.n_train)
    shadow = attack_once(sizes, context, Bundle.of(sets[0].swapped(), context.device), 0)
    model = shadow_classifier(shadow.measured, shadow.true) if _both(shadow.true) else None
    shares: list[float] = []
    null_shares: dict[str, list[float]] = {}
    counts: list[NullTable] = []
    judged: dict[str, list[Judgement]] = {name: [] for name in (*EVIDENCE, "combined")}
    for k, data in enumerate(sets, start=1):
        images = Bundle.of(data, context.device)
        attempt = attack_once(sizes, context, images, k)
        for name, x in attempt.nulls.items():
            null_shares.setdefault(name, []).append(is_true(x, images, sizes.threshold).float().mean().item())
        counts.append(
            null_table(attempt.nulls, images.train, images.held_out, images.mean, attempt.x_hat, images.shape)
        )
        if _both(attempt.true):
            truth = attempt.true.cpu().numpy()
            shares.append(float(truth.mean()))
            for name, score in _scores(attempt, model).items():
                judged[name].append(judge(truth, score))
    null_share_true = {name: mean_sd(values) for name, values in null_shares.items()}
    metrics = Metrics(
        n_train=sizes.n_train,
        width=sizes.width,
        networks=len(shares),
        share_true=mean_sd(shares),
        null_share_true=null_share_true,
        best_null_name=max(null_share_true, key=lambda name: null_share_true[name].mean),
        counts=counts,
        evidence={name: summary(runs) for name, runs in judged.items() if runs},
    )
    return Outcome(metrics, _curves(judged))


def attack_once(sizes: Sizes, context: Context, images: Bundle, k: int) -> Attempt:
    """Train network k, recover, measure."""
    released = train_released(context, images, sizes.width, sizes.train_steps, k)
    weights, stream = released.weights, context.stream("kkt.attack_again", k)
    found = recover(weights, sizes.attack, stream, context.checkpoints.inside(f"attack-{k}"))
    margins = found.labels * weights.network(weights.params, found.x_hat)
    curvature = sharpness(energy_gradient(weights, found, sizes.attack), found.x_hat)
    measured = evidence(found, margins, curvature)
    nulls = nulls_of(context, images, released.network, released.theta_star, len(found.x_hat), found.basis)
    return Attempt(measured, is_true(found.x_hat, images, sizes.threshold), found.x_hat, nulls)


def is_true(x: Tensor, images: Bundle, threshold: float) -> Tensor:
    """Which of the candidates (m, d) have NCC above the threshold with a training image, and less with any held-out."""
    score = nearest(x, images.train, "ncc").score
    return (score > threshold) & (score > nearest(x, images.held_out, "ncc").score)


def _both(true: Tensor) -> bool:
    """Whether there are true and false ones."""
    return 0 < int(true.sum()) < len(true)


def _scores(attempt: Attempt, model: Pipeline | None) -> dict[str, np.ndarray]:
    """Each kind of evidence (m,); and "combined", where the shadow net could teach."""
    scores = {name: attempt.measured[name].cpu().numpy() for name in EVIDENCE}
    if model is not None:
        scores["combined"] = model.predict_proba(features(attempt.measured))[:, 1]
    return scores


def judge(truth: np.ndarray, score: np.ndarray) -> Judgement:
    """Of truth (m,), both values present, and scores (m,), larger meaning "rather true"."""
    false_rate, true_rate, _ = roc_curve(truth, score)
    precision, recall, _ = precision_recall_curve(truth, score)
    best = truth[np.argsort(-score)]
    numbers = Judged(
        auc=float(roc_auc_score(truth, score)),
        average_precision=float(average_precision_score(truth, score)),
        precision_at_10=float(best[:10].mean()),
        precision_at_20=float(best[:20].mean()),
        precision_at_40=float(best[:40].mean()),
    )
    roc = np.interp(GRID, false_rate, true_rate)
    return Judgement(numbers, roc, np.interp(GRID, recall[::-1], precision[::-1]))


def summary(runs: list[Judgement]) -> Judged[MeanSd]:
    """Mean and standard deviation over networks of every number."""
    numbers = [run.numbers for run in runs]
    return Judged(
        auc=mean_sd([each.auc for each in numbers]),
        average_precision=mean_sd([each.average_precision for each in numbers]),
        precision_at_10=mean_sd([each.precision_at_10 for each in numbers]),
        precision_at_20=mean_sd([each.precision_at_20 for each in numbers]),
        precision_at_40=mean_sd([each.precision_at_40 for each in numbers]),
    )


def mean_sd(values: list[float]) -> MeanSd:
    """sd 0 of a single value, NaN-free for none."""
    array = np.array(values or [0.0])
    return MeanSd(mean=float(array.mean()), sd=float(array.std(ddof=1)) if len(array) > 1 else 0.0)


def _curves(judged: dict[str, list[Judgement]]) -> Tensors:
    """roc_… and precision_… of each kind of evidence, (networks, 101)."""
    arrays = {}
    for name, runs in judged.items():
        if runs:
            arrays[f"roc_{name}"] = torch.tensor(np.stack([run.roc for run in runs]))
            arrays[f"precision_{name}"] = torch.tensor(np.stack([run.precision for run in runs]))
    return arrays
