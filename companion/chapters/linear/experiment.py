"""Chapter 1, §3.1 of Runkel et al. (2024): other training sets with exactly the same affine
classifier.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from companion.chapters.base import Context, Outcome, Tensors
from companion.chapters.linear.eight_bit import agreeing, classifier, inputs, others, twin
from companion.store.record import Record
from recon.analysis.solution_set import (
    Projection,
    SolutionSet,
    jacobian_rank,
    residual,
)
from recon.nets.mlp import affine
from recon.training.inner_problem import Objective, solve_affine, with_ones


class Metrics(Record):
    """Other images with the classifier of the training images, and two smaller points of §3.1.

    counterfactual: One set of n images moved onto the solution set of θ*. relative_theta_error:
    ‖θ(x) − θ*‖ / ‖θ*‖ of the classifier retrained on them; unmoved: before the move; 8bit: after
    rounding · mean_change_l2: of an image · nn_train_l2: mean distance to the nearest training
    image, of held-out images the null · jacobian_rank, solution_dim: of the N·K unknowns. trivial:
    ‖(6)‖ at X̄ = 0, Y = 0: as the paper has it, and with the bias column of ones and weight decay
    kept. kernel: dim ker(X̄ᵀ) for photographs and for one image n times; of Anscombe's four sets
    the regression lines, the norms of the gradient, and the largest entries of its product with
    X̄ᵀ. twins: Two sets of n photographs with 8 bits a channel, and how many of the `numbers`
    float32 numbers of their classifiers are the same, bit by bit. agree_rounded: of the other
    photographs moved onto the solution set and rounded, the null · agree_unmoved: of the
    photographs that they were made from · largest_relative_difference: |θ̂_j − θ_j|/|θ_j| at most,
    of the other set's float64 classifier from the float32 numbers wanted · mean_change_levels: of
    the other photographs, in grey levels of 255 · same_images: in both sets.
    """


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """
    Attributes:
        n_train: images of the training and of the counterfactual set.
        twins: images of each of the two sets of 8 bits.
    """

    n_train: int
    twins: int
    weight_decay: float = 1e-2


SIZES = {
    "smoke": Sizes(n_train=40, twins=80),
    "laptop": Sizes(n_train=200, twins=100),
    "paper": Sizes(n_train=500, twins=500),
}


ITERATIONS = 80  # of the projection, at most
TWINS_DECAY = 3e-5  # weight decay of the two sets of 8 bits

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
    """Train θ*, project other images onto its solution set, retrain on them from scratch, and
    compare.
    """
    data = context.dataset(sizes.n_train)
    train, init, held_out = (
        part.flat.to(context.device, torch.float64)
        for part in (data.train, data.init, data.held_out)
    )
    y = data.train.y.to(context.device, torch.float64)
    mean = train.mean(0)
    x_train = train - mean
    x_init = init - mean
    n, dim = x_train.shape
    objective = Objective(affine(dim), y, sizes.weight_decay)

    def retrained(x: Tensor) -> Tensor:
        return solve_affine(objective, x.unsqueeze(0)).theta[0]

    def theta_error(x: Tensor) -> float:
        return float((retrained(x) - theta_star).norm() / theta_star.norm())

    theta_star = retrained(x_train)
    moved = project(x_init, y, theta_star, sizes.weight_decay, mean)
    rank = jacobian_rank(moved.x, y, theta_star)
    counterfactual = Record(
        n=n,
        relative_theta_error=theta_error(moved.x),
        relative_theta_error_unmoved=theta_error(x_init),
        relative_theta_error_8bit=theta_error(((moved.x + mean) * 255).round() / 255 - mean),
        mean_change_l2=float((moved.x - x_init).norm(dim=1).mean()),
        nn_train_l2=nearest_l2(moved.x, x_train),
        held_out_nn_l2=nearest_l2(held_out - mean, x_train),
        unknowns=n * dim,
        jacobian_rank=rank,
        solution_dim=n * dim - rank,
        converged=moved.converged,
    )
    pair, arrays = twins(context, sizes)
    metrics = Metrics(
        n_train=n,
        counterfactual=counterfactual,
        trivial=_trivial(y, theta_star, sizes.weight_decay),
        kernel=_kernel(x_train, x_init[0].expand(n, -1)),
        twins=pair,
    )
    arrays |= {"mean": mean, "y": y, "theta_star": theta_star, "counterfactual_x": moved.x}
    arrays |= {"counterfactual_index": data.init.index, "train_index": data.train.index}
    return Outcome(metrics, arrays)


def project(x: Tensor, y: Tensor, theta: Tensor, weight_decay: float, mean: Tensor) -> Projection:
    """Images x (n, d), minus the mean (d,), onto the solution set for labels y, every pixel in [0,
    1].
    """
    solutions = SolutionSet(y, theta, weight_decay, -mean, 1 - mean)
    return solutions.project(x, max_iter=ITERATIONS)


def nearest_l2(x: Tensor, x_train: Tensor) -> float:
    """Mean L2 distance of a row of x to its nearest row of x_train."""
    return float(torch.cdist(x, x_train).min(1).values.mean())


def anscombe() -> Tensor:
    """The quartet, (4, 2, 11): x and y of each set."""
    xs = (ANSCOMBE_X, ANSCOMBE_X, ANSCOMBE_X, ANSCOMBE_X4)
    return torch.tensor([(x, y) for x, y in zip(xs, ANSCOMBE_Y, strict=True)], dtype=torch.float64)


def _trivial(y: Tensor, theta_star: Tensor, weight_decay: float) -> Record:
    """‖(6)‖ at X̄ = 0, Y = 0: as the paper has it, and with the bias column of ones and weight
    decay kept.
    """
    x_bar = y.new_zeros(len(y), len(theta_star))
    as_in_paper = x_bar.mT @ torch.sigmoid(x_bar @ theta_star) / len(y)
    ours = residual(x_bar[:, :-1], torch.zeros_like(y), theta_star, weight_decay)
    return Record(
        residual_as_in_paper=float(as_in_paper.norm()),
        residual_with_bias_and_decay=float(ours.norm()),
    )


def _kernel(x_train: Tensor, x_repeated: Tensor) -> Record:
    """dim ker(X̄ᵀ) = n − rank X̄ for photographs and for one image n times; Anscombe's gradient,
    not zero but in it.
    """
    x, y = anscombe()[..., None].unbind(1)
    x_bar = with_ones(x)
    lines = torch.linalg.solve(x_bar.mT @ x_bar, x_bar.mT @ y)
    gradients = x_bar @ lines - y  # ∇L of the squared loss ½‖X̄θ − Y‖²
    train, repeated = (
        len(x) - int(torch.linalg.matrix_rank(with_ones(x))) for x in (x_train, x_repeated)
    )
    return Record(
        train=train,
        repeated=repeated,
        anscombe_lines=lines[..., 0].tolist(),
        anscombe_gradient_norm=gradients.norm(dim=(1, 2)).tolist(),
        anscombe_product_max=(x_bar.mT @ gradients).abs().amax((1, 2)).tolist(),
    )


def twins(context: Context, sizes: Sizes) -> tuple[Record, Tensors]:
    """`twins` training images of this seed and other photographs with the same float32 classifier,
    beside two nulls: these photographs as they were, and projected and rounded.
    """
    data = context.dataset(sizes.twins)
    pixels = bytes_of(data.train.flat)
    y = data.train.y.double()
    pool = others(context.pool, data.train.index)
    target = classifier(pixels, y, TWINS_DECAY).float()
    other, chosen = twin(pool, target, len(pixels), TWINS_DECAY)
    start = pool.pixels[chosen]
    start_y = pool.y[chosen]
    wanted = target.double()
    half = torch.full((pixels.shape[1],), 0.5, dtype=torch.float64)
    projected = project(inputs(start), start_y.double(), wanted, TWINS_DECAY, half)
    theta, rounded, unmoved = (
        classifier(x, start_y, TWINS_DECAY) for x in (other, bytes_of(projected.x + 0.5), start)
    )
    every = torch.cat([pixels, other])
    compared = Record(
        n=len(pixels),
        numbers=len(target),
        agree=agreeing(theta, target),
        agree_rounded=agreeing(rounded, target),
        agree_unmoved=agreeing(unmoved, target),
        largest_relative_difference=float(((theta - wanted) / wanted).abs().max()),
        mean_change_levels=float((other.double() - start.double()).abs().mean()),
        same_images=len(every) - len(torch.unique(every, dim=0)),
    )
    return compared, {"twin_train": pixels, "twin_start": start, "twin_other": other}


def bytes_of(x: Tensor) -> Tensor:
    """Pixels in [0, 1] as the bytes they were."""
    return (x * 255).round().to(torch.uint8)
