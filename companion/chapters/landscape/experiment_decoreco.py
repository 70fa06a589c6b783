"""Chapter 5, DecoReco's landscape: the same starts by four searches, and the bilevel sweep beside them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.landscape.distances import different_starts, set_distances
from companion.chapters.landscape.experiment_bilevel import bilevel_run
from companion.chapters.landscape.pixel_descent import descend_in_pixels, further_fall
from companion.chapters.landscape.shared import (
    PER_SEED,
    SETS,
    Problem,
    SeedImages,
    Sizes,
    affine_released,
    different,
    measure,
    summarise,
    table,
)
from companion.chapters.tables import flat
from companion.store.record import Record
from recon.analysis.landscape import StationarityAttack, in_span, stationarity_energy
from recon.attacks.decoreco import half_and_half, image_span
from recon.attacks.haim_recipe import ALPHA, STEP_SIZES, recipe_attack
from recon.attacks.reconstruct import Reconstruction, reconstruct
from recon.attacks.recover import RecoverSettings, random_start, tuned_attack
from recon.nets.mlp import MLP, three_layer
from recon.optim.descent import HeavyBall
from recon.optim.subspace import Subspace
from recon.released import Weights
from recon.scoring.matching import nearest
from recon.training.kkt import KKTSettings, train_to_kkt


def methods(variants: Record) -> dict[str, Record]:
    """All by name."""
    return variants.only("bilevel", "pixels", "recipe", "unprojected", "span", "affine")


class Metrics(Record):
    """`landscape-decoreco`; at top level descent in all pixels.

    One method of the comparison. noise_line_per_seed: distance to the truth along λ₂ at λ₁ = 1 · ncc: mean
    correlation of the ends with their nearest training image, null_ncc: of held-out images, on the three-layer net
    only · start_ncc: of the projected starts, of our projected attack only · further_fall: share of what layer 1
    has left that a few steps of Adam still remove from R (`companion.chapters.landscape.pixel_descent`); a cell
    below a tenth counts as converged.
    One method from all starts. distance: of the end points to their neighbours in each set, by SSIM; l2: by L2 ·
    start_distance: of where it begins · energy: at the ends, relative; start_energy: at the starts · sd: over seeds
    · cells_converged: share of seeds whose run from there converged.
    distance: Of each set of images that the starts are mixed from.
    crossing: Truth and partition along λ₁ at λ₂ = 1, truth and noise along λ₂ at λ₁ = 1.
    crossing.truth_partition: λ at which the truth becomes nearer than another set: per seed, None where it does
    not; mean and standard deviation, None unless it does in all seeds.
    geometry: The landscape itself, energies relative to that of noise. barrier: how far a straight segment between
    two end points rises above the higher of them · variation, minima: of the energy along the line from the truth
    to the partition, or to noise: total variation over range, inner minima.
    geometry.curvature: Mean second difference of the energy at the ends from truth, partition and noise, relative
    to that of noise.
    variants: bilevel: on the affine net · DecoReco on the three-layer net: pixels, descent in all pixels; recipe,
    the published one; unprojected, our attack in all pixels; span, our attack within the span of the weights ·
    affine: DecoReco on the bilevel problem's own net.
    variants.bilevel: One method of the comparison. noise_line_per_seed: distance to the truth along λ₂ at λ₁ = 1 ·
    ncc: mean correlation of the ends with their nearest training image, null_ncc: of held-out images, on the three-
    layer net only · start_ncc: of the projected starts, of our projected attack only · further_fall: share of what
    layer 1 has left that a few steps of Adam still remove from R (`companion.chapters.landscape.pixel_descent`); a
    cell below a tenth counts as converged.
    variants.bilevel: One method from all starts. distance: of the end points to their neighbours in each set, by
    SSIM; l2: by L2 · start_distance: of where it begins · energy: at the ends, relative; start_energy: at the
    starts · sd: over seeds · cells_converged: share of seeds whose run from there converged.
    variants.bilevel.distance: Of each set of images that the starts are mixed from.
    variants.bilevel.crossing: Truth and partition along λ₁ at λ₂ = 1, truth and noise along λ₂ at λ₁ = 1.
    variants.bilevel.crossing.truth_partition: λ at which the truth becomes nearer than another set: per seed, None
    where it does not; mean and standard deviation, None unless it does in all seeds.
    variants.bilevel.geometry: The landscape itself, energies relative to that of noise. barrier: how far a straight
    segment between two end points rises above the higher of them · variation, minima: of the energy along the line
    from the truth to the partition, or to noise: total variation over range, inner minima.
    variants.bilevel.geometry.curvature: Mean second difference of the energy at the ends from truth, partition and
    noise, relative to that of noise.
    """


@dataclass(frozen=True, kw_only=True)
class DecorecoSizes(Sizes):
    """width, train_steps: of the three-layer net · descent_steps, descent_momentum: of the descent in all pixels ·
    attack: ours, whose layer_weights all searches use · recipe_steps, trial_steps: of the reference recipe, and to
    choose its step size · at_once: starts in one batch · check_steps: of Adam, which judge whether a search had ended.
    """

    width: int
    train_steps: int
    descent_steps: int
    attack: RecoverSettings
    recipe_steps: int
    rounded: bool = False
    scaled: bool = False
    trial_steps: int = 50
    at_once: int = 25
    check_steps: int = 100
    descent_momentum: float = 0.9


ALL = (1.0, 1.0, 1.0)  # layers: all count, as in the setting of Haim et al.


SIZES = {
    "smoke": DecorecoSizes(
        n_train=10,
        seeds=1,
        steps=100,
        width=32,
        train_steps=100,
        descent_steps=30,
        attack=RecoverSettings(m=10, restarts=1, steps=60, scale_steps=20, layer_weights=ALL),
        recipe_steps=60,
        trial_steps=10,
        check_steps=20,
        pairs=4,
        points=5,
        line_points=11,
    ),
    "laptop": DecorecoSizes(
        n_train=20,
        seeds=1,
        steps=1500,
        width=300,
        train_steps=600,
        descent_steps=300,
        attack=RecoverSettings(m=20, restarts=1, steps=400, layer_weights=ALL),
        recipe_steps=200,
        check_steps=50,
        pairs=10,
        line_points=31,
    ),
    "paper": DecorecoSizes(
        n_train=100,
        seeds=1,
        steps=4000,
        width=1000,
        train_steps=1500,
        descent_steps=1000,
        attack=RecoverSettings(m=100, restarts=1, steps=2000, layer_weights=ALL),
        recipe_steps=1000,
        at_once=3,
        pairs=20,
        points=7,
        line_points=41,
    ),
}


METHODS = ("bilevel", "pixels", "recipe", "unprojected", "span", "affine")


DEEP = METHODS[1:5]  # on the three-layer net


CONVERGED = 0.1  # share of what layer 1 has left that `further_fall` may still remove


def compute(sizes: DecorecoSizes, context: Context) -> Outcome[Metrics]:
    """25 starts × seeds × DecoReco's variants, and the bilevel sweep on the same images beside them.

    Every network, every scale and every few starts are a run of their own, stored as soon as they are there.
    """
    every = range(sizes.seeds)
    nets = context.sweep(partial(_net, sizes, context), [f"net-{k}" for k in every], label="networks")
    chosen = [f"{method}-{k}" for method in DEEP[1:] for k in every]
    scales = context.sweep(partial(_scale, sizes, context, nets), chosen, label="scales")
    parts = -(-len(different_starts(sizes.lambdas)) // sizes.at_once)
    cells = [f"{method}-{k}-{part}" for method in DEEP for k in every for part in range(parts)]
    ends = context.sweep(partial(_cells, sizes, context, nets, scales), cells, label="cells")
    names = {method: [f"{method}-{k}" for k in every] for method in METHODS}
    runs = [name for group in names.values() for name in group]
    found = context.sweep(partial(_measured, sizes, context, nets, ends), runs, label="landscape")
    starts = [{f"start_{key}": found[name][f"start_{key}"] for key in SETS} for name in names["bilevel"]]
    methods: dict[str, Record] = {}
    arrays: Tensors = {}
    for method in METHODS:
        own = [start | found[name] for name, start in zip(names[method], starts, strict=True)]
        methods[method] = _method(own, sizes)
        arrays |= {f"{method}_{key}": torch.stack([run[key] for run in own]) for key in PER_SEED}
    metrics = Metrics(
        **flat(methods["pixels"]),
        n_train=len(SeedImages.of(context, sizes, 0, torch.float32).truth),
        lambda1=list(sizes.lambdas),
        lambda2=list(sizes.lambdas),
        seeds=sizes.seeds,
        variants=Record(**methods),
    )
    return Outcome(metrics, arrays)


def _method(runs: list[Tensors], sizes: DecorecoSizes) -> Record:
    """Of all seeds."""
    side = len(sizes.lambdas)

    def mean(name: str) -> list[list[float]] | None:
        return table([run[name] for run in runs], side)[0] if name in runs[0] else None

    has_null = "null_ncc" in runs[0]
    return Record(
        **flat(summarise(runs, sizes.lambdas)),
        noise_line_per_seed=[run["truth"].unflatten(0, (side, side))[-1].tolist() for run in runs],
        ncc=mean("ncc"),
        null_ncc=torch.stack([run["null_ncc"] for run in runs]).mean().item() if has_null else None,
        start_ncc=mean("start_ncc"),
        further_fall=mean("fall"),
    )


def _net(sizes: DecorecoSizes, context: Context, name: str) -> Tensors:
    """Haim et al.'s net of one seed, near its KKT point, as in the DecoReco chapters: "net-K"."""
    images = SeedImages.of(context, sizes, (seed := _seed_of(name)), torch.float32)
    network = _network(sizes, images)
    generator = context.stream("landscape.weights", seed)
    x = images.truth - images.truth.mean(0)
    theta_init = network.flatten(network.init(generator, "small")).to(x)
    return {"theta": train_to_kkt(network, x, images.y, theta_init, KKTSettings(sizes.train_steps)).theta_star}


