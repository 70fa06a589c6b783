"""Chapter 13, §4.5: the landscapes of both formulations over the starts of eq. (10), and between their end points."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from recon.analysis.landscape import (
    StationarityAttack,
    barrier,
    bilevel_energy,
    curvature,
    in_span,
    joint_span,
    mixed_starts,
    roughness,
    segment,
    stationarity_energy,
    sweep_bilevel,
)
from recon.analysis.solution_set import project
from recon.attacks.bilevel import Released
from recon.attacks.decoreco import half_and_half, image_span
from recon.attacks.reconstruct import Reconstruction, reconstruct
from recon.attacks.recover import choose_scale, random_start, tuned_attack
from recon.chapters.base import Context, Experiment
from recon.chapters.landscape_shared import (
    SETS,
    SeedImages,
    crossings,
    different_starts,
    distances,
    null_distance,
    random_pairs,
    summarise,
    table,
)
from recon.chapters.plots import landscape as plots
from recon.chapters.profiles import LANDSCAPE, Landscape
from recon.nets.mlp import MLP, affine, three_layer
from recon.optim.descent import HeavyBall
from recon.scoring.matching import nearest
from recon.store.results import Claim, Outcome, verdict
from recon.store.sweep import sweep
from recon.training.inner import Objective, solve_affine
from recon.training.kkt import train_to_kkt

#: methods of `landscape-decoreco` beside the bilevel one
VARIANTS = ("pixels", "span", "affine")
DIRECTIONS, RADIUS = 8, 0.5  # of the curvature: random directions, L2 length per image

Energy = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Problem:
    """One seed's attack: images, the start's offset (the mean that DecoReco subtracts), and its energy of images
    x (S, n, d), relative, as the attack sees them (offset subtracted)."""

    images: SeedImages
    offset: Tensor
    energy: Energy

    def placed(self, images: Tensor) -> Tensor:
        """Pixels -> what the attack sees."""
        return images - self.offset


def affine_released(images: SeedImages, config: Landscape) -> Released:
    """θ* of the affine net, exactly trained on one seed's images."""
    network = affine(images.truth.shape[1])
    objective = Objective(network, images.y, config.weight_decay)
    theta_star = solve_affine(objective, images.truth[None]).theta[0]
    return Released(network, theta_star, images.y, config.weight_decay)


def measure(problem: Problem, x_hat: Tensor, starts: Tensor, energy: Tensor, config: Landscape, seed: int) -> dict:
    """Distances and energies of the end points x_hat (S, n, d) in pixels; and the landscape between them."""
    images = problem.images
    found = {**distances(x_hat.float(), images), "energy": energy}
    found["start_energy"] = problem.energy(problem.placed(starts))
    for name in ("partition", "random"):
        line = segment(problem.placed(images.truth), problem.placed(getattr(images, name)), config.line_points)
        found[f"line_{name}"] = problem.energy(line)
    noise = found["line_random"][-1]
    ends = problem.placed(x_hat)
    rows = different_starts(config.lambdas)
    generator = torch.Generator().manual_seed(seed)
    pairs = random_pairs(len(rows), config.pairs, generator)
    paths = [problem.energy(segment(ends[rows[i]], ends[rows[j]], config.points)) for i, j in pairs]
    found["barrier"] = barrier(torch.stack(paths)) / noise
    basis = joint_span(*(problem.placed(members).double() for members in images.sets().values()))
    found["curvature"] = torch.stack(
        [in_directions(problem, ends[row], basis, generator) for row in corner_rows(config)]
    )
    found["curvature"] /= noise
    return found


def corner_rows(config: Landscape) -> list[int]:
    """Rows of the grid at (λ₁, λ₂) = (1, 1), (0, 1), (0, 0): ends from the truth, the partition, noise."""
    side = len(config.lambdas)
    return [side * side - 1, side - 1, 0]


def in_directions(problem: Problem, x: Tensor, basis: Tensor, generator: torch.Generator) -> Tensor:
    """Mean second difference of the energy at x (n, d), in random directions within the span of the three sets."""
    origin, basis = x, basis.to(x)

    def energy(change: Tensor) -> Tensor:
        return problem.energy(origin + change @ basis)

    zero = torch.zeros(len(x), len(basis), dtype=x.dtype, device=x.device)
    return curvature(energy, zero, RADIUS * math.sqrt(len(x)), DIRECTIONS, generator)


