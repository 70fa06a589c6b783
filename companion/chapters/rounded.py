"""Matrix products of bfloat16 operands with sums in float32: faster on processors made for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

PRODUCTS = (torch.matmul, Tensor.matmul, Tensor.__matmul__)


class RoundedProducts(TorchFunctionMode):
    """Within it, A B of float32 matrices is the float32 product of their entries rounded to bfloat16 (8 significant
    bits, a relative error of up to 2⁻⁹ each), rounded to bfloat16 once more.

    Unlike `torch.set_float32_matmul_precision`, which is a wish that processors may ignore, it rounds everywhere.
    Products with a vector, which cost little, keep all their bits.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """`func`, or the rounded product in its place."""
        if func in PRODUCTS and _both_matrices(*args):
            return func(*(operand.bfloat16() for operand in args)).float()
        return func(*args, **(kwargs or {}))


def product_error(size: int = 256) -> float:
    """Relative error of one float32 product of random matrices here: about 1e-7 where no operand is rounded, and 1e-3
    where a processor rounds them to bfloat16."""
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(2, size, size, generator=generator)
    exact = a.double() @ b.double()
    return float(((a @ b).double() - exact).norm() / exact.norm())


def _both_matrices(a: Tensor, b: Tensor) -> bool:
    """Neither a product with one column or row, nor in another precision."""
    single = a.dtype == b.dtype == torch.float32
    return single and min(a.dim(), b.dim()) > 1 and min(*a.shape[-2:], *b.shape[-2:]) > 1
