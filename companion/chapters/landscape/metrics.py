"""What chapter 5 measures.  Distances are L2 per image in pixel units, means over images and seeds."""

from __future__ import annotations

from dataclasses import dataclass, fields

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
    · energy: at the ends, relative; start_energy: at the starts · sd: over seeds · cells_converged: share of seeds
    whose run from there converged.
    """

    distance: BySet
    distance_sd: BySet
    distance_l2: BySet
    start_distance: BySet
    energy: Grid
    energy_sd: Grid
    start_energy: Grid
    cells_converged: Grid
    crossing: Crossings
    geometry: Geometry


@dataclass(frozen=True, kw_only=True)
class Route:
    """A walk between two training sets of one classifier.

    frames: how many · error: highest ‖θ(X_t) − θ*‖/‖θ*‖ after training on a frame from scratch; straight_error: the
    same on the straight segment · largest_step: between neighbouring frames, relative to the segment's;
    largest_double_step: between every other frame, half of it where there is a jump · length: relative to the segment ·
    lowest_pixel, highest_pixel: without bounds, coordinates · solved: whether every frame was found.
    """

    frames: int
    error: float
    straight_error: float
    largest_step: float
    largest_double_step: float
    length: float
    lowest_pixel: float
    highest_pixel: float
    solved: bool


@dataclass(frozen=True, kw_only=True)
class Connections:
    """Without bounds from the truth to the attack's ends from partition and noise; with pixels in [0, 1] from the truth
    to the set nearest to the partition, and from there to the one nearest to noise.

    n: images of each set · level: nω‖θ*‖²; sufficient: above this the theorem holds, `recon.analysis.level_set`.
    """

    n: int
    level: float
    sufficient: float
    to_partition: Route
    to_random: Route
    box_partition: Route
    box_random: Route

    def free(self) -> list[Route]:
        """Without bounds."""
        return [self.to_partition, self.to_random]

    def boxed(self) -> list[Route]:
        """With pixels in [0, 1]."""
        return [self.box_partition, self.box_random]

    def routes(self) -> dict[str, Route]:
        """All four by what a page calls them."""
        return {
            "truth → end from the partition": self.to_partition,
            "truth → end from noise": self.to_random,
            "truth → partition, in [0, 1]": self.box_partition,
            "partition → noise, in [0, 1]": self.box_random,
        }


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
    our projected attack only · further_fall: share of what layer 1 has left that a few steps of Adam still remove from
    R (`companion.chapters.landscape.pixel_descent`); a cell below a tenth counts as converged.
    """

    noise_line_per_seed: list[list[float]]
    ncc: Grid | None = None
    null_ncc: float | None = None
    start_ncc: Grid | None = None
    further_fall: Grid | None = None


@dataclass(frozen=True, kw_only=True)
class Distances:
    """Of a set of images to their neighbours in each set, by SSIM."""

    truth: float
    partition: float
    random: float

    def lead(self, own: str) -> float:
        """How much nearer they are to the set `own` than to the nearest other."""
        values = vars(self)
        return float(min(value for name, value in values.items() if name != own) - values[own])


@dataclass(frozen=True, kw_only=True)
class RecipeCell:
    """The published recipe from one start: where it begins and ends, and where the bilevel attack ends from there.

    ncc: mean NCC of what it ends at with the most alike of each set, which no norm of an image moves · energy_share: by
    layer, of ‖θ_l‖², what is left unexplained · fell_layer_1: share by which layer 1's energy fell over the last tenth
    of the steps · moved: mean of ‖x − x_init‖ / ‖x_init‖.
    """

    lambda1: float
    lambda2: float
    start: Distances
    end: Distances
    ncc: Distances | None = None
    bilevel: Distances
    energy_share: list[float]
    fell_layer_1: float
    moved: float


@dataclass(frozen=True, kw_only=True)
class RecipeMetrics:
    """`landscape-recipe`.  steps, of published_steps · null_distance_to_truth: of held-out images."""

    n_train: int
    width: int
    steps: int
    published_steps: int
    null_distance_to_truth: float
    cells: list[RecipeCell]

    def at(self, lambda1: float, lambda2: float) -> RecipeCell:
        """The cell of this start; KeyError where the recipe was not run."""
        found = [cell for cell in self.cells if (cell.lambda1, cell.lambda2) == (lambda1, lambda2)]
        if not found:
            raise KeyError(f"the recipe was not run from ({lambda1:g}, {lambda2:g})")
        return found[0]

    def to_partition(self) -> list[RecipeCell]:
        """Those at λ₂ = 1, from the partition to the truth."""
        return sorted((cell for cell in self.cells if cell.lambda2 == 1), key=lambda cell: cell.lambda1)


@dataclass(frozen=True, kw_only=True)
class Variants:
    """bilevel: on the affine net · DecoReco on the three-layer net: pixels, descent in all pixels; recipe, the
    published one; unprojected, our attack in all pixels; span, our attack within the span of the weights · affine:
    DecoReco on the bilevel problem's own net."""

    bilevel: Method
    pixels: Method
    recipe: Method
    unprojected: Method
    span: Method
    affine: Method

    def methods(self) -> dict[str, Method]:
        """All by name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True, kw_only=True)
class DecorecoMetrics(Method):
    """`landscape-decoreco`; at top level descent in all pixels."""

    n_train: int
    lambda1: list[float]
    lambda2: list[float]
    seeds: int
    variants: Variants
