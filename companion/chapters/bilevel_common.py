"""What both classifiers of chapter 3 share: the starts (a) random, (b) truth, (c) partition, and what is measured."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recon.images.bundle import Bundle
from recon.scoring.matching import nearest

STARTS = ("random", "truth", "partition")
#: Table 1 of Runkel et al. (2024): average ‖θ* − θ‖² of each start, for the affine and the one-hidden-layer net
PAPER_AFFINE = {"random": 1.1214e-3, "truth": 1.3888e-3, "partition": 2.9749e-3}
PAPER_HIDDEN = {"random": 6.1157e-5, "truth": 1.7055e-3, "partition": 6.3629e-3}
BOX = (0.0, 1.0)  # that pixels lie in [0, 1] is no secret


def start_of(images: Bundle, name: str, generator: torch.Generator) -> Tensor:
    """Start (a) U(0, 1), (b) the training images, (c) the other partition; (n, d)."""
    if name == "random":
        return torch.rand(images.train.shape, generator=generator, dtype=images.train.dtype).to(images.train.device)
    return images.train if name == "truth" else images.init


STARTS = ("random", "truth", "partition")


@dataclass(frozen=True, kw_only=True)
class Reconstructed:
    """One start's end.

    distance: ‖θ* − θ‖² as a sum, as a mean per parameter, and relative to ‖θ*‖² · the rest are means over images:
    moved_l2 from the start; nn_…: to the nearest training, or start partition's, image, L2 over all
    values in [0, 1], or SSIM · shares: nearer to the start partition than to the training images; whose nearest image
    of the partition is the one in its own row, which is where start (c) began.
    """

    distance_sum: float
    distance_mean: float
    distance_relative: float
    moved_l2: float
    nn_train_l2: float
    nn_partition_l2: float
    nn_train_ssim: float
    nearer_to_partition: float
    own_start_is_nearest: float


def measured(x_hat: Tensor, x_init: Tensor, images: Bundle, energy: float, theta_star: Tensor) -> Reconstructed:
    """The reconstructions x_hat (n, d) from x_init; energy: their ‖θ* − θ(x_hat)‖²."""
    to_train, to_init = nearest(x_hat, images.train, "l2"), nearest(x_hat, images.init, "l2")
    return Reconstructed(
        distance_sum=energy,
        distance_mean=energy / theta_star.shape[-1],
        distance_relative=energy / theta_star.square().sum().item(),
        moved_l2=(x_hat - x_init).norm(dim=-1).mean().item(),
        nn_train_l2=to_train.score.mean().item(),
        nn_partition_l2=to_init.score.mean().item(),
        nn_train_ssim=nearest(x_hat, images.train, "ssim", images.shape).score.mean().item(),
        nearer_to_partition=(to_init.score < to_train.score).double().mean().item(),
        own_start_is_nearest=(to_init.index == torch.arange(len(x_hat), device=x_hat.device)).double().mean().item(),
    )


@dataclass(frozen=True, kw_only=True)
class ImageNull:
    """What held-out images score against the training images, the null of every "resembles": means over images of the
    nearest by L2, NCC and SSIM."""

    held_out_nn_l2: float
    held_out_nn_ncc: float
    held_out_nn_ssim: float


def image_null(images: Bundle) -> ImageNull:
    """By each metric on its own."""

    def score(metric: str) -> float:
        return nearest(images.held_out, images.train, metric, images.shape).score.mean().item()

    return ImageNull(held_out_nn_l2=score("l2"), held_out_nn_ncc=score("ncc"), held_out_nn_ssim=score("ssim"))
