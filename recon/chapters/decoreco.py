"""Chapters 8 to 10: DecoReco, §4.4, from an untuned start, with the tuned scale, and from the other partition."""

from __future__ import annotations

import time
from dataclasses import replace

import torch
from torch import Tensor

from recon.attacks.recover import Recovered, Settings, recover
from recon.attacks.reference import TUNED_SCALE, reference_recover
from recon.chapters.base import Context, Experiment
from recon.chapters.decoreco_shared import (
    NULL_NAMES,
    Centred,
    ReleasedNet,
    best_text,
    match_table,
    nulls_of,
    ranks,
    train_released,
)
from recon.chapters.plots import decoreco as plots
from recon.chapters.profiles import (
    DECORECO_PARTITION,
    DECORECO_RANDOM,
    DECORECO_SIZE,
    DECORECO_TUNED,
    DecoReco,
    DecoRecoSize,
    DecoRecoUntuned,
)
from recon.scoring.matching import nearest, one_to_one, padded
from recon.scoring.nulls import clears, null_curves
from recon.store.results import Claim, Outcome, verdict

TOP = 40  # reconstructions that Fig. 8 shows


def attack_metrics(found: Recovered, seconds: float) -> dict:
    """What the adversary can say: energies, the scale he chose, the dimension he searched."""
    best = int(found.energy.argmin())
    return {
        "recon_seconds": round(seconds, 2),
        "energy": found.energy.tolist(),
        "energy_by_layer": found.by_layer[best].tolist(),
        "multiplier_scale": found.multiplier_scale,
        "searched_dimensions": found.x_hat.shape[1] if found.basis is None else len(found.basis),
    }


def timed_recover(
    context: Context, released: ReleasedNet, settings: Settings, name: str, x_init: Tensor | None = None
) -> tuple[Recovered, float]:
    """`recover` with this experiment's generator and a checkpoint folder of its own; and its seconds."""
    start = time.perf_counter()
    found = recover(
        released.network,
        released.theta_star,
        settings,
        context.generator(2),
        context.checkpoints / name,
        x_init,
    )
    return found, time.perf_counter() - start


def shared_arrays(found: Recovered, images: Centred) -> dict[str, Tensor]:
    """Reconstructions and all that is needed to match them again; images centred by `mean`."""
    return {
        "x_hat": found.x_hat,
        "multipliers": found.multipliers,
        "labels": found.labels,
        "contribution": found.contribution,
        "agreement": found.agreement,
        "history": found.history,
        "train_index": images.train_index,
        "heldout_index": images.held_out_index,
        "x_train": images.train,
        "x_held_out": images.held_out,
        "mean": images.mean,
    }


def gallery(context: Context, without: Tensor, mean: Tensor) -> Tensor:
    """Every image of the pool but those with index in `without`, centred (g, d): what ranks are taken among."""
    pool = context.pool
    kept = ~torch.isin(torch.from_numpy(pool.index), without)
    return torch.from_numpy(pool.images)[kept].flatten(1).to(mean) / 255 - mean


# ------------------------------------------------------------------------------------------- tuned: Figs. 6–8


def run_tuned(config: DecoReco, context: Context) -> Outcome:
    """Train, recover, and match: training images; as nulls as many held-out ones, and what needs no attack."""
    images = Centred.of(context, config.n_train)
    released = train_released(context, images, config.width, config.train_steps)
    found, seconds = timed_recover(context, released, config.attack, "tuned")
    rank = ranks(found.x_hat, images.train, gallery(context, images.train_index, images.mean))
    null_rank = ranks(found.x_hat, images.held_out, gallery(context, images.held_out_index, images.mean))
    nulls = nulls_of(context, images, released.network, released.theta_star, config.attack.m, found.basis)
    metrics = {
        "n_train": config.n_train,
        "m": config.attack.m,
        **released.metrics(),
        **attack_metrics(found, seconds),
        **match_table(found.x_hat, images, nulls),
        "top40_rank_1": int((rank[:TOP] == 1).sum()),
        "top40_rank_at_most_10": int((rank[:TOP] <= 10).sum()),
        "null_top40_rank_at_most_10": int((null_rank[:TOP] <= 10).sum()),
        "top40_shown": min(TOP, len(rank)),
    }
    arrays = {**shared_arrays(found, images), "rank": rank, **null_arrays(nulls, images)}
    return Outcome(metrics, tuned_claims(metrics), arrays)


