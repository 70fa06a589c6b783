"""The map of knowing: every network of the book at what its adversary knows, and at how much they are told.

Each point is read from a result file.  How much they are told is p / (d m): numbers released for each number that they
miss, p weights or entries of a gradient over the m images of d values that they do not have.  m = n, the size of the
training set, unless all images but one are known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recon.chapters import load
from recon.nets.conv import TABLE_1, ConvNet
from recon.nets.mlp import affine, one_hidden, three_layer
from recon.store.results import Result

NOTHING, LOOKS, NEARLY = "weights", "weights, distribution", "weights, start up to 10 %"
START, REST, GRADIENT = "weights, start", "weights, all images but one", "weights, a gradient"
#: what the adversary has, from the least to the most; distribution: of images or of starts
KNOWLEDGE = (NOTHING, LOOKS, NEARLY, START, REST, GRADIENT)
CIFAR = 3 * 32 * 32
RECIPE_FAMILIES = ("decay", "start", "stop", "defence")  # of one architecture: the base recipe's
RECIPE_KNOWLEDGE = {"unknown": NOTHING, "known": START, "known up to 10 %": NEARLY}
SEED_KNOWLEDGE = {None: NOTHING, 1.0: LOOKS, 0.1: NEARLY, 0.0: START}
GREY = 1e-3  # mean squared error by which another image is another one
EXACT = 1e-9  # mean squared error of a pixel, far below the 4e-6 of half a grey level


@dataclass(frozen=True, kw_only=True)
class Point:
    """One attack on one network.

    experiment: where it is from · told: p / (d m) · network: "affine", "one hidden layer", … · unknown: images that the
    adversary misses, m · found, null: those that an attack recovers, above NCC 0.7 or exactly, and the best that costs
    nothing · sure: those that are found and that the adversary is rightly sure of; None where that was not asked ·
    others: whether other images are shown that explain as well what was released · kept: whether more is left of the
    random start in the first layer than training added, for dense networks · counted: False where `found` stands for a
    share of an error and not for images.
    """

    experiment: str
    knowledge: str
    told: float
    network: str
    unknown: int
    found: int
    null: int
    sure: int | None = None
    others: bool = False
    kept: bool = False
    counted: bool = True

    @property
    def share(self) -> float:
        """Images beyond the null, of those that they miss; in [0, 1]."""
        return max(self.found - self.null, 0) / self.unknown


def told(parameters: int, unknown: int, dim: int = CIFAR) -> float:
    """p / (d m).

    >>> told(3073, 500) < 0.01 < 1 < told(4_000_000, 100)
    True
    """
    return parameters / (dim * unknown)


# ------------------------------------------------------------------------------------------- one function a result


def _affine(metrics: Any, config: Any) -> Iterator[Point]:
    """Bilevel from noise: nothing is found where the end is no nearer to the training images than images that nobody
    trained on."""
    nearer = metrics.random.nn_train_l2 < metrics.null.held_out_nn_l2
    n = metrics.n_train
    yield Point(
        experiment="bilevel-affine",
        knowledge=NOTHING,
        told=told(affine(CIFAR).n_params, n),
        network="affine",
        unknown=n,
        found=n if nearer else 0,
        null=0,
        others=metrics.partition.converged,
    )


def _linear(metrics: Any, config: Any) -> Iterator[Point]:
    """Other photographs with the same classifier; where they are, no attack can tell."""
    for row in metrics.by_n:
        size = told(affine(CIFAR).n_params, row.n)
        about: dict[str, Any] = {
            "experiment": "linear",
            "knowledge": NOTHING,
            "told": size,
            "network": "affine",
            "unknown": row.n,
        }
        yield Point(**about, found=0, null=0, others=row.converged)


def _hidden(metrics: Any, config: Any) -> Iterator[Point]:
    n, end = metrics.n_train, metrics.inner_start.uniform.random
    nearer = end.nn_train_l2 < metrics.null.held_out_nn_l2
    size = told(one_hidden(config["width"], CIFAR).n_params, n)
    about: dict[str, Any] = {
        "experiment": "bilevel-hidden",
        "knowledge": NOTHING,
        "told": size,
        "network": "one hidden layer",
    }
    yield Point(**about, unknown=n, found=n if nearer else 0, null=0)


def _dense(
    experiment: str, knowledge: str, width: int, n: int, table: Any, sure: int | None = None, kept: bool = False
) -> Point:
    """A network 3072-width-width-1, its counts from a table with nulls."""
    size = told(three_layer(width, CIFAR).n_params, n)
    about: dict[str, Any] = {
        "knowledge": knowledge,
        "told": size,
        "network": "dense",
        "unknown": n,
        "sure": sure,
        "kept": kept,
    }
    return Point(experiment=experiment, **about, found=table.matches.ncc_07, null=table.best_null.ncc_07)


def _separation(metrics: Any, config: Any) -> Iterator[Point]:
    about = metrics.certainty.networks.get(f"n = {metrics.n_train}")
    sure = None if about is None else round(about.precision_sure * about.sure)
    yield _dense("separation", NOTHING, config["width"], metrics.n_train, metrics, sure)


def _sizes(metrics: Any, config: Any) -> Iterator[Point]:
    for cell in metrics.of("cifar"):
        if cell.side == 32:
            yield _dense("separation-size", NOTHING, cell.width, cell.n_train, cell)


def _recipes(metrics: Any, config: Any) -> Iterator[Point]:
    for cell in metrics.cells:
        if cell.family in RECIPE_FAMILIES:
            known, width, kept = RECIPE_KNOWLEDGE[cell.known], config["base"]["width"], cell.start_over_update > 1
            yield _dense("separation-recipes", known, width, cell.n_train, cell, cell.certainty.true_among_sure, kept)


def _tuned(metrics: Any, config: Any) -> Iterator[Point]:
    yield _dense("decoreco-tuned", NOTHING, config["width"], metrics.n_train, metrics)


def _from_noise(metrics: Any, config: Any) -> Iterator[Point]:
    yield _dense("decoreco-random", NOTHING, config["width"], metrics.n_train, metrics)


def _from_partition(metrics: Any, config: Any) -> Iterator[Point]:
    yield _dense("decoreco-partition", LOOKS, config["width"], metrics.n_train, metrics)


def _reference(metrics: Any, config: Any) -> Iterator[Point]:
    for arm in metrics.arms:
        known = LOOKS if arm.start == "partition" else NOTHING
        yield _dense("decoreco-reference", known, metrics.net.width, metrics.n_train, arm)


def _pairs(metrics: Any, config: Any) -> Iterator[Point]:
    """Separation of one network, for which pairs of other images are shown that satisfy its KKT conditions as well."""
    n = metrics.n_train
    yield Point(
        experiment="counterfactual-sets",
        knowledge=NOTHING,
        told=told(three_layer(config["width"], CIFAR).n_params, n),
        network="dense",
        unknown=n,
        found=metrics.twin.original.ncc_07,
        null=metrics.twin.best_null.ncc_07,
        others=metrics.sets["pairs, noise"].difference < EXACT,
    )


def _seed(metrics: Any, config: Any) -> Iterator[Point]:
    for net in metrics.nets:
        for rung in net.rungs:
            if rung.noise in SEED_KNOWLEDGE:
                known, kept = SEED_KNOWLEDGE[rung.noise], net.moved < 1
                yield _dense("seed", known, net.width, net.n_train, rung, kept=kept)


def _law(metrics: Any, config: Any) -> Iterator[Point]:
    """Its error is a mean over images, 1 − NCC²; as images found: the share of the null's error that is gone."""
    for cell in metrics.cells:
        gone = max(1 - cell.error / cell.null_error, 0.0) if cell.null_error > 0 else 0.0  # nothing to be gone
        yield Point(
            experiment="seed-law",
            knowledge=START,
            told=told(cell.parameters, cell.n_train, cell.dim),
            network=cell.model,
            unknown=cell.n_train,
            found=round(gone * cell.n_train),
            null=0,
            counted=False,
        )


