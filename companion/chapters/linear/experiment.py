"""Chapter 1, §3.1 of Runkel et al. (2024): other training sets with exactly the same affine classifier."""

from __future__ import annotations

import torch
from torch import Tensor
from tqdm import tqdm

from companion.chapters.base import Context, Outcome
from companion.chapters.linear.beyond import by_n, by_weight_decay, relabelled, twins
from companion.chapters.linear.sizes import Sizes
from companion.store.record import Record
from recon.analysis.solution_set import Projection, ProjectionSettings, SolutionSet, jacobian_rank, residual
from recon.nets.mlp import MLP, affine, one_hidden
from recon.training.inner_problem import Objective, solve_affine, with_ones


class Metrics(Record):
    """Three starts moved onto the solution set, three smaller points of §3.1, and what goes beyond it: distance against
    n and weight decay, other labels, photographs of 8 bits.

    counterfactual: One set of n images moved onto the solution set of θ*. relative_theta_error: ‖θ(x) − θ*‖ / ‖θ*‖
    of the classifier retrained on them; unmoved: before the move; 8bit: after rounding · changes: of each image in
    L2, its mean and maximum, and its mean in pixels · share_changed_8bit: of pixels that round to another value ·
    nn_train_l2: mean distance to the nearest training image, of held-out images the null · jacobian_rank,
    solution_dim: of the N·K unknowns · residual_norm, iterations, converged: of the projection · nearest_point:
    whether the result is a proven nearest point · lowest, highest pixel, share_at_the_box: of the box [0, 1].
    counting: Unknowns N·K against equations for one network: perfect_fit L·N (L = 1) · stationarity: one a
    parameter.
    trivial: ‖(6)‖ at X̄ = 0, Y = 0: as the paper has it, and with the bias column of ones and weight decay kept.
    kernel: dim ker(X̄ᵀ) for photographs and for one image n times; of Anscombe's four sets the regression lines,
    the norms of the gradient, and the largest entries of its product with X̄ᵀ.
    by_n: How far n other images moved for the same classifier, at one weight decay; the projection's ‖F‖ and
    whether it converged · test_accuracy: of the classifier on images of neither set · majority: of always naming
    the more frequent class, the null · nn_train_l2: of the moved images to their nearest training image.
    relabelled: Other images that claim to have other labels: the share of them whose label is flipped, how far they
    moved, and the relative error of the classifier retrained on them with those labels.
    twins: Two sets of n photographs with 8 bits a channel, and how many of the `numbers` float32 numbers of their
    classifiers are the same, bit by bit. agree_rounded: of the other photographs moved onto the solution set and
    rounded, the null · agree_unmoved: of the photographs that they were made from · largest_relative_difference:
    |θ̂_j − θ_j|/|θ_j| at most, of the other set's float64 classifier from the float32 numbers wanted · mean,
    max_change_levels: of the other photographs, in grey levels of 255, mean over all pixels and over those of the
    image that moved most · nn_train_l2, held_out_nn_l2: mean distance to the nearest training image, of the twins
    and of images of neither set, pixels in [0, 1] · same_images: in both sets.
    """

    def starts(self) -> dict[str, Record]:
        """The three by name."""
        return {"counterfactual": self.counterfactual, "noise": self.noise, "repeated": self.repeated}


SHOWN = 10  # images kept as examples


#: Anscombe (1973): four data sets (x; y) of eleven points, one regression line
ANSCOMBE_X = (10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5)


ANSCOMBE_X4 = (8, 8, 8, 8, 8, 8, 8, 19, 8, 8, 8)


ANSCOMBE_Y = (
    (8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68),
    (9.14, 8.14, 8.74, 8.77, 9.26, 8.10, 6.13, 3.10, 9.13, 7.26, 4.74),
    (7.46, 6.77, 12.74, 7.11, 7.81, 8.84, 6.08, 5.39, 8.15, 6.42, 5.73),
    (6.58, 5.76, 7.71, 8.84, 8.47, 7.04, 5.25, 12.50, 5.56, 7.91, 6.89),
)