def null_arrays(nulls: dict[str, Tensor], images: Centred, shown: int = 10) -> dict[str, Tensor]:
    """Per null the sorted NCC (n,) of the training images; and of each its best candidates (≤ shown, d) with the rows
    of the training images they match."""
    arrays = {f"null_ncc_{name}": curve for name, curve in null_curves(nulls, images.train).items()}
    for name, x in nulls.items():
        candidates = padded(x, len(images.train))
        match = one_to_one(images.train, candidates)
        best = match.score.argsort(descending=True)[:shown]
        arrays |= {f"null_best_{name}": candidates[match.index[best]], f"null_best_row_{name}": best}
    return arrays


def tuned_claims(metrics: dict) -> list[Claim]:
    """§4.4's sentences on the tuned attack, and what counting without a null does.

    "recovers" asks for more than twice the best null, and for more training than held-out images in competition.
    """
    matches, null, n = metrics["matches"], metrics["null"], metrics["n_train"]
    shown, among_ten = metrics["top40_shown"], metrics["top40_rank_at_most_10"]
    chance = metrics["competition"]["ncc_0.6"]
    counted = f"{matches['ncc_0.6']} of {n} training images above NCC 0.6, one-to-one"
    held_out = f"{null['ncc_0.6']} of {n} held-out images"
    return [
        Claim(
            "decoreco-tuned-recovers",
            "4.4, Fig. 8",
            "With the tuned scale of the start, reconstructions resemble training images.",
            "40 shown (visual)",
            f"{counted}, {metrics['excess']['ncc_0.6']:+d} over the best null; in competition with held-out images p = "
            f"{chance['p_value']:.0e} (exchangeable given the candidates, which those in the span are not)",
            f"{best_text(metrics)}; {held_out}",
            verdict(chance["p_value"] < 1e-3 and matches["ncc_0.6"] > 2 * metrics["best_null"]["ncc_0.6"]),
        ),
        Claim(
            "decoreco-some-are-false",
            "4.4, Figs. 6, 7",
            "Most natural-looking reconstructions have a training image among their ten nearest images, some do not.",
            "4 of 5; the fifth at rank 51",
            f"{among_ten} of the {shown} that contribute most",
            f"with a held-out image among their ten nearest: {metrics['null_top40_rank_at_most_10']}",
            verdict(0.5 * shown < among_ten < shown),
        ),
        Claim(
            "decoreco-counting-flatters",
            "",
            "Counting every training image whose best candidate is above NCC 0.6, shared or not, flatters the attack.",
            "the reference code's direction",
            f"{metrics['per_image_ncc_0.6']} so, {matches['ncc_0.6']} one-to-one",
            f"held out: {metrics['null_per_image_ncc_0.6']} so, {null['ncc_0.6']} one-to-one",
            "finding" if metrics["per_image_ncc_0.6"] > matches["ncc_0.6"] else "not reproduced",
        ),
    ]


# ------------------------------------------------------------------------------------------ untuned: Fig. 5


def run_random(config: DecoRecoUntuned, context: Context) -> Outcome:
    """Start N(0, 1): by the reference recipe, as the paper; by our optimiser; and within the span of w1.

    And the reference recipe from its tuned scale, with the same budget, so that one sees what the scale does there.
    """
    images = Centred.of(context, config.n_train)
    released = train_released(context, images, config.width, config.train_steps)
    by_variant: dict = {}
    arrays: dict[str, Tensor] = {}
    m, weights = config.attack.m, (released.network, released.theta_star)
    nulls = nulls_of(context, images, *weights, m)
    for variant, scale in (("reference", config.attack.init_scale), ("reference, tuned scale", TUNED_SCALE)):
        reference, step_size = reference_recover(
            *(released.network, released.theta_star, config.attack.m, config.reference_steps, scale),
            context.generator(2),
            context.checkpoints / f"reference-{scale}.safetensors",
        )
        x_hat = reference.x_hat[0]
        by_variant[variant] = {
            "energy": reference.energy.tolist(),
            "energy_by_layer": reference.extra["accepted_by_layer"][0].tolist(),
            "step_size": step_size,
            **match_table(x_hat, images, nulls),
        }
        arrays |= {f"x_hat_{variant}": x_hat}
    for variant in ("pixels", "span"):
        settings = replace(config.attack, project=variant == "span")
        found, seconds = timed_recover(context, released, settings, variant)
        nulls = nulls_of(context, images, *weights, m, found.basis)
        by_variant[variant] = {**attack_metrics(found, seconds), **match_table(found.x_hat, images, nulls)}
        arrays |= {f"x_hat_{variant}": found.x_hat, f"contribution_{variant}": found.contribution}
        arrays |= {f"history_{variant}": found.history}
        span = found.basis if found.basis is not None else torch.empty(0)
    cleaned = arrays["x_hat_pixels"] @ span.mT @ span
    by_variant["pixels then span"] = match_table(cleaned, images, nulls)
    shared = {k: v for k, v in shared_arrays(found, images).items() if k in SHARED}
    arrays |= {**shared, "x_hat_cleaned": cleaned}
    metrics = {"n_train": config.n_train, "m": config.attack.m, **released.metrics(), **by_variant["reference"]}
    metrics["variants"] = by_variant
    return Outcome(metrics, random_claims(metrics), arrays)


