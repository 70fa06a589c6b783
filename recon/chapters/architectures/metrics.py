"""What chapter 22 measures."""

from __future__ import annotations

from dataclasses import dataclass

from recon.scoring.nulls import NullTable

SEPARATION, SAME_NETWORK, DECORECO = "separation", "separation, default start", "DecoReco"
EXPLAINED = 0.02  # of the way from θ⁰ to θ*: candidates that train to within it explain the weights
SURE = 0.05  # root mean square error of pixels, expected, up to which an adversary takes images for the true ones
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


@dataclass(frozen=True, kw_only=True)
class SimulatedNet:
    """One small network, and the attack that simulates its training.

    name, kind, activation, pooled, by_batch: see `SmallNet` · parameters: p · unknowns: n·c·h·w · loss_init, loss:
    before and after training · moved: ‖θ* − θ⁰‖ / ‖θ⁰‖ · residual_matched, residual: ‖u(X) − u*‖ / ‖u*‖ after the
    published energy, and after L-BFGS: what the adversary sees · found_matched, found: training images with a
    candidate above NCC 0.7, one to one · nulls: name -> the same of candidates that cost nothing ("held-out images":
    of the attack's own on images never seen; "one step": of an attack that takes the whole training for one long
    step) · mse: mean squared error of pixels in [0, 1], and grey_mse: of a grey image · rank: of ∂θ_T/∂X at the
    candidates · expected_error: root mean square of what they lack by the next Gauss–Newton step, in pixels of [0, 1],
    which the adversary sees; both None where they were not computed, as where the weights are not explained.
    """

    name: str
    kind: str
    activation: str
    pooled: bool
    by_batch: bool
    parameters: int
    unknowns: int
    loss_init: float
    loss: float
    moved: float
    residual_matched: float
    residual: float
    found_matched: int
    found: int
    nulls: dict[str, int]
    mse: float
    grey_mse: float
    rank: int | None
    expected_error: float | None

    @property
    def best_null(self) -> int:
        """The largest of the nulls."""
        return max(self.nulls.values())

    @property
    def best_null_name(self) -> str:
        """Whose that is, the first of equals."""
        return max(self.nulls, key=lambda name: self.nulls[name])

    @property
    def best(self) -> int:
        """Images found by whichever of the two answers is nearer to the released weights."""
        return self.found if self.residual <= self.residual_matched else self.found_matched

    @property
    def enough(self) -> bool:
        """Whether there are as many parameters as unknowns."""
        return self.parameters >= self.unknowns

    @property
    def residual_net(self) -> bool:
        """Whether it has the residual block."""
        return self.kind == "residual"

    @property
    def explained(self) -> bool:
        """Whether the candidates train to the released weights, to `EXPLAINED` of the way that they went."""
        return self.residual <= EXPLAINED

    @property
    def sure(self) -> bool:
        """Whether the adversary takes their candidates for the training images."""
        if not self.explained or self.expected_error is None:
            return False
        return bool(self.determined) and self.expected_error <= SURE

    @property
    def determined(self) -> bool | None:
        """Whether no other images nearby do; None where it was not computed."""
        return None if self.rank is None else self.rank == self.unknowns


@dataclass(frozen=True)
class SimulatedMetrics:
    """All networks; n_train, side: of their images."""

    n_train: int
    side: int
    nets: list[SimulatedNet]
