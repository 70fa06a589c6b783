"""Every attack and every trainer on the GPU gives what it gives on the CPU; skipped without one."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from pretended import placed, tensors_in
from pretended_cases import CASES

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]
#: whose answers hang on the signs of singular vectors, or on draws of the device
FREE = ("by_separation", "train__private", "train__dropout")


@pytest.mark.parametrize("name", CASES)
def test_it_gives_on_the_gpu_what_it_gives_on_the_cpu(name):
    there = tensors_in(CASES[name](2, partial(placed, device="cuda")))
    assert there and all(tensor.is_cuda for tensor in there)
    if name not in FREE:
        here = tensors_in(CASES[name](2, lambda value: value))
        torch.testing.assert_close(
            [tensor.detach().cpu() for tensor in there], here, rtol=1e-3, atol=1e-3, equal_nan=True
        )
