"""Chapter 6: the first layer is a mixture of the training images; blind source separation unmixes it."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import torch
from sklearn.decomposition import FastICA
from sklearn.metrics import roc_auc_score
from torch import Tensor

from recon.attacks.decoreco import half_and_half
from recon.attacks.recover import recover
from recon.attacks.separation import Released, Separated, derivatives, separate
from recon.chapters.base import Context, Experiment
from recon.chapters.decoreco_shared import (
    Centred,
    ReleasedNet,
    best_text,
    match_table,
    nulls_of,
    train_released,
)
from recon.chapters.plots import separation as plots
from recon.chapters.profiles import SEPARATION, Separation
from recon.chapters.separation_shared import SEPARATION_STREAM, is_true, others_of, smears
from recon.scoring.certainty import EVIDENCE, assessed, calibrated, evidence, gate_agreement, probability
from recon.scoring.matching import one_to_one, padded
from recon.scoring.nulls import clears
from recon.store.results import Claim, Outcome, verdict

SHAPE = (3, 32, 32)
SMEARS = 10


def run(config: Separation, context: Context) -> Outcome:
    """Train, separate, count; the same by simpler means; refined by stationarity; and how sure the adversary can be."""
    images = Centred.of(context, config.n_train)
    released = train_released(context, images, config.width, config.train_steps)
    w1 = first_layer(released)
    start = time.perf_counter()
    found = separate(Released(w1), SHAPE, config.attack, context.generator(SEPARATION_STREAM))
    seconds = time.perf_counter() - start
    nulls = nulls_of(context, images, released.network, released.theta_star, len(found.x_hat), found.basis)
    others = others_of(context, images.train_index, images.mean)
    metrics = {
        "n_train": len(images.train),
        "width": config.width,
        **released.metrics(),
        "recon_seconds": round(seconds, 2),
        "rank": len(found.basis),
        "restarts_agree": found.stability.mean().item(),
        **with_span_null(match_table(found.x_hat, images, nulls)),
    }
    metrics["simpler"] = simpler(found, w1, config, context, images, nulls)
    metrics["refined"], better = refined(found, released, config, context, images, nulls)
    metrics["certainty"], said, so = certainty(config, context, images, released, found, others)
    arrays = {
        "x_hat": found.x_hat,
        "judged_probability": said,
        "judged_true": so,
        "true": is_true(found, images.train, others),
        "sparsity": found.sparsity,
        "stability": found.stability,
        "share": found.share,
        "x_hat_refined": better,
        "smears": smears(w1, SMEARS),
        "train_index": images.train_index,
        "heldout_index": images.held_out_index,
        "x_train": images.train,
        "x_held_out": images.held_out,
        "mean": images.mean,
        **best_null_images(images.train, nulls),
    }
    return Outcome(metrics, claims(metrics), arrays)


def first_layer(released: ReleasedNet) -> Tensor:
    """w1 (h, d) of a released network."""
    return released.network.unflatten(released.theta_star)["w1"]


def with_span_null(table: dict) -> dict:
    """`match_table` with span_null: the larger of mixtures of the searched span and of the training images."""
    span, mixtures = table["nulls"]["span"], table["nulls"]["mixtures"]
    return {**table, "span_null": {key: max(span[key], mixtures[key]) for key in span}}


def best_null_images(train: Tensor, nulls: dict[str, Tensor]) -> dict[str, Tensor]:
    """For every training image (n, d) the candidate that costs nothing which is assigned to it, of the null whose best
    ten are best."""
    assigned = {name: one_to_one(train, padded(x, len(train))) for name, x in nulls.items()}
    name = max(assigned, key=lambda each: assigned[each].score.topk(min(10, len(train))).values.sum().item())
    match = assigned[name]
    return {"x_null": padded(nulls[name], len(train))[match.index], "x_null_ncc": match.score}


# ------------------------------------------------------------------------------------------------ simpler attacks


def simpler(
    found: Separated, w1: Tensor, config: Separation, context: Context, images: Centred, nulls: dict[str, Tensor]
) -> dict:
    """The same count by scikit-learn's FastICA in all directions at once, and by our contrast without stages."""
    one_stage = replace(config.attack, first_rank=None, restarts=1)
    at_once = separate(Released(w1), SHAPE, one_stage, context.generator(SEPARATION_STREAM)).x_hat
    ica, seconds = fast_ica(found.basis, context.seed)
    rows = {"FastICA": torch.cat([ica, -ica]), "one stage": at_once}
    tables = {name: match_table(x, images, nulls) for name, x in rows.items()}
    kept = {name: {key: table[key] for key in ("matches", "null", "excess")} for name, table in tables.items()}
    kept["FastICA"]["seconds"] = round(seconds, 2)
    return kept


