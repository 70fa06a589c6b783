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
class Metrics:
    """Eq. (3), ‖∇_θ E‖² without weight decay, at a network trained to `log_loss`.

    margins: (2y − 1) Φ of the training images · max_heldout_confidence: largest |Φ| of a held-out image ·
    heldout_error: share of held-out images that the network gets wrong · objective_true: of the training images;
    repeated: of the most confident image of each class, repeated n_train/2 times, among training, held-out and noise
    images · share_of_…_below_truth: images whose objective, each repeated alone, is at most `objective_true`.
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
