"""Which arithmetic this process computes in.

Sums of floating-point numbers depend on their order, and libraries choose the order by the processor.  The Makefile
asks for one that all x86-64 processors with AVX2 have (`SAME`), so that pinned numbers can be compared closely there.
`fingerprint` tells whether a process has it: it hashes, bit by bit, what the kernels that experiments use make of fixed
numbers.
"""

from __future__ import annotations

import functools
import hashlib
import math

import numpy as np
import torch

#: of the arithmetic that the Makefile asks for, with one thread
PINNED = "dafffc31c37cefaa"


def descent(x: torch.Tensor, steps: int) -> torch.Tensor:
    """A short training run: what rounding moves is much larger at its end."""
    w1, w2 = (torch.sin(torch.arange(float(a * b))).view(a, b).div(8).requires_grad_() for a, b in ((40, 192), (1, 40)))
    y = torch.arange(len(x)).remainder(2).mul(2).sub(1).to(x)
    for _ in range(steps):
        margin = y * (w2 @ torch.relu(w1 @ x.T))[0]
        loss = torch.nn.functional.softplus(-margin).mean()
        for each, gradient in zip((w1, w2), torch.autograd.grad(loss, (w1, w2)), strict=True):
            each.data.sub_(gradient, alpha=0.5)
    return torch.cat([w1.flatten(), w2.flatten()]).detach()


@functools.cache
def fingerprint() -> str:
    """Sixteen hexadecimal digits: the same in two processes whose kernels round alike."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        wide = torch.sin(torch.arange(300.0 * 3072) * math.sqrt(2)).view(300, 3072)
        square = (wide @ wide.T).double() + 3 * torch.eye(300, dtype=torch.float64)
        images, filters = wide[:20].reshape(20, 3, 32, 32), wide[0, :1800].reshape(24, 3, 5, 5)
        array = wide.numpy()
        made = (
            wide @ wide.T,
            wide.T[:1000] @ wide,
            wide.double()[:, :500] @ wide.double()[:, :500].T,
            torch.linalg.svdvals(wide[:100]),
            torch.linalg.eigvalsh(square),
            torch.linalg.solve(square, square[:, :1]),
            torch.linalg.lstsq(wide[:, :100], wide[:, 100:101]).solution,
            torch.nn.functional.conv2d(images, filters, stride=2),
            torch.exp(wide).log1p().sum(0),
            torch.softmax(wide, 1),
            torch.randn(1000, generator=torch.Generator().manual_seed(0)),
            descent(wide[:20, :192], 200),
            array[:, :200] @ array[:, :200].T,
            np.exp(array.astype(np.float64)).sum(0),
            np.linalg.svd(array[:60].astype(np.float64), compute_uv=False),
        )
    finally:
        torch.set_num_threads(threads)
    digest = hashlib.sha256()
    for each in made:
        digest.update(np.ascontiguousarray(each).tobytes())
    return digest.hexdigest()[:16]
