"""The three attacks of an audit, from the weights alone: separation, the largest rows of ±W1, and DecoReco.

Their adversary knows θ*, the architecture, the shape of the images and how many there are; never an image.  What they
find is kept on disk under a key of all it depends on.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import safetensors
import torch
from torch import Tensor

from recon.attacks.decoreco import image_span
from recon.attacks.door import Candidates
from recon.attacks.heads import Public, SparseSettings, span_of, sparsest
from recon.attacks.recover import RecoverSettings, recover
from recon.attacks.separation import FirstLayer, SeparationSettings, separate
from recon.errors import ReconError
from recon.nets.gram import layer_norms
from recon.nets.mlp import MLP
from recon.optim.rng import named
from recon.released import Weights
from recon.store.checkpoints import Checkpoints
from recon.store.keys import code_hash, result_key
from recon.store.tensors import checkpoint_folder, load_tensors, save_tensors

MAX_CANDIDATES = 1000
PIXEL_STD = 0.25  # of photographs minus their mean, roughly
SCALES = (0.6, 2.0, 6.0, 20.0)  # λ starts from these times `multiplier_unit`, whichever ends at the lowest energy

FOUND = ("x_hat", "multipliers", "labels", "contribution", "agreement", "energy", "by_layer")  # of DecoReco, kept
#: profile -> (restarts, steps of each, steps of the trial of a scale), of DecoReco
BUDGETS = {"smoke": (2, 700, 80), "laptop": (4, 1000, 200), "paper": (8, 1500, 200)}


@dataclass(frozen=True)
class Attempt:
    """What one attack brought home.

    x_hat (m, d): candidates, none where it could not run · how: what was done, in words · why_not: why it could not
    run, in one sentence · seconds · settings: DecoReco's · tensors: what else DecoReco keeps, see `decoreco`.
    """

    name: str
    x_hat: Tensor
    how: str = ""
    why_not: str | None = None
    seconds: float = 0.0
    settings: RecoverSettings | None = None
    tensors: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Released:
    """What the attacks are given of a network.

    w1 (h, d): the first dense layer that is given whole images, w1_init its start where that is known · w1_why_not:
    why there is none · network, theta (p,): the same function as one logit of dense layers with ReLU · theta_why_not:
    why there is none · public (k, d): public features, where the network is a head that is given features; candidates
    are features then, standardised by them.
    """

    w1: Tensor | None
    w1_init: Tensor | None = None
    w1_why_not: str | None = None
    network: MLP | None = None
    theta: Tensor | None = None
    theta_why_not: str | None = None
    public: Tensor | None = None

    @property
    def update(self) -> Tensor | None:
        """What training wrote into the first layer, as far as the start is known (h, d)."""
        return None if self.w1 is None else FirstLayer(self.w1, self.w1_init).update


@dataclass(frozen=True)
class Task:
    """What an attack is asked.  shape: (C, H, W) of the images · folder: for what is kept."""

    released: Released
    shape: tuple[int, ...]
    n_train: int
    profile: str
    seed: int
    folder: Path


@dataclass(frozen=True)
class Kind:
    """An attack that an audit tries.  title: of its part of the report · phrase: how images came back, in the verdict ·
    needs: the field of `Released` without which it does not apply · run."""

    title: str
    phrase: str
    needs: str
    run: Callable[[Task], Attempt]


def check_profile(profile: str) -> None:
    """ReconError for an unknown one."""
    if profile not in BUDGETS:
        raise ReconError(f"unknown profile '{profile}': choose one of {', '.join(BUDGETS)}")


def attempts(task: Task, names: Sequence[str] | None = None) -> list[Attempt]:
    """Those of `names`, by default all `KINDS`."""
    check_profile(task.profile)
    return [_attempt(name, task) for name in (KINDS if names is None else names)]


def _attempt(name: str, task: Task) -> Attempt:
    kind, released = KINDS[name], task.released
    if getattr(released, kind.needs) is None:
        why_not = getattr(released, f"{kind.needs}_why_not") or "It does not apply to this network."
        return Attempt(name, torch.empty(0, math.prod(task.shape)), why_not=why_not)
    if released.public is not None and name in ("separation", "rows"):
        return by_features(name, released, Public(released.public), task.n_train)
    return kind.run(task)


def _separation(task: Task) -> Attempt:
    given = task.released
    assert given.w1 is not None
    return by_separation(given.w1, task.shape, task.n_train, task.seed, task.folder, given.w1_init)


def _rows(task: Task) -> Attempt:
    assert task.released.update is not None
    return by_rows(task.released.update, task.n_train)


def _decoreco(task: Task) -> Attempt:
    given = task.released
    assert given.network is not None and given.theta is not None
    return by_decoreco(given.network, given.theta, task.n_train, task.profile, task.seed, task.folder)


def of_door(attack: Callable[..., Candidates]) -> Callable[[Task], Attempt]:
    """A function of `recon.attacks` as what a `Kind` runs, with its own settings."""

    def run(task: Task) -> Attempt:
        given, start = task.released, time.perf_counter()
        assert given.network is not None and given.theta is not None
        weights = Weights(given.network, given.theta, n_train=task.n_train)
        name = attack.__name__.removeprefix("by_")
        # a stream of its own: a reader's own images may have been drawn with the same seed
        found = attack(weights, task.shape, None, named(task.seed, f"audit.{name}"))
        x_hat = found.images.flatten(1)[:MAX_CANDIDATES]
        return Attempt(name, x_hat, f"{len(x_hat)} candidates", seconds=time.perf_counter() - start)

    return run


#: name -> attack on images; one more is one more line
KINDS = {
    "separation": Kind("Separation of the first layer", "by separation", "w1", _separation),
    "rows": Kind("The largest rows of the first layer", "among the rows of the first layer", "w1", _rows),
    "decoreco": Kind("DecoReco", "by DecoReco", "theta", _decoreco),
}
RECONSTRUCTIONS = tuple(KINDS)


# ---------------------------------------------------------------------------------------------------- separation


def by_separation(
    w1: Tensor, shape: tuple[int, ...], n_train: int, seed: int, folder: Path, w1_init: Tensor | None = None
) -> Attempt:
    """`separate` in the strongest directions of w1 (h, d), minus its start where that is known, at most as many as
    there are training images.

    The limit matters where the start is tiny and the steps were Adam's: there far more directions stand out of the
    spectrum than there are images.
    """
    nothing = w1.new_empty(0, w1.shape[1])
    if len(shape) != 3 or min(shape[1:]) < 2:
        why_not = f"Images of {' × '.join(map(str, shape))} numbers have no neighbouring pixels in both directions."
        return Attempt("separation", nothing, why_not=why_not)
    settings = SeparationSettings(rank=min(n_train, MAX_CANDIDATES))
    code = _code("recon.attacks.separation", "separate")
    key = result_key("audit", settings, seed, w1.device.type, _digest(w1, shape, w1_init), code)

    def compute() -> dict[str, Tensor]:
        found = separate(FirstLayer(w1, w1_init), shape, settings, torch.Generator().manual_seed(seed))
        return {"x_hat": found.x_hat, "share": found.share}

    kept, seconds = _kept(folder, "sources", key, compute, w1.device, ("x_hat", "share"))
    if not len(kept["x_hat"]):
        why_not = "Nothing that varies from pixel to pixel stands out from the first layer's random start."
        return Attempt("separation", nothing, why_not=why_not, seconds=seconds)
    how = f"{len(kept['x_hat']) // 2} directions of the first layer, unmixed; both signs of each source"
    return Attempt("separation", kept["x_hat"], how, seconds=seconds)


def by_features(name: str, released: Released, public: Public, n_train: int) -> Attempt:
    """Of a head: sparse vectors of the span that are not negative (`recon.attacks.heads`), or the largest rows."""
    assert released.w1 is not None and released.update is not None
    nothing = released.w1.new_empty(0, released.w1.shape[1])
    if name == "rows":
        return by_rows(released.update / public.scale, n_train)
    if (public.features < 0).any():
        return Attempt(name, nothing, why_not="Some features are negative, and separation of features needs a ReLU.")
    if len(released.w1) < n_train:
        why_not = (
            f"The head's first layer has {len(released.w1)} rows for {n_train} training features: so few mixtures "
            "cannot be unmixed."
        )
        return Attempt(name, nothing, why_not=why_not)
    start = time.perf_counter()
    layer = FirstLayer(released.w1, released.w1_init)
    ranks = {bent: min(len(span_of(layer, public, None, bent)), n_train) for bent in (False, True)}
    tried = {bent: sparsest(layer, public, SparseSettings(rank=rank), bent) for bent, rank in ranks.items() if rank}
    if not tried:
        return Attempt(name, nothing, why_not="Nothing stands out from the first layer's random start.")
    best = max(tried, key=lambda bent: int(tried[bent].certified.sum()))
    x_hat = public.standardised(tried[best].x_hat[:MAX_CANDIDATES])
    how = (
        f"{len(x_hat)} sparse features of the first layer's span, {int(tried[best].certified.sum())} of them with more "
        "zeros than chance"
    )
    return Attempt(name, x_hat, how, seconds=time.perf_counter() - start)


# ---------------------------------------------------------------------------------------------------------- rows


def by_rows(w1: Tensor, n_train: int) -> Attempt:
    """The largest rows of ±w1 (h, d), as many as there are training images, both signs: no attack at all."""
    if not w1.any():
        return Attempt("rows", w1[:0], why_not="The first layer is zero.")
    start = time.perf_counter()
    largest = w1[w1.norm(dim=1).argsort(descending=True, stable=True)[: min(n_train, MAX_CANDIDATES // 2)]]
    x_hat = torch.stack([largest, -largest], dim=1).flatten(0, 1)
    how = f"the {len(largest)} largest rows of the first layer as they are; both signs of each"
    return Attempt("rows", x_hat, how, seconds=time.perf_counter() - start)


# ------------------------------------------------------------------------------------------------------ DecoReco


def by_decoreco(network: MLP, theta_star: Tensor, n_train: int, profile: str, seed: int, folder: Path) -> Attempt:
    """`decoreco` with `settings_for`, where that is possible."""
    settings = settings_for(network, theta_star, n_train, profile)
    if settings is None:
        why_not = "The network answers 0 to everything, or numbers too large to work with."
        return Attempt("decoreco", theta_star.new_empty(0, network.dim), why_not=why_not)
    found, seconds = decoreco(network, theta_star, settings, seed, folder)
    how = (
        f"{settings.m} candidates, {settings.restarts} restarts of {settings.steps} steps in "
        f"{len(found['basis']) or network.dim} dimensions"
    )
    return Attempt("decoreco", found["x_hat"], how, seconds=seconds, settings=settings, tensors=found)


def settings_for(network: MLP, theta_star: Tensor, n_train: int, profile: str) -> RecoverSettings | None:
    """Two candidates per training image, up to a limit; the first layer only, as in `recover`; in the `image_span`
    where the weights show one, else in all of pixel space; multipliers around `multiplier_unit`, None without one."""
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
    """‖θ_1‖² / (m · mean |Φ(x)|) over random x in the span of `basis` (r, d), of standard deviation PIXEL_STD.

    A homogeneous net at a KKT point has Σ_i λ_i y_i Φ(x_i) = ‖θ_1‖², so this is the size of λ_i: it falls as training
    goes on and ‖θ‖ grows.  Needs no image.  Infinite or NaN for a network that answers 0 everywhere.
    """
    params = network.unflatten(theta_star)
    z = torch.randn(256, network.dim if basis is None else len(basis), generator=torch.Generator().manual_seed(0))
    z = torch.nn.functional.normalize(z, dim=1).to(theta_star) * PIXEL_STD * network.dim**0.5
    size = network(params, z if basis is None else z @ basis).abs().mean()
    return (layer_norms(network, params)[0] / (m * size)).item()


def decoreco(
    network: MLP, theta_star: Tensor, settings: RecoverSettings, seed: int, folder: Path
) -> tuple[dict[str, Tensor], float]:
    """`recover`, kept: x_hat (m, d), multipliers, labels, contribution, agreement (m,), energy (restarts,), by_layer
    (restarts, L), basis (r, d; r = 0 for all of pixel space), multiplier_scale; and the seconds it took.

    A killed run goes on from its checkpoints.
    """
    weights = _digest(theta_star, network)
    code = _code("recon.attacks.recover", "recover")
    key = result_key("audit", settings, seed, theta_star.device.type, weights, code)
    checkpoints = checkpoint_folder(folder, key)

    def compute() -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(seed)
        found = recover(Weights(network, theta_star), settings, generator, Checkpoints(checkpoints))
        return {
            **{name: getattr(found, name) for name in FOUND},
            "basis": found.x_hat.new_empty(0, network.dim) if found.basis is None else found.basis,
            "multiplier_scale": torch.tensor(found.multiplier_scale),
        }

    expected = (*FOUND, "basis", "multiplier_scale")
    kept = _kept(folder, "reconstructions", key, compute, theta_star.device, expected)
    for path in checkpoints.glob("*.safetensors"):
        path.unlink()
    if checkpoints.is_dir():
        checkpoints.rmdir()
    return kept


# ---------------------------------------------------------------------------------------------------------- disk


@cache
def _code(module: str, name: str) -> str:
    """Hash of an attack's code, which takes half a second: an audit asks for the network and for every canary."""
    return code_hash([(module, name)])


