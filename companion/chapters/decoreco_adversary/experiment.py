"""Chapter 7: networks on images of their own are attacked; an adversary who practised on the others
judges each.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.decoreco_adversary.discrimination import (
    MEASURES,
    Measure,
    Scored,
    attainable,
    auc,
    estimate,
    guess,
    share_true,
)
from companion.chapters.decoreco_adversary.networks import Sizes, attack_network
from companion.chapters.evidence import TRUSTED, is_true
from companion.chapters.separation_common import TRUE_NCC
from companion.store.record import Record
from recon.scoring.certainty import calibrated, probability, shadow_classifier
from recon.scoring.matching import rescale
from recon.scoring.metrics import ncc


class Metrics(Record):
    """arms: "decoreco", on networks of n_train images, and "more", separation of networks of more_n
    images.

    arms: One attack on its networks. every.share_true: of all candidates · natural: those that look
    natural. arms.natural: How many there are, true, negatives of training images (not true, NCC
    below −`TRUE_NCC`), doubtful (neither, but |NCC| above `DOUBTFUL`) and false beyond doubt ·
    networks: with true and other ones · share_true: of a network's · attainable: share of true ones
    among the 20 most trusted if they knew all, less than 1 where a network has fewer true ones ·
    guess: the null, what random scores have on average · evidence: by kind, none where no network
    has true and other candidates. arms.natural.share_true: Mean over networks, central 95 % of the
    bootstrap over images and networks, and each network's; None where it is not defined.
    arms.natural.evidence: How well one kind of evidence tells true from false, see
    `discrimination`: area under the ROC curve; the same if a negative counts as true; share of true
    ones among the 20 most trusted.
    """


ARMS = ("decoreco", "more")
#: kinds of evidence: what the attack says of a candidate, and signs of a photograph, without any
#: look at the weights
KINDS = {
    "decoreco": ("agreement", "separated", "smoothness", "edges"),
    "more": ("stability", "smoothness", "edges"),
}
#: what stationarity says of a candidate
EVIDENCE = ("contribution", "multiplier", "norm", "margin", "agreement", "sharpness")
# what practice makes of all that the attack says
PRACTISED = {"decoreco": "combined", "more": "certainty"}
BOOTSTRAP = 2000  # number of its draw
# |NCC| above which a candidate that is not true may still be a bad copy of a training image
DOUBTFUL = 0.45


@dataclass(frozen=True)
class Signs:
    """What `recon.scoring.certainty` looks at."""

    sparsity: Tensor
    stability: Tensor
    share: Tensor


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Every network in a run of its own, then the judging."""
    names = [f"{kind}-{k}" for k in range(sizes.networks) for kind in ("few", "more")]
    networks = context.sweep(partial(attack_network, sizes, context), names, "networks")
    arms, arrays = Record(), Tensors()
    for arm, kind, n in zip(ARMS, ("few", "more"), (sizes.n_train, sizes.more_n), strict=True):
        parts = [candidates(networks[f"{kind}-{k}"]) for k in range(sizes.networks)]
        every, natural = judge(arm, parts, sizes, context)
        arms[arm] = Record(n_train=n, every=Record(share_true=every), natural=natural)
        arrays |= most_trusted(arm, natural, parts)
    return Outcome(Metrics(n_train=sizes.n_train, networks=sizes.networks, arms=arms), arrays)


def candidates(network: Tensors) -> Tensors:
    """What `attack_network` returns, with `true` (m,); and the training image of the largest |NCC|,
    `either_image` (m,), with that NCC, `either` (m,), which is below 0 for a negative.
    """
    to_train = ncc(network["x_hat"], network["x_train"])
    image = to_train.abs().argmax(1)
    either = to_train.gather(1, image[:, None])[:, 0]
    return {**network, "true": is_true(network), "either": either, "either_image": image}


def kinds(arm: str, part: Tensors) -> tuple[np.ndarray, np.ndarray]:
    """Which candidates are negatives of training images, and which are doubtful, (m,) bool each;
    see `Metrics`. Of what is separated the sign is unknown, so nothing is a negative there.
    """
    true, either = part["true"].numpy(), part["either"].numpy()
    negative = ~true & (either < -TRUE_NCC) & (arm == "decoreco")
    return negative, ~true & ~negative & (np.abs(either) > DOUBTFUL)


def scores(arm: str, parts: Sequence[Tensors]) -> dict[str, list[np.ndarray]]:
    """Every kind of evidence, network by network, (m,) each, for all candidates; larger means
    "rather true".

    What is learned (`PRACTISED`) is learned on all networks but the one that is judged. It is left
    out where some network cannot be judged, for want of true or of false ones.
    """
    by_kind = {name: [part[name].numpy() for part in parts] for name in KINDS[arm]}
    learned = [practise(arm, [*parts[:k], *parts[k + 1 :]], part) for k, part in enumerate(parts)]
    known = [score for score in learned if score is not None]
    return by_kind | ({PRACTISED[arm]: known} if len(known) == len(parts) else {})


