"""What training wrote into a matrix of weights, and what is left of its random start: told apart by
singular values.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def signal_rank(values: Tensor, shape: Sequence[int]) -> int:
    """How many singular values (k,), falling, of a matrix of this shape stand above the noise of
    its random start. A matrix of independent entries of variance σ² with a rows and d columns, a ≤
    d, r of whose directions are taken by something else, has its other singular values in σ (√(d−r)
    ± √(a−r)) (Marchenko & Pastur 1967). σ is read off the smallest one, and r is the number of
    singular values above the upper edge, found by iteration from r = 0. 0 for a matrix of zeros.
    """
    a, d = sorted(shape)
    largest, smallest = values[0].item(), values[-1].item()
    if largest == 0:
        return 0
    r = 0
    for _ in range(a):
        narrow, wide = (a - r) ** 0.5, (d - r) ** 0.5
        edge = smallest * (wide + narrow) / max(wide - narrow, 1e-9)
        count = int((values > max(edge, 1e-6 * largest)).sum())
        if count == r:
            break
        r = count
    return r


def right_singular(w: Tensor) -> tuple[Tensor, Tensor]:
    """Singular values (k,), falling, k = min(a, d), and right singular vectors (k, d) of w (a, d),
    in float64. From the eigenvectors of the smaller of w wᵀ and wᵀ w: about five times as fast as
    an SVD of w. The square costs digits: values below 1e-7 of the largest are noise, with zero rows
    where they are 0, and vectors are orthogonal to 1e-15 over the square of their value's share of
    the largest. Their signs are not those of `torch.linalg.svd`.
    """
    w = w.double()
    wide = w.shape[0] <= w.shape[1]
    squares, vectors = torch.linalg.eigh(w @ w.mT if wide else w.mT @ w)
    values, vectors = squares.flip(0).clamp_min(0).sqrt(), vectors.flip(1)
    if not wide:
        return values, vectors.mT
    tiny = torch.finfo(values.dtype).tiny
    return values, (vectors.mT @ w) * torch.where(values > tiny, 1 / values.clamp_min(tiny), 0)[
        :, None
    ]


def signal_span(w: Tensor) -> Tensor:
    """Orthonormal rows (r, d), strongest first, that span what stands out of w (a, d); r by
    `signal_rank`. Gradient steps move a first layer within the span of the training images alone:
    this is nearly that span.
    """
    _, values, directions = torch.linalg.svd(w.double(), full_matrices=False)
    return directions[: signal_rank(values, w.shape)].to(w.dtype)