# ----------------------------------------------------------------------------------------------- one run each


def bilevel_run(config: Landscape, context: Context, seed: int) -> dict[str, Tensor]:
    """All starts of one seed: the affine net's bilevel problem, in the span of everything that occurs."""
    images = SeedImages.of(context, config, seed, torch.float64)
    released = affine_released(images, config)
    starts = images.starts(config.lambdas)
    descent = HeavyBall(config.step_size, config.momentum, tol=config.tol)
    found = sweep_bilevel(released, starts, config.steps, descent)
    problem = Problem(images, torch.zeros_like(images.truth[0]), partial(bilevel_energy, released))
    size = released.theta_star.square().sum()
    measured = measure(problem, found.x_hat, starts, found.energy / size, config, seed)
    measured |= {f"start_{key}": value for key, value in distances(starts.float(), images).items()}
    measured |= {"converged": found.converged, "steps": torch.tensor(found.steps)}
    measured |= {"null": torch.tensor(null_distance(images)), "x_hat": found.x_hat[corner_rows(config)].float()}
    measured["size"] = size
    return measured | connection(released, images, found.x_hat, config)


def connection(released: Released, images: SeedImages, x_hat: Tensor, config: Landscape) -> dict[str, Tensor]:
    """From the truth to the end points of partition and noise: the straight segment, and its nearest points on the
    exact solution set (chapter 1), which is a curve at energy zero if neighbours stay neighbours."""
    found = {}
    for name, row in zip(("partition", "random"), corner_rows(config)[1:], strict=True):
        end = x_hat[row]
        basis = joint_span(images.truth, end, released.theta_star[None, :-1])
        small = in_span(released, basis)
        straight = segment(images.truth @ basis.mT, end @ basis.mT, config.line_points)
        bound = torch.full_like(straight[0], torch.inf)
        onto = partial(
            project, y=images.y, theta=small.theta_star, weight_decay=config.weight_decay, lower=-bound, upper=bound
        )
        points = [onto(x) for x in straight]
        curve = torch.stack([point.x for point in points])
        jumps = (curve.diff(dim=0).flatten(1).norm(dim=1) / straight.diff(dim=0).flatten(1).norm(dim=1)).max()
        found[f"straight_{name}"] = bilevel_energy(small, straight)
        found[f"curve_{name}"] = bilevel_energy(small, curve)
        found[f"jump_{name}"] = jumps
        found[f"projected_{name}"] = torch.tensor([point.converged and point.anchored for point in points]).all()
        found[f"bend_{name}"] = (curve - straight).norm(dim=-1).mean(-1).max()
    return found


def fine_run(config: Landscape, context: Context) -> dict[str, Tensor]:
    """The affine net's starts on a fine grid, seed 0: energies before and after, and L2-nearest distances."""
    images = SeedImages.of(context, config, 0, torch.float64)
    released = affine_released(images, config)
    sets = images.sets()
    basis = joint_span(*sets.values(), released.theta_star[None, :-1])
    small, places = in_span(released, basis), {name: members @ basis.mT for name, members in sets.items()}
    grid = torch.linspace(0, 1, config.fine)
    starts = mixed_starts(places["truth"], places["partition"], places["random"], grid, grid).flatten(0, 1)
    found = sweep_bilevel(
        small, starts, config.fine_steps, HeavyBall(config.step_size, config.momentum, tol=config.tol)
    )
    size = released.theta_star.square().sum()
    tensors = {"grid": grid, "energy": found.energy / size, "start_energy": bilevel_energy(small, starts)}
    tensors["moved"] = (found.x_hat - starts).norm(dim=-1).mean(-1)
    for name, members in places.items():
        tensors[name] = torch.cdist(found.x_hat, members.expand(len(starts), -1, -1)).amin(-1).mean(-1)
        tensors[f"start_{name}"] = torch.cdist(starts, members.expand(len(starts), -1, -1)).amin(-1).mean(-1)
    same = stationarity_energy(small.network, small.theta_star, starts, images.y)
    return {**tensors, "stationarity_start_energy": same}