def practise(arm: str, shadows: Sequence[Tensors], part: Tensors) -> np.ndarray | None:
    """The probability (m,) that each candidate of `part` is true, learned on those of the shadows
    that look natural; None where these are not both true and false.
    """
    rows = [shadow["natural"] for shadow in shadows]
    pairs = [*zip(shadows, rows, strict=True)]
    true = [shadow["true"][row] for shadow, row in pairs]
    if not 0 < sum(int(labels.sum()) for labels in true) < sum(map(len, true)):
        return None
    if arm == "decoreco":
        evidence = np.concatenate([features(shadow)[row] for shadow, row in pairs])
        model = shadow_classifier(evidence, torch.cat(true).numpy())
        return model.predict_proba(features(part))[:, 1]
    signs = [_signs(shadow, row) for shadow, row in pairs]
    calibration = calibrated(list(zip(signs, true, strict=True)))
    return probability(calibration, _signs(part, slice(None))).numpy()


def judge(
    arm: str, parts: Sequence[Tensors], sizes: Sizes, context: Context
) -> tuple[Record, Record]:
    """The share of true ones among all candidates; and of those that look natural counts, the null,
    and every kind of evidence with its intervals. The same draws of the bootstrap serve every kind
    and measure.
    """
    rows = [part["natural"].numpy() for part in parts]
    networks = [Scored(*(part[key].numpy() for key in ("ncc", "true", "image"))) for part in parts]
    plain = [network.take(row) for network, row in zip(networks, rows, strict=True)]
    negative, doubtful = (
        [sign[row] for sign, row in zip(signs, rows, strict=True)]
        for signs in zip(*(kinds(arm, part) for part in parts), strict=True)
    )
    seed = context.stream("kkt.attack_again", BOOTSTRAP).initial_seed()

    def number(measure: Measure, networks: Sequence[Scored]) -> Record:
        return estimate(measure, networks, sizes.draws, np.random.default_rng(seed))

    def judgement(score: Sequence[np.ndarray]) -> Record:
        scored = [
            replace(n, score=values[row]) for n, values, row in zip(plain, score, rows, strict=True)
        ]
        either = [replace(n, true=n.true | no) for n, no in zip(scored, negative, strict=True)]
        measured = {name: number(measure, scored) for name, measure in MEASURES.items()}
        return Record(**measured, auc_either=number(auc, either))

    counts = {
        name: sum(int(part.sum()) for part in marks)
        for name, marks in (
            ("true", [n.true for n in plain]),
            ("negative", negative),
            ("doubtful", doubtful),
        )
    }
    total = sum(len(n.true) for n in plain)
    evidence = scores(arm, parts) if any(n.both for n in plain) else {}
    return number(share_true, networks), Record(
        candidates=total,
        **counts,
        false=total - sum(counts.values()),
        networks=sum(n.both for n in plain),
        share_true=number(share_true, plain),
        attainable=attainable(plain),
        guess=guess(plain),
        evidence={kind: judgement(score) for kind, score in evidence.items()},
    )


def most_trusted(arm: str, group: Record, parts: Sequence[Tensors]) -> Tensors:
    """The `TRUSTED` natural-looking candidates that a practised adversary trusts most in one
    network, most trusted first.

    The network is that with the median AUC (the lower of two); the first where none has one.
    Pictures are x + mean, stretched to [0, 1], beside the training image of the largest |NCC|;
    where the attack leaves the sign open, the one with a positive NCC is shown.
    """
    name = next((kind for kind in (PRACTISED[arm], *group.evidence) if kind in group.evidence), "")
    k = median_of(group.evidence[name].auc["values"]) if name else 0
    part = parts[k]
    score = torch.from_numpy(scores(arm, parts)[name][k]) if name else part["ncc"]
    rows = part["natural"].nonzero()[:, 0]
    rows = rows[score[rows].argsort(descending=True, stable=True)][:TRUSTED]
    image, likeness = part["x_train"][part["either_image"][rows]], part["either"][rows]
    sign = likeness.sign() if arm != "decoreco" else torch.ones_like(likeness)
    return {
        f"{arm}.x_hat": rescale(sign[:, None] * part["x_hat"][rows] + part["mean"]),
        f"{arm}.train": rescale(image + part["mean"]),
        f"{arm}.ncc": likeness * sign,
        f"{arm}.true": part["true"][rows],
        f"{arm}.network": torch.tensor(k),
    }


def median_of(values: Sequence[float | None]) -> int:
    """Position of the median (the lower of two) of what is not None; 0 for none."""
    known = sorted((value, k) for k, value in enumerate(values) if value is not None)
    return known[(len(known) - 1) // 2][1] if known else 0


def features(measured: dict[str, Tensor]) -> np.ndarray:
    """Evidence as a matrix (m, 6); scales that differ between networks removed by ranking within
    one attack.
    """
    ranks = torch.stack([measured[name].argsort().argsort() for name in EVIDENCE], dim=1).double()
    return (ranks / max(len(ranks) - 1, 1)).numpy()


def _signs(part: Tensors, rows: Tensor | slice) -> Signs:
    return Signs(*(part[name][rows] for name in ("sparsity", "stability", "share")))
