"""Chapter 4's sentences, each with the paper's value, ours, the nulls and a verdict: from noise,
from the tuned scale, and from other photographs.

A verdict on the recipe comes from a run with Haim et al.'s full budget, converged or not, and from
no other; where the three yardsticks of `companion.chapters.yardstick` disagree, it is "partly".
"""

from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import normalize

from companion.chapters.base import Tensors
from companion.chapters.claims import claim
from companion.chapters.decoreco.experiment import Metrics, Sizes
from companion.chapters.decoreco.experiment_published import CHANCE, PublishedSizes
from companion.chapters.decoreco.experiment_published import Metrics as PublishedMetrics
from companion.chapters.evidence import thesis
from companion.chapters.pictures import (
    count_label,
    image_rows,
    levels,
    photographs,
)
from companion.chapters.reference_common import ReferenceArm, came_text, if_in_full
from companion.chapters.yardstick import LEVEL, blend_share, preference, recovery
from companion.chapters.yardstick import in_words as yardsticks
from companion.store.results import Claim, Result, graded, orders_below, verdict
from recon.images.pool import shape_of
from recon.scoring.matching import Competition, nearest, one_to_one, rescale

#: of a sentence, and of one that says the opposite
OPPOSITE = {"reproduced": "not reproduced", "not reproduced": "reproduced"}


def _recovers(name: str, arm: ReferenceArm, n: int, found: bool = True) -> Claim:
    """That images are recovered, or that none is found, by the yardsticks on an arm's matches of n
    images.
    """
    pair = arm.competition.ncc_06
    recovered = recovery(arm, pair, n)
    ours, null = yardsticks(arm, pair, n)
    judged = recovered.verdict
    return claim(
        name,
        {"found": ours, "came": came_text(arm)},
        null=null,
        verdict=if_in_full(arm, judged if found else OPPOSITE.get(judged, judged)),
        value=arm.matches.ssim_04,
        null_value=arm.nulls.held_out.ssim_04,
        margin=recovered.margin if found else -recovered.margin,
    )


def claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """Fig. 5: holds where no yardstick shows that images are recovered, fails where they do."""
    arm = metrics.variants.reference
    return [_recovers("decoreco-random-fails", arm, metrics.n_train, found=False)]


def published_claims(metrics: PublishedMetrics, _: PublishedSizes) -> list[Claim]:
    """That some resemble training images; and Figs. 6 and 7: more of the ten most similar
    natural-looking ones must resemble training images than in 99 % of lists of others, and one
    after the first fifty must not, and look as realistic as all but a few photographs do; "partly"
    where there is none. And the thesis.
    """
    arm = metrics.arm
    similar = metrics.shown.similar
    resemble = "reproduced" if similar.as_realistic else "partly"
    resemble = resemble if similar.p_value <= CHANCE else "not reproduced"
    return [
        _recovers("decoreco-tuned-recovers", arm, metrics.n_train),
        claim(
            "decoreco-some-are-false",
            {**similar, "came": came_text(arm)},
            verdict=if_in_full(arm, resemble),
            value=similar.true,
            null_value=similar.held_out_true,
        ),
        *([thesis(metrics.judged, arm)] if "judged" in metrics else []),
    ]


