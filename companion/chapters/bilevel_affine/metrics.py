"""What chapter 3 measures."""

from __future__ import annotations

from dataclasses import dataclass

from companion.chapters.bilevel_common import ImageNull, Reconstructed


@dataclass(frozen=True, kw_only=True)
class Null(ImageNull):
    """‖θ* − θ‖² of a classifier that starts its training elsewhere, and of one trained on the held-out images."""

    other_seed_sum: float
    other_data_sum: float


@dataclass(frozen=True, kw_only=True)
class Ended(Reconstructed):
    """How one start ended; converged: its energy fell by less than a hundredth over the last quarter of the steps, or
    is within the tolerance, or below the paper's value · outside_box: share of pixels outside [0, 1]."""

    converged: bool
    outside_box: float


@dataclass(frozen=True, kw_only=True)
class Starts:
    """The three starts; steps: outer iterations that were made."""

    steps: int
    random: Ended
    truth: Ended
    partition: Ended

    def starts(self) -> dict[str, Ended]:
        """The three by name."""
        return {"random": self.random, "truth": self.truth, "partition": self.partition}


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """The inner problem stopped at ‖∇E‖ ≤ tol, from θ⁰ ~ U(0, 1): iterations on the training images, and ‖θ* − θ‖² at
    the images where the attack ended from each start, summed over parameters."""

    tol: float
    iterations: int
    random: float
    truth: float
    partition: float

    def distances(self) -> dict[str, float]:
        """The three by name."""
        return {"random": self.random, "truth": self.truth, "partition": self.partition}


@dataclass(frozen=True, kw_only=True)
class Metrics(Starts):
    """At top level our descent (momentum, box).

    plain: the paper's, with a fixed step, neither momentum nor box · stopped: unfinished inner solves, from coarse to
    fine · descent_steps: of plain gradient descent on the inner problem until what θ⁰ has outside the span of the
    training images is down to the paper's distance of the truth.
    """

    n_train: int
    weight_decay: float
    plain: Starts
    stopped: list[Stopped]
    descent_steps: float
    null: Null
