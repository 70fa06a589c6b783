"""What the chapter measures: other sets with the same weights, and membership in a pool of candidates."""

from __future__ import annotations

from dataclasses import dataclass

from companion.chapters.separation_common import NCCCounts
from companion.chapters.tables import MatchTable, Trained


@dataclass(frozen=True, kw_only=True)
class SetRow:
    """A set of images in the place of the training set, with the multipliers that its construction gives it.

    images: how many · difference: of its Σ λ y ∇Φ from the training set's, relative · margin_change: the largest
    relative change of a margin · smallest_multiplier, slack, kkt_residual (of layer 1): see
    `kkt_sets.Conditions`; slack None where an image is misclassified · moved: median ‖v‖ / ‖x‖ of what
    was added to an image, both minus the mean image · ncc: median correlation of a member with the training image
    between · far: training images both of whose members correlate less with them than `TRUE_NCC` · natural: share of
    the members that look natural.
    """

    images: int
    difference: float
    margin_change: float
    smallest_multiplier: float
    slack: float | None
    kkt_residual: float
    moved: float
    ncc: float
    far: int
    natural: float


@dataclass(frozen=True)
class Slide:
    """On the straight way from the training images to the pairs, at shares of it: mean NCC with the training image,
    share that looks natural, mean sparsity of the edges."""

    share: list[float]
    ncc: list[float]
    natural: list[float]
    edges: list[float]


@dataclass(frozen=True)
class SameRun:
    """Plain gradient descent from the same θ⁰ on other sets: ‖θ − θ'‖ / ‖θ' − θ⁰‖ after `steps`, θ' of the training
    images: on the pairs, on the training images in another order, on pairs along directions that are not blind."""

    steps: int
    pairs: float
    reordered: float
    not_blind: float


@dataclass(frozen=True)
class Freedom:
    """Numbers that can be counted: n_params p, unknowns n·d, blind directions of an image and of all · carriers: images
    with λ > 0, gates_rank: rank of their gates · cells: distinct ones that the images lie in, nearest: units in which
    the two most alike cells differ, of `units`."""

    n_params: int
    unknowns: int
    blind: int
    blind_of_all: int
    carriers: int
    gates_rank: int
    cells: int
    nearest: int
    units: int


@dataclass(frozen=True, kw_only=True)
class Twin(MatchTable):
    """Separation of a network trained on the pairs, held against the images between the pairs, which nobody trained on.

    members: what of the pairs themselves is found · nearer: of the images found above 0.7, how many results are nearer
    to the image between than to both members · log_loss: of the training · original: the same of the network trained
    on the images themselves.
    """

    members: NCCCounts
    nearer: int
    log_loss: float
    original: NCCCounts


@dataclass(frozen=True)
class CellRow:
    """How far pairs go within one cell: start, width of the layers, inputs d, n images; reach: median of ‖v‖ over that
    of what black and white allow; ncc: median with the image between."""

    start: str
    width: int
    inputs: int
    n_train: int
    reach: float
    ncc: float


@dataclass(frozen=True)
class Energy:
    """‖θ − Σ λ y ∇Φ‖² over all layers, with fitted multipliers: of θ = θ* (`with_floor`) and of θ* − θ⁰ (`without`)."""

    with_floor: float
    without: float


@dataclass(frozen=True, kw_only=True)
class SetMetrics(Trained):
    """sets: by name, the training images first · floor: ‖θ⁰‖² · null_natural: share of other photographs that look
    natural."""

    n_train: int
    width: int
    sets: dict[str, SetRow]
    null_natural: float
    slides: dict[str, Slide]
    freedom: Freedom
    same_run: SameRun
    twin: Twin
    cells: list[CellRow]
    energies: dict[str, Energy]
    floor: float


# ------------------------------------------------------------------------------------------------------ membership


@dataclass(frozen=True)
class Rates:
    """Area under the ROC curve and true-positive rates at false-positive rates of 1 % and 0.1 %, each with the central
    95 % of the bootstrap over images."""

    auc: float
    auc_interval: tuple[float, float]
    tpr_1: float
    tpr_1_interval: tuple[float, float]
    tpr_01: float
    tpr_01_interval: tuple[float, float]


@dataclass(frozen=True)
class Told:
    """A score of membership on one network: among as many other images as training images, and among ten times as
    many."""

    few: Rates
    many: Rates


@dataclass(frozen=True, kw_only=True)
class MemberCell:
    """One network: recipe, n_train images, width · log_loss: natural logarithm of the training loss · left: what the
    pool leaves of θ*, and known_left of θ* − θ⁰ · scores: name -> how well it tells · coverage: share of the training
    images in the pool -> rates of the multipliers; empty where it was not tried · shadows: how many."""

    recipe: str
    n_train: int
    width: int
    log_loss: float
    left: float
    known_left: float
    scores: dict[str, Told]
    coverage: dict[str, Rates]
    shadows: int


@dataclass(frozen=True)
class MemberMetrics:
    """All networks, each with a pool of `ratio` times as many other images; n_train: the largest number."""

    n_train: int
    ratio: int
    cells: list[MemberCell]

    def cell(self, recipe: str, shadows: bool = True) -> MemberCell:
        """The first network of a recipe, of those with shadow networks if wanted."""
        return next(each for each in self.cells if each.recipe == recipe and (each.shadows > 0 or not shadows))
