"""What appendix H measures: one type an experiment."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Precision:
    """The closed form on weights of one precision, over all images.

    found: images of which every pixel is within half a grey level · labels: that come out right, rounded · median_l2,
    worst_l2: distance to the image · doubt: the largest distance of a label from 0 or 1.
    """

    found: int
    labels: int
    median_l2: float
    worst_l2: float
    doubt: float


@dataclass(frozen=True, kw_only=True)
class Closed:
    """One loss and one n: every image was once the missing one.

    exact, single: from weights in float64, and rounded to float32 · least_slope: the smallest |p_t|, 1 for the largest
    that the logistic loss can have · wrong, two: doubts where one known image is another one, and where two are
    missing, median and smallest; wrong_l2: median distance to the image then · nearest_known, nearest_other, mean: what
    costs nothing, mean distance of an image to its nearest known one, to the nearest that nobody trained on, and to the
    mean of the known.
    """

    loss: str
    n: int
    exact: Precision
    single: Precision
    least_slope: float
    wrong_doubt: float
    least_wrong_doubt: float
    wrong_l2: float
    two_doubt: float
    least_two_doubt: float
    nearest_known: float
    nearest_other: float
    mean: float


@dataclass(frozen=True, kw_only=True)
class LinearMetrics:
    """n_train: the largest n."""

    n_train: int
    rows: list[Closed]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One way to the image, over the victims: mean squared and mean absolute error of pixels in [0, 1]; other: mean
    squared error against another victim's image, where the attack found nothing of this one."""

    mse: float
    mae: float
    other: float


@dataclass(frozen=True, kw_only=True)
class Inversion:
    """One victim attacked by retraining, from weights in float64 and in float32: mse · label_right · residual:
    ‖θ(x̂) − θ*‖/‖θ*‖ · steps taken; start: mse of where it began; wrong: residual where one known image is another."""

    mse: float
    single_mse: float
    label_right: bool
    residual: float
    single_residual: float
    steps: int
    start: float
    wrong: float


@dataclass(frozen=True, kw_only=True)
class ReaderMetrics:
    """n_train: of every network · network, linear: the reconstructor and ridge regression · nearest_known,
    nearest_prior, class_mean, mean: mse of what costs nothing: nearest known image, nearest image of the shadow
    networks, mean of the known images of its class, mean of all · knows: rank correlation, over the victims asked, of
    the reconstruction's error with the residual after retraining on it · accuracy: of the networks · inversions: one a
    victim that is attacked by retraining."""

    n_train: int
    shadows: int
    network: Reading
    linear: Reading
    nearest_known: float
    nearest_prior: float
    class_mean: float
    mean: float
    knows: float
    accuracy: float
    inversions: list[Inversion]