def partition_claims(metrics: Metrics, _: Sizes) -> list[Claim]:
    """ "start" asks for more than twice as many nearer to the start partition as to the training
    images, in proportion to how many there are of each: of m start images and n training images
    chance has m / (m + n). "moved" asks for a tenth of the results at most, and that more of them
    left their start for a training image than for a held-out one, which no blend prefers. A null
    that never had that start could not leave it, so there is none.
    """
    arm = metrics.variants.reference
    n = metrics.n_train
    m = arm.m
    stayed = arm.nearest_is_start_partition
    moved = arm.moved_to_training
    p_value = preference(Competition(moved, arm.moved_to_held_out, 1.0, 1.0), blend_share(n))
    some_few = p_value < LEVEL and moved - arm.moved_to_held_out <= 0.1 * m
    chance = m / (m + n)
    odds = stayed * n / max((m - stayed) * m, 1)
    by_ssim = Competition(arm.matches.ssim_04, arm.nulls.held_out.ssim_04, 1.0, 1.0)
    p_ncc = preference(arm.competition.ncc_06, 0.5)
    p_ssim = preference(by_ssim, 0.5)
    unlike = [p >= LEVEL for p in (p_ncc, p_ssim)]
    derived = {"n_train": n, "chance": chance, "p_value": p_value, "came": came_text(arm)}
    return [
        claim(
            "decoreco-partition-start",
            arm | derived,
            verdict=if_in_full(arm, verdict(odds > 2)),
            value=stayed / m,
            null_value=chance,
            margin=odds - 2,
        ),
        claim(
            "decoreco-partition-moved",
            arm | derived,
            verdict=if_in_full(arm, verdict(some_few)),
            value=moved,
            null_value=arm.moved_to_held_out,
            margin=orders_below(p_value, LEVEL),
        ),
        claim(
            "partition-resembles-nothing",
            arm | derived | {"p_ncc": p_ncc, "p_ssim": p_ssim},
            verdict=if_in_full(arm, graded(*unlike, best="reproduced")),
            value=arm.matches.ssim_04,
            null_value=arm.nulls.held_out.ssim_04,
            margin=-orders_below(min(p_ncc, p_ssim), LEVEL),
        ),
    ]


def selected(_: Metrics, arrays: Tensors) -> Tensors:
    """The eight training images that a result is most like, those results and their starts."""
    train = arrays["x_train"]
    x_hat = arrays["x_hat_random"]
    best = nearest(train, x_hat, "ncc")
    picked = best.score.argsort(descending=True)[:8]
    rows = best.index[picked]
    images = {"x_hat": x_hat[rows], "x_init": arrays["x_init_random"][rows]}
    return _group("best", arrays, images | {"train": train[picked]}, ncc=best.score[picked])


def _group(name: str, arrays: Tensors, images: Tensors, **scores: Tensor) -> Tensors:
    """Centred images as a figure shows them, plus the mean, stretched to [0, 1]; and scores."""
    pictures = {kind: levels(rescale(x + arrays["mean"])) for kind, x in images.items()}
    return {f"{name}.{kind}": array for kind, array in {**pictures, **scores}.items()}


@photographs
def plot_random(result: Result[Metrics]) -> Figure:
    """Fig. 5: the results of the published recipe that are most like a training image, with how
    many are above NCC 0.6, and how many of the best null; above them their starts, below them those
    training images.
    """
    recipe = count_label(result.metrics.variants.reference)
    return image_rows(
        [
            ("its starting\nimage", result.figure("best.x_init"), "none"),
            (recipe, result.figure("best.x_hat"), "recovered"),
            ("training\nimage", result.figure("best.train"), "training"),
        ],
        [[], _ncc(result, "best"), []],
    )


def _ncc(result: Result[Any], group: str) -> list[str]:
    return [f"{score:.2f}" for score in result.figure(f"{group}.ncc")]


PAIRS = 7  # of a reconstruction and a training image, in a row


def published_selected(_: PublishedMetrics, arrays: Tensors, n: int = PAIRS) -> Tensors:
    """The n best one-to-one matches; those of blends of the training images, at their contrast; and
    `similar_selected`.
    """
    train = arrays["x_train"]
    chosen = similar_selected(arrays, n)
    blends = train.norm(dim=1).median() * normalize(arrays["x_null"])
    for name, x in (("best", arrays["x_hat"]), ("null", blends)):
        match = one_to_one(train, x)
        picked = match.score.argsort(descending=True)[:n]
        pairs = {"x_hat": x[match.index[picked]], "train": train[picked]}
        chosen |= _group(name, arrays, pairs, ncc=match.score[picked])
    return chosen


