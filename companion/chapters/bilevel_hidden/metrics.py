"""What chapter 3 measures of the one-hidden-layer net."""

from __future__ import annotations

from dataclasses import dataclass

from companion.chapters.bilevel_common import ImageNull, Reconstructed


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
