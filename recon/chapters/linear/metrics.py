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


@dataclass(frozen=True)
class Metrics:
    """Three starts moved onto the solution set, and three smaller points of §3.1."""

    n_train: int
    counterfactual: Moved
    noise: Moved
    repeated: Moved
    counting: list[Counted]
    trivial: Trivial
    kernel: Kernel

    def starts(self) -> dict[str, Moved]:
        """The three by name."""
        return {"counterfactual": self.counterfactual, "noise": self.noise, "repeated": self.repeated}