def compute(sizes: Sizes, context: Context) -> Outcome[Metrics]:
    """Train θ*, project three starts onto its solution set, retrain on each from scratch, and compare."""
    data = context.dataset(sizes.n_train)
    train, init, held_out = (
        part.flat.to(context.device, torch.float64) for part in (data.train, data.init, data.held_out)
    )
    y = data.train.y.to(context.device, torch.float64)
    mean = train.mean(0)
    x_train = train - mean
    n, dim = x_train.shape
    objective = Objective(affine(dim), y, sizes.weight_decay)
    theta_star = _retrain(objective, x_train)
    noise = torch.rand(n, dim, generator=context.stream("linear.start"), dtype=torch.float64).to(mean)
    starts = {"counterfactual": init - mean, "noise": noise - mean, "repeated": (init[0] - mean).expand(n, -1).clone()}
    columns = torch.linspace(0, n - 1, SHOWN).round().long()
    arrays = {"mean": mean, "y": y, "theta_star": theta_star, "anscombe": anscombe()}
    arrays |= {"example_index": columns, "example_train": x_train[columns]}
    moved = {}
    for name, x_init in starts.items():
        found = _project(name, x_init, objective, theta_star, mean, sizes)
        moved[name] = _measure(x_init, found, x_train, held_out - mean, mean, objective, theta_star)
        arrays |= {f"example_init_{name}": x_init[columns], f"example_x_{name}": found.x[columns]}
        if name == "counterfactual":
            arrays["counterfactual_x"] = found.x
    arrays |= {"counterfactual_index": data.init.index, "train_index": data.train.index}
    pair, pictures = twins(context, sizes)
    metrics = Metrics(
        n_train=n,
        **moved,
        counting=counting(n, dim),
        trivial=_trivial(y, theta_star, sizes.weight_decay),
        kernel=_kernel(x_train, starts["repeated"], arrays["anscombe"]),
        by_n=by_n(context, sizes),
        by_weight_decay=by_weight_decay(context, sizes),
        relabelled=relabelled(init - mean, objective, theta_star, mean, sizes, context),
        twins=pair,
    )
    return Outcome(metrics, arrays | pictures)


def _retrain(objective: Objective, x: Tensor) -> Tensor:
    """θ(x), (d + 1,), from scratch."""
    return solve_affine(objective, x.unsqueeze(0)).theta[0]


def _project(
    name: str, x_init: Tensor, objective: Objective, theta_star: Tensor, mean: Tensor, sizes: Sizes
) -> Projection:
    """Onto the solution set inside the box 0 ≤ x + mean ≤ 1, with a progress bar on a terminal."""
    with tqdm(total=sizes.iterations, desc=f"linear: {name}", disable=None, leave=False) as bar:

        def progress(iteration: int, norm: float) -> None:
            bar.update(iteration - bar.n)
            bar.set_postfix(residual=f"{norm:.0e}")

        solutions = SolutionSet(objective.y, theta_star, objective.weight_decay, -mean, 1 - mean)
        return solutions.project(x_init, ProjectionSettings(sizes.tol, sizes.iterations), progress)