def _digest(weights: Tensor, about: object, start: Tensor | None = None) -> str:
    more = b"" if start is None else start.cpu().numpy().tobytes()
    return hashlib.sha256(weights.cpu().numpy().tobytes() + repr(about).encode() + more).hexdigest()


def _kept(
    folder: Path,
    name: str,
    key: str,
    compute: Callable[[], dict[str, Tensor]],
    device: torch.device,
    expected: Sequence[str],
) -> tuple[dict[str, Tensor], float]:
    """What `compute` returns and the seconds it took, from `folder` where it is there already; others are removed.

    A file that is damaged, or that this program did not write (no checksum, other tensors), costs time, nothing else.
    """
    file = folder / f"{name}-{key}.safetensors"
    if file.is_file():
        try:
            with safetensors.safe_open(file, "pt") as held:
                ours = "sha256" in (held.metadata() or {}) and set(held.keys()) == {*expected, "seconds"}
            if ours:
                found = {name: tensor.to(device) for name, tensor in load_tensors(file).items()}
                return found, found.pop("seconds").item()
        except (ReconError, safetensors.SafetensorError, OSError):
            pass
        file.unlink()
    start = time.perf_counter()
    found = compute()
    seconds = time.perf_counter() - start
    save_tensors({**found, "seconds": torch.tensor(seconds, dtype=torch.float64)}, file)
    for path in folder.glob(f"{name}-*.safetensors"):
        if path != file:
            path.unlink()
    return found, seconds
