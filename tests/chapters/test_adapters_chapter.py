"""The experiment on adapters: what is trained, and when the certificate is true."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from companion.chapters.adapters.experiment import BLOCK, LINEAR, Adapted, Cell


def test_an_adapter_begins_as_its_base_and_changes_its_factors_alone():
    base = nn.Linear(6, 4)
    layer = Adapted(base, 3, torch.Generator().manual_seed(0), 0.5)
    x, before = torch.randn(9, 6), base.weight.clone()
    assert torch.equal(layer(x), base(x)) and layer.a.abs().max() <= 6**-0.5
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(2):
        layer(x).square().sum().backward()
        optimiser.step()
    assert layer.b.any() and torch.equal(layer.weight, before)
    torch.testing.assert_close(layer.eval()(x), x @ (before + layer.b @ layer.a).mT + base.bias)


@pytest.mark.parametrize(
    ("layers", "classes", "rank", "most"),
    [(LINEAR, 10, 64, 8), (LINEAR, 10, 4, 3), (LINEAR, 2, 64, 0), (BLOCK, 2, 64, 63)],
)
def test_what_fits(layers, classes, rank, most):
    cells = [Cell(n=n, rank=rank, layers=layers, classes=classes) for n in range(1, 101)]
    assert sum(cell.fits for cell in cells) == most
