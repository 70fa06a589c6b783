"""Chapter 4: bilevel reconstruction of the one-hidden-layer net, eq. (9), and what Table 1's average can mean."""

from __future__ import annotations

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from recon.attacks.bilevel import BilevelAttack, GaussNewton, LBFGSInner, Released, outer_energy
from recon.attacks.reconstruct import Reconstruction, reconstruct
from recon.chapters.base import Context, Experiment
from recon.chapters.bilevel import (
    BOX,
    PAPER_TABLE_1,
    STARTS,
    Images,
    distance_metrics,
    image_metrics,
    image_null,
    near_text,
)
from recon.chapters.plots import bilevel as plots
from recon.chapters.profiles import BILEVEL_HIDDEN, BilevelHidden
from recon.nets.mlp import MLP, one_hidden
from recon.optim.descent import HeavyBall
from recon.store.results import Claim, Outcome, verdict
from recon.training.inner import Objective, solve_lbfgs

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
    """Starts × inner starts × seeds as one batch; returns (metrics, reconstruction, x_init, θ* per seed).

    All on the run's images: these seeds are of starts and weights, for the null is two networks that share their data.
    """
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


def null_at_width(config: BilevelHidden, context: Context, images: Images, width: int) -> dict:
    """‖θ − θ'‖² of two nets of this width that share the data only: the sum, and the mean per parameter."""
    network = one_hidden(width, images.train.shape[1])
    objective = Objective(network, images.y, config.weight_decays[0])
    start = torch.stack([network.flatten(network.init(context.generator(100 + s))) for s in (0, 1)]).to(images.y.device)
    pair = images.train.expand(2, -1, -1)
    theta = solve_lbfgs(objective, pair, start, tol=1e-6, max_iter=config.train_iterations).theta
    total = outer_energy(theta[0], theta[1]).item()
    return {"other_seed_sum": total, "other_seed_mean": total / network.n_params}


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
        "null_by_width": {str(width): null_at_width(config, context, images, width) for width in config.null_widths},
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
            f"nearest training image {near_text(truth['nn_train_l2'], null['held_out_nn_l2'])} for held-out images (θ⁰ "
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
            f"At width {metrics['width']}, Table 1's 6.1e-5 read as a mean per parameter is what two nets that share "
            "nothing but data are apart; the mean falls with the width, so this need not hold at the paper's 6144.",
            f"{table['random']:.2e}",
            f"{uniform['random']['distance_mean']:.1e} after solving from the random start",
            "two seeds, same data, by width: "
            + ", ".join(f"{w}: {v['other_seed_mean']:.1e}" for w, v in metrics["null_by_width"].items()),
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
