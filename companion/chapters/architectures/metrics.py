"""What appendix J measures."""

from __future__ import annotations

from dataclasses import dataclass

from recon.scoring.nulls import NullTable

SEPARATION, SAME_NETWORK, DECORECO = "separation", "separation, default start", "DecoReco"
START, NOTHING = "the start is known", "nothing is known"


@dataclass(frozen=True, kw_only=True)
class DenseAttack(NullTable):
    """One attack on one network.

    attack · known: `START` or `NOTHING` · candidates: how many it returns · sources: of separation, each once, and
    true: those that are training images above NCC 0.7, of either sign · auc: how well the adversary's evidence,
    sparsity, tells them from the others; None where one kind is missing.  All three None where they were not asked.
    """

    attack: str
    known: str
    candidates: int
    sources: int | None = None
    true: int | None = None
    auc: float | None = None


@dataclass(frozen=True, kw_only=True)
class DenseNet:
    """A fully connected network in two trainings: from PyTorch's start by gradient descent, for the adversary who knows
    the start; and from a small start to the margin regime, for the one who knows nothing.

    depth: linear layers · classes · loss, accuracy: of the first training · log_loss: natural logarithm of the loss of
    the second · attacks.
    """

    depth: int
    classes: int
    loss: float
    accuracy: float
    log_loss: float
    attacks: list[DenseAttack]

    def of(self, attack: str, known: str) -> DenseAttack:
        """One of the attacks."""
        return next(each for each in self.attacks if (each.attack, each.known) == (attack, known))

    @property
    def name(self) -> str:
        """As figures name it."""
        return f"{self.depth} layers, {self.classes} classes"


@dataclass(frozen=True)
class DenseMetrics:
    """All networks; n_train, width: of each."""

    n_train: int
    width: int
    nets: list[DenseNet]