def fast_ica(basis: Tensor, seed: int) -> tuple[Tensor, float]:
    """Sources (r, d) by scikit-learn's FastICA on the derivatives of the basis (r, d), as it comes; and its seconds."""
    start = time.perf_counter()
    observed = derivatives(basis.cpu(), SHAPE).flatten(1).numpy().T
    model = FastICA(len(basis), whiten="unit-variance", random_state=seed % 2**32, tol=1e-3, max_iter=300)
    model.fit(observed)
    unmixing = torch.from_numpy(model.components_.astype(np.float32)).to(basis)
    return unmixing @ basis, time.perf_counter() - start


# ----------------------------------------------------------------------------------------------------- refinement


def refined(
    found: Separated, released: ReleasedNet, config: Separation, context: Context, images: Centred, nulls: dict
) -> tuple[dict, Tensor]:
    """DecoReco begun at the separated images; DecoReco from noise; separation of what DecoReco's candidates span."""
    attack = config.refine
    start = time.perf_counter()
    better = recover(
        released.network,
        released.theta_star,
        replace(attack, distinct=1.0, project=True),
        context.generator(2),
        context.checkpoints / "refined",
        start_of(found, attack.m, images),
    )
    seconds = time.perf_counter() - start
    noise = recover(released.network, released.theta_star, attack, context.generator(2), context.checkpoints / "noise")
    both = separate(Released(noise.x_hat), SHAPE, config.attack, context.generator(SEPARATION_STREAM))
    sets = {"separated, then DecoReco": better.x_hat, "DecoReco": noise.x_hat, "DecoReco, then separated": both.x_hat}
    tables = {name: match_table(x, images, nulls) for name, x in sets.items()}
    kept = {name: {key: table[key] for key in ("matches", "null", "excess")} for name, table in tables.items()}
    return {"seconds": round(seconds, 2), **kept}, better.x_hat


def start_of(found: Separated, m: int, images: Centred) -> Tensor:
    """x_init (m, d) of DecoReco, labels −1 first: every source with both signs, once for each label, as far as m goes.

    Their size is that of a centred photograph; rows that are missing are zero.
    """
    half = len(half_and_half(m)) // 2
    both = torch.stack([found.sources, -found.sources], dim=1).flatten(0, 1)
    start = padded(both[:half], half)
    return torch.cat([start, start]).to(images.train)


# ------------------------------------------------------------------------------------------------------ certainty


