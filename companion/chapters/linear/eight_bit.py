"""Two sets of 8-bit photographs with one float32 classifier: the solution set, searched among
integers.

Training on (X, y) gives θ = Σ_i ρ_i x̄_i / (n ω) with ρ_i = y_i − σ(x̄_i·θ), see
`recon.analysis.solution_set`. So an image that θ classifies with a margin m_i weighs |ρ_i| =
σ(−m_i), and one grey level of it moves Σ_i ρ_i x̄_i by |ρ_i|/255. Photographs have margins of all
sizes: their weights are digits, from large to tiny. `diffuse` rounds the images in the order of
falling |ρ_i|, and after every block moves those that are left, as real numbers, back onto the
solution set. So each error is handed on to finer digits (error diffusion), until float32 does not
see it any more.

Pixels are integers 0 … 255; the inputs are x = pixel/255 − ½ for every set, so that training needs
nothing but pixels. Shapes: pixels (n, d), y (n,) in {0, 1}, theta (d + 1,) with the bias last;
float64 throughout.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor

from recon.analysis.solution_set import adjoint, solve_normal
from recon.errors import ReconError
from recon.images.photos import MIN_CONTRAST, PATCH, PHOTOGRAPHS, photographs
from recon.images.pool import ImagePool
from recon.nets.mlp import affine
from recon.training.inner_problem import Objective, solve_affine, with_ones

LEVELS = 255.0
STRIDE = 4  # between neighbouring patches of the bundled photographs
APART = PATCH // 2  # pixels, in one direction at least, between two patches of one set
#: scikit-image says of the others that they are in the public domain or CC0, of this one it says
#: nothing
NO_LICENCE = ("motorcycle_left.png",)


EDGE = 6  # grey levels that start images keep from 0 and 255, room to move in
FINEST = 1e-13  # smallest |ρ| that an image of the ladder should have
RUNGS = (16, 20, 24, 12, 14, 18, 22, 28)  # of the ladder, in each class: tried until one succeeds
NEWTON = 60  # steps at most of one return to the solution set


@dataclass(frozen=True)
class Others:
    """
    Attributes:
        pixels (N, d) uint8.
        y (N,) in {0, 1}.
        apart (N, N) bool, which two may stand in one set.
    """

    pixels: Tensor
    y: Tensor
    apart: Tensor


def twin(pool: Others, target: Tensor, n: int, weight_decay: float) -> tuple[Tensor, Tensor]:
    """A training set made of n photographs of `pool` with the float32 classifier `target` (d + 1,),
    and the rows (n,) of the photographs that it was made from.

    Its pixels (n, d) are uint8, its labels n/2 zeros, then n/2 ones. Whether all numbers agree is
    measured, not promised: see `agreeing`. ReconError where a class is too small.

    Args:
        weight_decay: ω of the training.
    """
    theta = target.double()
    best = 0
    for rungs in RUNGS:
        chosen = ladder(pool, theta, n, FINEST, rungs)
        labels = pool.y[chosen].double()
        start = pool.pixels[chosen].double().clamp(EDGE, LEVELS - EDGE)
        made = diffuse(start, labels, theta, weight_decay)
        agree = agreeing(classifier(made, labels, weight_decay), target)
        if agree >= best:
            best = agree
            answer = (made.to(torch.uint8), chosen)
        if agree == len(target):
            break
    return answer


def agreeing(theta: Tensor, target: Tensor) -> int:
    """How many of the d + 1 float32 numbers of two classifiers are the same, bit by bit."""
    return int((theta.float().view(torch.int32) == target.view(torch.int32)).sum())


def inputs(pixels: Tensor) -> Tensor:
    """x = pixel/255 − ½ in float64."""
    return pixels.double() / LEVELS - 0.5


def weights_of(logits: Tensor, y: Tensor) -> Tensor:
    """ρ_i = y_i − σ(z_i) as ±σ(−m_i), m_i = ±z_i, which loses no digits where the margin m_i is
    large.
    """
    sign = 2 * y.double() - 1
    return sign * torch.sigmoid(-sign * logits)


def magnitudes(pixels: Tensor, y: Tensor, theta: Tensor) -> Tensor:
    """|ρ_i| of these images, (m,)."""
    return weights_of(with_ones(inputs(pixels)) @ theta, y).abs()


def classifier(pixels: Tensor, y: Tensor, weight_decay: float) -> Tensor:
    """θ (d + 1,) that training on pixels (n, d) ends at: Σ ρ_i x̄_i / (n ω), to the last digits of
    float64.
    """
    x = inputs(pixels)
    solution = solve_affine(
        Objective(affine(x.shape[1]), y.double(), weight_decay), x[None], tol=1e-13, max_iter=200
    )
    assert solution.logits is not None  # Newton's method returns them
    return weights_of(solution.logits[0], y) @ with_ones(x) / (len(x) * weight_decay)


def ladder(pool: Others, theta: Tensor, n: int, finest: float, rungs: int) -> Tensor:
    """Rows of n photographs to start from, (n,), half of each class, class 0 first: for each of
    `rungs` values of |ρ| from `finest` to ½, evenly spaced in its logarithm, the photograph nearest
    to it; then the first in their order. ReconError where n/2 of a class cannot be found.
    """
    weight = magnitudes(pool.pixels, pool.y, theta).log()
    levels = torch.linspace(math.log(finest), math.log(0.5), rungs).tolist()
    chosen = []
    for label in (0, 1):
        free = (pool.y == label) & (weight >= levels[0] - 1)  # others are too light for a digit
        taken: list[int] = []
        while len(taken) < n // 2:
            if not free.any():
                raise ReconError(
                    f"{n // 2} photographs of class {label} are needed, and there are {len(taken)}"
                )
            row = int(free.int().argmax())
            if len(taken) < rungs:
                apart = (weight - levels[len(taken)]).abs()
                row = int(apart.masked_fill(~free, torch.inf).argmin())
            taken.append(row)
            free &= pool.apart[row]
        chosen += sorted(taken)
    return torch.tensor(chosen)


def round_keeping(values: Tensor, theta: Tensor) -> Tensor:
    """Integers next to `values` (m, d) in 0 … 255 that nearly keep values·θ, (m,).

    Each pixel goes to the nearest integer; then those that cost least per unit of output go to
    their second nearest, while that does not overshoot.

    Args:
        theta: the d weights.
    """
    nearest = values.round().clamp(0, LEVELS)
    error = nearest - values
    other = (nearest - torch.where(error > 0, 1.0, -1.0)).clamp(0, LEVELS)
    gain = (other - nearest) * theta
    missing = -(error @ theta)
    useful = gain * missing[:, None] > 0
    cost = torch.where(useful, ((other - values).abs() - error.abs()) / gain.abs(), torch.inf)
    order = cost.argsort(dim=1)
    total = torch.where(useful, gain.abs(), 0.0).gather(1, order).cumsum(1)
    taken = (total <= missing.abs()[:, None]) & useful.gather(1, order)
    return torch.where(torch.zeros_like(useful).scatter(1, order, taken), other, nearest)


def left_of(base: Tensor, values: Tensor, y: Tensor, theta: Tensor, n: int) -> Tensor:
    """F (d + 1,) = ω θ − (1/n) Σ ρ_i x̄_i over all n images, as
    `recon.analysis.solution_set.residual` has it.

    Args:
        base (d + 1,): the same over those that are integers already.
        values (m, d): pixels of the others, of labels y (m,).
    """
    x_bar = with_ones(inputs(values))
    return base - weights_of(x_bar @ theta, y) @ x_bar / n


def project(base: Tensor, values: Tensor, y: Tensor, theta: Tensor, n: int) -> Tensor:
    """Pixels (m, d) of the images that are no integers yet, moved until F = 0 by least changes
    (Gauss–Newton steps), inside 0 … 255.

    Enough is a hundredth of what rounding the heaviest of them will leave. No logit moves by more
    than 2 at once: weights are exponentials, and an image that is thrown far out is lost as a
    digit. A step that does not lower ‖F‖ is halved, down to 1/256.
    """
    left = left_of(base, values, y, theta, n)
    heaviest = float(magnitudes(values, y, theta).max())
    enough = 0.01 * heaviest * 0.3 / LEVELS / n * math.sqrt(len(left))
    for _ in range(NEWTON):
        if left.norm() <= enough:
            break
        try:
            step = step_of(values, y, theta, left * n / len(values))
        except ReconError:  # a pixel is at its end in all of them: what is left is left
            break
        length = 2 / max(2.0, float((step @ theta[:-1]).abs().max()) / LEVELS)
        for length in (length * 0.5**k for k in range(9)):
            trial = (values + length * step).clamp(0, LEVELS)
            now = left_of(base, trial, y, theta, n)
            if lower := now.norm() < (1 - 0.3 * length) * left.norm():
                values = trial
                left = now
                break
        if not lower:
            break
    return values


def step_of(values: Tensor, y: Tensor, theta: Tensor, left: Tensor) -> Tensor:
    """−Jᵀ(J M Jᵀ)⁻¹ F in grey levels, (m, d); M leaves out the pixels that it would push over an
    end of 0 … 255.
    """
    x = inputs(values)
    free = torch.ones_like(x, dtype=torch.bool)
    for _ in range(3):
        u = solve_normal(x, y, theta, None if free.all() else free, left)
        step = -LEVELS * adjoint(x, y, theta, u) * free
        over = ((values <= 0) & (step < 0)) | ((values >= LEVELS) & (step > 0))
        if not over.any():
            break
        free &= ~over
    return step


def diffuse(start: Tensor, y: Tensor, theta: Tensor, weight_decay: float) -> Tensor:
    """Integers (n, d) near `start` (n, d), labels y (n,), with F near 0: the heaviest images first,
    in blocks that weigh, in Σ ρ², no more than the images that take over their error.
    """
    made = torch.empty_like(start)
    n = len(start)
    base = weight_decay * theta
    values = project(base, start, y, theta, n)
    rows = magnitudes(values, y, theta).argsort(descending=True)
    values = values[rows]
    y = y[rows]
    while count := len(rows):
        if count > 3:
            square = magnitudes(values, y, theta).square()
            after = square.flip(0).cumsum(0).flip(0) - square
            count = max(1, int((square.cumsum(0) <= after).sum()))
        made[rows[:count]] = rounded = round_keeping(values[:count], theta[:-1])
        base = left_of(base, rounded, y[:count], theta, n)
        values = values[count:]
        y = y[count:]
        rows = rows[count:]
        if len(rows):
            values = project(base, values, y, theta, n)
    return made


def others(pool: ImagePool, train_index: Tensor) -> Others:
    """What a training set with these indices (n,) in its pool may be replaced by; disjoint from it
    in every pixel.

    Of the bundled photographs: patches every 4 pixels, outside the third that training patches are
    from, of those whose licence is known; two of them in one set lie 16 pixels apart or more. Of
    other pools: the images of part "init" that are not in the training set.
    """
    if pool.name == "photos":
        return _patches()
    rows = np.flatnonzero((pool.part == "init") & ~np.isin(pool.index, train_index.numpy()))
    pixels, y = (torch.from_numpy(part[rows]) for part in (pool.images, pool.y))
    return Others(pixels.flatten(1), y, ~torch.eye(len(y), dtype=torch.bool))


def _patches() -> Others:
    images = []
    labels = []
    places = []
    for number, (name, (label, photo)) in enumerate(zip(PHOTOGRAPHS, photographs(), strict=True)):
        if name in NO_LICENCE:
            continue
        # columns of patches are dealt to the three parts by `photos.load`
        outside = PATCH * math.ceil(photo.shape[1] // PATCH / 3)
        windows = sliding_window_view(photo, (PATCH, PATCH), axis=(0, 1))
        windows = windows[::STRIDE, outside::STRIDE].swapaxes(0, 1)
        clear = windows.mean(axis=2).std(axis=(2, 3)) >= MIN_CONTRAST
        images.append(windows[clear])
        places.append(np.insert(STRIDE * np.argwhere(clear), 0, 10_000 * number, axis=1))
        labels += [label] * len(places[-1])
    where = torch.from_numpy(np.concatenate(places)).float()
    apart = torch.cdist(where, where, p=torch.inf) >= APART
    pixels = torch.from_numpy(np.concatenate(images)).flatten(1)
    return Others(pixels, torch.tensor(labels), apart)
