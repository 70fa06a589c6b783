"""What chapter 19 measures."""

from __future__ import annotations

from dataclasses import dataclass

from recon.scoring.nulls import NullTable

SEPARATION, TANGENT = "separation", "tangent"
DISTRIBUTION = "separation, distribution known"


@dataclass(frozen=True, kw_only=True)
class Rung(NullTable):
    """One attack with one amount of knowledge of the start θ⁰.

    attack: `SEPARATION`, `TANGENT` or `DISTRIBUTION` · noise: the size of the error in what the adversary takes for
    θ⁰, over that of θ⁰; None where they have nothing to subtract · candidates: how many the attack returns · left:
    share of ‖θ* − θ⁰‖² that the candidates do not explain, which the adversary sees; None for separation · true, auc:
    of the candidates, those that are training images, and how well the attack's own evidence (sparsity; the size of
    the coefficient) tells them from the others; None where one kind is missing.
    """

    attack: str
    noise: float | None
    candidates: int
    left: float | None
    true: int
    auc: float | None


@dataclass(frozen=True, kw_only=True)
class Net:
    """One network.  optimiser · loss, accuracy: at the end of training · moved: ‖W1 − W1(0)‖ / ‖W1(0)‖ · directions:
    that stand out of W1's singular values if nothing is known, and if the distribution of the start is · rungs: from
    nothing to θ⁰ itself."""

    n_train: int
    width: int
    optimiser: str
    loss: float
    accuracy: float
    moved: float
    directions: int
    directions_by_distribution: int
    rungs: list[Rung]

    def of(self, attack: str) -> list[Rung]:
        """The rungs of one attack, from the least knowledge to the most."""
        return [rung for rung in self.rungs if rung.attack == attack]

    def share(self, rung: Rung) -> float:
        """Images above NCC 0.7 beyond the best null, as a share of the training images; below 0 where the null is
        better."""
        return rung.excess.ncc_07 / self.n_train


@dataclass(frozen=True)
class Metrics:
    """All networks."""

    nets: list[Net]


@dataclass(frozen=True, kw_only=True)
class DistributionNet:
    """One network whose start is unknown.  optimiser · moved: as of `Net` · nothing: separation in the directions that
    stand out of W1's own spectrum · distribution: in those that stand out of what the start was drawn from."""

    n_train: int
    width: int
    optimiser: str
    moved: float
    nothing: Rung
    distribution: Rung


@dataclass(frozen=True)
class DistributionMetrics:
    """All networks."""

    nets: list[DistributionNet]


FEATURES, HIDDEN = "random features", "one hidden layer"


@dataclass(frozen=True, kw_only=True)
class LawCell:
    """One model of the law.

    model: `FEATURES` or `HIDDEN` · n_train, dim: number of images n and of their pixels d · width: of the layer ·
    parameters: those that are trained, p · error: mean over the training images of 1 − NCC² with the nearest candidate
    of the tangent attack, in [0, 1] · separation_error: the same for separation of the first layer; None for random
    features, whose first layer is not trained · null_error: the smallest of the same by as many mixtures, rows and
    means that cost nothing (`recon.scoring.nulls`), and by the attack's own candidates on held-out images · left: share
    of ‖θ* − θ⁰‖² that the tangent attack does not explain.
    """

    model: str
    n_train: int
    dim: int
    width: int
    parameters: int
    loss: float
    error: float
    separation_error: float | None
    null_error: float
    left: float

    @property
    def equations_per_unknown(self) -> float:
        """p / (d n)."""
        return self.parameters / (self.dim * self.n_train)


@dataclass(frozen=True)
class LawMetrics:
    """cells: of each model, from the fewest parameters to the most."""

    cells: list[LawCell]

    def of(self, model: str) -> list[LawCell]:
        """The cells of one model."""
        return [cell for cell in self.cells if cell.model == model]