def decoreco_run(config: Landscape, context: Context, variant: str, seed: int) -> dict[str, Tensor]:
    """All starts of one seed by DecoReco.

    "affine": the bilevel sweep's own net, images and descent, only the energy differs · "pixels": the three-layer net,
    the same descent in all pixels · "span": our attack (Adam, logarithmic multipliers, within the span of w1).
    """
    if variant == "affine":
        return affine_stationarity_run(config, context, seed)
    images = SeedImages.of(context, config, seed, torch.float32)
    mean = images.truth.mean(0)
    network, theta_star = trained_net(config, context, images.truth - mean, images.y, seed)
    problem = Problem(images, mean, lambda x: stationarity_energy(network, theta_star, x, images.y))
    starts = images.starts(config.lambdas)
    descend = in_pixels if variant == "pixels" else by_our_attack
    x_hat = mean + descend(network, theta_star, starts - mean, config, context.generator(20 + seed))
    energy = problem.energy(x_hat - mean)
    found = measure(problem, x_hat, starts, energy, config, seed)
    if variant == "span":  # where this attack begins: what the weights see of the start, and no more
        basis = image_span(network, theta_star)
        projected = mean + (starts - mean) @ basis.mT @ basis
        found |= {f"start_{key}": value for key, value in distances(projected, images).items()}
        found["start_ncc"] = ncc_to_truth(projected - mean, images.truth - mean)
    found["ncc"] = ncc_to_truth(x_hat - mean, images.truth - mean)
    return found | {"null_ncc": ncc_to_truth((images.held_out - mean)[None], images.truth - mean)}


def ncc_to_truth(x: Tensor, truth: Tensor) -> Tensor:
    """Mean over images of the best correlation with a training image, both centred; (S, n, d) -> (S,)."""
    return nearest(x.flatten(0, 1), truth, "ncc").score.unflatten(0, x.shape[:2]).mean(-1)


def trained_net(config: Landscape, context: Context, x: Tensor, y: Tensor, seed: int) -> tuple[MLP, Tensor]:
    """Haim et al.'s net near its KKT point, as in the DecoReco chapters."""
    network = three_layer(config.width, x.shape[1])
    theta_init = network.flatten(network.init(context.generator(10 + seed), "small")).to(x)
    return network, train_to_kkt(network, x, y, theta_init, config.train_steps).theta_star


def in_pixels(network: MLP, theta_star: Tensor, x_init: Tensor, config: Landscape, _: torch.Generator) -> Tensor:
    """Descent on f(x) in all pixels.  Its gradient lies in the row space of w1: computed there, exactly."""
    params = dict(network.unflatten(theta_star))
    basis = joint_span(params["w1"])
    small = network.with_inputs(len(basis))
    theta = small.flatten({**params, "w1": params["w1"] @ basis.mT})
    labels = half_and_half(x_init.shape[1], x_init.device, x_init.dtype)
    attack = StationarityAttack(small, theta, labels, HeavyBall(0.01, config.descent_momentum))
    start = x_init @ basis.mT
    found = reconstruct(attack, start, config.descent_steps, label="landscape")
    return x_init + (found.x_hat - start) @ basis


def by_our_attack(
    network: MLP, theta_star: Tensor, x_init: Tensor, config: Landscape, generator: torch.Generator
) -> Tensor:
    """The attack of the tuned chapter from these starts; the multipliers' scale has the lowest energy from noise."""
    settings = replace(config.attack, m=x_init.shape[1])
    basis = image_span(network, theta_star)
    labels = half_and_half(settings.m, x_init.device, x_init.dtype)
    _, unit = random_start(settings, network.dim, theta_star, int(torch.randint(2**31, (1,), generator=generator)))

    def run(scale: float, steps: int) -> Reconstruction:
        multipliers = (unit * scale).expand(len(x_init), -1)
        attack = tuned_attack(network, theta_star, labels, multipliers, steps, settings).restricted(basis)
        return reconstruct(attack, x_init @ basis.mT, steps, label="landscape")

    noise = 0  # row of (λ₁, λ₂) = (0, 0): the scale must not be chosen where the truth is near
    scale = choose_scale(settings, lambda value: run(value, settings.scale_steps).energy[noise].item())
    return run(scale, settings.steps).x_hat @ basis


