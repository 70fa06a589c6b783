"""Chapters 3 and 4: bilevel reconstruction, eq. (2), from the starts (a) random, (b) truth, (c) partition."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recon.attacks.bilevel import AffineInner, BilevelAttack, Released, Woodbury, outer_energy
from recon.attacks.reconstruct import reconstruct
from recon.chapters.base import Context, Experiment
from recon.chapters.plots import bilevel as plots
from recon.chapters.profiles import BILEVEL_AFFINE, BilevelAffine
from recon.images.pools import Dataset
from recon.nets.mlp import affine
from recon.optim.descent import HeavyBall
from recon.scoring.matching import nearest
from recon.store.results import Claim, Outcome, verdict
from recon.training.inner import Objective, solve_affine

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


def near_text(ours: float, null: float) -> str:
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
