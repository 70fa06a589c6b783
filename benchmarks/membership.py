"""Our LiRA and RMIA beside their authors', on the same logits: `python benchmarks/membership.py
[METER [LIRA]]`.

One CIFAR-10 setting: a network of two convolutions and two dense layers, ten classes, on a random
half of 1000 images, and 16 shadow networks on others; each of 4 networks is attacked.
`lira_as_published` and `rmia_as_metered` are the formulas of tensorflow/privacy's
research/mi_lira_2021/plot.py and of ml_privacy_meter's modules/mia/attacks/rmia.py, written anew;
none of their code is here. Where METER is a checkout of privacytrustlab/ml_privacy_meter, and LIRA
a folder with plot.py, their functions are run on the same numbers, and must agree to the last
digit.

"second opinion": the meter's own audit (`audit.audit_models` of the checkout, with all that it
does) beside what `recon.audit` does with the same logits of the same networks: area, members found
at 1 % false alarms, seconds. The meter also gets a network trained on the images that the attacked
one did not see, by which it tunes itself, and POPULATION images that are new to all. Writes
benchmarks/membership.json, with the commit of the checkout.
"""

from __future__ import annotations

import ast
import logging
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from resumed import each
from scipy.stats import norm, spearmanr
from timing import write
from torch import Tensor, nn

from recon.attacks import by_multipliers
from recon.attacks.from_weights import Pool
from recon.attacks.multipliers import confidence
from recon.images.registry import load_pool
from recon.released import Weights
from recon.scoring.membership import intervals, lira, rmia
from recon.scoring.roc import auc, true_rate
from recon_audit.anatomy import Classifier, examine
from recon_audit.membership import infer
from recon_audit.shadows import Recipe, Shadows, train_network, train_shadows

IMAGES, POPULATION, SHADOWS, TARGETS, OFFLINE_A = 1000, 1000, 16, 4, 0.3
RECIPE = Recipe("adam", 1e-3, 64, 400, 2e-2)


def lira_as_published(
    phi: np.ndarray, shadows: np.ndarray, inside: np.ndarray, fixed: bool
) -> np.ndarray:
    """log N(φ; m_in, s_in) − log N(φ; m_out, s_out) with medians over shadows.

    Args:
        fixed: one s for all, which is there the standard deviation of all confidences of shadows
            that were trained on their image, around *their* mean.
    """
    parts = []
    for members in (inside, ~inside):
        least = members.sum(0).min()
        parts.append(np.stack([shadows[members[:, i], i][:least] for i in range(shadows.shape[1])]))
    deviations = [parts[0].std()] * 2 if fixed else [part.std(1) for part in parts]
    logs = [
        norm.logpdf(phi, np.median(part, 1), deviation + 1e-30)
        for part, deviation in zip(parts, deviations, strict=True)
    ]
    return logs[0] - logs[1]


