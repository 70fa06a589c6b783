"""What chapter 1 measures."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Moved:
    """One set of n images moved onto the solution set of θ*.

    relative_theta_error: ‖θ(x) − θ*‖ / ‖θ*‖ of the classifier retrained on them; unmoved: before the move; 8bit: after
    rounding · changes: of each image in L2, its mean and maximum, and its mean in pixels · share_changed_8bit: of
    pixels that round to another value · nn_train_l2: mean distance to the nearest training image, of held-out images
    the null · jacobian_rank, solution_dim: of the N·K unknowns · residual_norm, iterations, converged: of the
    projection · nearest_point: whether the result is a proven nearest point · lowest, highest pixel, share_at_the_box:
    of the box [0, 1].
    """

    n: int
    weight_decay: float
    relative_theta_error: float
    relative_theta_error_unmoved: float
    relative_theta_error_8bit: float
    mean_change_l2: float
    max_change_l2: float
    mean_change_pixel: float
    share_changed_8bit: float
    nn_train_l2: float
    held_out_nn_l2: float
    unknowns: int
    jacobian_rank: int
    solution_dim: int
    residual_norm: float
    iterations: int
    converged: bool
    nearest_point: bool
    lowest_pixel: float
    highest_pixel: float
    share_at_the_box: float


@dataclass(frozen=True)
class Counted:
    """Unknowns N·K against equations for one network: perfect_fit L·N (L = 1) · stationarity: one a parameter."""

    name: str
    n: int
    unknowns: int
    perfect_fit: int
    stationarity: int
    ratio: float


@dataclass(frozen=True)
class Trivial:
    """‖(6)‖ at X̄ = 0, Y = 0: as the paper has it, and with the bias column of ones and weight decay kept."""

    residual_as_in_paper: float
    residual_with_bias_and_decay: float


@dataclass(frozen=True)
class Kernel:
    """dim ker(X̄ᵀ) for photographs and for one image n times; of Anscombe's four sets the regression lines, the norms
    of the gradient, and the largest entries of its product with X̄ᵀ."""

    train: int
    repeated: int
    anscombe_lines: list[list[float]]
    anscombe_gradient_norm: list[float]
    anscombe_product_max: list[float]


@dataclass(frozen=True, kw_only=True)
class Distance:
    """How far n other images moved for the same classifier, at one weight decay; the projection's ‖F‖ and whether it
    converged · test_accuracy: of the classifier on images of neither set · majority: of always naming the more frequent
    class, the null · nn_train_l2: of the moved images to their nearest training image."""

    n: int
    weight_decay: float
    mean_change_l2: float
    max_change_l2: float
    nn_train_l2: float
    residual_norm: float
    converged: bool
    n_test: int
    test_accuracy: float
    majority: float


@dataclass(frozen=True, kw_only=True)
class Relabelled:
    """Other images that claim to have other labels: the share of them whose label is flipped, how far they moved, and
    the relative error of the classifier retrained on them with those labels."""

    share: float
    mean_change_l2: float
    relative_theta_error: float
    converged: bool


@dataclass(frozen=True, kw_only=True)
class Twins:
    """Two sets of n photographs with 8 bits a channel, and how many of the `numbers` float32 numbers of their
    classifiers are the same, bit by bit.

    agree_rounded: of the other photographs moved onto the solution set and rounded, the null · agree_unmoved: of the
    photographs that they were made from · largest_relative_difference: |θ̂_j − θ_j|/|θ_j| at most, of the other set's
    float64 classifier from the float32 numbers wanted · mean, max_change_levels: of the other photographs, in grey
    levels of 255, mean over all pixels and over those of the image that moved most · nn_train_l2, held_out_nn_l2: mean
    distance to the nearest training image, of the twins and of images of neither set, pixels in [0, 1] · same_images:
    in both sets.
    """

    n: int
    weight_decay: float
    numbers: int
    agree: int
    agree_rounded: int
    agree_unmoved: int
    largest_relative_difference: float
    relative_error_rounded: float
    mean_change_levels: float
    max_image_change_levels: float
    nn_train_l2: float
    held_out_nn_l2: float
    same_images: int


@dataclass(frozen=True)
class Metrics:
    """Three starts moved onto the solution set, three smaller points of §3.1, and what goes beyond it: distance against
    n and weight decay, other labels, photographs of 8 bits."""

    n_train: int
    counterfactual: Moved
    noise: Moved
    repeated: Moved
    counting: list[Counted]
    trivial: Trivial
    kernel: Kernel
    by_n: list[Distance]
    by_weight_decay: list[Distance]
    relabelled: list[Relabelled]
    twins: Twins

    def starts(self) -> dict[str, Moved]:
        """The three by name."""
        return {"counterfactual": self.counterfactual, "noise": self.noise, "repeated": self.repeated}
