"""What appendix D measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from recon.scoring.nulls import NullTable


@dataclass(frozen=True, kw_only=True)
class Solved:
    """One batch.  unknowns, equations, missing: rank of the Jacobian at the truth minus unknowns, ≤ 0 · found: images
    within half a grey level, of the best start by residual · mse, ncc: means over images, each with its own · residual:
    ‖h(x) − h*‖/‖h*‖ · certified: whether the adversary may be sure: the residual is rounding, and at x̂ nothing is
    missing · grey_mse: of a grey image."""

    n: int
    side: int
    channels: int
    same: bool
    labels: int
    unknowns: int
    equations: int
    missing: int
    found: int
    mse: float
    ncc: float
    residual: float
    certified: bool
    iterations: int
    seconds: float
    grey_mse: float


@dataclass(frozen=True, kw_only=True)
class Client:
    """A client's k local steps.  found, mse, residual: by Gauss–Newton through the steps · naive_found, naive_mse: by
    taking the update for one mean gradient."""

    k: int
    n: int
    missing: int
    found: int
    mse: float
    residual: float
    naive_found: int
    naive_mse: float
    grey_mse: float


@dataclass(frozen=True, kw_only=True)
class Counted:
    """Share of wrong labels by `label_counts`, mean over draws: at the start, after training, and for equal counts."""

    n: int
    untrained: float
    trained: float
    equal: float


@dataclass(frozen=True, kw_only=True)
class Separated(NullTable):
    """The first layer's gradient of n images unmixed.  mse: of each image with the source nearest to it, scaled by the
    bias, median · within: images with an MSE below a tenth of a grey image's · grey_mse."""

    n: int
    rank: int
    mse: float
    within: int
    grey_mse: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class TwoImages:
    """R-GAP's mean squared error to the nearer of two images whose gradients were averaged."""

    different_labels: Annotated[float, Field(alias="different labels")]
    same_label: Annotated[float, Field(alias="same label")]


@dataclass(frozen=True, kw_only=True)
class Mixtures:
    """Eq. (4) on batches of these sizes.

    mse_to_own_image: of the row of a label to that label's image · share_of_own: |w_ki| over Σ_j |w_kj| for the label
    k = y_i of image i · mixture_error: largest difference of a pixel from Σ_i w_ki x_i · rgap_mse: through a
    convolutional network, and grey_mse of a grey image there.
    """

    sizes: list[int]
    mse_to_own_image: list[float]
    share_of_own: list[float]
    mixture_error: list[float]
    rgap_mse: TwoImages
    grey_mse: float


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """classes: of the networks."""

    classes: int
    batches: list[Solved]
    clients: list[Client]
    labels: list[Counted]
    separated: list[Separated]
    mixtures: Mixtures