SHARED = ("train_index", "heldout_index", "x_train", "x_held_out", "mean")


def random_claims(metrics: dict) -> list[Claim]:
    """§4.4's sentence on Fig. 5, and how far it depends on the optimiser.

    "fails" holds if at most three more training than held-out images are found, and in part if that is so only of the
    excess over the best null.  "needs no tuning" asks that both results in the span clear their best null.
    """
    variants, n = metrics["variants"], metrics["n_train"]
    reference = variants["reference"]

    def count(variant: str, part: str = "matches") -> int:
        return variants[variant][part]["ncc_0.6"]

    def cleared(variant: str) -> bool:
        return clears(count(variant), count(variant, "best_null"))

    ours = ("pixels", "pixels then span", "span")
    few = count("reference") - count("reference", "null") <= 3
    few_in_excess = count("reference", "excess") <= 3
    in_span = [cleared(variant) for variant in ours[1:]]
    return [
        Claim(
            "decoreco-random-fails",
            "4.4, Fig. 5",
            "From x ~ N(0, 1), variance not tuned, at most the first three reconstructions resemble natural images.",
            "at most 3 (visual)",
            f"{count('reference')} of {n} training images above NCC 0.6 by the reference's optimiser "
            f"({count('reference, tuned scale')} from its tuned scale, same budget)",
            f"{best_text(reference)}; {count('reference', 'null')} held-out images",
            "partly" if few_in_excess and not few else verdict(few),
        ),
        Claim(
            "decoreco-random-needs-no-tuning",
            "",
            "The untuned start is no protection: Adam and logarithmic multipliers find images from it, and the noise "
            "outside the span of w1 can be projected away.",
            "",
            f"above NCC 0.6: {count('pixels')} as they are, {count('pixels then span')} projected afterwards, "
            f"{count('span')} searched within the {variants['span']['searched_dimensions']} dimensions",
            "best null: "
            + ", ".join(best_text(variants[variant]) for variant in ours)
            + "; held out: "
            + ", ".join(str(count(variant, "null")) for variant in ours),
            "finding" if all(in_span) else "partly" if any(in_span) else "not reproduced",
        ),
    ]


# ----------------------------------------------------------------------------------------- partition: Fig. 9


def run_partition(config: DecoRecoUntuned, context: Context) -> Outcome:
    """Start from the other partition, centred like the training images: the reference recipe, and ours in pixel space
    and within the span."""
    images = Centred.of(context, config.n_train)
    released = train_released(context, images, config.width, config.train_steps)
    order = images.init_y.argsort(stable=True)  # the attack's labels: −1 first
    x_init = images.init[order]
    reference, step_size = reference_recover(
        *(released.network, released.theta_star, config.attack.m, config.reference_steps, 0.0),
        context.generator(2),
        context.checkpoints / "reference.safetensors",
        x_init=x_init,
    )
    m, weights = config.attack.m, (released.network, released.theta_star)
    nulls = nulls_of(context, images, *weights, m)
    by_variant: dict = {
        "reference": {
            "energy": reference.energy.tolist(),
            "energy_by_layer": reference.extra["accepted_by_layer"][0].tolist(),
            "step_size": step_size,
            **match_table(reference.x_hat[0], images, nulls),
            **start_metrics(reference.x_hat[0], x_init, images, nulls),
        }
    }
    arrays = {"x_hat_reference": reference.x_hat[0]}
    for variant in ("pixels", "span"):
        settings = replace(config.attack, project=variant == "span", distinct=1.0)
        found, seconds = timed_recover(context, released, settings, variant, x_init)
        nulls = nulls_of(context, images, *weights, m, found.basis)
        by_variant[variant] = {
            **attack_metrics(found, seconds),
            **match_table(found.x_hat, images, nulls),
            **start_metrics(found.x_hat, x_init[found.row], images, nulls),
        }
        arrays |= {f"x_hat_{variant}": found.x_hat, f"contribution_{variant}": found.contribution}
        arrays |= {f"start_{variant}": x_init[found.row]}
    shared = {k: v for k, v in shared_arrays(found, images).items() if k in SHARED}
    arrays |= {**shared, "x_init": x_init, "partition_index": images.init_index[order.cpu()]}
    metrics = {"n_train": config.n_train, "m": config.attack.m, **released.metrics(), **by_variant["reference"]}
    metrics["variants"] = by_variant
    return Outcome(metrics, partition_claims(metrics), arrays)


