"""Attacks on trained weights; see `recon.attacks.registry`."""

from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor

from recon.attacks.bilevel import BilevelAttack
from recon.attacks.bilevel_span import SpanAttack, SpanWeights
from recon.attacks.fine_tunes import at_head, first_of_head, label_filter, re_estimated
from recon.attacks.haim_recipe import PublishedSettings, recover_as_published
from recon.attacks.heads import Public
from recon.attacks.multipliers import from_network, multipliers
from recon.attacks.reconstruct import Attack, reconstruct
from recon.attacks.recover import RecoverSettings, recover
from recon.attacks.registry import (
    AnyWeights,
    Candidates,
    MaybeGenerator,
    Needs,
    Shape,
    binary_weights,
    default_generator,
    dense_weights,
    first_layer_of,
    register,
)
from recon.attacks.separation import SeparationSettings, separate
from recon.errors import ReconError
from recon.nets.module import ModuleNetwork
from recon.optim.descent import HeavyBall
from recon.optim.lbfgs import LBFGSSettings
from recon.optim.loop import Checkpoint, Checkpoints
from recon.optim.subspace import Subspace, reduced
from recon.released import Weights


@register(
    Needs("Separation", Weights, "helps", "no", "shape", "a dense layer that is given the image")
)
def by_separation(
    released: AnyWeights,
    shape_or_prior: Shape,
    settings: SeparationSettings | None = None,
    generator: MaybeGenerator = None,
) -> Candidates:
    """Sources of the first layer, each with both signs; see `recon.attacks.separation`. score: of a
    source, its share in what training has written.
    """
    layer = first_layer_of(released, shape_or_prior)
    separated = separate(layer, shape_or_prior, settings, generator)
    about = {
        name: getattr(separated, name) for name in ("sparsity", "stability", "mixing", "contrast")
    }
    knows = "W1 and the images' shape" + ("; W1(0)" if layer.w1_init is not None else "")
    return Candidates(
        separated.x_hat.unflatten(1, shape_or_prior), separated.share.repeat(2), knows, about
    )


@register(Needs("DecoReco", Weights, "no", "no", "shape", "dense with ReLU, one or two outputs"))
def by_decoreco(
    released: AnyWeights,
    shape_or_prior: Shape,
    settings: RecoverSettings | None = None,
    generator: MaybeGenerator = None,
    *,
    checkpoints: Checkpoints | None = None,
    x_init: Tensor | None = None,
) -> Candidates:
    """Candidates that make θ* stationary; see `recon.attacks.recover`.

    Args:
        settings: by default two candidates a training image; ReconError where their number is not
            known. score: ‖λ_i ∇Φ(x_i)‖, the share in θ*.
        checkpoints: where unfinished restarts are kept, to go on from.
        x_init (m, d): flat starting images, −1 labels first; noise by default.
    """
    weights = binary_weights(released, shape_or_prior)
    depth = weights.network.depth
    if settings is None:
        if weights.n_train is None:
            raise ReconError(
                "say how many training images there are, Weights.of(module, n_train=…), or pass"
                " settings"
            )
        settings = RecoverSettings(2 * weights.n_train, layer_weights=(1.0,) + (0.0,) * (depth - 1))
    recovered = recover(weights, settings, default_generator(generator), checkpoints, x_init)
    about = dict(vars(recovered))
    images, score = about.pop("x_hat").unflatten(1, shape_or_prior), about.pop("contribution")
    return Candidates(images, score, "θ* and the images' shape", about)


#: of Haim et al. (2022), CIFAR-10 and two classes (`RUNS` says of which file), in float32, where
#: theirs is float64
HAIM = PublishedSettings(m=1000)


@register(
    Needs("Published recipe", Weights, "no", "no", "shape", "dense with ReLU, one or two outputs")
)
def by_published_recipe(
    released: AnyWeights,
    shape_or_prior: Shape,
    settings: PublishedSettings | None = None,
    generator: MaybeGenerator = None,
    *,
    checkpoint: Checkpoint | None = None,
    x_init: Tensor | None = None,
) -> Candidates:
    """DecoReco with the published step sizes, nothing searched; see `recon.attacks.haim_recipe`.

    Args:
        settings: default `HAIM`. score: λ_i.
        checkpoint: where an unfinished run is kept, to go on from.
        x_init (m, d): flat starting images, −1 labels first; noise by default.
    """
    weights = binary_weights(released, shape_or_prior)
    result = recover_as_published(
        weights, settings or HAIM, default_generator(generator), checkpoint, x_init
    )
    about = {
        "energy": result.energy,
        "history": result.history,
        "trace": result.accepted["trace"],
        "x_init": result.accepted["x_init"][0],
    }
    images = result.x_hat[0].unflatten(1, shape_or_prior)
    return Candidates(images, result.accepted["multipliers"][0], "θ* and the images' shape", about)


@dataclass(frozen=True)
class BilevelSettings:
    """
    Attributes:
        steps: outer ones.
        descent: in the images, with the box of their pixels and the outer energy at which it stops.
        inner_first, inner_next: L-BFGS iterations of a hidden layer's inner problem, before and
            during the outer loop.
    """

    steps: int
    descent: HeavyBall
    inner_first: int = 1000
    inner_next: int = 10


#: for Runkel et al.'s affine classifier and their one hidden layer; every number is ours
RUNKEL = {
    1: BilevelSettings(500, HeavyBall(3.0, 0.9, tol=1e-8, box=(0.0, 1.0))),
    2: BilevelSettings(100, HeavyBall(10.0, 0.5, tol=1e-8, box=(0.0, 1.0), max_relative_step=0.1)),
}


