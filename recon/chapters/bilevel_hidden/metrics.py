"""What chapter 4 measures."""

from __future__ import annotations

from dataclasses import dataclass

from recon.chapters.bilevel_common import ImageNull, Reconstructed


@dataclass(frozen=True, kw_only=True)
class Ended(Reconstructed):
    """How one run ended, beside its images.

    settled_sum: ‖θ* − θ‖² after the inner solver has gone on from there, the images fixed · inner_grad_norm: ‖∇E‖
    then · first_sum: ‖θ* − θ(x)‖² at the start of the images, before any outer step · steps: outer ones · converged: 1
    where the energy fell by less than a hundredth over the last quarter of the steps or reached the tolerance, else 0.
    """

    settled_sum: float
    inner_grad_norm: float
    first_sum: float
    steps: float
    converged: float


@dataclass(frozen=True, kw_only=True)
class MeanEnded(Ended):
    """Means over seeds of the weights, and standard deviations (0 for one seed)."""

    distance_sum_sd: float
    settled_sum_sd: float
    moved_l2_sd: float
    nn_train_l2_sd: float


@dataclass(frozen=True, kw_only=True)
class ByStart:
    """The three starts of the images."""

    random: MeanEnded
    truth: MeanEnded
    partition: MeanEnded

    def starts(self) -> dict[str, MeanEnded]:
        """The three by name."""
        return {"random": self.random, "truth": self.truth, "partition": self.partition}


@dataclass(frozen=True, kw_only=True)
class ByInnerStart:
    """Where the inner problem begins: θ⁰ ~ U(0, 1) as in the paper, at PyTorch's default initialisation from another
    seed, or at the released θ*."""

    uniform: ByStart
    other_seed: ByStart
    theta_star: ByStart

    def inner_starts(self) -> dict[str, ByStart]:
        """The three by name."""
        return {"uniform": self.uniform, "other_seed": self.other_seed, "theta_star": self.theta_star}


@dataclass(frozen=True, kw_only=True)
class Null(ImageNull):
    """‖θ − θ'‖² of networks that nobody attacked.

    other_seed: of two networks that share their data only, as a sum, as a mean per parameter, and as a sum after the
    best renumbering of hidden units (first weight decay only) · other_data_sum: to a network from the same seed,
    trained on as many held-out images · zero_sum: ‖θ*‖².
    """

    other_seed_sum: float
    other_seed_mean: float
    other_seed_aligned_sum: float | None
    other_data_sum: float
    zero_sum: float


@dataclass(frozen=True, kw_only=True)
class AtDecay(ByInnerStart):
    """All runs at one weight decay; train_grad_norm: ‖∇E‖ at θ*, the largest of all seeds · train_energy: E there."""

    weight_decay: float
    train_grad_norm: float
    train_energy: float
    null: Null


@dataclass(frozen=True, kw_only=True)
class NullAtWidth:
    """‖θ − θ'‖² of two networks of one width that share their data only: the sum, and the mean per parameter."""

    other_seed_sum: float
    other_seed_mean: float


@dataclass(frozen=True, kw_only=True)
class Metrics(ByStart):
    """At top level the first weight decay, with the inner start of the paper (uniform)."""

    n_train: int
    width: int
    n_params: int
    seeds: int
    null_by_width: dict[int, NullAtWidth]
    weight_decay: float
    inner_start: ByInnerStart
    null: Null
    weight_decays: dict[float, AtDecay]


@dataclass(frozen=True, kw_only=True)
class Cosines:
    """Of ways to a hypergradient with the derivative of the outer energy by finite differences, at one point.

    case: weight decay and start · kinks: pre-activations that are 0 at the minimiser · exact: of the formula that is
    exact there (the KKT system; for a smooth net the Hessian), with its relative error `exact_error` over random
    directions · kkt: the same formula at the θ that L-BFGS returned · gauss_newton, quasi_newton: likewise.
    """

    case: str
    kinks: int
    exact: float
    exact_error: float
    kkt: float
    gauss_newton: float
    quasi_newton: float


@dataclass(frozen=True, kw_only=True)
class SameStart:
    """Energies at which the attack ends from one start, by the way to its hypergradient; first: before."""

    case: str
    first: float
    gauss_newton: float
    quasi_newton: float
    kkt: float


@dataclass(frozen=True, kw_only=True)
class HypergradientMetrics:
    """Small networks, double precision.  tried: ReLU cases, of which those in `relu` could be settled on their kinks
    exactly · smooth: softplus in place of ReLU · ends: whole attacks."""

    n_train: int
    width: int
    tried: int
    relu: list[Cosines]
    smooth: list[Cosines]
    ends: list[SameStart]


@dataclass(frozen=True, kw_only=True)
class Slope:
    """One central difference of the outer energy.

    step: to either side, of the images' norm · iterations: of the inner solver there · along: measured over predicted
    slope along Gauss–Newton's own direction, 1 is right · gauss_newton, quasi_newton: cosine of predicted and measured
    slopes in random directions of the span.
    """

    step: float
    iterations: int
    along: float
    gauss_newton: float
    quasi_newton: float


@dataclass(frozen=True, kw_only=True)
class Slopes:
    """At one point.  repeated: cosine of the first two quotients' slopes with each other, what a right hypergradient
    could reach."""

    width: int
    weight_decay: float
    start: str
    repeated: float
    quotients: list[Slope]


@dataclass(frozen=True, kw_only=True)
class SlopeMetrics:
    """`bilevel-slopes`.  width: of the widest networks · directions: random ones, for the cosines."""

    n_train: int
    width: int
    directions: int
    points: list[Slopes]


@dataclass(frozen=True, kw_only=True)
class AtStep:
    """An attack on its way.

    step: outer ones taken · distance_sum: ‖θ* − θ(x)‖² there; settled_sum: after the inner solver has gone on, the
    images fixed · means over images: NCC with the start, L2 to the nearest training image · moved_relative:
    ‖x − x_init‖ / ‖x_init‖ of all together.
    """

    step: int
    distance_sum: float
    settled_sum: float
    ncc_with_start: float
    moved_relative: float
    nn_train_l2: float


@dataclass(frozen=True, kw_only=True)
class Path:
    """first_sum: ‖θ* − θ(x)‖² at the start · alike: the last step at which the images' mean NCC with their start is at
    least 0.9 · end: the last one."""

    first_sum: float
    alike: AtStep
    end: AtStep


@dataclass(frozen=True, kw_only=True)
class PathMetrics:
    """`bilevel-hidden-path`.

    relative_step: longest step, of ‖x‖ · nulls: ‖θ* − θ‖² of another seed, of θ = 0; the nearest training image of
    held-out ones · paths: inner start -> start of the images.
    """

    n_train: int
    width: int
    n_params: int
    weight_decay: float
    relative_step: float
    other_seed_sum: float
    zero_sum: float
    held_out_nn_l2: float
    paths: dict[str, dict[str, Path]]
