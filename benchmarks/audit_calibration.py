"""How often `recon.audit` is wrong where there is nothing to find, and how often right where there
is.

`python benchmarks/audit_calibration.py [networks]` prints and writes
audit_calibration.json beside it. Every network is trained on 100 CIFAR-10 images of 8×8: a dense
one (`MLP`), a convolutional one (`CNN`), or a dense head on convolutions that were trained on other
images and stay as they are (`head`). It is audited twice: with two other sets of 100 images in the
parts of training and held-out set ("null"), and with its own. Four
shadows, no canaries, the recipe given, the mean of what is called the training set subtracted.

"unlike": networks trained on LEARNED other images, and two sets that differ in more than who was
trained on (`UNLIKE`): copies, groups, another mix of classes, other labels. All that is found is a
false alarm there, too. `python benchmarks/audit_calibration.py [networks] [unlike]`, by default as
many as UNLIKES of each.

"pools": LiRA with shadows from the pool that an audit has, the training and held-out images, and
with shadows whose other images are new (`of_pools`). Goes on where it was.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache, partial
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from resumed import each
from timing import write
from torch import Tensor, nn
from verdicts_only import verdicts_only

import recon
from recon.attacks.multipliers import confidence
from recon.images.registry import load_pool
from recon.scoring.membership import auc, lira, permutation_p, true_rate
from recon_audit.anatomy import examine
from recon_audit.shadows import Recipe, train_network

N, SIDE, SHADOWS, BACKBONE = 100, 8, 4, 1000
ADAM, SGD = Recipe("adam", 1e-2, None, 120, 1e-2), Recipe("sgd", 1e-1, 50, 240, 1e-2)
DECAY = replace(ADAM, weight_decay=1e-3)
RECIPES = {
    "MLP": {
        "Adam": ADAM,
        "Adam, small start": replace(ADAM, first_scale=0.01),
        "Adam, weight decay": DECAY,
    },
    "CNN": {"Adam": ADAM, "Adam, weight decay": DECAY, "SGD": SGD},
    "head": {"Adam": ADAM, "Adam, weight decay": DECAY, "SGD": SGD},
}
LONGER = Recipe("adam", 3e-3, None, 300, 1e-2)  # of `of_pools`
ATTACKS = ("separation", "rows", "membership")
#: what every audit here is given
HOW: dict[str, Any] = {
    "attacks": ATTACKS,
    "shadows": SHADOWS,
    "canaries": 0,
    "profile": "smoke",
    "device": "cpu",
}
PERMUTATIONS = 999  # of membership; an audit draws ten times as many
LEARNED, UNLIKES, FRAMES = 800, 100, 5  # of `of_unlike`
QUERIES, POOLED, TARGETS = 40, 16, 60  # of `of_pools`: images asked about, shadows, networks


def network(kind: str) -> nn.Module:
    """To be drawn anew by `train_network`; a head's convolutions are `backbone`, frozen."""
    if kind == "MLP":
        layers = (
            nn.Linear(3 * SIDE * SIDE, 64),
            nn.ReLU(),
            nn.Linear(64, 64),
            nn.ReLU(),
            nn.Linear(64, 1),
        )
        return nn.Sequential(nn.Flatten(), *layers).eval()
    if kind == "CNN":
        return nn.Sequential(*_convolutions(), nn.Linear(128, 2)).eval()
    return nn.Sequential(backbone(), nn.Linear(128, 32), nn.ReLU(), nn.Linear(32, 2)).eval()


def _convolutions() -> tuple[nn.Module, ...]:
    return (
        nn.Conv2d(3, 16, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, 2, 1),
        nn.ReLU(),
        nn.Flatten(),
    )


@cache
def images() -> tuple[Tensor, Tensor]:
    """All of the pool at this size, and their labels."""
    pool = load_pool("cifar10")
    x = torch.from_numpy(pool.images).float() / 255
    return nn.functional.adaptive_avg_pool2d(x, SIDE), torch.from_numpy(pool.y)


@cache
def rows() -> Tensor:
    """The pool's order; the first BACKBONE are for `backbone` alone."""
    return torch.randperm(len(images()[0]), generator=torch.Generator().manual_seed(0))


@cache
def backbone() -> nn.Module:
    """Convolutions trained on images that nothing else sees, frozen."""
    x, y = (part[rows()[:BACKBONE]] for part in images())
    whole = nn.Sequential(*_convolutions(), nn.Linear(128, 2)).eval()
    recipe = Recipe("adam", 3e-3, 100, 300)
    net = train_network(
        examine(whole, x.shape[1:]),
        x - x.mean(0),
        y,
        recipe,
        torch.Generator().manual_seed(0),
    )
    return net.module[:-1].requires_grad_(False)  # type: ignore[index]


def fitted(kind: str, x: Tensor, y: Tensor, recipe: Recipe, seed: int) -> nn.Module:
    """A network of this kind, trained; of a head only what is not frozen."""
    module, generator = network(kind), torch.Generator().manual_seed(seed)
    if kind != "head":
        return train_network(examine(module, x.shape[1:]), x, y, recipe, generator).module
    features, head = module[0](x), module[1:].eval()  # type: ignore[index]
    done = train_network(
        examine(head, (128, 1, 1)), features.view(-1, 128, 1, 1), y, recipe, generator
    )
    return nn.Sequential(backbone(), *done.module).eval()  # type: ignore[misc]