def start_metrics(x_hat: Tensor, x_init: Tensor, images: Centred, nulls: dict[str, Tensor]) -> dict:
    """Where results ended: nearest, by NCC, to which set; and how many crossed over to a training image.

    x_hat (m, d), and row by row where each began, x_init (m, d).  "Crossed over": nearer to a training image than to
    any start, and above 0.6.  nulls_moved: as many as cross so of candidates that cost nothing, and of the results to
    held-out images; best_null_moved, best_null_moved_name: the most.
    """
    to_any = nearest(x_hat, torch.cat([x_init, images.train]), "ncc").index
    to_init, to_train = nearest(x_hat, x_init, "ncc"), nearest(x_hat, images.train, "ncc")
    to_held_out = nearest(x_hat, images.held_out, "ncc")

    def moved(x: Tensor) -> int:
        near, start = nearest(x, images.train, "ncc").score, nearest(x, x_init, "ncc").score
        return int(((near > start) & (near > 0.6)).sum())

    held_out = int(((to_held_out.score > to_init.score) & (to_held_out.score > 0.6)).sum())
    nulls_moved = {**{name: moved(x) for name, x in nulls.items()}, "held_out": held_out}
    best = max(nulls_moved, key=lambda name: nulls_moved[name])
    return {
        "nearest_is_own_start": int((to_any == torch.arange(len(x_hat), device=to_any.device)).sum()),
        "nearest_is_start_partition": int((to_init.score > to_train.score).sum()),
        "moved_to_training": moved(x_hat),
        "moved_to_held_out": held_out,
        "nulls_moved": nulls_moved,
        "best_null_moved": nulls_moved[best],
        "best_null_moved_name": best,
        "ncc_to_start_partition": to_init.score.mean().item(),
        "ncc_to_training": to_train.score.mean().item(),
        "ncc_to_held_out": to_held_out.score.mean().item(),
    }


def partition_claims(metrics: dict) -> list[Claim]:
    """§4.4's sentences on Fig. 9 for the reference recipe; and what a better optimiser does from the same start.

    "moved" asks for some and few more than the held-out images, and holds in part if the best null has as many;
    "optimiser" asks that both of our results clear the best null.
    """
    m, variants = metrics["m"], metrics["variants"]
    stayed, moved = metrics["nearest_is_start_partition"], metrics["moved_to_training"]
    ours, span = variants["pixels"], variants["span"]
    some_few = 0 < moved - metrics["moved_to_held_out"] <= 0.1 * m
    cleared = [clears(found["moved_to_training"], found["best_null_moved"]) for found in (ours, span)]

    def best_moved(found: dict) -> str:
        return f"{found['best_null_moved']} ({NULL_NAMES[found['best_null_moved_name']]})"

    return [
        Claim(
            "decoreco-partition-start",
            "4.4, Fig. 9",
            "Started from another CIFAR partition, most results reflect the images of the initialisation.",
            "most (visual)",
            f"{stayed} of {m} are nearest to an image of the start partition, {metrics['nearest_is_own_start']} to "
            "their own, by the reference recipe",
            f"mean NCC {metrics['ncc_to_start_partition']:.2f} to the start, {metrics['ncc_to_training']:.2f} to "
            f"training and {metrics['ncc_to_held_out']:.2f} to held-out images",
            verdict(stayed > 0.5 * m),
        ),
        Claim(
            "decoreco-partition-moved",
            "4.4, Fig. 9",
            "A single training image appears among the results.",
            "1 of those shown",
            f"{moved} of {m} left their start for a training image, NCC above 0.6, by the reference recipe",
            f"best null {best_moved(metrics)}; {metrics['moved_to_held_out']} for a held-out image",
            "partly" if some_few and moved <= metrics["best_null_moved"] else verdict(some_few),
        ),
        Claim(
            "decoreco-partition-optimiser",
            "",
            "That the start comes back is the optimiser's doing: with Adam and logarithmic multipliers training images "
            "replace it.",
            "",
            f"{ours['moved_to_training']} of {m} left their start for a training image in all pixels, "
            f"{span['moved_to_training']} in the span; nearest to the start partition are still "
            f"{ours['nearest_is_start_partition']} and {span['nearest_is_start_partition']}",
            f"best null: {best_moved(ours)} and {best_moved(span)}; {ours['moved_to_held_out']} and "
            f"{span['moved_to_held_out']} for a held-out image",
            "finding" if all(cleared) else "partly" if any(cleared) else "not reproduced",
        ),
    ]