def _network(sizes: DecorecoSizes, images: SeedImages) -> MLP:
    return three_layer(sizes.width, images.truth.shape[1])


def _seed_of(name: str) -> int:
    """Of "METHOD-K" or "METHOD-K-PART"."""
    return int(name.split("-")[1])


@dataclass(frozen=True)
class _Search:
    """One method's search on one seed's net: images, their mean, weights, and the random multipliers (1, m)."""

    sizes: DecorecoSizes
    method: str
    images: SeedImages
    weights: Weights
    unit: Tensor

    @staticmethod
    def of(sizes: DecorecoSizes, context: Context, nets: dict[str, Tensors], name: str) -> _Search:
        method, seed = name.split("-")[0], _seed_of(name)
        images = SeedImages.of(context, sizes, seed, torch.float32)
        weights = Weights(_network(sizes, images), nets[f"net-{seed}"]["theta"])
        settings = replace(sizes.attack, m=len(images.truth))
        drawn = int(torch.randint(2**31, (1,), generator=context.stream("landscape.directions", seed)))
        unit = random_start(settings, weights.network.dim, weights.theta_star, drawn)[1]
        return _Search(replace(sizes, attack=settings), method, images, weights, unit)

    @property
    def mean(self) -> Tensor:
        """What DecoReco subtracts."""
        return self.images.truth.mean(0)

    def space(self) -> Subspace | None:
        """Where our projected attack searches; None for the others."""
        return image_span(self.weights) if self.method == "span" else None

    def run(self, starts: Tensor, scale: float, steps: int) -> Reconstruction:
        """From starts (S, n, d), centred: the recipe, or ours, whose scale is of λ and not of the step."""
        labels = half_and_half(starts.shape[1], starts.device, starts.dtype)
        unit = self.unit.expand(len(starts), -1)
        if self.method == "recipe":
            attack = recipe_attack(self.weights, labels, unit, steps, scale)
            return reconstruct(attack, starts, steps, label="landscape")
        attack, space = tuned_attack(self.weights, labels, unit * scale, steps, self.sizes.attack), self.space()
        if space is None:
            return reconstruct(attack, starts, steps, label="landscape")
        found = reconstruct(attack.restricted(space), space.reduce(starts), steps, label="landscape")
        return replace(found, x_hat=space.lift(found.x_hat))

    def ends(self, starts: Tensor, scale: float) -> Tensor:
        """Where the search ends, (S, n, d), centred."""
        sizes = self.sizes
        if self.method != "pixels":
            return self.run(starts, scale, sizes.recipe_steps if self.method == "recipe" else sizes.attack.steps).x_hat
        descent = HeavyBall(0.01, sizes.descent_momentum)
        spanning = [members - self.mean for members in self.images.sets().values()]
        layers = sizes.attack.layer_weights
        return descend_in_pixels(self.weights, starts, spanning, sizes.descent_steps, descent, layers)