def one(name: str) -> dict[str, Any]:
    """Verdicts on network `name`, a number: on its own training and held-out images, and on two
    sets that it never saw.
    """
    seed, (pixels, classes) = int(name), images()
    order = torch.randperm(len(pixels) - BACKBONE, generator=torch.Generator().manual_seed(seed))[
        : 4 * N
    ]
    drawn = rows()[BACKBONE + order]
    parts, labels = pixels[drawn].split(N), classes[drawn].split(N)
    kind = list(RECIPES)[seed % len(RECIPES)]
    words = list(RECIPES[kind])[seed // len(RECIPES) % len(RECIPES[kind])]
    recipe = RECIPES[kind][words]
    net = fitted(kind, parts[0] - parts[0].mean(0), labels[0], recipe, seed)
    found: dict[str, Any] = {"kind": kind, "recipe": words}
    for case, (a, b) in {"own": (0, 1), "null": (2, 3)}.items():
        report = recon.audit(
            net,
            parts[a],
            parts[b],
            labels=(labels[a], labels[b]),
            transform="image",
            recipe=recipe,
            seed=seed,
            **HOW,
        )
        found[case] = short(report)
    return found


def short(report: recon.Report) -> dict[str, Any]:
    """p times the looks of each kind of test, and of each score of membership by itself; None where
    nothing was compared.
    """
    result, members = report.data["result"], report.data["membership"]
    return {
        "comparable": report.data["exchangeability"]["why_not"] is None,
        "verdict": report.verdict,
        "membership": report.membership,
        "p_images": None if result is None else result["p_value"],
        "p_membership": None if members is None else members["p_value"],
        "looks": None if members is None else members["looks"],
        "scores": None
        if members is None
        else {
            name: [row["auc"], row["p_value"], row["tpr_0.01"]]
            for name, row in members["scores"].items()
        },
        "best": None if members is None else members["best"],
    }


# ------------------------------------------------------------------------------------------- unlike

#: what held-out images and labels become, by a generator: copied, moved, noisy; labelled otherwise
COPIES = [
    lambda x, _: x,
    lambda x, _: x.flip(-1),
    lambda x, _: nn.functional.pad(x, (1, 0))[..., :-1],
    lambda x, random: x + 0.02 * torch.randn(x.shape, generator=random),
]
LABELS = [
    lambda y, _: 1 - y,
    lambda y, random: y[torch.randperm(len(y), generator=random)],
    lambda y, random: (y + (torch.rand(len(y), generator=random) < 0.4)) % 2,
]
UNLIKE = ("copies", "groups", "mix", "relabelled")


def of_unlike(name: str) -> dict[str, Any]:
    """The audit of network `name`, such as "mix 3", on two sets that it never saw."""
    kind, number = name.split()
    seed, (pixels, classes) = int(number), images()
    random = torch.Generator().manual_seed(20_000 + seed)
    order = rows()[BACKBONE:][torch.randperm(len(pixels) - BACKBONE, generator=random)]
    if kind == "mix":  # three of four images are of the first class, but of those held out
        leans = torch.where(classes[order] == 0, 3.0, 1.0)
        order, rest = leaning(order, leans, LEARNED + N, random)
        order = torch.cat([order, leaning(rest, (rest >= 0).float(), N, random)[0]])
    (learned, a, b) = order[: LEARNED + 2 * N].split((LEARNED, N, N))
    sets, more = {"train": (pixels[a], classes[a]), "held_out": (pixels[b], classes[b])}, {}
    x, y = sets["held_out"]
    if kind == "copies":
        moved = COPIES[seed % len(COPIES)](x[: N // 2], random)
        sets["held_out"] = torch.cat([x[: N // 2], moved]), y[: N // 2].repeat(2)
    if kind == "relabelled":
        sets["held_out"] = x, LABELS[seed % len(LABELS)](y, random)
    if kind == "groups":
        sets = {part: frames(*pair) for part, pair in sets.items()}
        more = {"groups": [[f"{part} {k // FRAMES}" for k in range(N)] for part in sets]}
    nets = list(RECIPES)
    net = nets[seed % len(nets)]
    recipe = list(RECIPES[net].values())[seed // len(nets) % len(RECIPES[net])]
    mean = pixels[learned].mean(0)
    report = recon.audit(
        fitted(net, pixels[learned] - mean, classes[learned], recipe, seed),
        *sets.values(),
        transform=lambda x: x - mean,
        recipe=recipe,
        seed=seed,
        **HOW,
        **more,
    )
    return short(report) | {"why_not": report.data["exchangeability"]["why_not"]}


def leaning(
    order: Tensor, weights: Tensor, count: int, random: torch.Generator
) -> tuple[Tensor, Tensor]:
    """As many of them, by these weights, and the rest."""
    drawn = torch.multinomial(weights, count, generator=random)
    left = torch.ones(len(order), dtype=torch.bool).index_fill(0, drawn, False)
    return order[drawn], order[left]


def frames(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """FRAMES images of every fifth one: it, and blends of it with the others, no near-copies."""
    first = torch.arange(len(x)) // FRAMES * FRAMES
    blend = x.mean(0) + 0.85 * (x[first] - x.mean(0)) + 0.53 * (x - x.mean(0))
    return torch.where((torch.arange(len(x)) % FRAMES > 0)[:, None, None, None], blend, x), y[first]


def false_alarms(found: dict[str, dict[str, Any]], kind: str) -> dict[str, Any]:
    """Of the audits of this kind: how many, with a p below 1 % and 5 %, that compared nothing."""
    about = [each for name, each in found.items() if name.split()[0] == kind]
    p = [min(each["p_images"] or 1.0, each["p_membership"] or 1.0) for each in about]
    told = {f"p < {level:g}": sum(value < level for value in p) for level in (0.01, 0.05)}
    verdicts = [each["membership"] for each in about]
    return {"networks": len(about), **told} | {v: verdicts.count(v) for v in sorted(set(verdicts))}


# -------------------------------------------------------------------------------------------- pools


def of_pools(name: str) -> dict[str, Any]:
    """LiRA on network `name` with two sets of shadows: area, and share found at 10 % false alarms.

    The network saw N images, of them half of QUERIES that are asked about. Every shadow sees a
    random half of these, too. Its other images come from the pool that an audit has, the network's
    own and as many others ("audit"), or are new ("new"), as if drawn from the population (Jälkö et
    al. 2605.25819).
    """
    seed, (pixels, classes) = int(name), images()
    random = torch.Generator().manual_seed(10_000 + seed)
    drawn = rows()[BACKBONE:][torch.randperm(len(pixels) - BACKBONE, generator=random)]
    asked, rest, half = drawn[:QUERIES], N - QUERIES // 2, QUERIES // 2
    pool, new = drawn[QUERIES : QUERIES + 2 * rest], drawn[QUERIES + 2 * rest :]
    module = network("CNN")
    architecture = examine(module, pixels.shape[1:])
    mean = pixels[drawn[: QUERIES + 2 * rest]].mean(0)

    def answers(members: Tensor, others: Tensor, k: int) -> Tensor:
        chosen = torch.cat([asked[members], others])
        net = fitted("CNN", pixels[chosen] - mean, classes[chosen], LONGER, 1000 * seed + k)
        return confidence(architecture.of(net).logits(pixels[asked] - mean), classes[asked])

    member = torch.arange(QUERIES) < half
    phi = answers(member, pool[:rest], 0)
    found = {}
    for source, images_of in {"audit": pool, "new": new}.items():
        inside, others = [], []
        for _ in range(POOLED // 2):
            first = torch.randperm(QUERIES, generator=random) < half
            for members in (first, ~first):
                more = images_of[torch.randperm(len(images_of), generator=random)[:rest]]
                others.append(answers(members, more, 1 + len(others)))
                inside.append(members)
        score = lira(phi, torch.stack(others), torch.stack(inside)).numpy()
        found[source] = {
            "auc": auc(score, member.numpy()),
            "tpr_0.1": true_rate(score, member.numpy(), 0.1),
        }
    return found


def gap(found: list[dict[str, Any]], name: str) -> dict[str, float]:
    """Mean of "audit" minus "new" over networks, its standard error, and both means."""
    values = {
        source: np.array([each[source][name] for each in found]) for source in ("audit", "new")
    }
    apart = values["audit"] - values["new"]
    error = float(apart.std(ddof=1) / len(apart) ** 0.5)
    return {
        "gap": float(apart.mean()),
        "error": error,
        **{key: float(part.mean()) for key, part in values.items()},
    }


def main() -> None:
    """Of as many networks as asked for (default 300), and as many of each kind of `UNLIKE`."""
    torch.set_num_threads(1)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    unlikes = int(sys.argv[2]) if len(sys.argv) > 2 else UNLIKES
    pooled = each("audit_pools", [str(k) for k in range(min(count, TARGETS))], of_pools)
    permutations = partial(permutation_p, draws=PERMUTATIONS)
    with verdicts_only(), patch("recon_audit.membership.permutation_p", permutations):
        found = each(__file__, [str(k) for k in range(count)], one)
        names = [f"{kind} {k}" for k in range(unlikes) for kind in UNLIKE]
        unlike = each("audit_unlike", names, of_unlike)
    unlikely = {kind: false_alarms(unlike, kind) for kind in UNLIKE}
    pools = {name: gap(list(pooled.values()), name) for name in ("auc", "tpr_0.1")}
    sizes = {"n": N, "side": SIDE, "shadows": SHADOWS}
    about = {"networks": len(pooled), "queries": QUERIES, "shadows": POOLED}
    told = {"unlike": unlikely, "pools": about | pools, "networks": list(found.values())}
    write(sizes | told, __file__)


if __name__ == "__main__":
    main()
