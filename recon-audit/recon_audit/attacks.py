"""The three attacks of an audit, from the weights alone: separation, the largest rows of ±W1, and
DecoReco.

Their adversary knows θ*, the architecture, the shape of the images and how many there are; never an
image.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from recon.attacks import by_decoreco, by_separation
from recon.attacks.decoreco import image_span
from recon.attacks.heads import Public, SparseSettings, span_of, sparse_features
from recon.attacks.recover import RecoverSettings
from recon.attacks.separation import PIXEL_STD, FirstLayer, SeparationSettings
from recon.errors import ReconError
from recon.nets.gram import layer_norms
from recon.released import Weights
from recon_audit.anatomy import Classifier, first_layer_of

MAX_CANDIDATES = 1000
# λ starts from these times `multiplier_unit`, whichever ends at the lowest energy
SCALES = (0.6, 2.0, 6.0, 20.0)
#: profile -> (restarts, steps of each, steps of the trial of a scale), of DecoReco
BUDGETS = {"smoke": (2, 700, 80), "laptop": (4, 1000, 200), "paper": (8, 1500, 200)}


@dataclass(frozen=True)
class Attempt:
    """What one attack brought home.

    Attributes:
        x_hat (m, d): candidates, none where it could not run.
        how: what was done, in words.
        why_not: why it could not run, in one sentence.
        name, seconds.
    """

    x_hat: Tensor
    how: str
    why_not: str | None
    name: str
    seconds: float


@dataclass(frozen=True)
class Released:
    """What the attacks are given of a network.

    Attributes:
        first: the dense layer that is given whole images, and its start where that is known.
        first_why_not: why there is none.
        dense: the same function as one logit of dense layers with ReLU.
        dense_why_not: why there is none.
        public (k, d): public features, where the network is a head that is given features;
            candidates are features then, standardised by them.
    """

    first: Weights | None
    first_why_not: str | None = None
    dense: Weights | None = None
    dense_why_not: str | None = None
    public: Tensor | None = None

    @classmethod
    def of(cls, seen: Classifier, start: nn.Module | None, public: Tensor | None) -> Released:
        """Of a module as `examine` saw it;

        Args:
            start: the module before training, as far as it is known.
        """
        first, dense, why_not = first_layer_of(seen, start), seen.dense, seen.dense_why_not
        if public is not None:
            dense, why_not = None, "It is not tried on features: separation reads those."
        return cls(first, seen.first_why_not, dense, why_not, public)

    def to(self, device: torch.device) -> Released:
        """On a device."""
        there: dict[str, Any] = {
            name: part.to(device) for name, part in vars(self).items() if hasattr(part, "to")
        }
        return replace(self, **there)


@dataclass(frozen=True)
class Task:
    """What an attack is asked.

    Attributes:
        shape: (C, H, W) of the images.
    """

    released: Released
    shape: tuple[int, ...]
    n_train: int
    profile: str
    seed: int

    @property
    def generator(self) -> torch.Generator:
        """What an attack draws from."""
        return torch.Generator().manual_seed(self.seed)


#: candidates (m, d) and what was done, in words, of a task and the weights that the attack needs;
#: ReconError where it cannot run
Run = Callable[[Task, Weights], tuple[Tensor, str]]


@dataclass(frozen=True)
class Kind:
    """An attack that an audit tries.

    Attributes:
        title: of its part of the report.
        phrase: how images came back, in the verdict.
        needs: the field of `Released` without which it does not apply.
        run.
    """

    title: str
    phrase: str
    needs: str
    run: Run


def attempts(task: Task, names: Sequence[str]) -> list[Attempt]:
    """Those of `names`, of `KINDS`."""
    results = []
    for name in names:
        kind, began = KINDS[name], time.perf_counter()
        x_hat, how, why_not = torch.empty(0, math.prod(task.shape)), "", None
        try:
            weights = getattr(task.released, kind.needs)
            if weights is None:
                raise ReconError(getattr(task.released, f"{kind.needs}_why_not"))
            x_hat, how = kind.run(task, weights)
        except ReconError as error:
            why_not = str(error)
        results.append(Attempt(x_hat, how, why_not, name, time.perf_counter() - began))
    return results


def separation(task: Task, weights: Weights) -> tuple[Tensor, str]:
    """`by_separation` in the strongest directions of the first layer, minus its start where that is
    known, at most as many as there are training images: of Adam's steps from a tiny start far more
    stand out of the spectrum.
    """
    if task.released.public is not None:
        return _of_features(task, FirstLayer.of(weights), Public(task.released.public))
    if len(task.shape) != 3 or min(task.shape[1:]) < 2:
        size = " × ".join(map(str, task.shape))
        raise ReconError(
            f"Images of {size} numbers have no neighbouring pixels in both directions."
        )
    settings = SeparationSettings(rank=min(task.n_train, MAX_CANDIDATES))
    candidates = by_separation(weights, task.shape, settings, task.generator)
    if not len(candidates):
        raise ReconError(
            "Nothing that varies from pixel to pixel stands out from the first layer's random"
            " start."
        )
    how = (
        f"{len(candidates) // 2} directions of the first layer, unmixed; both signs of each source"
    )
    return candidates.images.flatten(1), how


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
            settings = SparseSettings(rank=rank)
            results.append(sparse_features(layer, public, settings, preconditioned))
    if not results:
        raise ReconError("Nothing stands out from the first layer's random start.")
    best = max(results, key=lambda sparse: int(sparse.certified.sum()))
    x_hat = public.standardised(best.x_hat[:MAX_CANDIDATES])
    certified = f"{int(best.certified.sum())} of them with more zeros than chance"
    return x_hat, f"{len(x_hat)} sparse features of the first layer's span, {certified}"


def rows(task: Task, weights: Weights) -> tuple[Tensor, str]:
    """The largest rows of ±W1, as many as there are training images, both signs: no attack at
    all.
    """
    w1, public = FirstLayer.of(weights).update, task.released.public
    if public is not None:
        w1 = w1 / Public(public).scale
    if not w1.any():
        raise ReconError("The first layer is zero.")
    count = min(task.n_train, MAX_CANDIDATES // 2)
    largest = w1[w1.norm(dim=1).argsort(descending=True, stable=True)[:count]]
    how = f"the {len(largest)} largest rows of the first layer as they are; both signs of each"
    return torch.stack([largest, -largest], dim=1).flatten(0, 1), how


def decoreco(task: Task, weights: Weights) -> tuple[Tensor, str]:
    """`by_decoreco`, in the `image_span` where the weights show one: two candidates per training
    image, up to a limit; the first layer only, as in `recover`; multipliers around
    `multiplier_unit`.
    """
    basis = image_span(weights).basis
    if len(basis) == 1:  # nothing stands out from noise
        basis = basis[:0]
    m = min(2 * task.n_train, MAX_CANDIDATES)
    unit = multiplier_unit(weights, m, basis)
    if not 0 < unit < math.inf:
        raise ReconError("The network answers 0 to everything, or numbers too large to work with.")
    restarts, steps, scale_steps = BUDGETS[task.profile]
    settings = RecoverSettings(
        m,
        restarts,
        steps,
        multiplier_scales=tuple(float(f"{factor * unit:.2g}") for factor in SCALES),
        scale_steps=scale_steps,
        layer_weights=(1.0,) + (0.0,) * (weights.network.depth - 1),
        project=len(basis) > 0,
    )
    candidates = by_decoreco(weights, task.shape, settings, task.generator)
    dimensions = len(basis) or weights.network.dim
    how = f"{m} candidates, {restarts} restarts of {steps} steps in {dimensions} dimensions"
    return candidates.images.flatten(1), how


def multiplier_unit(weights: Weights, m: int, basis: Tensor) -> float:
    """‖θ_1‖² / (m · mean |Φ(x)|) over random x in the span of `basis` (r, d), of pixels for r = 0,
    of standard deviation PIXEL_STD.

    A homogeneous net at a KKT point has Σ_i λ_i y_i Φ(x_i) = ‖θ_1‖², so this is the size of λ_i: it
    falls as training goes on and ‖θ‖ grows. Needs no image. Infinite or NaN for a network that
    answers 0 everywhere.
    """
    network = weights.network
    z = torch.randn(256, len(basis) or network.dim, generator=torch.Generator().manual_seed(0))
    z = normalize(z, dim=1).to(weights.theta_star) * PIXEL_STD * network.dim**0.5
    size = network(weights.params, z @ basis if len(basis) else z).abs().mean()
    return (layer_norms(network, weights.params)[0] / (m * size)).item()


#: name -> attack on images; one more is one more line
KINDS = {
    "separation": Kind("Separation of the first layer", "by separation", "first", separation),
    "rows": Kind(
        "The largest rows of the first layer", "among the rows of the first layer", "first", rows
    ),
    "decoreco": Kind("DecoReco", "by DecoReco", "dense", decoreco),
}
RECONSTRUCTIONS = tuple(KINDS)