def _scale(sizes: DecorecoSizes, context: Context, nets: dict[str, Tensors], name: str) -> Tensors:
    """λ's scale of our attack, or the recipe's step size: the one with the lowest energy from noise after a short run.
    It must not be chosen where the truth is near."""
    search = _Search.of(sizes, context, nets, name)
    noise = (search.images.random - search.mean)[None]
    scales, steps = (sizes.attack.multiplier_scales, sizes.attack.scale_steps)
    if search.method == "recipe":
        scales, steps = STEP_SIZES, sizes.trial_steps
    energy = [search.run(noise, scale, steps).energy.item() for scale in scales]
    return {"scale": torch.tensor(scales[min(range(len(scales)), key=energy.__getitem__)], dtype=torch.float64)}


def _cells(
    sizes: DecorecoSizes, context: Context, nets: dict[str, Tensors], scales: dict[str, Tensors], name: str
) -> Tensors:
    """Ends from a few of the starts, in pixels, and what is left to gain there: "METHOD-K-PART"."""
    search = _Search.of(sizes, context, nets, name)
    part = int(name.split("-")[2])
    starts, _ = different(search.images.starts(sizes.lambdas), sizes.lambdas)
    starts = starts[part * sizes.at_once : (part + 1) * sizes.at_once] - search.mean
    scale = 0.0 if search.method == "pixels" else scales[name.rsplit("-", 1)[0]]["scale"].item()
    x_hat = search.ends(starts, scale)
    judge = replace(search.sizes.attack, alpha=ALPHA) if search.method == "recipe" else search.sizes.attack
    fall = further_fall(search.weights, x_hat, judge, sizes.check_steps, search.space())
    return {"x_hat": x_hat + search.mean, "fall": fall}


