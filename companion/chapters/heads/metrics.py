"""What is measured of heads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field


@dataclass(frozen=True, kw_only=True)
class Cosines:
    """Features with a partner of their own above these cosines, both standardised by public mean and deviation."""

    cos_07: Annotated[int, Field(alias="cos_0.7")]
    cos_08: Annotated[int, Field(alias="cos_0.8")]
    cos_09: Annotated[int, Field(alias="cos_0.9")]


@dataclass(frozen=True, kw_only=True)
class Told:
    """How well a score tells n members from other images: area under the ROC curve, and the share of members found at
    1 % and 0.1 % of false alarms."""

    auc: float
    tpr_at_1pct: float
    tpr_at_01pct: Annotated[float, Field(alias="tpr_at_0.1pct")]


@dataclass(frozen=True, kw_only=True)
class Retrieval:
    """Training images that are the nearest in a gallery to some candidate, and to some of as many random mixtures."""

    found: int
    mixtures: int
    gallery: int


@dataclass(frozen=True, kw_only=True)
class HeadCell:
    """A head and an attack on it.

    start: what is known of it · kappa: share of it that is left (by the truth) · sigma: Σ lr · decay / (1 − momentum);
    None for Adam · rank: of the span searched · matches: training features with a candidate of their own · null:
    held-out features in their place · span_null: mixtures of the span as candidates · public_null: public features, and
    projected: those projected on the span · certified: candidates with too many zeros for chance, and certified_true:
    those above cosine 0.8 of a training feature · span: membership by the distance to the span · filter: by the matched
    filter · margin: by the head's own confidence · seconds: of a processor, for the unmixing ·
    fast_ica: matches by scikit-learn's FastICA on the same span, where it was tried.
    """

    backbone: str
    n_train: int
    width: int
    classes: int
    recipe: str
    start: str
    kappa: float
    sigma: float | None
    test_accuracy: float
    train_accuracy: float
    rank: int
    matches: Cosines
    null: Cosines
    span_null: Cosines
    public_null: Cosines
    projected_null: Cosines
    certified: int
    certified_true: int
    span: Told
    filter: Told
    margin: Told
    retrieval: Retrieval
    seconds: float
    fast_ica: Cosines | None = None
    fast_ica_seconds: float | None = None

    @property
    def best_null(self) -> Cosines:
        """The largest of the nulls, at each cosine."""
        nulls = (self.null, self.span_null, self.public_null, self.projected_null)
        return Cosines(**{name: max(getattr(null, name) for null in nulls) for name in vars(self.null)})


@dataclass(frozen=True, kw_only=True)
class Likeness:
    """Medians, over pictures and their images, of normalised cross-correlation and structural similarity."""

    ncc: float
    ssim: float


@dataclass(frozen=True, kw_only=True)
class Given:
    """By the attack's features, by the true ones, and by the attack's in the place of held-out ones."""

    found: float
    ceiling: float
    null: float


@dataclass(frozen=True, kw_only=True)
class Pictures:
    """Pictures beside the training images: decoded from the attack's features, from the true ones (the ceiling), from
    the attack's beside held-out images, the mean public image, and the public image nearest to each.

    colours: correlation of the mean colours of a decoded picture and its image, less those of the mean image · classes:
    share told · duplicates: share whose mirror image is nearest in a gallery with all other held-out images."""

    decoded: Likeness
    ceiling: Likeness
    held_out: Likeness
    mean_image: Likeness
    nearest_public: Likeness
    colours: Given
    classes: Given
    duplicates: Given


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """All cells; given: what the features of the first one give away, where that was measured."""

    n_train: int
    cells: list[HeadCell]
    given: Pictures | None = None

    def at(self, start: str = "unknown", **of: object) -> HeadCell | None:
        """The first cell with these fields, None where there is none."""
        wanted = {"start": start, **of}
        return next((c for c in self.cells if all(getattr(c, k) == v for k, v in wanted.items())), None)

    @property
    def by_examples(self) -> list[HeadCell]:
        """Heads that AdamW trained as it comes, the start unknown, that differ in their number of images alone."""
        cells = [c for c in self.cells if (c.recipe, c.start) == ("AdamW, default", "unknown")]
        alike = [c for c in cells if (c.backbone, c.width, c.classes) == (cells[0].backbone, cells[0].width, 10)]
        return sorted(alike, key=lambda c: c.n_train)

    def exponent(self, score: str, least: int = 10) -> float | None:
        """Slope of log(TPR − FPR) over the log of the images a class, at 1 % of false alarms, over `by_examples` from
        `least` images a class on: below, nearly all members are told.  None for fewer than two heads.

        score: "filter", "span" or "margin".  Tobaben et al. (2024) find −½ for shadow models."""
        cells = [c for c in self.by_examples if c.n_train >= least * c.classes]
        if len(cells) < 2:
            return None
        advantage = [max(getattr(c, score).tpr_at_1pct - 0.01, 1e-3) for c in cells]
        each = [c.n_train / c.classes for c in cells]
        return float(np.polyfit(np.log(each), np.log(advantage), 1)[0])