def _closed(metrics: Any, config: Any) -> Iterator[Point]:
    """Each image was once the missing one.  They are sure where the doubt of the true image is below that of every
    wrong guess."""
    for row in metrics.rows:
        certain = row.exact.doubt < min(row.least_wrong_doubt, row.least_two_doubt)
        yield Point(
            experiment="informed-linear",
            knowledge=REST,
            told=told(affine(CIFAR).n_params, 1),
            network="affine",
            unknown=row.n,
            found=row.exact.found,
            null=0,
            sure=row.exact.found if certain else 0,
        )


def _retrained(metrics: Any, config: Any) -> Iterator[Point]:
    """Digits of 8 × 8: retraining with the missing one, until the weights are the released ones."""
    ends, size = metrics.inversions, one_hidden(config["width"], 64).n_params
    known = [end for end in ends if end.mse < EXACT and end.residual < 1e-6 * end.wrong]
    yield Point(
        experiment="informed-reader",
        knowledge=REST,
        told=told(size, 1, 64),
        network="one hidden layer",
        unknown=len(ends),
        found=sum(end.mse < EXACT for end in ends),
        null=sum(end.start < EXACT for end in ends),
        sure=len(known),
    )


def _one_image(metrics: Any, config: Any) -> Iterator[Point]:
    """The gradient of one image, for the networks of Chen & Campbell's Table 1.  Other images are shown where the
    gradient leaves some free, and one that is found has the same gradient."""
    for name, about in metrics.networks.items():
        size, counts, other = _parameters(TABLE_1[name]), about.counts, about.counterfactual
        yield Point(
            experiment="leakage-identifiability",
            knowledge=GRADIENT,
            told=told(size, 1),
            network="one to three convolutions",
            unknown=metrics.n_images,
            found=counts.found,
            null=0,
            sure=counts.known,
            others=not counts.determined and other.residual < EXACT and other.mse_to_victim > GREY,
        )


