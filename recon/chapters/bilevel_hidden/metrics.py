"""What chapter 4 measures."""

from __future__ import annotations

from dataclasses import dataclass

from recon.chapters.bilevel_common import ImageNull, Reconstructed


@dataclass(frozen=True, kw_only=True)
class MeanReconstructed(Reconstructed):
    """Means over seeds, and their standard deviations."""

    distance_sum_sd: float
    distance_mean_sd: float
    distance_relative_sd: float
    moved_l2_sd: float
    nn_train_l2_sd: float
    nn_partition_l2_sd: float
    nn_train_ssim_sd: float
    nearer_to_partition_sd: float
    own_start_is_nearest_sd: float


@dataclass(frozen=True, kw_only=True)
class ByStart:
    """The three starts of the images."""

    random: MeanReconstructed
    truth: MeanReconstructed
    partition: MeanReconstructed

    def starts(self) -> dict[str, MeanReconstructed]:
        """The three by name."""
        return {"random": self.random, "truth": self.truth, "partition": self.partition}


@dataclass(frozen=True, kw_only=True)
class ByInnerStart:
    """Where the inner problem begins: θ⁰ ~ U(0, 1) as in the paper, or at the released θ*."""

    uniform: ByStart
    theta_star: ByStart

    def inner_starts(self) -> dict[str, ByStart]:
        """The two by name."""
        return {"uniform": self.uniform, "theta_star": self.theta_star}


@dataclass(frozen=True, kw_only=True)
class Null(ImageNull):
    """‖θ − θ'‖², means over seeds.

    other_seed: of two networks that share their data only, as a sum, as a mean per parameter, and as a sum after the
    best renumbering of hidden units · other_data_sum: to a network from the same seed, trained on the held-out images ·
    zero_sum: ‖θ*‖².
    """

    other_seed_sum: float
    other_seed_mean: float
    other_seed_aligned_sum: float
    other_data_sum: float
    zero_sum: float


@dataclass(frozen=True, kw_only=True)
class AtDecay(ByInnerStart):
    """All runs at one weight decay; train_grad_norm: ‖∇E‖ at θ*, the largest of all seeds."""

    weight_decay: float
    train_grad_norm: float
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
