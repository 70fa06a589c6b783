"""Points of the map where weights are released; one function an experiment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recon.chapters.architectures.metrics import START as START_KNOWN
from recon.nets.mlp import MLP, affine, one_hidden, three_layer
from recon.press.knowing.point import (
    AFFINE,
    BLOCK,
    CIFAR,
    CONVOLUTIONS,
    DENSE,
    EXACT,
    HIDDEN,
    LOOKS,
    NEARLY,
    NOTHING,
    RECIPE,
    REST,
    RETRAIN,
    START,
    Point,
    Reader,
    told,
)

RECIPE_FAMILIES = ("decay", "start", "stop", "defence")  # of one architecture: the base recipe's
#: what noise was added to: to the weights of the one, to every step of the other
UNDISTURBED = ("base", "small start, short")
RECIPE_KNOWLEDGE = {"unknown": NOTHING, "known": START, "known up to 10 %": NEARLY}
SEED_KNOWLEDGE = {None: NOTHING, 0.1: NEARLY, 0.0: START}


def _affine(metrics: Any, config: Any) -> Iterator[Point]:
    """Bilevel from noise: nothing is found where the end is no nearer to the training images than images that nobody
    trained on."""
    n, nearer = metrics.n_train, metrics.random.nn_train_l2 < metrics.null.held_out_nn_l2
    yield Point(
        experiment="bilevel-affine",
        knowledge=NOTHING,
        told=told(affine(CIFAR).n_params, n),
        network=AFFINE,
        unknown=n,
        found=n if nearer else 0,
        null=0,
        others=metrics.partition.converged,
    )


def _linear(metrics: Any, config: Any) -> Iterator[Point]:
    """Other photographs with the same classifier; where they are, no attack can tell."""
    for row in metrics.by_n:
        yield Point(
            experiment="linear",
            knowledge=NOTHING,
            told=told(affine(CIFAR).n_params, row.n),
            network=AFFINE,
            unknown=row.n,
            found=0,
            null=0,
            others=row.converged,
        )


def _hidden(metrics: Any, config: Any) -> Iterator[Point]:
    n, end = metrics.n_train, metrics.inner_start.uniform.random
    yield Point(
        experiment="bilevel-hidden",
        knowledge=NOTHING,
        told=told(one_hidden(config["width"], CIFAR).n_params, n),
        network=HIDDEN,
        unknown=n,
        found=n if end.nn_train_l2 < metrics.null.held_out_nn_l2 else 0,
        null=0,
    )


def _dense(
    experiment: str,
    knowledge: str,
    network: MLP,
    n: int,
    found: Any,
    null: Any,
    sure: int | None = None,
    kept: bool = False,
) -> Point:
    """A network of fully connected layers; found, null: counts by yardstick."""
    return Point(
        experiment=experiment,
        knowledge=knowledge,
        told=told(network.n_params, n),
        network=DENSE,
        unknown=n,
        found=found.ncc_07,
        null=null.ncc_07,
        sure=sure,
        kept=kept,
    )


def _three(
    experiment: str, knowledge: str, width: int, n: int, table: Any, sure: int | None = None, kept: bool = False
) -> Point:
    """A network 3072-width-width-1, its counts from a table with nulls."""
    network = three_layer(width, CIFAR)
    return _dense(experiment, knowledge, network, n, table.matches, table.best_null, sure, kept)


def _separation(metrics: Any, config: Any) -> Iterator[Point]:
    about = metrics.certainty.networks.get(f"n = {metrics.n_train}")
    sure = None if about is None else round(about.precision_sure * about.sure)
    yield _three("separation", NOTHING, config["width"], metrics.n_train, metrics, sure)


def _sizes(metrics: Any, config: Any) -> Iterator[Point]:
    for cell in metrics.of("cifar"):
        if cell.side == 32:
            yield _three("separation-size", NOTHING, cell.width, cell.n_train, cell)


def _prior(metrics: Any, config: Any) -> Iterator[Point]:
    if metrics.side == 32:
        top = metrics.trusted.top.get("100")
        sure = None if top is None else round(100 * top)
        yield _three("separation-prior", NOTHING, metrics.width, metrics.n_train, metrics.found, sure)


def noisy(cell: str) -> bool:
    """Whether noise was added to the weights of that recipe's network, or to every step of its training."""
    return cell.startswith("noise ") or "DP-SGD" in cell


def _recipes(metrics: Any, config: Any) -> Iterator[Point]:
    """Those without noise."""
    for cell in metrics.cells:
        if cell.family in RECIPE_FAMILIES and not noisy(cell.cell):
            known, width, kept = RECIPE_KNOWLEDGE[cell.known], config["base"]["width"], cell.start_over_update > 1
            yield _three("separation-recipes", known, width, cell.n_train, cell, cell.certainty.true_among_sure, kept)


def _tuned(metrics: Any, config: Any) -> Iterator[Point]:
    yield _three("decoreco-tuned", NOTHING, config["width"], metrics.n_train, metrics)


def _decoreco_sizes(metrics: Any, config: Any) -> Iterator[Point]:
    for row in metrics.sizes:
        yield _three("decoreco-size", NOTHING, config["width"], row.n_train, row)


