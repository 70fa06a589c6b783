"""What chapter 20 measures: one type an experiment."""

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
class Budget:
    """One size of image d and one budget.  Lists: one number a target; errors are 1 − cos² of the angle with the image.

    error: of their direction · predicted: by the adversary · with_prior, prior_predicted: the same with a Gaussian
    prior · label: probability that the adversary gives the true label · placebo, placebo_predicted: of their direction
    where a blank image was trained on in place of the target · accuracy: of the released weights on other images ·
    epsilon: at δ = 1e-5.
    """

    dim: int
    ratio: float
    rho: float
    epsilon: float
    error: list[float]
    predicted: list[float]
    with_prior: list[float]
    prior_predicted: list[float]
    label: list[float]
    placebo: list[float]
    placebo_predicted: list[float]
    accuracy: float


@dataclass(frozen=True, kw_only=True)
class Nulls:
    """For one size of image, 1 − cos² of every target with what costs nothing: the nearest known image, the nearest
    that nobody trained on, the mean of its class.  And the accuracy without noise, and of naming the larger class."""

    dim: int
    nearest_known: list[float]
    nearest_other: list[float]
    mean: list[float]
    accuracy: float
    majority: float


@dataclass(frozen=True, kw_only=True)
class OutputMetrics:
    """Budgets in order of the sizes, then of ρ/d."""

    n_train: int
    budgets: list[Budget]
    nulls: list[Nulls]

    def of(self, dim: int) -> list[Budget]:
        """Those of one size of image."""
        return [row for row in self.budgets if row.dim == dim]


@dataclass(frozen=True, kw_only=True)
class Noise:
    """One σ: how many of the runs name the right candidate.

    right: by the likelihood · low, high: exact interval of its rate at 95 % · by_products: without the likelihood's
    second term, as in their code · final: from the last weights alone, by practice on the other runs · expected: the
    adversary's mean probability of being right · sure, sure_right: runs in which it is at least 0.95, and how many of
    them are right · bound, sampled_bound: of Hayes et al., in closed form and by their Monte Carlo · orthogonal: of
    candidates whose gradients are at right angles · advantage, advantage_bound: of Guerra-Balboa et al. · length: mean
    Σ‖g‖²/(TC²) of a candidate · cosine: of two candidates' gradients, mean · accuracy: of the trained network on other
    images.
    """

    noise: float
    epsilon: float
    right: int
    low: float
    high: float
    by_products: int
    final: int
    final_low: float
    final_high: float
    expected: float
    sure: int
    sure_right: int
    bound: float
    sampled_bound: float
    orthogonal: float
    advantage: float
    advantage_bound: float
    length: float
    cosine: float
    accuracy: float


@dataclass(frozen=True, kw_only=True)
class SgdMetrics:
    """kappa: success by chance · majority: of naming the most frequent class, the null of accuracy."""

    n_train: int
    kappa: float
    runs: int
    noises: list[Noise]
    majority: float


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
