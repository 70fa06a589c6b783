"""What chapter 13 measures.  Distances are L2 per image in pixel units, means over images and seeds."""

from __future__ import annotations

from dataclasses import dataclass

Grid = list[list[float]]  # [i][j] is the start with λ₁[i], λ₂[j]


@dataclass(frozen=True, kw_only=True)
class BySet:
    """Of each set of images that the starts are mixed from."""

    truth: Grid
    partition: Grid
    random: Grid

    def sets(self) -> dict[str, Grid]:
        """The three by name."""
        return {"truth": self.truth, "partition": self.partition, "random": self.random}


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """λ at which the truth becomes nearer than another set: per seed, None where it does not; mean and standard
    deviation, None unless it does in all seeds."""

    per_seed: list[float | None]
    mean: float | None
    sd: float | None


@dataclass(frozen=True, kw_only=True)
class Crossings:
    """Truth and partition along λ₁ at λ₂ = 1, truth and noise along λ₂ at λ₁ = 1."""

    truth_partition: Crossing
    truth_random: Crossing


@dataclass(frozen=True, kw_only=True)
class Curvature:
    """Mean second difference of the energy at the ends from truth, partition and noise, relative to that of noise."""

    truth: float
    partition: float
    random: float


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """The landscape itself, energies relative to that of noise.

    barrier: how far a straight segment between two end points rises above the higher of them · variation, minima: of
    the energy along the line from the truth to the partition, or to noise: total variation over range, inner minima.
    """

    barrier_mean: float
    barrier_mean_per_seed: list[float]
    barrier_share_above_1_percent: float
    curvature: Curvature
    curvature_per_seed: list[list[float]]
    variation_to_partition: float
    minima_to_partition: float
    variation_to_random: float
    minima_to_random: float


@dataclass(frozen=True, kw_only=True)
class Ends:
    """One method from all starts.

    distance: of the end points to their neighbours in each set, by SSIM; l2: by L2 · start_distance: of where it begins
    · energy: at the ends, relative; start_energy: at the starts · sd: over seeds.
    """

    distance: BySet
    distance_sd: BySet
    distance_l2: BySet
    start_distance: BySet
    energy: Grid
    energy_sd: Grid
    start_energy: Grid
    crossing: Crossings
    geometry: Geometry


@dataclass(frozen=True, kw_only=True)
class Route:
    """From the truth to an end point: highest energy on the straight segment and on the curve, relative to that of
    noise · nearest_points: whether all projections are · largest_step: of the curve, relative to the segment's ·
    bend_l2: how far the two are apart."""

    straight: float
    curve: float
    nearest_points: bool
    largest_step: float
    bend_l2: float


@dataclass(frozen=True, kw_only=True)
class Connections:
    """From the truth to the ends from the partition and from noise."""

    partition: Route
    random: Route

    def routes(self) -> dict[str, Route]:
        """Both by name."""
        return {"partition": self.partition, "random": self.random}


@dataclass(frozen=True, kw_only=True)
class BilevelMetrics(Ends):
    """`landscape-bilevel`. converged: share of runs below the tolerance · steps: of each seed ·
    null_distance_to_truth: of held-out images."""

    n_train: int
    lambda1: list[float]
    lambda2: list[float]
    seeds: int
    converged: float
    steps: list[int]
    null_distance_to_truth: float
    connection: Connections


@dataclass(frozen=True, kw_only=True)
class Method(Ends):
    """One method of the comparison.

    noise_line_per_seed: distance to the truth along λ₂ at λ₁ = 1 · ncc: mean correlation of the ends with their nearest
    training image, null_ncc: of held-out images, on the three-layer net only · start_ncc: of the projected starts, of
    our attack only.
    """

    noise_line_per_seed: list[list[float]]
    ncc: Grid | None = None
    null_ncc: float | None = None
    start_ncc: Grid | None = None


@dataclass(frozen=True, kw_only=True)
class Variants:
    """bilevel: on the affine net · pixels: DecoReco on the three-layer net, descent in all pixels · span: our attack
    on it · affine: DecoReco on the bilevel problem's own net."""

    bilevel: Method
    pixels: Method
    span: Method
    affine: Method

    def methods(self) -> dict[str, Method]:
        """The four by name."""
        return {"bilevel": self.bilevel, "pixels": self.pixels, "span": self.span, "affine": self.affine}


@dataclass(frozen=True, kw_only=True)
class DecorecoMetrics(Method):
    """`landscape-decoreco`; at top level descent in all pixels."""

    n_train: int
    lambda1: list[float]
    lambda2: list[float]
    seeds: int
    variants: Variants