def _measured(
    sizes: DecorecoSizes, context: Context, nets: dict[str, Tensors], ends: dict[str, Tensors], name: str
) -> Tensors:
    """One run of the comparison, "METHOD-K": all starts of seed K.

    "affine": the bilevel sweep's own net, images and descent, only the energy differs · "pixels": the three-layer net,
    the same descent in all pixels · "recipe": the published one · "unprojected": our attack (Adam, logarithmic
    multipliers) in all pixels · "span": the same within the span of w1.
    """
    method, seed = name.split("-")[0], _seed_of(name)
    if method == "bilevel":
        return bilevel_run(sizes, context, seed)
    if method == "affine":
        return affine_run(sizes, context, seed)
    search = _Search.of(sizes, context, nets, name)
    images, mean = search.images, search.mean
    starts = images.starts(sizes.lambdas)
    _, every = different(starts, sizes.lambdas)
    parts = [ends[key] for key in sorted(ends, key=lambda key: int(key.split("-")[2])) if key.startswith(f"{name}-")]
    x_hat, fall = (torch.cat([part[key] for part in parts])[every] for key in ("x_hat", "fall"))
    found = _distances_and_energies(search, x_hat, starts, seed)
    found |= {"fall": fall, "converged": fall < CONVERGED}
    found["ncc"] = ncc_to_truth(x_hat - mean, images.truth - mean)
    return found | {"null_ncc": ncc_to_truth((images.held_out - mean)[None], images.truth - mean)}


def _distances_and_energies(search: _Search, x_hat: Tensor, starts: Tensor, seed: int) -> Tensors:
    images, mean, weights, layers = search.images, search.mean, search.weights, search.sizes.attack.layer_weights

    def energy(x: Tensor) -> Tensor:
        return stationarity_energy(weights.network, weights.theta_star, x, images.y, layers)

    ends, every = different(x_hat, search.sizes.lambdas)
    found = measure(Problem(images, mean, energy), x_hat, starts, energy(ends - mean)[every], search.sizes, seed)
    space = search.space()
    if space is not None:  # where this attack begins: what the weights see of the start, and no more
        projected = mean + space.lift(space.reduce(starts - mean))
        found |= {f"start_{key}": value for key, value in set_distances(projected, images.sets(), images.shape).items()}
        found["start_ncc"] = ncc_to_truth(projected - mean, images.truth - mean)
    return found


def ncc_to_truth(x: Tensor, truth: Tensor) -> Tensor:
    """Mean over images of the best correlation with a training image, both centred; (S, n, d) -> (S,)."""
    return nearest(x.flatten(0, 1), truth, "ncc").score.unflatten(0, x.shape[:2]).mean(-1)


def affine_run(sizes: DecorecoSizes, context: Context, seed: int) -> Tensors:
    """DecoReco's energy on the bilevel sweep's affine net: θ* = Σ λ_i y_i x̄_i holds there exactly, at the truth."""
    images = SeedImages.of(context, sizes, seed, torch.float64)
    released = affine_released(images, sizes)
    space = Subspace.spanned_by(*images.sets().values(), released.theta_star[None, :-1])
    small = in_span(released, space)
    starts, every = different(images.starts(sizes.lambdas), sizes.lambdas)
    labels = half_and_half(len(images.y), starts.device, starts.dtype)
    attack = StationarityAttack(small, labels, HeavyBall(sizes.step_size, sizes.momentum))
    found = reconstruct(attack, space.reduce(starts), sizes.steps, label="landscape")
    problem = Problem(
        images,
        torch.zeros_like(images.truth[0]),
        lambda x: stationarity_energy(small.network, small.theta_star, space.reduce(x), images.y),
    )
    x_hat, energy = space.lift(found.x_hat), problem.energy(space.lift(found.x_hat))
    measured = measure(problem, x_hat[every], starts[every], energy[every], sizes, seed)
    return measured | {"converged": energy[every] <= sizes.tol}