@register(
    Needs(
        "Bilevel",
        Weights,
        "helps",
        "needed",
        "shape",
        "dense with ReLU, at most one hidden, weight decay",
    )
)
def by_bilevel(
    released: AnyWeights,
    shape_or_prior: Shape,
    settings: BilevelSettings | None = None,
    generator: MaybeGenerator = None,
) -> Candidates:
    """Images on which training ends at θ*, from U(box), one for each label; see
    `recon.attacks.bilevel`. ReconError without labels in {0, 1}, without weight decay, and for
    deeper networks.

    Args:
        settings: default `RUNKEL`, by the network's depth · score: −‖θ* − θ(x)‖², one number for
            all.
    """
    weights = dense_weights(released, shape_or_prior).to(dtype=torch.float64)
    network, depth, generator = weights.network, weights.network.depth, default_generator(generator)
    if weights.y is None or weights.weight_decay <= 0 or depth > 2 or network.widths[-1] != 1:
        raise ReconError(
            "the bilevel attack needs labels y, weight decay and one logit after at most one hidden"
            " layer"
        )
    settings = settings or RUNKEL[depth]
    low, high = settings.descent.box or (0.0, 1.0)
    drawn = torch.rand(len(weights.y), network.dim, generator=generator, dtype=torch.float64)
    x_init = (low + (high - low) * drawn).to(weights.theta_star)[None]
    attack: Attack = (
        BilevelAttack(weights, settings.descent)
        if depth == 1
        else _span_attack(weights, settings, generator)
    )
    result = reconstruct(attack, x_init, settings.steps, settings.descent.tol)
    score = -result.energy.expand(len(weights.y))
    knows = "θ*, labels, weight decay and the images' shape" + (
        "; θ⁰" if weights.theta_init is not None else ""
    )
    about = {"energy": result.energy, "history": result.history[:, 0], "x_init": x_init[0]}
    return Candidates(result.x_hat[0].unflatten(1, shape_or_prior), score, knows, about)


def _span_attack(
    weights: Weights, settings: BilevelSettings, generator: torch.Generator
) -> SpanAttack:
    network, theta_init, y = weights.network, weights.theta_init, weights.y
    assert y is not None
    if theta_init is None:  # the paper's θ⁰ ~ U(0, 1)
        theta_init = network.flatten(network.init(generator, "uniform", torch.float64)).to(
            weights.theta_star
        )
    start = theta_init
    return SpanAttack(
        SpanWeights.of(network, weights.theta_star, min(len(y), *network.widths[:2])),
        y,
        weights.weight_decay,
        lambda basis: reduced(network, start, Subspace(basis))[1],
        first=LBFGSSettings(max_iter=settings.inner_first, history=20),
        next=LBFGSSettings(max_iter=settings.inner_next, halvings=20),
        descent=settings.descent,
    )


@dataclass(frozen=True)
class Pool:
    """What the adversary holds already: candidates x (N, ...), as the network takes them, and
    classes y (N,).
    """

    x: Tensor
    y: Tensor


@register(Needs("KKT multipliers", Weights, "helps", "needed", "candidates", "any"))
def by_multipliers(
    released: AnyWeights,
    shape_or_prior: Pool,
    settings: None = None,
    generator: MaybeGenerator = None,
) -> Candidates:
    """The pool's own images, by how much of the weights each accounts for; see
    `recon.attacks.multipliers`. Nothing is drawn, nothing to be set. score: λ_i, or by how much i
    is refused.
    """
    pool, theta_init = shape_or_prior, released.theta_init
    problem = from_network(released.network, released.theta_star, pool.x, pool.y, theta_init)
    fit = multipliers(problem)
    knows = "θ* and candidates with their classes" + ("; θ⁰" if theta_init is not None else "")
    about = {"multipliers": fit.values, "residual": fit.residual}
    return Candidates(pool.x, fit.score, knows, about)


@dataclass(frozen=True)
class AskedPool(Pool):
    """A pool, and public images (k, ...) of the same kind."""

    public: Tensor


@dataclass(frozen=True)
class FineTuneSettings:
    """
    Attributes:
        re_estimate: batch norm's statistics, in batches of this size, of the training as far as it
            is known; None where training left them as they were in the public network.
        ridge: of `label_filter`.
    """

    re_estimate: int | None = 25
    ridge: float = 1.0


@register(
    Needs("Label filter", Weights, "no", "needed", "candidates, public images", "a linear head")
)
def by_fine_tune(
    released: Weights[ModuleNetwork],
    shape_or_prior: AskedPool,
    settings: FineTuneSettings | None = None,
    generator: MaybeGenerator = None,
) -> Candidates:
    """The pool's own images, by how far the head writes what each has of its own towards its label;
    see `recon.attacks.fine_tunes`. Nothing is drawn. score: `label_filter`. ReconError for networks
    other than modules with a linear head.
    """
    pool, settings, network = shape_or_prior, settings or FineTuneSettings(), released.network
    if not isinstance(network, ModuleNetwork):
        raise ReconError("by_fine_tune takes the weights of a module")
    module = deepcopy(network.module)
    module.load_state_dict(released.params, strict=False)
    if settings.re_estimate:
        module = re_estimated(module, pool.public, settings.re_estimate)
    layer = first_of_head(module, pool.public)
    features, toward = at_head(module, layer, pool.x, pool.y)
    public = Public(at_head(module, layer, pool.public, pool.public.new_zeros(len(pool.public)))[0])
    score = label_filter(layer.weight.detach(), toward, features, public, settings.ridge)
    return Candidates(pool.x, score, "θ*, candidates with their classes, public images")