def _regimes(metrics: Any, config: Any) -> Iterator[Point]:
    """From noise, from what separation finds, and separation itself."""
    for cell in metrics.cells:
        yield _three("decoreco-regimes", NOTHING, cell.width, cell.n_train, cell)


def _from_noise(metrics: Any, config: Any) -> Iterator[Point]:
    yield _three("decoreco-random", NOTHING, config["width"], metrics.n_train, metrics)


def _from_partition(metrics: Any, config: Any) -> Iterator[Point]:
    yield _three("decoreco-partition", LOOKS, config["width"], metrics.n_train, metrics)


def _reference(metrics: Any, config: Any) -> Iterator[Point]:
    for arm in metrics.arms:
        known = LOOKS if arm.start == "partition" else NOTHING
        yield _three("decoreco-reference", known, metrics.net.width, metrics.n_train, arm)


def _truth(metrics: Any, config: Any) -> Iterator[Point]:
    """From other photographs and from noise; its start at the truth is nobody's attack."""
    network, found, null = (
        three_layer(config["width"], CIFAR),
        metrics.matches_after_attack,
        metrics.best_null_after_attack,
    )
    yield _dense("decoreco-truth", LOOKS, network, metrics.n_train, found.partition, null.partition)
    yield _dense("decoreco-truth", NOTHING, network, metrics.n_train, found.random, null.random)


def _pairs(metrics: Any, config: Any) -> Iterator[Point]:
    """Separation of one network, for which pairs of other images are shown that satisfy its KKT conditions as well."""
    n = metrics.n_train
    yield Point(
        experiment="counterfactual-sets",
        knowledge=NOTHING,
        told=told(three_layer(config["width"], CIFAR).n_params, n),
        network=DENSE,
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
                yield _three("seed", known, net.width, net.n_train, rung, kept=kept)


def _drawn(metrics: Any, config: Any) -> Iterator[Point]:
    """Only how the start was drawn is known; knowing nothing is `_seed`'s."""
    for net in metrics.nets:
        yield _three("seed-distribution", LOOKS, net.width, net.n_train, net.distribution, kept=net.moved < 1)


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
    """Each image was once the missing one, and the weights are in float32, as published ones are.  They are sure where
    the doubt of the true image is below that of every wrong guess."""
    for row in metrics.rows:
        certain = row.single.doubt < min(row.least_wrong_doubt, row.least_two_doubt)
        yield Point(
            experiment="informed-linear",
            knowledge=REST,
            told=told(affine(CIFAR).n_params, 1),
            network=AFFINE,
            unknown=row.n,
            found=row.single.found,
            null=0,
            sure=row.single.found if certain else 0,
        )


def _retrained(metrics: Any, config: Any) -> Iterator[Point]:
    """Digits of 8 × 8: retraining with the missing one from the known start, until the weights are those released."""
    ends, size = metrics.inversions, one_hidden(config["width"], 64).n_params
    known = [end for end in ends if end.mse < EXACT and end.residual < 1e-6 * end.wrong]
    yield Point(
        experiment="informed-reader",
        knowledge=RETRAIN,
        told=told(size, 1, 64),
        network=HIDDEN,
        unknown=len(ends),
        found=sum(end.mse < EXACT for end in ends),
        null=sum(end.start < EXACT for end in ends),
        sure=len(known),
    )


def _deeper(metrics: Any, config: Any) -> Iterator[Point]:
    """Three to six linear layers, two to ten classes: separation with and without the start, and DecoReco."""
    for net in metrics.nets:
        outputs = 1 if net.classes == 2 else net.classes
        network = MLP((CIFAR, *[metrics.width] * (net.depth - 1), outputs), (True, *[False] * (net.depth - 1)))
        for attack in net.attacks:
            known = START if attack.known == START_KNOWN else NOTHING
            yield _dense("architectures-dense", known, network, metrics.n_train, attack.matches, attack.best_null)


def _simulated(metrics: Any, config: Any) -> Iterator[Point]:
    """Small networks whose training the adversary simulates: start, labels and recipe are known."""
    for net in metrics.nets:
        yield Point(
            experiment="architectures-simulated",
            knowledge=RECIPE,
            told=net.parameters / net.unknowns,
            network=BLOCK if net.residual_net else CONVOLUTIONS,
            unknown=metrics.n_train,
            found=net.best,
            null=net.best_null,
            sure=None if net.explained and net.rank is None else (net.best if net.sure else 0),
        )


WEIGHTS: dict[str, Reader] = {
    "linear": _linear,
    "bilevel-affine": _affine,
    "bilevel-hidden": _hidden,
    "separation": _separation,
    "separation-size": _sizes,
    "separation-prior": _prior,
    "separation-recipes": _recipes,
    "decoreco-random": _from_noise,
    "decoreco-tuned": _tuned,
    "decoreco-size": _decoreco_sizes,
    "decoreco-regimes": _regimes,
    "decoreco-reference": _reference,
    "decoreco-partition": _from_partition,
    "decoreco-truth": _truth,
    "counterfactual-sets": _pairs,
    "seed": _seed,
    "seed-distribution": _drawn,
    "seed-law": _law,
    "informed-linear": _closed,
    "informed-reader": _retrained,
    "architectures-dense": _deeper,
    "architectures-simulated": _simulated,
}

__all__ = ["UNDISTURBED", "WEIGHTS", "noisy"]
