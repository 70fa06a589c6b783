"""The three attacks of an audit, from the weights alone: separation, the largest rows of ±W1, and
DecoReco.

Their adversary knows θ*, the architecture, the shape of the images and how many there are; never an
image.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from recon.attacks.decoreco import image_span
from recon.attacks.door import Candidates
from recon.attacks.heads import Public, SparseSettings, span_of, sparsest
from recon.attacks.recover import RecoverSettings, recover
from recon.attacks.separation import FirstLayer, SeparationSettings, separate
from recon.nets.gram import layer_norms
from recon.nets.mlp import MLP
from recon.optim.rng import named
from recon.released import Weights
from recon_audit.anatomy import Anatomy, first_layer_of

MAX_CANDIDATES = 1000
PIXEL_STD = 0.25  # of photographs minus their mean, roughly
# λ starts from these times `multiplier_unit`, whichever ends at the lowest energy
SCALES = (0.6, 2.0, 6.0, 20.0)

# of DecoReco, kept
FOUND = ("multipliers", "labels", "contribution", "agreement", "energy", "by_layer")
#: profile -> (restarts, steps of each, steps of the trial of a scale), of DecoReco
BUDGETS = {"smoke": (2, 700, 80), "laptop": (4, 1000, 200), "paper": (8, 1500, 200)}


@dataclass(frozen=True)
class Attempt:
    """What one attack brought home.

    Attributes:
        x_hat (m, d): candidates, none where it could not run.
        how: what was done, in words.
        why_not: why it could not run, in one sentence.
        settings: DecoReco's.
        tensors: what else DecoReco found, see `by_decoreco`.
        name, seconds.
    """

    x_hat: Tensor
    how: str = ""
    why_not: str | None = None
    settings: RecoverSettings | None = None
    tensors: dict[str, Tensor] = field(default_factory=dict)
    name: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Released:
    """What the attacks are given of a network.

    Attributes:
        w1 (h, d): the first dense layer that is given whole images, w1_init its start where that is
            known.
        w1_why_not: why there is none.
        network, theta (p,): the same function as one logit of dense layers with ReLU.
        theta_why_not: why there is none.
        public (k, d): public features, where the network is a head that is given features;
            candidates are features then, standardised by them.
    """

    w1: Tensor | None
    w1_init: Tensor | None = None
    w1_why_not: str | None = None
    network: MLP | None = None
    theta: Tensor | None = None
    theta_why_not: str | None = None
    public: Tensor | None = None

    @classmethod
    def of(
        cls, module: nn.Module, seen: Anatomy, start: nn.Module | None, public: Tensor | None
    ) -> Released:
        """Of a module as `anatomy` saw it;

        Args:
            start: the module before training, as far as it is known.
        """
        w1, w1_init = (
            each if each is None else first_layer_of(each, seen.first) for each in (module, start)
        )
        if public is None:
            return cls(w1, w1_init, seen.first_why_not, seen.mlp, seen.theta, seen.mlp_why_not)
        why_not = "It is not tried on features: separation reads those."
        return cls(w1, w1_init, seen.first_why_not, theta_why_not=why_not, public=public)

    def to(self, device: torch.device) -> Released:
        """On a device."""
        there: dict[str, Any] = {
            name: v.to(device) for name, v in vars(self).items() if isinstance(v, Tensor)
        }
        return replace(self, **there)

    @property
    def update(self) -> Tensor | None:
        """What training wrote into the first layer, as far as the start is known (h, d)."""
        return None if self.w1 is None else FirstLayer(self.w1, self.w1_init).update


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
    run: Callable[[Task], Attempt]


def attempts(task: Task, names: Sequence[str]) -> list[Attempt]:
    """Those of `names`, of `KINDS`."""
    found = []
    for name in names:
        kind, start = KINDS[name], time.perf_counter()
        attempt = _silent(
            task,
            getattr(task.released, f"{kind.needs}_why_not") or "It does not apply to this network.",
        )
        if getattr(task.released, kind.needs) is not None:
            attempt = kind.run(task)
        found.append(replace(attempt, name=name, seconds=time.perf_counter() - start))
    return found


def _silent(task: Task, why_not: str) -> Attempt:
    return Attempt(torch.empty(0, math.prod(task.shape)), why_not=why_not)


def of_door(attack: Callable[..., Candidates]) -> Callable[[Task], Attempt]:
    """A function of `recon.attacks` as what a `Kind` runs, with its own settings."""

    def run(task: Task) -> Attempt:
        given = task.released
        assert given.network is not None and given.theta is not None
        weights = Weights(given.network, given.theta, n_train=task.n_train)
        # a stream of its own: a reader's own images may have been drawn with the same seed
        stream = named(task.seed, f"audit.{attack.__name__.removeprefix('by_')}")
        x_hat = attack(weights, task.shape, None, stream).images.flatten(1)[:MAX_CANDIDATES]
        return Attempt(x_hat, f"{len(x_hat)} candidates")

    return run


def by_separation(task: Task) -> Attempt:
    """`separate` in the strongest directions of the first layer, minus its start where that is
    known, at most as many as there are training images: of Adam's steps from a tiny start far more
    stand out of the spectrum.
    """
    given = task.released
    assert given.w1 is not None
    layer = FirstLayer(given.w1, given.w1_init)
    if given.public is not None:
        return _of_features(task, layer, Public(given.public))
    if len(task.shape) != 3 or min(task.shape[1:]) < 2:
        size = " × ".join(map(str, task.shape))
        return _silent(
            task, f"Images of {size} numbers have no neighbouring pixels in both directions."
        )
    settings = SeparationSettings(rank=min(task.n_train, MAX_CANDIDATES))
    found = separate(layer, task.shape, settings, torch.Generator().manual_seed(task.seed))
    if not len(found.x_hat):
        why_not = (
            "Nothing that varies from pixel to pixel stands out from the first layer's random"
            " start."
        )
        return _silent(task, why_not)
    how = (
        f"{len(found.x_hat) // 2} directions of the first layer, unmixed; both signs of each source"
    )
    return Attempt(found.x_hat, how, tensors={"share": found.share})


def _of_features(task: Task, layer: FirstLayer, public: Public) -> Attempt:
    """Of a head: sparse vectors of the span that are not negative (`recon.attacks.heads`)."""
    n_train, rows = task.n_train, len(layer.w1)
    if (public.features < 0).any():
        return _silent(task, "Some features are negative, and separation of features needs a ReLU.")
    if rows < n_train:
        few = f"The head's first layer has {rows} rows for {n_train} training features"
        return _silent(task, f"{few}: so few mixtures cannot be unmixed.")
    ranks = {bent: min(len(span_of(layer, public, None, bent)), n_train) for bent in (False, True)}
    tried = [
        sparsest(layer, public, SparseSettings(rank=rank), bent)
        for bent, rank in ranks.items()
        if rank
    ]
    if not tried:
        return _silent(task, "Nothing stands out from the first layer's random start.")
    best = max(tried, key=lambda each: int(each.certified.sum()))
    x_hat = public.standardised(best.x_hat[:MAX_CANDIDATES])
    certified = f"{int(best.certified.sum())} of them with more zeros than chance"
    return Attempt(x_hat, f"{len(x_hat)} sparse features of the first layer's span, {certified}")


def by_rows(task: Task) -> Attempt:
    """The largest rows of ±W1, as many as there are training images, both signs: no attack at
    all.
    """
    w1 = task.released.update
    assert w1 is not None
    if task.released.public is not None:
        w1 = w1 / Public(task.released.public).scale
    if not w1.any():
        return _silent(task, "The first layer is zero.")
    largest = w1[
        w1.norm(dim=1).argsort(descending=True, stable=True)[
            : min(task.n_train, MAX_CANDIDATES // 2)
        ]
    ]
    x_hat = torch.stack([largest, -largest], dim=1).flatten(0, 1)
    return Attempt(
        x_hat, f"the {len(largest)} largest rows of the first layer as they are; both signs of each"
    )


def by_decoreco(task: Task) -> Attempt:
    """`recover` with `settings_for`, where that is possible: multipliers, labels, contribution,
    agreement (m,), energy (restarts,), by_layer (restarts, L), basis (r, d; r = 0 for all of pixel
    space), multiplier_scale.
    """
    network, theta_star = task.released.network, task.released.theta
    assert network is not None and theta_star is not None
    settings = settings_for(network, theta_star, task.n_train, task.profile)
    if settings is None:
        return _silent(
            task, "The network answers 0 to everything, or numbers too large to work with."
        )
    found = recover(
        Weights(network, theta_star), settings, torch.Generator().manual_seed(task.seed)
    )
    tensors = {
        **{name: getattr(found, name) for name in FOUND},
        "basis": found.x_hat.new_empty(0, network.dim) if found.basis is None else found.basis,
        "multiplier_scale": torch.tensor(found.multiplier_scale),
    }
    steps = f"{settings.restarts} restarts of {settings.steps} steps"
    how = f"{settings.m} candidates, {steps} in {len(tensors['basis']) or network.dim} dimensions"
    return Attempt(found.x_hat, how, settings=settings, tensors=tensors)


def settings_for(
    network: MLP, theta_star: Tensor, n_train: int, profile: str
) -> RecoverSettings | None:
    """Two candidates per training image, up to a limit; the first layer only, as in `recover`; in
    the `image_span` where the weights show one, else in all of pixel space; multipliers around
    `multiplier_unit`, None without one.
    """
    restarts, steps, scale_steps = BUDGETS[profile]
    m = min(2 * n_train, MAX_CANDIDATES)
    basis = image_span(Weights(network, theta_star)).basis
    project = len(basis) > 1  # 1 means that nothing stands out from noise
    unit = multiplier_unit(network, theta_star, m, basis if project else None)
    if not 0 < unit < float("inf"):
        return None
    return RecoverSettings(
        m=m,
        restarts=restarts,
        steps=steps,
        multiplier_scales=tuple(float(f"{factor * unit:.2g}") for factor in SCALES),
        scale_steps=scale_steps,
        layer_weights=(1.0,) + (0.0,) * (network.depth - 1),
        project=project,
    )


def multiplier_unit(network: MLP, theta_star: Tensor, m: int, basis: Tensor | None) -> float:
    """‖θ_1‖² / (m · mean |Φ(x)|) over random x in the span of `basis` (r, d), of standard deviation
    PIXEL_STD.

    A homogeneous net at a KKT point has Σ_i λ_i y_i Φ(x_i) = ‖θ_1‖², so this is the size of λ_i: it
    falls as training goes on and ‖θ‖ grows. Needs no image. Infinite or NaN for a network that
    answers 0 everywhere.
    """
    params = network.unflatten(theta_star)
    z = torch.randn(
        256,
        network.dim if basis is None else len(basis),
        generator=torch.Generator().manual_seed(0),
    )
    z = torch.nn.functional.normalize(z, dim=1).to(theta_star) * PIXEL_STD * network.dim**0.5
    size = network(params, z if basis is None else z @ basis).abs().mean()
    return (layer_norms(network, params)[0] / (m * size)).item()


#: name -> attack on images; one more is one more line
KINDS = {
    "separation": Kind("Separation of the first layer", "by separation", "w1", by_separation),
    "rows": Kind(
        "The largest rows of the first layer", "among the rows of the first layer", "w1", by_rows
    ),
    "decoreco": Kind("DecoReco", "by DecoReco", "theta", by_decoreco),
}
RECONSTRUCTIONS = tuple(KINDS)
