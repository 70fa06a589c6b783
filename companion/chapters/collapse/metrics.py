"""What chapter 2 measures."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Decayed:
    """Eq. (3) with weight decay ω, at a network that was trained with it: of the training images, of the most confident
    pair of training and of held-out images, repeated, and of no images at all, ‖ωθ‖²."""

    weight_decay: float
    objective_true: float
    objective_repeated_train: float
    objective_repeated_heldout: float
    objective_no_images: float


@dataclass(frozen=True, kw_only=True)
class Explained:
    """The objective of Haim et al. (2022) and Buzaglo et al. (2023), ‖θ − Σ λ_i y_i ∇Φ(x_i)‖² / ‖θ‖² with the best
    λ ≥ 0, at one network: 1 without images.

    first_layer: size of the first layer's start · log_loss: of training · truth: of the training images · train_pair,
    held_out_pair, noise_pair: of the most confident image of each class, the multiplier of each free, so that copies
    change nothing · held_out, noise: of as many held-out or noise images as were trained on, with the labels that the
    network gives them · eq3_truth, eq3_held_out_pair: eq. (3) at the same network.
    """

    first_layer: str
    log_loss: float
    truth: float
    train_pair: float
    held_out_pair: float
    noise_pair: float
    held_out: float
    noise: float
    eq3_truth: float
    eq3_held_out_pair: float

    def share_of_truth(self) -> float:
        """What the better pair of photographs explains, 1 − objective, over what the training images do."""
        return (1 - min(self.train_pair, self.held_out_pair)) / (1 - self.truth)


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """Eq. (3), ‖∇_θ E‖² without weight decay, at a network trained to `log_loss`.

    margins: (2y − 1) Φ of the training images · max_heldout_confidence: largest |Φ| of a held-out image ·
    heldout_error: share of held-out images that the network gets wrong · objective_true: of the training images;
    repeated: of the most confident image of each class, repeated n_train/2 times, among training, held-out and noise
    images · explained: the same network and candidates by the other objective, and a network whose first layer starts
    small, as Haim et al.'s · share_of_…_below_truth: images whose objective, each repeated alone, is at most
    `objective_true`.
    """

    n_train: int
    width: int
    log_loss: float
    min_margin: float
    median_margin: float
    max_heldout_confidence: float
    heldout_error: float
    objective_true: float
    objective_repeated_train: float
    objective_repeated_heldout: float
    objective_repeated_noise: float
    share_of_train_below_truth: float
    share_of_held_out_below_truth: float
    share_of_noise_below_truth: float
    weight_decay: Decayed
    explained: Explained
    explained_small_start: Explained