def affine_stationarity_run(config: Landscape, context: Context, seed: int) -> dict[str, Tensor]:
    """DecoReco's energy on the bilevel sweep's affine net: θ* = Σ λ_i y_i x̄_i holds there exactly, at the truth."""
    images = SeedImages.of(context, config, seed, torch.float64)
    released = affine_released(images, config)
    basis = joint_span(*images.sets().values(), released.theta_star[None, :-1])
    small = in_span(released, basis)
    starts = images.starts(config.lambdas)
    labels = half_and_half(len(images.y), starts.device, starts.dtype)
    attack = StationarityAttack(small.network, small.theta_star, labels, HeavyBall(config.step_size, config.momentum))
    found = reconstruct(attack, starts @ basis.mT, config.steps, label="landscape")
    problem = Problem(
        images,
        torch.zeros_like(images.truth[0]),
        lambda x: stationarity_energy(small.network, small.theta_star, x @ basis.mT, images.y),
    )
    x_hat = found.x_hat @ basis
    return measure(problem, x_hat, starts, problem.energy(x_hat), config, seed)


# --------------------------------------------------------------------------------------------------- the sweeps


def bilevel_task(config: Landscape, context: Context, name: str) -> dict[str, Tensor]:
    """One run of the bilevel sweep: "seed-K", or "fine"."""
    return (
        fine_run(config, context) if name == "fine" else bilevel_run(config, context, int(name.removeprefix("seed-")))
    )


def decoreco_task(config: Landscape, context: Context, name: str) -> dict[str, Tensor]:
    """One run of the comparison: "bilevel-K" or "VARIANT-K"."""
    variant, seed = name.split("-")
    if variant == "bilevel":
        return bilevel_run(config, context, int(seed))
    return decoreco_run(config, context, variant, int(seed))


def swept(task: Callable, names: list[str], config: Landscape, context: Context) -> dict[str, dict[str, Tensor]]:
    """All runs, by `recon.store.sweep`, with this experiment's workers and checkpoints."""
    unit = partial(task, config, context)
    return sweep(unit, names, context.checkpoints / "sweep", context.workers, context.scheduler, label="landscape")


def axes(config: Landscape) -> dict:
    """The grid, in words of the metrics."""
    return {"lambda1": list(config.lambdas), "lambda2": list(config.lambdas), "seeds": config.seeds}


def geometry(runs: list[dict[str, Tensor]]) -> dict:
    """Numbers of the landscape itself, relative to the energy of noise: barriers on straight segments between end
    points, curvature at three of them, roughness of the lines from the truth."""
    barriers = torch.stack([run["barrier"] for run in runs])
    curved = torch.stack([run["curvature"] for run in runs])
    found = {
        "barrier_mean": barriers.mean().item(),
        "barrier_mean_per_seed": barriers.mean(1).tolist(),
        "barrier_share_above_1_percent": (barriers > 0.01).double().mean().item(),
        "curvature": dict(zip(("truth", "partition", "random"), curved.mean(0).tolist(), strict=True)),
        "curvature_per_seed": curved.tolist(),
    }
    for name in ("partition", "random"):
        variation, minima = roughness(torch.stack([run[f"line_{name}"] for run in runs]))
        found[f"variation_to_{name}"] = variation.mean().item()
        found[f"minima_to_{name}"] = minima.double().mean().item()
    return found


def run_bilevel(config: Landscape, context: Context) -> Outcome:
    """25 starts × seeds of the affine net, and the fine map."""
    names = [f"seed-{seed}" for seed in range(config.seeds)]
    found = swept(bilevel_task, [*names, "fine"], config, context)
    runs, fine = [found[name] for name in names], found["fine"]
    side = len(config.lambdas)
    metrics = {
        "n_train": SeedImages.of(context, config, 0, torch.float32).truth.shape[0],
        **axes(config),
        **summarise(runs, side),
        "crossing": crossings(runs, config.lambdas),
        "converged": torch.stack([run["converged"] for run in runs]).double().mean().item(),
        "steps": [int(run["steps"]) for run in runs],
        "null_distance_to_truth": torch.stack([run["null"] for run in runs]).mean().item(),
        "geometry": geometry(runs),
        "connection": connections(runs),
    }
    arrays = {f"fine_{key}": value for key, value in fine.items()}
    arrays |= {key: torch.stack([run[key] for run in runs]) for key in (*PER_SEED, *CONNECTION)}
    return Outcome(metrics, bilevel_claims(metrics), arrays)


