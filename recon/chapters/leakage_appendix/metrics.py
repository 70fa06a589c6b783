"""What `leakage-appendix` measures."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class WithoutBias:
    """R-GAP with eq. (4), and with eq. (5) where the gradient of the bias is withheld: errors of both images."""

    with_bias: list[float]
    without: list[float]


@dataclass(frozen=True, kw_only=True)
class Solver:
    """One way to minimise Hybrid's energy on the truck.  energy: α D + β TV, without the constraint's term · violation:
    ‖Q (x − x_0)‖/‖x_0‖ on the rows of U · seconds: of the processor, set-up apart."""

    steps: int
    energy: float
    violation: float
    mse: float
    seconds: float

    @property
    def pace(self) -> float:
        """Seconds a step."""
        return self.seconds / max(self.steps, 1)


@dataclass(frozen=True, kw_only=True)
class Constrained:
    """Of the same start, with its energy and error: a soft constraint, and two ways to keep it."""

    start_energy: float
    start_mse: float
    soft: Solver
    projected: Solver
    trust_region: Solver


@dataclass(frozen=True, kw_only=True)
class Trained:
    """One network before and after.  train, test: mean cross-entropy at the start and after every epoch · before,
    after: norm of the gradient of each image · n_train, n_test: images of the two classes."""

    train: list[float]
    test: list[float]
    before: list[float]
    after: list[float]
    n_train: int
    n_test: int


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """without_bias, trained: by network."""

    without_bias: dict[str, WithoutBias]
    constrained: Constrained
    trained: dict[str, Trained]
