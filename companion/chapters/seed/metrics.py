"""What appendix G measures."""

from __future__ import annotations

from dataclasses import dataclass

from recon.scoring.nulls import NullTable

SEPARATION, TANGENT = "separation", "tangent"


@dataclass(frozen=True, kw_only=True)
class Rung(NullTable):
    """One attack with one amount of knowledge of the start θ⁰.

    attack: `SEPARATION` or `TANGENT` · noise: the size of the error in what the adversary takes for
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