PER_SEED = (*SETS, *(f"start_{name}" for name in SETS), "barrier", "line_partition", "line_random")
CONNECTION = ("straight_partition", "straight_random", "curve_partition", "curve_random")


def connections(runs: list[dict[str, Tensor]]) -> dict:
    """Straight segment and curve on the solution set, from the truth to the end points of partition and noise: highest
    energy relative to that of noise; the curve's largest step relative to the segment's; how far it bends (L2)."""
    found = {}
    for name in ("partition", "random"):
        noise = [run["line_random"][-1] for run in runs]
        found[name] = {
            kind: max((run[f"{kind}_{name}"].max() / top).item() for run, top in zip(runs, noise, strict=True))
            for kind in ("straight", "curve")
        }
        found[name]["nearest_points"] = all(bool(run[f"projected_{name}"]) for run in runs)
        found[name]["largest_step"] = max(run[f"jump_{name}"].item() for run in runs)
        found[name]["bend_l2"] = max(run[f"bend_{name}"].item() for run in runs)
    return found


def run_decoreco(config: Landscape, context: Context) -> Outcome:
    """25 starts × seeds × DecoReco's variants, and the bilevel sweep on the same images beside them."""
    methods = ("bilevel", *VARIANTS)
    names = {method: [f"{method}-{seed}" for seed in range(config.seeds)] for method in methods}
    found = swept(decoreco_task, [name for group in names.values() for name in group], config, context)
    side = len(config.lambdas)
    by_method: dict = {}
    arrays: dict[str, Tensor] = {}
    starts = [{f"start_{key}": found[name][f"start_{key}"] for key in SETS} for name in names["bilevel"]]
    for method in methods:
        runs = [start | found[name] for name, start in zip(names[method], starts, strict=True)]
        by_method[method] = {
            **summarise(runs, side),
            "crossing": crossings(runs, config.lambdas),
            "geometry": geometry(runs),
            "noise_line_per_seed": [run["truth"].unflatten(0, (side, side))[-1].tolist() for run in runs],
        }
        if "ncc" in runs[0]:
            by_method[method]["ncc"] = table([run["ncc"] for run in runs], side)[0]
            by_method[method]["null_ncc"] = torch.stack([run["null_ncc"] for run in runs]).mean().item()
        if "start_ncc" in runs[0]:
            by_method[method]["start_ncc"] = table([run["start_ncc"] for run in runs], side)[0]
        arrays |= {f"{method}_{key}": torch.stack([run[key] for run in runs]) for key in PER_SEED}
    metrics = {
        "n_train": SeedImages.of(context, config, 0, torch.float32).truth.shape[0],
        **axes(config),
        **by_method["pixels"],
        "variants": by_method,
    }
    return Outcome(metrics, decoreco_claims(metrics, config), arrays)


# ------------------------------------------------------------------------------------------------------- claims


def corners(distance: dict) -> tuple[bool, str]:
    """Whether (1, 1) is nearest to the truth and (0, 1) to the partition, and the distances."""
    truth, start = ({name: values[i][-1] for name, values in distance.items()} for i in (-1, 0))
    holds = min(truth, key=truth.__getitem__) == "truth" and min(start, key=start.__getitem__) == "partition"
    sentence = (
        f"(1, 1): {truth['truth']:.1f} to truth, {truth['partition']:.1f} to partition; "
        f"(0, 1): {start['truth']:.1f} and {start['partition']:.1f}"
    )
    return holds, sentence


def below_half(found: dict, lambdas: list[float]) -> bool:
    """Whether for all λ₁ < 0.5 at λ₂ = 1 the partition is nearer than the truth."""
    distance = found["distance"]
    return all(
        distance["partition"][i][-1] < distance["truth"][i][-1] for i, value in enumerate(lambdas) if value < 0.5
    )


def crossing_text(found: dict) -> str:
    """Where truth and partition swap, over seeds."""
    at = found["crossing"]["truth_partition"]
    if at["mean"] is None:
        return f"they do not swap in {at['per_seed'].count(None)} of {len(at['per_seed'])} seeds"
    return f"they swap at λ₁ = {at['mean']:.2f} ± {at['sd']:.2f}"