def _measure(
    x_init: Tensor,
    found: Projection,
    x_train: Tensor,
    x_held_out: Tensor,
    mean: Tensor,
    objective: Objective,
    theta_star: Tensor,
) -> Record:
    """How far the images moved, and how far their classifier is from θ*: exactly, unmoved, and after 8-bit rounding."""
    n, dim = x_init.shape
    pixels = found.x + mean
    rounded = (pixels * 255).round() / 255 - mean
    change = (found.x - x_init).norm(dim=1)
    rank = jacobian_rank(found.x, objective.y, theta_star)

    def theta_error(x: Tensor) -> float:
        return float((_retrain(objective, x) - theta_star).norm() / theta_star.norm())

    return Record(
        n=n,
        weight_decay=objective.weight_decay,
        relative_theta_error=theta_error(found.x),
        relative_theta_error_unmoved=theta_error(x_init),
        relative_theta_error_8bit=theta_error(rounded),
        mean_change_l2=float(change.mean()),
        max_change_l2=float(change.max()),
        mean_change_pixel=float((found.x - x_init).abs().mean()),
        share_changed_8bit=float(((rounded + mean - x_init - mean).abs() > 1e-9).double().mean()),
        nn_train_l2=_nearest_l2(found.x, x_train),
        held_out_nn_l2=_nearest_l2(x_held_out, x_train),
        unknowns=n * dim,
        jacobian_rank=rank,
        solution_dim=n * dim - rank,
        residual_norm=found.residual_norm,
        iterations=found.iterations,
        converged=found.converged,
        nearest_point=found.anchored and found.optimality <= 1e-6,
        lowest_pixel=float(pixels.min()),
        highest_pixel=float(pixels.max()),
        share_at_the_box=float(((pixels == 0) | (pixels == 1)).double().mean()),
    )


def _nearest_l2(x: Tensor, x_train: Tensor) -> float:
    """Mean L2 distance of a row of x to its nearest row of x_train."""
    return float(torch.cdist(x, x_train).min(1).values.mean())


def counting(n: int, dim: int) -> list[Record]:
    """Unknowns N·K against equations, for real sizes.

    perfect_fit: L·N equations (L = 1), sufficient where they can be met · stationarity: one equation a parameter.
    """
    haim = MLP((3072, 1000, 1000, 1)).n_params
    rows = [
        ("affine, this chapter", n, dim, dim + 1),
        ("one hidden layer, 6144 (Runkel et al.; n assumed)", 500, 3072, one_hidden(6144, 3072).n_params),
        ("three layers, 1000-1000 (Haim et al., n = 500)", 500, 3072, haim),
    ]
    return [
        Record(name=name, n=n, unknowns=n * k, perfect_fit=n, stationarity=p, ratio=n * k / p) for name, n, k, p in rows
    ]


def anscombe() -> Tensor:
    """The quartet, (4, 2, 11): x and y of each set."""
    xs = (ANSCOMBE_X, ANSCOMBE_X, ANSCOMBE_X, ANSCOMBE_X4)
    return torch.tensor([(x, y) for x, y in zip(xs, ANSCOMBE_Y, strict=True)], dtype=torch.float64)


def _trivial(y: Tensor, theta_star: Tensor, weight_decay: float) -> Record:
    """‖(6)‖ at X̄ = 0, Y = 0: as the paper has it, and with the bias column of ones and weight decay kept."""
    dim = len(theta_star) - 1
    x_bar = y.new_zeros(len(y), dim + 1)
    as_in_paper = x_bar.mT @ torch.sigmoid(x_bar @ theta_star) / len(y)
    ours = residual(x_bar[:, :dim], torch.zeros_like(y), theta_star, weight_decay)
    return Record(residual_as_in_paper=float(as_in_paper.norm()), residual_with_bias_and_decay=float(ours.norm()))


def _kernel(x_train: Tensor, x_repeated: Tensor, quartet: Tensor) -> Record:
    """dim ker(X̄ᵀ) = n − rank X̄ for photographs and for one image n times; Anscombe's gradient, not zero but in it."""
    gradients, products, lines = [], [], []
    for x, y in quartet:
        x_bar = with_ones(x.unsqueeze(1))
        line = torch.linalg.solve(x_bar.mT @ x_bar, x_bar.mT @ y)
        gradient = x_bar @ line - y  # ∇L of the squared loss ½‖X̄θ − Y‖²
        gradients.append(float(gradient.norm()))
        products.append(float((x_bar.mT @ gradient).abs().max()))
        lines.append(line.tolist())
    n = len(x_train)
    return Record(
        train=n - int(torch.linalg.matrix_rank(with_ones(x_train))),
        repeated=n - int(torch.linalg.matrix_rank(with_ones(x_repeated))),
        anscombe_lines=lines,
        anscombe_gradient_norm=gradients,
        anscombe_product_max=products,
    )
