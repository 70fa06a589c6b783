"""What the table of chapter 9 on networks and starts measures."""

from __future__ import annotations

from dataclasses import dataclass

from recon.chapters.common import FALL
from recon.chapters.tables import MatchTable


@dataclass(frozen=True, kw_only=True)
class Cell(MatchTable):
    """One network, attacked in one way.

    regime: "margin" or "decay" · n_train, width, train_steps, weight_decay (0 in the margin regime) · loss: log of the
    mean logistic loss · truth_share: by layer, the share of ‖θ_l‖² that the training images leave, with the attack's
    smoothing and the λ ≥ 0 that fit all layers best; truth_energy: the sum over layers of what is left, before any
    attack · way: "noise", "separated" or "refined" · m: candidates in the end · energy: the attack's, the same sum,
    energy_share by layer, and below_truth: whether it is lower than the truth's; None where nothing was attacked ·
    scale: of λ's start, of scales_tried; scale_inside: both its neighbours are worse · fell: share by which the energy
    fell over the last tenth of the steps.
    """

    regime: str
    n_train: int
    width: int
    train_steps: int
    weight_decay: float
    loss: float
    train_seconds: float
    truth_share: list[float]
    truth_energy: float
    way: str
    m: int
    recon_seconds: float
    energy: float | None = None
    energy_share: list[float] | None = None
    below_truth: bool | None = None
    scale: float | None = None
    scales_tried: list[float] | None = None
    scale_inside: bool | None = None
    fell: float | None = None

    @property
    def converged(self) -> bool:
        """Whether the energy had stopped falling; of what was not searched, yes."""
        return self.fell is None or self.fell < FALL

    @property
    def excess_share(self) -> float:
        """Training images found beyond the best null at NCC 0.6, as a share of all."""
        return self.excess.ncc_06 / self.n_train


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """One row a network and way; rank_correlation: Spearman's, of the truth's share of layer 1 with
    `excess_share` over the rows from noise; None for fewer than three."""

    n_train: int
    cells: list[Cell]
    rank_correlation: float | None

    def of(self, way: str) -> list[Cell]:
        """The rows of one way."""
        return [cell for cell in self.cells if cell.way == way]