def bilevel_claims(metrics: dict) -> list[Claim]:
    """§4.5's sentences on the bilevel landscape, and whether its solutions are connected."""
    holds, sentence = corners(metrics["distance"])
    null = f"held-out images: {metrics['null_distance_to_truth']:.1f} to truth"
    truth = metrics["distance"]["truth"][-1]
    path = metrics["connection"]["random"]
    connected = all(found["curve"] < 1e-12 and found["largest_step"] < 1.5 for found in metrics["connection"].values())
    return [
        Claim(
            "landscape-bilevel-corners",
            "4.5, Fig. 10a",
            "From the truth the bilevel result is nearest to the truth, from the partition nearest to the partition.",
            "heatmap",
            sentence,
            null,
            verdict(holds),
        ),
        Claim(
            "landscape-bilevel-crossing",
            "4.5, Fig. 11",
            "Between partition and truth the bilevel result is closer to the partition below λ₁ = 0.5.",
            "0.5",
            crossing_text(metrics),
            "starts swap at 0.5",
            verdict(below_half(metrics, metrics["lambda1"])),
        ),
        Claim(
            "landscape-bilevel-noise",
            "4.5, Fig. 12",
            "Between noise and truth the bilevel result's distance to the truth grows with the share of noise.",
            "curve",
            "from λ₂ = 1 to 0: " + ", ".join(f"{value:.1f}" for value in reversed(truth)),
            null,
            verdict(all(a > b for a, b in zip(truth, truth[1:], strict=False))),
        ),
        Claim(
            "landscape-bilevel-connected",
            "",
            "A curve at energy zero leads from the truth to the end points of partition and noise, where the straight "
            "segment leaves the solution set: they are not separate minima."
            if connected
            else "No curve at energy zero was found from the truth to the end points of partition and noise.",
            "",
            f"highest energy, relative to noise: straight {path['straight']:.1g}, curve {path['curve']:.0e}, whose "
            f"largest step is {path['largest_step']:.2f} of the segment's",
            f"of {len(metrics['lambda1'])} × {len(metrics['lambda2'])} starts these two; projections at every 100th",
            "finding",
        ),
    ]