def certainty(
    config: Separation, context: Context, images: Centred, released: ReleasedNet, found: Separated, others: Tensor
) -> tuple[dict, Tensor, Tensor]:
    """Calibrated on shadow networks, trained on the other partition; assessed on this network and on one that holds
    more images, where separation begins to fail: metrics, then probability and truth of every candidate, this network's
    first.  Also the AUC of each kind of evidence alone."""
    shadows = []
    for n in config.shadow_n:
        swapped = Centred.of(context, n, released="init")
        net = train_released(context, swapped, config.width, config.train_steps * n // config.n_train, offset=500 + n)
        unmixed = separate(Released(first_layer(net)), SHAPE, config.attack, context.generator(SEPARATION_STREAM))
        shadows.append(
            (unmixed, is_true(unmixed, swapped.train, others_of(context, swapped.train_index, swapped.mean)))
        )
    model = calibrated(shadows)
    judged = [(released, images, found, others)]
    for n in config.harder_n:
        more = Centred.of(context, n)
        net = train_released(context, more, config.width, config.train_steps * n // config.n_train, offset=n)
        unmixed = separate(Released(first_layer(net)), SHAPE, config.attack, context.generator(SEPARATION_STREAM))
        judged.append((net, more, unmixed, others_of(context, more.train_index, more.mean)))
    truth = [is_true(unmixed, part.train, strangers) for _, part, unmixed, strangers in judged]
    said = [probability(model, unmixed) for _, _, unmixed, _ in judged]
    each = {f"n = {len(part.train)}": assessed(p, t) for (_, part, _, _), p, t in zip(judged, said, truth, strict=True)}
    return (
        {
            **assessed(torch.cat(said), torch.cat(truth)),
            "networks": each,
            "single": single_auc(judged, torch.cat(truth)),
            "shadows": list(config.shadow_n),
        },
        torch.cat(said),
        torch.cat(truth),
    )


def single_auc(judged: list, truth: Tensor) -> dict[str, float | None]:
    """AUC of sparsity, stability, share, and of the agreement with the network's own gates, each alone."""
    columns = np.concatenate([evidence(unmixed) for _, _, unmixed, _ in judged])
    gates = torch.cat([gate_agreement(net.network, net.theta_star, unmixed) for net, _, unmixed, _ in judged])
    signals = {**dict(zip(EVIDENCE, columns.T, strict=True)), "gates": gates.detach().cpu().numpy()}
    if truth.all() or not truth.any():
        return dict.fromkeys(signals)
    return {name: float(roc_auc_score(truth.cpu().numpy(), values)) for name, values in signals.items()}


# --------------------------------------------------------------------------------------------------------- claims


def claims(metrics: dict) -> list[Claim]:
    """What the chapter says, with nulls; the rules were written before the runs that they judge."""
    matches, n = metrics["matches"], metrics["n_train"]
    sure = metrics["certainty"]
    ica = metrics["simpler"]["FastICA"]["matches"]
    ours = f"{matches['ncc_0.7']} of {n} above NCC 0.7, {matches['ncc_0.8']} above 0.8, from the first layer alone"
    null = f"above 0.7: {best_text(metrics, 'ncc_0.7')}; above 0.8: {best_text(metrics, 'ncc_0.8')}"
    found = clears(matches["ncc_0.7"], metrics["best_null"]["ncc_0.7"])
    knows = sure["precision_sure"] is not None and sure["precision_sure"] >= 0.95 and sure["recall_sure"] > 0.2
    return [
        Claim(
            "separation-unmixes",
            "",
            "Independent component analysis of pixel differences reads most training images out of the first layer.",
            "",
            ours,
            null,
            "finding" if found else "not reproduced",
        ),
        Claim(
            "separation-would-know",
            "1, 5",
            "An adversary without the training data cannot tell true from false reconstructions.",
            "argued",
            f"AUC {text(sure['auc'])}; {text(sure['precision_sure'])} of those rated above 0.95 are true, "
            f"which are {sure['recall_sure']:.2f} of all true ones ({sure['true']} of {sure['candidates']} candidates)",
            f"a guess: {sure['true'] / max(sure['candidates'], 1):.2f} are true",
            verdict(not knows),
        ),
        Claim(
            "separation-stages",
            "",
            "Searching few directions first, then more, finds more than searching all at once.",
            "",
            f"{matches['ncc_0.8']} of {n} above NCC 0.8 in stages, "
            f"{metrics['simpler']['one stage']['matches']['ncc_0.8']} at once, {ica['ncc_0.8']} by FastICA as it comes",
            null,
            "finding"
            if matches["ncc_0.8"] >= metrics["simpler"]["one stage"]["matches"]["ncc_0.8"]
            else "not reproduced",
        ),
    ]


def text(value: float | None) -> str:
    """Two digits, or "not defined"."""
    return "not defined" if value is None else f"{value:.2f}"


SEPARATION_EXPERIMENT = Experiment(
    name="separation",
    chapter="06-separation",
    section="",
    summary="blind source separation of the first layer: most training images in seconds",
    cost={"smoke": "20 s", "laptop": "4 min", "paper": "20 min"},
    configs=SEPARATION,
    run=run,
    figures={"all": plots.plot_all, "smears": plots.plot_smears, "reliability": plots.plot_reliability},
)