def similar_selected(arrays: Tensors, n: int = PAIRS) -> Tensors:
    """By SSIM with the nearest training image, each of these once: the first n natural-looking
    reconstructions, and the first n after rank 50 that are false.
    """
    train = arrays["x_train"]
    mean = arrays["mean"]
    x = arrays["x_hat"][arrays["similar_rows"]]
    chosen = Tensors()
    alike = nearest(rescale(x + mean), train + mean, "ssim", shape_of(x.shape[1]))
    for name, ranks in (("first", range(len(x))), ("false", arrays["false_ranks"].tolist())):
        first = {int(alike.index[rank]): rank for rank in reversed(ranks)}  # of each training image
        rank = torch.tensor(sorted(first.values())[:n], dtype=torch.long)
        ranked = {"x_hat": x[rank], "train": train[alike.index[rank]]}
        chosen |= _group(name, arrays, ranked, rank=rank + 1, ssim=alike.score[rank])
    return chosen


@photographs
def plot_best(result: Result[PublishedMetrics]) -> Figure:
    """The best one-to-one matches with their training images; and those of blends."""
    labels = {"best": "best", "null": "baseline: best\nmixtures of\ntraining images"}
    groups = [(name, label, _ncc(result, name)) for name, label in labels.items()]
    return _pairs(result, "training\nimage", groups)


@photographs
def plot_ranked(result: Result[PublishedMetrics]) -> Figure:
    """Figs. 6 and 7: natural-looking reconstructions with their rank by SSIM with the nearest
    training image, which stands below them: the first, and false ones after rank 50.
    """
    groups = []
    for name, label in (("first", "the first"), ("false", "false, after\nrank 50")):
        ranks = zip(result.figure(f"{name}.rank"), result.figure(f"{name}.ssim"), strict=True)
        groups.append((name, label, [f"rank {rank}: {score:.2f}" for rank, score in ranks]))
    return _pairs(result, "nearest\ntraining image", groups)


def _pairs(result: Result[Any], below: str, groups: list[tuple[str, str, list[str]]]) -> Figure:
    """Groups (name, label, titles) of reconstructions, above their training images."""
    rows = []
    for name, label, _ in groups:
        by = "baseline" if name == "null" else "recovered"
        for kind, words, frame in (("x_hat", label, by), ("train", below, "training")):
            images = [*result.figure(f"{name}.{kind}")]
            rows.append((words, images + [None] * (PAIRS - len(images)), frame))
    return image_rows(rows, [titles for *_, above in groups for titles in (above, [])])


#: what is near to a result: an array, its label, and its frame
NEAREST = {
    "x_init_partition": ("nearest\nstarting image", "none"),
    "x_train": ("nearest\ntraining image", "training"),
    "x_held_out": ("baseline: nearest\nheld-out image", "baseline"),
}


def partition_selected(_: Metrics, arrays: Tensors) -> Tensors:
    """Eight results of the first half, evenly, and the nearest image of each kind."""
    x_hat = arrays["x_hat_partition"]
    x_hat = x_hat[torch.linspace(0, len(x_hat) // 2, 8).long()]
    chosen = _group("results", arrays, {"x_hat": x_hat})
    for name in NEAREST:
        match = nearest(x_hat, arrays[name], "ncc")
        chosen |= _group(name, arrays, {"nearest": arrays[name][match.index]}, ncc=match.score)
    return chosen


@photographs
def plot_partition(result: Result[Metrics]) -> Figure:
    """Fig. 9: results of the published recipe with their nearest image of the start partition, of
    the training set and, the null, of as many held-out images; with how many have a training image
    above NCC 0.6, and how many of the best null.
    """
    recipe = count_label(result.metrics.variants.reference)
    rows = [(recipe, result.figure("results.x_hat"), "recovered")]
    rows += [
        (words, result.figure(f"{name}.nearest"), frame) for name, (words, frame) in NEAREST.items()
    ]
    return image_rows(rows, [[], *(_ncc(result, name) for name in NEAREST)])


FIGURES = {"rows": plot_random}
