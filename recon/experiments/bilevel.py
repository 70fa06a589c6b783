"""Chapters 3 and 4: bilevel reconstruction, eq. (2), from the starts (a) random, (b) truth, (c) partition."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from recon.bilevel import AffineInner, BilevelAttack, GaussNewton, LBFGSInner, Released, Woodbury, outer_energy
from recon.data import Dataset
from recon.descent import HeavyBall
from recon.experiments.base import Context, Experiment
from recon.experiments.profiles import BILEVEL_AFFINE, BILEVEL_HIDDEN, BilevelAffine, BilevelHidden
from recon.matching import nearest
from recon.networks import MLP, affine, one_hidden
from recon.plots import bilevel as plots
from recon.reconstruct import Reconstruction, reconstruct
from recon.results import Claim, Outcome, verdict
from recon.training import Objective, solve_affine, solve_lbfgs

STARTS = ("random", "truth", "partition")
PAPER_TABLE_1 = {
    "affine": {"random": 1.1214e-3, "truth": 1.3888e-3, "partition": 2.9749e-3},
    "one hidden": {"random": 6.1157e-5, "truth": 1.7055e-3, "partition": 6.3629e-3},
}
BOX = (0.0, 1.0)  # that pixels lie in [0, 1] is no secret
HELD_OUT_METRICS = ("l2", "ncc", "ssim")


@dataclass(frozen=True)
class Images:
    """The three partitions as flat images (n, d) of one dtype on one device, and the labels of `train`."""

    train: Tensor
    init: Tensor
    held_out: Tensor
    y: Tensor
    held_out_y: Tensor

    @staticmethod
    def of(data: Dataset, context: Context, dtype: torch.dtype) -> Images:
        """Move what is needed."""

        def place(tensor: Tensor) -> Tensor:
            return tensor.to(context.device, dtype)

        return Images(
            place(data.train.flat),
            place(data.init.flat),
            place(data.held_out.flat),
            place(data.train.y),
            place(data.held_out.y),
        )

    def start(self, name: str, generator: torch.Generator) -> Tensor:
        """Start (a) U(0, 1), (b) the training images, (c) the other partition; (n, d)."""
        if name == "random":
            return torch.rand(self.train.shape, generator=generator, dtype=self.train.dtype).to(self.train.device)
        return self.train if name == "truth" else self.init


def image_metrics(x_hat: Tensor, x_init: Tensor, images: Images) -> dict:
    """How far the reconstructions (n, d) moved and how near they came; L2 in pixel units over all 3072 values."""
    to_train, to_init = nearest(x_hat, images.train, "l2"), nearest(x_hat, images.init, "l2")
    return {
        "moved_l2": (x_hat - x_init).norm(dim=-1).mean().item(),
        "nn_train_l2": to_train.score.mean().item(),
        "nn_partition_l2": to_init.score.mean().item(),
        "nn_train_ssim": nearest(x_hat, images.train, "ssim").score.mean().item(),
        "nearer_to_partition": (to_init.score < to_train.score).double().mean().item(),
        "own_start_is_nearest": (to_init.index == torch.arange(len(x_hat), device=x_hat.device)).double().mean().item(),
    }


def distance_metrics(energy: float, theta_star: Tensor) -> dict:
    """‖θ* − θ‖² as a sum, as a mean per parameter, and relative to ‖θ*‖²."""
    return {
        "distance_sum": energy,
        "distance_mean": energy / theta_star.shape[-1],
        "distance_relative": energy / theta_star.square().sum().item(),
    }


def image_null(images: Images) -> dict:
    """What held-out images score against the training images: the null baseline of every "resembles"."""
    return {f"held_out_nn_{m}": nearest(images.held_out, images.train, m).score.mean().item() for m in HELD_OUT_METRICS}


# ------------------------------------------------------------------------------------------- eq. (8): affine


def run_affine(config: BilevelAffine, context: Context) -> Outcome:
    """All three starts as one batch, float64, exact inner solves and exact inverse Hessians."""
    data = context.dataset(config.n_train, config.n_held_out)
    images = Images.of(data, context, torch.float64)
    network = affine(images.train.shape[1])
    objective = Objective(network, images.y, config.weight_decay)
    theta_star = solve_affine(objective, images.train[None]).theta[0]
    x_init = torch.stack([images.start(name, context.generator(1)) for name in STARTS])
    attack = BilevelAttack(
        Released(network, theta_star, images.y, config.weight_decay),
        AffineInner(),
        Woodbury(),
        HeavyBall(config.step_size, config.momentum, tol=config.tol, box=BOX),
    )
    found = reconstruct(attack, x_init, config.steps, config.tol, context.checkpoints / "affine.safetensors")
    metrics: dict = {"n_train": len(data.train), "steps": found.steps, "weight_decay": config.weight_decay}
    for row, name in enumerate(STARTS):
        metrics[name] = {
            **distance_metrics(found.energy[row].item(), theta_star),
            **image_metrics(found.x_hat[row], x_init[row], images),
        }
    # The minimiser is unique: another seed for θ⁰ gives the same θ.  Measured, not assumed: the logits of a random θ⁰.
    other = torch.randn(1, len(images.y), generator=context.generator(2), dtype=torch.float64).to(context.device)
    other_seed = solve_affine(objective, images.train[None], logits=other).theta[0]
    other_data = solve_affine(
        Objective(network, images.held_out_y[: 2 * (len(images.held_out) // 2)], config.weight_decay),
        images.held_out[None],
    ).theta[0]
    metrics["null"] = {
        "other_seed_sum": outer_energy(theta_star, other_seed).item(),
        "other_data_sum": outer_energy(theta_star, other_data).item(),
        **image_null(images),
    }
    arrays = {f"x_hat_{name}": found.x_hat[row].float() for row, name in enumerate(STARTS)}
    arrays |= {
        "x_init_random": x_init[0].float(),
        "x_train": images.train.float(),
        "x_partition": images.init.float(),
        "x_held_out": images.held_out[:40].float(),
        "energy": found.history,
        "train_index": data.train.index,
        "partition_index": data.init.index,
        "theta_star": theta_star,
    }
    return Outcome(metrics, affine_claims(metrics), arrays)


def _near(ours: float, null: float) -> str:
    return f"{ours:.1f} against {null:.1f}"


def affine_claims(metrics: dict) -> list[Claim]:
    """§4.3's sentences on the affine net; thresholds are the null baselines or the paper's own values."""
    null, table = metrics["null"], PAPER_TABLE_1["affine"]
    random, truth, partition = (metrics[name] for name in STARTS)
    other = f"another data set: {null['other_data_sum']:.2g}"
    held_out = f"held-out images: {null['held_out_nn_l2']:.1f}"
    distances = [
        Claim(
            f"affine-distance-{name}",
            "4.3, Table 1",
            f"The parameter distance after solving from the {name} start is small.",
            f"{table[name]:.2e}",
            f"{metrics[name]['distance_sum']:.1e}",
            other,
            verdict(metrics[name]["distance_sum"] <= table[name]),
        )
        for name in STARTS
    ]
    return [
        *distances,
        Claim(
            "affine-random-noise",
            "4.3 a, Fig. 1a",
            "From a random start no training image is reconstructed; the results look like random noise.",
            "noise (visual)",
            f"nearest training image {random['nn_train_l2']:.1f} away in L2",
            held_out,
            verdict(random["nn_train_l2"] > null["held_out_nn_l2"]),
        ),
        Claim(
            "affine-truth-perfect",
            "4.3 b, Fig. 2a",
            "From the ground truth the affine classifier recovers the training data perfectly.",
            "perfect (visual)",
            f"moved {truth['moved_l2']:.1e} in L2",
            held_out,
            verdict(truth["nn_train_l2"] <= 1e-3),
        ),
        Claim(
            "affine-partition-is-start",
            "4.3 c, Fig. 3",
            "From another partition the images come back that were used for the initialisation, not the training data.",
            "visual",
            f"{partition['nearer_to_partition']:.0%} nearer to the start partition; nearest training image "
            f"{partition['nn_train_l2']:.1f} away",
            held_out,
            verdict(
                partition["nearer_to_partition"] == 1.0 and partition["nn_train_l2"] >= 0.9 * null["held_out_nn_l2"]
            ),
        ),
    ]


# ------------------------------------------------------------------------------------- eq. (9): one hidden


INNER_STARTS = ("uniform", "theta_star")


def aligned_distance(network: MLP, theta: Tensor, theta_star: Tensor) -> float:
    """‖θ* − Pθ‖² minimised over permutations P of the hidden units: the same function has width! parameter vectors."""

    def units(vector: Tensor) -> Tensor:
        params = network.unflatten(vector)
        return torch.cat([params["w1"], params["b1"][:, None], params["w2"].mT], dim=1)

    a, b = units(theta), units(theta_star)
    cost = (a.square().sum(1)[:, None] + b.square().sum(1) - 2 * a @ b.mT).cpu()
    rows, columns = linear_sum_assignment(cost.numpy())
    rest = (theta[-1] - theta_star[-1]).square()
    return (cost[rows, columns].sum() + rest.cpu()).item()


def _hidden_runs(
    config: BilevelHidden, context: Context, network: MLP, images: Images, weight_decay: float
) -> tuple[dict, Reconstruction, Tensor, Tensor]:
    """Starts × inner starts × seeds as one batch; returns (metrics, reconstruction, x_init, θ* per seed)."""
    objective = Objective(network, images.y, weight_decay)
    seeds = range(config.seeds)

    def weights(offset: int, scheme: str) -> Tensor:
        drawn = [network.flatten(network.init(context.generator(offset + s), scheme)) for s in seeds]
        return torch.stack(drawn).to(context.device)

    train = images.train.expand(config.seeds, -1, -1)
    trained = solve_lbfgs(objective, train, weights(100, "default"), tol=1e-6, max_iter=config.train_iterations)
    theta_star = trained.theta
    held_out = images.held_out.expand(config.seeds, -1, -1)
    other_data = solve_lbfgs(
        Objective(network, images.held_out_y, weight_decay),
        held_out,
        weights(100, "default"),
        tol=1e-6,
        max_iter=config.train_iterations,
    ).theta
    theta_0 = {"uniform": weights(200, "uniform"), "theta_star": theta_star}
    plan = [(inner, start, s) for inner in INNER_STARTS for start in STARTS for s in seeds]
    x_init = torch.stack([images.start(start, context.generator(300 + s)) for _, start, s in plan])
    released = Released(network, torch.stack([theta_star[s] for *_, s in plan]), images.y, weight_decay)
    attack = BilevelAttack(
        released,
        LBFGSInner(torch.stack([theta_0[i][s] for i, _, s in plan]), config.inner_first, config.inner_next),
        GaussNewton(),
        HeavyBall(config.step_size, config.momentum, tol=config.tol, box=BOX),
    )
    checkpoint = context.checkpoints / f"hidden-{weight_decay}.safetensors"
    found = reconstruct(attack, x_init, config.steps, config.tol, checkpoint)
    metrics: dict = {"weight_decay": weight_decay, "train_grad_norm": trained.grad_norm.max().item()}
    for inner in INNER_STARTS:
        metrics[inner] = {}
        for start in STARTS:
            rows = [k for k, (i, st, _) in enumerate(plan) if (i, st) == (inner, start)]
            per_seed = [
                {
                    **distance_metrics(found.energy[k].item(), theta_star[plan[k][2]]),
                    **image_metrics(found.x_hat[k], x_init[k], images),
                }
                for k in rows
            ]
            metrics[inner][start] = _mean_and_sd(per_seed)
    pairs = [(a, b) for a in seeds for b in seeds if a < b]
    metrics["null"] = {
        "other_seed_sum": _mean([outer_energy(theta_star[a], theta_star[b]).item() for a, b in pairs]),
        "other_seed_mean": _mean([outer_energy(theta_star[a], theta_star[b]).item() for a, b in pairs])
        / network.n_params,
        "other_seed_aligned_sum": _mean([aligned_distance(network, theta_star[a], theta_star[b]) for a, b in pairs]),
        "other_data_sum": _mean([outer_energy(theta_star[s], other_data[s]).item() for s in seeds]),
        "zero_sum": theta_star.square().sum(-1).mean().item(),
        **image_null(images),
    }
    return metrics, found, x_init, theta_star


def _mean(values: list[float]) -> float:
    return float(torch.tensor(values, dtype=torch.float64).mean())


def _mean_and_sd(rows: list[dict]) -> dict:
    table = {key: torch.tensor([row[key] for row in rows], dtype=torch.float64) for key in rows[0]}
    means = {key: values.mean().item() for key, values in table.items()}
    return means | {f"{key}_sd": values.std().item() for key, values in table.items()}


def run_hidden(config: BilevelHidden, context: Context) -> Outcome:
    """Every weight decay in turn; the first is reported at top level, with the inner start of the paper (uniform)."""
    data = context.dataset(config.n_train, config.n_held_out)
    images = Images.of(data, context, torch.float32)
    network = one_hidden(config.width, images.train.shape[1])
    by_decay = {wd: _hidden_runs(config, context, network, images, wd) for wd in config.weight_decays}
    main, found, x_init, theta_star = by_decay[config.weight_decays[0]]
    metrics = {
        "n_train": len(data.train),
        "width": config.width,
        "n_params": network.n_params,
        "seeds": config.seeds,
        "weight_decay": main["weight_decay"],
        **main["uniform"],
        "inner_start": {inner: main[inner] for inner in INNER_STARTS},
        "null": main["null"],
        "weight_decays": {str(wd): values for wd, (values, *_) in by_decay.items()},
    }
    arrays = {
        "x_train": images.train,
        "x_partition": images.init,
        "x_held_out": images.held_out[:40],
        "energy": found.history,
        "train_index": data.train.index,
        "partition_index": data.init.index,
    }
    for i, inner in enumerate(INNER_STARTS):
        for j, start in enumerate(STARTS):
            first = (i * len(STARTS) + j) * config.seeds
            row = first + int(found.energy[first : first + config.seeds].argmin())  # chosen by the attack's own energy
            suffix = start if inner == "uniform" else f"{start}_from_theta_star"
            arrays[f"x_hat_{suffix}"] = found.x_hat[row]
            arrays[f"x_init_{suffix}"] = x_init[row]
    return Outcome(metrics, hidden_claims(metrics), arrays)


def hidden_claims(metrics: dict) -> list[Claim]:
    """§4.3's sentences on the one-hidden net, and the finding on Table 1's average."""
    null, table = metrics["null"], PAPER_TABLE_1["one hidden"]
    uniform, informed = metrics["inner_start"]["uniform"], metrics["inner_start"]["theta_star"]
    held_out = f"held-out images: {null['held_out_nn_l2']:.1f}"
    claims = []
    for name in STARTS:
        value = uniform[name]
        small = value["distance_sum"] <= 0.1 * null["other_seed_sum"]
        claims.append(
            Claim(
                f"hidden-distance-{name}",
                "4.3, Table 1",
                f"The parameter distance from the {name} start remains small (θ⁰ uniform).",
                f"{table[name]:.2e}",
                f"sum {value['distance_sum']:.2g} ± {value['distance_sum_sd']:.1g}, mean per parameter "
                f"{value['distance_mean']:.1e}",
                f"another seed: sum {null['other_seed_sum']:.2g}, mean {null['other_seed_mean']:.1e}",
                verdict(small),
            )
        )
    truth, partition, random = uniform["truth"], uniform["partition"], uniform["random"]
    claims += [
        Claim(
            "hidden-random-noise",
            "4.3 a, Fig. 1b",
            "From a random start the one-hidden net's reconstructions look like random noise.",
            "noise (visual)",
            f"nearest training image {random['nn_train_l2']:.1f} ± {random['nn_train_l2_sd']:.1f} away",
            held_out,
            verdict(random["nn_train_l2"] > null["held_out_nn_l2"]),
        ),
        Claim(
            "hidden-truth-resembles",
            "4.3 b, Fig. 2b",
            "From the ground truth even the one-hidden net recovers images resembling the training data.",
            "resembling (visual)",
            f"nearest training image {_near(truth['nn_train_l2'], null['held_out_nn_l2'])} for held-out images (θ⁰ "
            f"uniform), {informed['truth']['nn_train_l2']:.1g} from θ*",
            held_out,
            verdict(truth["nn_train_l2"] < 0.5 * null["held_out_nn_l2"]),
        ),
        Claim(
            "hidden-partition-is-start",
            "4.3 c, Fig. 4",
            "From another partition the images used for the initialisation come back, not the training data.",
            "visual",
            f"{partition['nearer_to_partition']:.0%} (θ⁰ uniform) and "
            f"{informed['partition']['nearer_to_partition']:.0%} (from θ*) nearer to the start partition",
            held_out,
            verdict(min(p["partition"]["nearer_to_partition"] for p in (uniform, informed)) >= 0.95),
        ),
        Claim(
            "hidden-average-is-null",
            "",
            "Read as a mean per parameter, Table 1's 6.1e-5 is the distance of two nets that share nothing but data.",
            f"{table['random']:.2e}",
            f"{uniform['random']['distance_mean']:.1e} after solving from the random start",
            f"two seeds, same data: {null['other_seed_mean']:.1e}",
            "finding",
        ),
        Claim(
            "hidden-inner-start-decides",
            "",
            "With the inner problem started at the released θ* the distance falls far below the null; from a uniform "
            "θ⁰ it does not.",
            "",
            f"random start: {informed['random']['distance_sum']:.2g} from θ*, "
            f"{uniform['random']['distance_sum']:.2g} from uniform; partition start: "
            f"{informed['partition']['distance_sum']:.2g} and {uniform['partition']['distance_sum']:.2g}",
            f"θ = 0: {null['zero_sum']:.2g}; another seed: {null['other_seed_sum']:.2g}",
            "finding",
        ),
        Claim(
            "hidden-seeds-agree-up-to-order",
            "",
            "Two seeds on the same data differ mostly by the order of their hidden units, which ‖θ* − θ‖² cannot see.",
            "",
            f"{null['other_seed_aligned_sum']:.2g} after the best renumbering",
            f"{null['other_seed_sum']:.2g} as they are",
            "finding",
        ),
    ]
    return claims


AFFINE = Experiment(
    name="bilevel-affine",
    chapter="03-bilevel-affine",
    section="4.3",
    summary="bilevel reconstruction of an affine classifier from starts a/b/c",
    cost={"smoke": "3 s", "laptop": "10 s", "paper": "minutes"},
    configs=BILEVEL_AFFINE,
    run=run_affine,
    figures={"starts": plots.plot_starts, "energy": plots.plot_energy},
)
HIDDEN = Experiment(
    name="bilevel-hidden",
    chapter="04-bilevel-hidden",
    section="4.3",
    summary="bilevel reconstruction of a one-hidden-layer net, and what Table 1's average can mean",
    cost={"smoke": "10 s", "laptop": "2 min", "paper": "an hour"},
    configs=BILEVEL_HIDDEN,
    run=run_hidden,
    figures={"starts": plots.plot_starts, "distances": plots.plot_distances},
)