# ------------------------------------------------------------------------------- against the number of images


def run_size(config: DecoRecoSize, context: Context) -> Outcome:
    """The same attack on nets trained on more and more images: what share comes out, with its null.

    At seed 0 each training set holds the smaller ones; at other seeds every size has its own block of images.
    """
    rows = []
    for n_train in config.n_trains:
        images = Centred.of(context, n_train)
        released = train_released(context, images, config.width, config.train_steps, offset=n_train)
        settings = replace(config.attack, m=2 * n_train)
        found, seconds = timed_recover(context, released, settings, f"n-{n_train}")
        nulls = nulls_of(context, images, released.network, released.theta_star, 2 * n_train, found.basis)
        table = match_table(found.x_hat, images, nulls)
        rows.append({"n_train": n_train, **released.metrics(), **attack_metrics(found, seconds), **table})
    metrics = {"n_train": max(config.n_trains), "sizes": rows}
    curve = {
        name: torch.tensor([row[part]["ncc_0.6"] / row["n_train"] for row in rows])
        for name, part in (("share", "matches"), ("null", "null"), ("best_null", "best_null"))
    }
    return Outcome(metrics, size_claims(rows), {"n_trains": torch.tensor(config.n_trains), **curve})


def size_claims(rows: list[dict]) -> list[Claim]:
    """The share that comes out falls with n.

    Judged by its excess over the best null: smaller for the most images than for the fewest, where it must clear it.
    """
    first, last = rows[0], rows[-1]
    cleared = clears(first["matches"]["ncc_0.6"], first["best_null"]["ncc_0.6"])
    falls = last["excess"]["ncc_0.6"] / last["n_train"] < first["excess"]["ncc_0.6"] / first["n_train"]

    def listed(part: str) -> str:
        return ", ".join(f"{row[part]['ncc_0.6']} of {row['n_train']}" for row in rows)

    return [
        Claim(
            "decoreco-size",
            "",
            "At a fixed width the share of training images that come back falls as their number grows.",
            "",
            f"{listed('matches')}; over the best null " + ", ".join(f"{row['excess']['ncc_0.6']:+d}" for row in rows),
            "best null: " + ", ".join(best_text(row) for row in rows) + f"; held out: {listed('null')}",
            "finding" if cleared and falls else "not reproduced",
        )
    ]


RANDOM = Experiment(
    name="decoreco-random",
    chapter="08-decoreco-random",
    section="4.4",
    summary="DecoReco from an untuned N(0, 1) start fails, and why that is no protection",
    cost={"smoke": "5 s", "laptop": "1 min", "paper": "an hour"},
    configs=DECORECO_RANDOM,
    run=run_random,
    figures={"rows": plots.plot_random, "energy": plots.plot_random_energy},
)
TUNED = Experiment(
    name="decoreco-tuned",
    chapter="09-decoreco-tuned",
    section="4.4",
    summary="training images out of the weights, each count with its null",
    cost={"smoke": "5 s", "laptop": "3 min", "paper": "an hour"},
    configs=DECORECO_TUNED,
    run=run_tuned,
    figures={"matches": plots.plot_best, "top40": plots.plot_top, "scores": plots.plot_scores},
)
SIZE = Experiment(
    name="decoreco-size",
    chapter="09-decoreco-tuned",
    section="4.4",
    summary="how many training images come back, against how many there were",
    cost={"smoke": "5 s", "laptop": "3 min", "paper": "hours"},
    configs=DECORECO_SIZE,
    run=run_size,
    figures={"size": plots.plot_size},
)
PARTITION = Experiment(
    name="decoreco-partition",
    chapter="10-decoreco-partition",
    section="4.4",
    summary="DecoReco started from images that were never trained on",
    cost={"smoke": "5 s", "laptop": "1 min", "paper": "an hour"},
    configs=DECORECO_PARTITION,
    run=run_partition,
    figures={"rows": plots.plot_partition, "front": plots.plot_front},
)