def rmia_as_metered(
    p: np.ndarray,
    shadows: np.ndarray,
    inside: np.ndarray,
    others: tuple[np.ndarray, np.ndarray],
    a: float,
) -> np.ndarray:
    """Share of the images z of the population with (p(x)/p̄(x)) / (p(z)/p̄(z)) > 1, offline: p̄ =
    (1 + a)/2 · mean over shadows not trained on it + (1 − a)/2.

    Args:
        p (N,), shadows (k, N): probabilities of the class.
        others: the same of the population (M,), (k, M), that nobody was trained on, of which the
            larger half of the shadows counts.
    """
    half = max(len(shadows) // 2, 1)

    def ratio(p: np.ndarray, shadows: np.ndarray, members: np.ndarray) -> np.ndarray:
        out = -np.sort(-(shadows * ~members), axis=0)[:half]
        return p / ((1 + a) / 2 * out.mean(0) + (1 - a) / 2)

    population = ratio(*others, np.zeros(others[1].shape, dtype=bool))
    return np.average(ratio(p, shadows, inside)[:, None] / population > 1.0, axis=1)


# ----------------------------------------------------------------------------------------- networks


def network() -> nn.Module:
    """Ten outputs, 34,000 weights."""
    first = (
        nn.Conv2d(3, 16, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, 2, 1),
        nn.ReLU(),
        nn.AvgPool2d(2),
    )
    return nn.Sequential(
        *first, nn.Flatten(), nn.Linear(512, 50), nn.ReLU(), nn.Linear(50, 10)
    ).eval()


@cache
def images() -> tuple[Tensor, Tensor]:
    """(IMAGES + POPULATION, 3, 32, 32) minus the mean of those that are asked about, and the ten
    classes; nothing is trained on the population, which RMIA as metered compares with.
    """
    pool = load_pool("cifar10")
    rows = torch.randperm(len(pool), generator=torch.Generator().manual_seed(0))[
        : IMAGES + POPULATION
    ].numpy()
    x = torch.from_numpy(pool.images[rows]).float() / 255
    return x - x[:IMAGES].mean(0), torch.from_numpy(pool.labels[rows])


@cache
def with_shadows() -> Shadows:
    """The shadow networks: the same for every network that is attacked."""
    module, (x, y) = network(), images()
    return train_shadows(examine(module, x.shape[1:]), x[:IMAGES], y[:IMAGES], RECIPE, SHADOWS, 0)


def one(name: str, meter: Path | None = None, lira_code: Path | None = None) -> dict[str, Any]:
    """Network `name`, a number, by every score: area, its interval, and the share found at 1 %
    false alarms.
    """
    torch.set_num_threads(1)
    seed, module, shadows = int(name), network(), with_shadows()
    (x, x_other), (y, y_other) = (part.split([IMAGES, POPULATION]) for part in images())
    architecture = examine(module, x.shape[1:])
    member = (
        torch.rand(IMAGES, generator=torch.Generator().manual_seed(100 + seed)).argsort().argsort()
        < IMAGES // 2
    )
    target = train_network(
        architecture, x[member], y[member], RECIPE, torch.Generator().manual_seed(200 + seed)
    )
    phi, others = confidence(target.logits(x), y), shadows.phi
    logits = [net.logits(x_other) for net in (target, *shadows.classifiers)]
    population = confidence(torch.stack(logits), y_other)
    found = scores(phi, others, shadows.inside, (population[0], population[1:]))
    if meter is not None:
        arrays = phi.numpy(), others.numpy(), shadows.inside.numpy()
        check(found, arrays, population.numpy(), meter, lira_code)
    pool = Pool(target.as_taken(x), y)  # needs no shadow
    found["multipliers"] = by_multipliers(Weights.of(target.module), pool).score.numpy()
    flags = member.numpy()
    table = {
        key: {
            "auc": auc(s, flags),
            "interval": intervals(s, flags, seed)["auc"],
            "tpr_0.01": true_rate(s, flags, 0.01),
        }
        for key, s in found.items()
    }
    ranks = {
        "lira": spearmanr(found["lira"], found["lira, as published, one variance"]).statistic,
        "rmia": spearmanr(found["rmia"], found["rmia, as metered"]).statistic,
    }
    accuracy = (target.logits(x).argmax(1) == y).double()
    return {
        "scores": table,
        "rank correlation": ranks,
        "accuracy": [accuracy[member].mean().item(), accuracy[~member].mean().item()],
        "run against their code": meter is not None and lira_code is not None,
        "second opinion": None if meter is None else second_opinion(target, member, seed, meter),
    }


def scores(
    phi: Tensor, shadows: Tensor, inside: Tensor, population: tuple[Tensor, Tensor]
) -> dict[str, np.ndarray]:
    """Every score of φ (N,) against shadows (k, N), population (M,) and (k, M)."""
    arrays = phi.numpy(), shadows.numpy(), inside.numpy()
    p = [torch.sigmoid(each).numpy() for each in (phi, shadows, *population)]
    return {
        "lira": lira(phi, shadows, inside).numpy(),
        "lira, as published, one variance": lira_as_published(*arrays, fixed=True),
        "lira, as published, a variance each": lira_as_published(*arrays, fixed=False),
        "rmia": rmia(phi, shadows).numpy(),
        "rmia, as metered": rmia_as_metered(p[0], p[1], arrays[2], (p[2], p[3]), OFFLINE_A),
        "confidence alone": phi.numpy(),
    }


def check(
    found: dict[str, np.ndarray],
    arrays: tuple[np.ndarray, ...],
    population: np.ndarray,
    meter: Path,
    lira_code: Path | None,
) -> None:
    """Their functions on the same numbers; AssertionError unless they agree."""
    phi, shadows, inside = arrays
    if lira_code is not None:
        plot = functions(lira_code / "plot.py", "generate_ours")["generate_ours"]
        for name, fixed in (("one variance", True), ("a variance each", False)):
            said, _ = plot(
                inside, shadows[..., None], [inside[0]], phi[None, :, None], fix_variance=fixed
            )
            np.testing.assert_array_equal(-np.array(said), found[f"lira, as published, {name}"])
    code = functions(
        meter / "modules" / "mia" / "attacks" / "rmia.py", "get_out_ref_signals", "run_rmia"
    )
    p = [
        torch.sigmoid(torch.from_numpy(each)).numpy()
        for each in (phi, shadows, population[0], population[1:])
    ]
    said = code["run_rmia"](p[0], p[1].T, inside.T, p[2], p[3].T, OFFLINE_A)
    np.testing.assert_array_equal(said, found["rmia, as metered"])


def second_opinion(
    target: Classifier, member: Tensor, seed: int, meter: Path
) -> dict[str, dict[str, float]]:
    """Both audits of one network, the images that it saw first, of the same logits: "auc",
    "tpr_0.01", "seconds".
    """
    module, shadows = network(), with_shadows()
    (x, x_other), (y, y_other) = (part.split([IMAGES, POPULATION]) for part in images())
    architecture = examine(module, x.shape[1:])
    other = train_network(
        architecture, x[~member], y[~member], RECIPE, torch.Generator().manual_seed(300 + seed)
    )
    nets = [target, other, *shadows.classifiers]
    logits, new = (torch.stack([net.logits(part) for net in nets]) for part in (x, x_other))
    order = torch.cat([member.nonzero()[:, 0], (~member).nonzero()[:, 0]])
    sorted_shadows = Shadows(
        shadows.classifiers, shadows.inside[:, order], shadows.phi[:, order], shadows.loss
    )
    began = time.perf_counter()
    said = infer(logits[0, order], y[order], IMAGES // 2, sorted_shadows, seed)
    row = said.table[said.name]
    ours = {"auc": row["auc"], "tpr_0.01": row["tpr_0.01"], "seconds": time.perf_counter() - began}
    sys.path.insert(0, str(meter))
    from audit import audit_models, compute_attack_results

    # (N, networks): probability of the class
    signals = torch.sigmoid(confidence(logits, y)).T.numpy()
    population = torch.sigmoid(confidence(new, y_other)).T.numpy()
    inside = torch.cat([member[None], ~member[None], shadows.inside]).numpy()
    settings, log = {"audit": {"algorithm": "RMIA"}}, logging.getLogger("meter")
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        score, flags = audit_models(
            folder, [0], signals, population, inside, SHADOWS // 2, log, settings
        )
        seconds = time.perf_counter() - began
    told = compute_attack_results(score[0], flags[0])
    theirs = {"auc": float(told["auc"]), "tpr_0.01": float(told["one_fpr"]), "seconds": seconds}
    return {"recon": ours, "ml_privacy_meter": theirs}


def functions(path: Path, *names: str) -> dict[str, Any]:
    """These functions of a file, without running what else it does."""
    from typing import Optional

    import scipy

    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in names
    ]
    space: dict[str, Any] = {"np": np, "scipy": scipy, "Optional": Optional}
    exec(compile(tree, str(path), "exec"), space)  # noqa: S102  (named on the command line by whoever runs this)
    return space


def commit(checkout: Path) -> str:
    """Of a checkout."""
    told = subprocess.run(
        ["git", "-C", str(checkout), "rev-parse", "HEAD"],
        capture_output=True,
        text=True,
        check=True,
    )
    return told.stdout.strip()


def main() -> None:
    """All networks."""
    meter, lira_code = (Path(sys.argv[k]) if len(sys.argv) > k else None for k in (1, 2))
    found = each(
        __file__, [str(k) for k in range(TARGETS)], lambda name: one(name, meter, lira_code)
    )
    write(
        {
            "images": IMAGES,
            "population": POPULATION,
            "shadows": SHADOWS,
            "offline_a": OFFLINE_A,
            "meter": None if meter is None else f"privacytrustlab/ml_privacy_meter@{commit(meter)}",
            "networks": list(found.values()),
        },
        __file__,
    )


if __name__ == "__main__":
    main()
