"""Trees of tensors against loops over their rows."""

from __future__ import annotations

import pytest
import torch

from recon.optim.tree import chosen, dot, keep, rows, unevaluated


def some_tree(seed):
    generator = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(3, *shape, generator=generator) for shape in ((), (2, 4)))
    return {"x": x, "inner": {"y": y}}


def test_rows_scale_and_dot_by_row():
    a, b = torch.randn(2, 3, 2, 4, generator=torch.Generator().manual_seed(0))
    scalar = torch.tensor([1.0, 2.0, -3.0])
    scaled = rows(scalar, a) * a
    for k in range(3):
        assert torch.equal(scaled[k], scalar[k] * a[k])
        torch.testing.assert_close(dot(a, b)[k], (a[k] * b[k]).sum())


@pytest.mark.parametrize("better", [(True, False, True), (True, True, True), (False, False, False)])
def test_rows_are_chosen_one_by_one(better):
    new, old = some_tree(0), some_tree(1)
    result = keep(torch.tensor(better), new, old)
    filled = chosen(torch.tensor(better), new["x"], 7.0)
    for k, is_better in enumerate(better):
        source = new if is_better else old
        assert torch.equal(result["x"][k], source["x"][k])
        assert torch.equal(result["inner"]["y"][k], source["inner"]["y"][k])
        assert filled[k] == (new["x"][k] if is_better else 7.0)


def test_any_energy_is_lower_than_none():
    x = torch.randn(3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    state = unevaluated(x, multipliers=x[:, 0])
    assert torch.equal(state["x"], x) and state["x"] is not x
    assert torch.equal(state["multipliers"], x[:, 0])
    assert state["energy"].tolist() == [torch.inf] * 3 and state["energy"].dtype == x.dtype