def _parameters(network: ConvNet) -> int:
    return sum(math.prod(shape) for shape in network.shapes().values())


def _batches(metrics: Any, config: Any) -> Iterator[Point]:
    """One mean gradient of a network with one convolution."""
    for cell in metrics.batches:
        about: dict[str, Any] = {
            "experiment": "leakage-batches",
            "knowledge": GRADIENT,
            "network": "one to three convolutions",
        }
        size, sure = cell.equations / cell.unknowns, cell.found if cell.certified else 0
        yield Point(**about, told=size, unknown=cell.n, found=cell.found, null=0, sure=sure)


READERS: dict[str, Callable[[Any, Any], Iterator[Point]]] = {
    "linear": _linear,
    "bilevel-affine": _affine,
    "bilevel-hidden": _hidden,
    "separation": _separation,
    "separation-size": _sizes,
    "separation-recipes": _recipes,
    "decoreco-random": _from_noise,
    "decoreco-tuned": _tuned,
    "decoreco-reference": _reference,
    "decoreco-partition": _from_partition,
    "counterfactual-sets": _pairs,
    "seed": _seed,
    "seed-law": _law,
    "informed-linear": _closed,
    "informed-reader": _retrained,
    "leakage-identifiability": _one_image,
    "leakage-batches": _batches,
}


# ------------------------------------------------------------------------------------------------ from the whole book


def found_in(root: Path, results: Path, name: str) -> Result[Any]:
    """The run kept at the paper's size where there is one, else the edition's; ReconError where neither is."""
    kept = root / "book" / "paper-size" / name
    return load(kept if (kept / "result.json").is_file() else results / name, arrays=False)


def points(root: Path, results: Path) -> list[Point]:
    """All of them, in the order of the book."""
    found: list[Point] = []
    for name, reader in READERS.items():
        result = found_in(root, results, name)
        found += reader(result.metrics, result.made.config)
    return found


__all__ = ["KNOWLEDGE", "Point", "found_in", "points", "told"]
