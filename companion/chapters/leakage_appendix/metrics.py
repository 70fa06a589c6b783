"""What `leakage-appendix` measures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class WithoutBias:
    """R-GAP with eq. (4), and with eq. (5) where the gradient of the bias is withheld: errors of both images."""

    with_bias: list[float]
    without: list[float]


@dataclass(frozen=True, kw_only=True)
class Solver:
    """One way to minimise Hybrid's energy on the truck.

    energy: α D + β TV, without the constraint's term · violation: the part of the way from the start that U sees, over
    ‖x_0‖ · seconds: of the processor, with those for a basis
    of the kernel · reached: those after which the error was no more than the soft
    constraint's in the end, None for never.
    """

    steps: int
    energy: float
    violation: float
    mse: float
    seconds: float
    reached: float | None


@dataclass(frozen=True, kw_only=True)
class Constrained:
    """From the same start, with its energy and error: a soft constraint, and two ways to keep it, which need a basis of
    the kernel of U first (kernel_seconds)."""

    start_energy: float
    start_mse: float
    kernel_seconds: float
    soft: Solver
    lbfgs: Solver
    trust_region: Solver

    @property
    def relative_time(self) -> float:
        """Of the trust region until it was as near as the soft constraint, over the soft constraint's; a lower bound
        where it never was."""
        took = self.trust_region.reached
        return (self.trust_region.seconds if took is None else took) / self.soft.seconds


@dataclass(frozen=True, kw_only=True)
class Norms:
    """Of the gradient of each image, before and after training."""

    before: list[float]
    after: list[float]

    @property
    def smaller(self) -> float:
        """Share of the images whose gradient became smaller."""
        return float(np.mean(np.array(self.after) < np.array(self.before)))

    @property
    def ratio(self) -> float:
        """After over before, in the middle."""
        return float(np.median(np.array(self.after) / np.array(self.before)))


@dataclass(frozen=True, kw_only=True)
class Trained:
    """One network.  train, test: mean cross-entropy at the start and after every epoch · seen: images it trained on ·
    unseen: others of the two classes · other: of the other classes, seen by neither · n_train, n_test: of the two
    classes."""

    train: list[float]
    test: list[float]
    seen: Norms
    unseen: Norms
    other: Norms
    n_train: int
    n_test: int


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """without_bias, trained: by network · constrained: with Tanh · leaky: the same with LeakyReLU in its place."""

    without_bias: dict[str, WithoutBias]
    constrained: Constrained
    leaky: Constrained
    trained: dict[str, Trained]
