"""Trees of tensors against loops over their rows."""

from __future__ import annotations

import pytest
import torch

from recon.optim.tree import chosen, dot, flattened, keep, mapped, rows, unevaluated, unflattened


def some_tree(seed):
    generator = torch.Generator().manual_seed(seed)
    x, y, z = (torch.randn(3, *shape, generator=generator) for shape in ((), (2,), (2, 4)))
    return {"x": x, "inner": {"y": y, "deeper": {"z": z}}}


def test_rows_scale_and_dot_by_row():
    a, b = torch.randn(2, 3, 2, 4, generator=torch.Generator().manual_seed(0))
    scalar = torch.tensor([1.0, 2.0, -3.0])
    assert rows(scalar, a).shape == (3, 1, 1)
    for k in range(3):
        assert torch.equal((rows(scalar, a) * a)[k], scalar[k] * a[k])
        torch.testing.assert_close(dot(a, b)[k], (a[k] * b[k]).sum())


@pytest.mark.parametrize("better", [(True, False, True), (True, True, True), (False, False, False)])
def test_rows_are_kept_one_by_one(better):
    new, old = some_tree(0), some_tree(1)
    found = flattened(keep(torch.tensor(better), new, old))
    for place, tensor in found.items():
        for k, taken in enumerate(better):
            assert torch.equal(tensor[k], flattened(new if taken else old)[place][k])
    assert chosen(torch.tensor(better), new["x"], 7.0).tolist() == [
        new["x"][k].item() if taken else 7.0 for k, taken in enumerate(better)
    ]


def test_a_function_of_several_trees_leaves_out_what_only_the_others_have():
    a, b = some_tree(0), {**some_tree(1), "more": torch.ones(1)}
    found = mapped(lambda x, y: x - 2 * y, a, b)
    assert set(found) == {"x", "inner"}
    assert torch.equal(
        found["inner"]["deeper"]["z"], a["inner"]["deeper"]["z"] - 2 * b["inner"]["deeper"]["z"]
    )


def test_any_energy_is_lower_than_none():
    x = torch.randn(3, 2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = unevaluated(x, multipliers=x[..., 0])
    assert (
        torch.equal(found["x"], x)
        and found["x"] is not x
        and torch.equal(found["multipliers"], x[..., 0])
    )
    assert found["energy"].tolist() == [torch.inf] * 3 and found["energy"].dtype == x.dtype


def test_flat_and_back():
    tree = some_tree(0)
    flat = flattened(tree)
    assert set(flat) == {"x", "inner/y", "inner/deeper/z"}
    back = unflattened(flat)
    assert set(back) == {"x", "inner"} and torch.equal(
        back["inner"]["deeper"]["z"], tree["inner"]["deeper"]["z"]
    )
    assert unflattened({}) == {} == flattened({"a": {}})
