"""What chapter 8 measures: one network a cell, and what separation finds in it."""

from __future__ import annotations

from dataclasses import dataclass, field

from companion.chapters.separation_common import NCCCounts
from companion.chapters.tables import MatchTable
from recon.scoring.matching import Competition
from recon.training.recipes import Recipe


@dataclass(frozen=True, kw_only=True)
class CountTable:
    """What an attack finds and what costs nothing, one-to-one.

    matches: of the candidates with the training images · null: with held-out images · span_null: the larger of mixtures
    of the layer's span and of the training images · best_null: the largest of all that costs nothing · excess: matches
    minus best_null.
    """

    matches: NCCCounts
    null: NCCCounts
    span_null: NCCCounts
    best_null: NCCCounts
    excess: NCCCounts


@dataclass(frozen=True, kw_only=True)
class Attacked(CountTable):
    """The same, and rank: directions that stood out of the layer and were searched."""

    rank: int


@dataclass(frozen=True)
class BySparsity:
    """How well sparsity alone tells true candidates from false ones; None for an AUC where one kind is missing."""

    candidates: int
    true: int
    auc_of_sparsity: float | None


@dataclass(frozen=True, kw_only=True)
class SizeCell(Attacked):
    """One network of the map: source "cifar" or "photographs", images side × side, n_train of them, width of the
    layers, log of the loss at the end of training."""

    source: str
    side: int
    pixels: int
    n_train: int
    width: int
    log_loss: float
    certainty: BySparsity


@dataclass(frozen=True)
class SizeMetrics:
    """The map; n_train: the largest number of images in it."""

    n_train: int
    cells: list[SizeCell]

    def of(self, source: str) -> list[SizeCell]:
        """The cells of one source."""
        return [cell for cell in self.cells if cell.source == source]

    def widest(self) -> list[SizeCell]:
        """CIFAR-10's cells of the widest network, whatever the side."""
        width = max(cell.width for cell in self.cells)
        return [cell for cell in self.of("cifar") if cell.width == width]


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a training ended.

    erased: Σ lr · decay / (1 − momentum), None where that is not defined · moved, start_left κ, added: see
    `Displacement` · loss, steps, train_accuracy: see `recon.training.recipes.Trained`.
    """

    erased: float | None
    moved: float
    start_left: float
    added: float
    loss: float
    steps: int
    train_accuracy: float


@dataclass(frozen=True, kw_only=True)
class RecipeRow(Attacked, Ending):
    """One network of a recipe, `cell`, attacked with what is `known` of its start; test_accuracy: on images that nobody
    trained on, with the layer as it is released; None where it was not measured."""

    family: str
    cell: str
    known: str
    n_train: int
    test_accuracy: float | None


@dataclass(frozen=True)
class Sure:
    """Candidates of which the adversary is sure, those that are true among them, and all true ones."""

    sure: int
    true_among_sure: int
    true: int


@dataclass(frozen=True, kw_only=True)
class RecipeCell(RecipeRow):
    """A row of the table, with the adversary's certainty."""

    certainty: Sure

    @property
    def start_over_update(self) -> float:
        """|κ| ‖W1(0)‖ / ‖W1 − κ W1(0)‖: how large the rest of the start is, beside what training added."""
        return abs(self.start_left) / max(self.added, 1e-12)


@dataclass(frozen=True)
class RecipeMetrics:
    """All cells, each of n_train images where its family does not say otherwise, and the recipe that they change ·
    diverged: cells, FAMILY/CELL, whose training left numbers that are not finite, so that there was nothing to attack.
    """

    n_train: int
    cells: list[RecipeCell]
    base: Recipe
    diverged: list[str] = field(default_factory=list)

    def of(self, *families: str) -> list[RecipeCell]:
        """The cells of these families."""
        return [cell for cell in self.cells if cell.family in families]


@dataclass(frozen=True)
class NoiseLevel:
    """tau: noise over image, root mean squares · error: of the denoiser, over the image's mean square, on images that
    it was not trained on · linear: the least that a linear denoiser has, τ² / (1 + τ²), whatever the images are."""

    tau: float
    error: float
    linear: float


@dataclass(frozen=True)
class Trusted:
    """How well `stayed` tells true candidates from false ones.

    candidates; true: those with |NCC| above 0.7 to a training image, and more than to any image of as many others ·
    auc: None where one kind is missing · top: k -> the share of true ones among the k that moved least · last: the same
    among the k that moved most.
    """

    candidates: int
    true: int
    auc: float | None
    top: dict[str, float]
    last: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class PriorMetrics:
    """One network, by three attacks: `components`, separation by independent components; `orthogonal`, the prior with
    all candidates orthogonal, begun there; `found`, the same with each on its own in the end.

    n_train images of side × side, width, loss: mean logistic loss at the end of training · rank: directions searched ·
    public: photographs that the prior was learned from · levels: what it learned · blends: name of a null -> its
    matches above NCC 0.6 in one competition of training with held-out images; none in a run that did not note it.
    """

    n_train: int
    side: int
    width: int
    loss: float
    rank: int
    public: int
    levels: list[NoiseLevel]
    components: MatchTable
    orthogonal: MatchTable
    found: MatchTable
    trusted: Trusted
    blends: dict[str, Competition] = field(default_factory=dict)