def decoreco_claims(metrics: dict, config: Landscape) -> list[Claim]:
    """§4.5's sentences on DecoReco, and the comparisons; judged for descent in all pixels and for our attack."""
    methods, lambdas = metrics["variants"], list(config.lambdas)
    bilevel = methods["bilevel"]
    left = max(value for row in methods["pixels"]["energy"] for value in row)
    plain = "all pixels" if left < 0.1 else f"all pixels (not converged, up to {left:.0%} left)"
    attacks = {plain: methods["pixels"], "our attack": methods["span"]}

    def both(holds: list[bool]) -> str:
        return verdict(all(holds)) if all(holds) or not any(holds) else "partly"

    def near(found: dict, share: int) -> float:
        return found["distance"]["truth"][-1][share]

    def slope(found: dict) -> Tensor:  # per seed, what the whole way to noise costs on average per quarter
        values = torch.tensor(found["noise_line_per_seed"])
        return (values[:, 0] - values[:, -1]) / (len(lambdas) - 1)

    def beside(found: dict) -> list[float]:  # the two neighbours of (1, 1)
        return [found["distance"]["truth"][-1][-2], found["distance"]["truth"][-2][-1]]

    faster = []
    for found in attacks.values():
        gap = slope(bilevel) - slope(found)
        faster.append(bool(gap.mean() > 2 * gap.std() / math.sqrt(len(gap))) if len(gap) > 1 else bool(gap > 0))
    corner = {name: corners(found["distance"]) for name, found in attacks.items()}
    shape = {name: found["geometry"] for name, found in methods.items()}
    same, other = shape["affine"], shape["bilevel"]
    smoother = [deep["barrier_mean"] < other["barrier_mean"] for deep in (same, shape["span"])]
    smoother += [deep["curvature"]["random"] < other["curvature"]["random"] for deep in (same, shape["span"])]
    smoother += [shape["pixels"]["minima_to_partition"] <= other["minima_to_partition"]]
    return [
        Claim(
            "landscape-decoreco-corners",
            "4.5, Fig. 10b",
            "From the truth DecoReco's result is nearest to the truth, from the partition nearest to the partition.",
            "heatmap",
            "; ".join(f"{name}: {sentence}" for name, (_, sentence) in corner.items()),
            "",
            both([holds for holds, _ in corner.values()]),
        ),
        Claim(
            "landscape-decoreco-crossing",
            "4.5, Fig. 11",
            "Between partition and truth DecoReco's result is closer to the partition below λ₁ = 0.5.",
            "0.5",
            "; ".join(f"{name}: {crossing_text(found)}" for name, found in attacks.items()),
            "starts swap at 0.5",
            both([below_half(found, lambdas) for found in attacks.values()]),
        ),
        Claim(
            "landscape-near-truth",
            "4.5",
            "Near the truth the bilevel distances become much smaller than DecoReco's.",
            "heatmaps",
            f"at (1, 1), where bilevel has nothing to do: {near(bilevel, -1):.1g}, "
            + ", ".join(f"{name} {near(found, -1):.1f}" for name, found in attacks.items())
            + "; one step away, at (1, ¾) and (¾, 1): bilevel "
            + "; ".join(
                f"{name} " + ", ".join(f"{value:.1f}" for value in beside(found))
                for name, found in {"": bilevel, **attacks}.items()
            ).removeprefix(" "),
            "the start itself: " + ", ".join(f"{value:.1f}" for value in start_beside(bilevel)),
            both(
                [
                    all(mine < 0.8 * theirs for mine, theirs in zip(beside(bilevel), beside(found), strict=True))
                    for found in attacks.values()
                ]
            ),
        ),
        Claim(
            "landscape-degrades",
            "4.5, Fig. 12",
            "With a growing share of noise the bilevel result loses the truth faster than DecoReco's.",
            "curves",
            f"mean cost of a quarter of noise, λ₂ from 1 to 0: bilevel {slope(bilevel).mean():.1f}, "
            + ", ".join(f"{name} {slope(found).mean():.1f}" for name, found in attacks.items()),
            f"the start itself: {starts_slope(bilevel):.1f}",
            both(faster),
        ),
        Claim(
            "landscape-smoothed",
            "4.5",
            "DecoReco's landscape is a smoothed version of the bilevel one, with fewer local minima.",
            "conjecture",
            "same affine net, relative to noise: mean barrier "
            f"{same['barrier_mean']:.2g} against {other['barrier_mean']:.2g}, curvature at the end from noise "
            f"{same['curvature']['random']:.1g} against {other['curvature']['random']:.1g}; three-layer net, "
            f"our attack: barrier {shape['span']['barrier_mean']:.2g}, curvature "
            f"{shape['span']['curvature']['random']:.1g}; {shape['pixels']['minima_to_partition']:.1f} minima on the "
            f"line from truth to partition (bilevel: {other['minima_to_partition']:.1f})",
            "no difference",
            verdict(all(smoother)) if all(smoother) or not any(smoother) else "partly",
        ),
    ]


def starts_slope(found: dict) -> float:
    """What a quarter of noise costs, on average, a method that returns its start."""
    row = found["start_distance"]["truth"][-1]
    return (row[0] - row[-1]) / (len(row) - 1)


def start_beside(found: dict) -> list[float]:
    """Distances to the truth of the starts at (1, ¾) and (¾, 1)."""
    return [found["start_distance"]["truth"][-1][-2], found["start_distance"]["truth"][-2][-1]]


BILEVEL = Experiment(
    name="landscape-bilevel",
    chapter="13-landscape",
    section="4.5",
    summary="25 starts between truth, partition and noise for the affine bilevel problem, and a fine map",
    cost={"smoke": "10 s", "laptop": "2 min", "paper": "an hour"},
    configs=LANDSCAPE,
    run=run_bilevel,
    figures={"maps": plots.plot_maps, "fine": plots.plot_fine, "paths": plots.plot_connection},
)
DECORECO = Experiment(
    name="landscape-decoreco",
    chapter="13-landscape",
    section="4.5",
    summary="the same starts for DecoReco, on its own net and on the bilevel problem's",
    cost={"smoke": "15 s", "laptop": "5 min", "paper": "hours"},
    configs=LANDSCAPE,
    run=run_decoreco,
    figures={"maps": plots.plot_variants, "lines": plots.plot_lines, "geometry": plots.plot_geometry},
)
