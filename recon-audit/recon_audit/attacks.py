"""The attacks of an audit on images, from the weights alone: separation, and the largest rows of
±W1.

Their adversary knows θ*, the architecture, the shape of the images and how many there are; never an
image.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from recon.attacks import by_separation
from recon.attacks.heads import Public, SparseSettings, span_of, sparse_features
from recon.attacks.separation import FirstLayer, SeparationSettings
from recon.errors import ReconError
from recon.nets.network import Shape
from recon.released import Weights

MAX_CANDIDATES = 1000


@dataclass(frozen=True)
class Attempt:
    """What one attack brought home.

    Attributes:
        x_hat (m, d): candidates, none where it could not run.
        how: what was done, in words.
        why_not: why it could not run, in one sentence.
        name.
    """

    x_hat: Tensor
    how: str
    why_not: str | None
    name: str


@dataclass(frozen=True)
class Task:
    """What an attack is given of a network, and asked.

    Attributes:
        first: the dense layer that is given whole images, and its start where that is known; None
            where there is none.
        public (k, d): public features, where the network is a head that is given features;
            candidates are features then, standardised by them.
        shape: (C, H, W) of the images.
    """

    first: Weights | None
    public: Tensor | None
    shape: Shape
    n_train: int
    seed: int

    @property
    def generator(self) -> torch.Generator:
        """What an attack draws from."""
        return torch.Generator().manual_seed(self.seed)


#: candidates (m, d) and what was done, in words, of a task and the first layer; ReconError where it
#: cannot run
Run = Callable[[Task, Weights], tuple[Tensor, str]]


@dataclass(frozen=True)
class Kind:
    """An attack that an audit tries.

    Attributes:
        title: of its part of the report.
        phrase: how images came back, in the verdict.
        run.
    """

    title: str
    phrase: str
    run: Run


def attempts(task: Task, names: Sequence[str]) -> list[Attempt]:
    """Those of `names`, of `KINDS`."""
    results = []
    for name in names:
        x_hat, how, why_not = torch.empty(0, math.prod(task.shape)), "", None
        try:
            if task.first is None:
                raise ReconError(
                    "No dense layer is given whole images: no weights are mixtures of them."
                )
            x_hat, how = KINDS[name].run(task, task.first)
        except ReconError as error:
            why_not = str(error)
        results.append(Attempt(x_hat, how, why_not, name))
    return results


def separation(task: Task, weights: Weights) -> tuple[Tensor, str]:
    """`by_separation` in the strongest directions of the first layer, minus its start where that is
    known, at most as many as there are training images: of Adam's steps from a tiny start far more
    stand out of the spectrum.
    """
    if task.public is not None:
        return _of_features(task, FirstLayer.of(weights), Public(task.public))
    if len(task.shape) != 3 or min(task.shape[1:]) < 2:
        raise ReconError(
            f"Images of {' × '.join(map(str, task.shape))} numbers have no neighbouring pixels in"
            " both directions."
        )
    candidates = by_separation(
        weights,
        task.shape,
        SeparationSettings(rank=min(task.n_train, MAX_CANDIDATES)),
        task.generator,
    )
    if not len(candidates):
        raise ReconError(
            "Nothing that varies from pixel to pixel stands out from the first layer's random"
            " start."
        )
    return candidates.images.flatten(1), (
        f"{len(candidates) // 2} directions of the first layer, unmixed; both signs of each source"
    )


def _of_features(task: Task, layer: FirstLayer, public: Public) -> tuple[Tensor, str]:
    """Of a head: sparse vectors of the span that are not negative (`recon.attacks.heads`)."""
    n_train, mixtures, results = task.n_train, len(layer.w1), []
    if (public.features < 0).any():
        raise ReconError("Some features are negative, and separation of features needs a ReLU.")
    if mixtures < n_train:
        raise ReconError(
            f"The head's first layer has {mixtures} rows for {n_train} training features: so few"
            " mixtures cannot be unmixed."
        )
    for preconditioned in (False, True):
        rank = min(len(span_of(layer, public, None, preconditioned)), n_train)
        if rank:
            results.append(sparse_features(layer, public, SparseSettings(rank), preconditioned))
    if not results:
        raise ReconError("Nothing stands out from the first layer's random start.")
    best = max(results, key=lambda sparse: int(sparse.certified.sum()))
    x_hat = public.standardised(best.x_hat[:MAX_CANDIDATES])
    return x_hat, (
        f"{len(x_hat)} sparse features of the first layer's span,"
        f" {int(best.certified.sum())} of them with more zeros than chance"
    )


def rows(task: Task, weights: Weights) -> tuple[Tensor, str]:
    """The largest rows of ±W1, as many as there are training images, both signs: no attack at
    all.
    """
    w1, public = FirstLayer.of(weights).update, task.public
    if public is not None:
        w1 = w1 / Public(public).scale
    if not w1.any():
        raise ReconError("The first layer is zero.")
    order = w1.norm(dim=1).argsort(descending=True, stable=True)
    largest = w1[order[: min(task.n_train, MAX_CANDIDATES // 2)]]
    return torch.stack([largest, -largest], dim=1).flatten(0, 1), (
        f"the {len(largest)} largest rows of the first layer as they are; both signs of each"
    )


#: name -> attack on images; one more is one more line
KINDS = {
    "separation": Kind("Separation of the first layer", "by separation", separation),
    "rows": Kind("The largest rows of the first layer", "among the rows of the first layer", rows),
}
RECONSTRUCTIONS = tuple(KINDS)
