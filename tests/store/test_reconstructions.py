"""Reconstructions in 8 bits: what is read back scores as what was kept."""

from __future__ import annotations

import pytest
import torch

from companion.store.results import RECONSTRUCTIONS, keep_reconstructions, kept_reconstructions
from recon.errors import ReconError
from recon.scoring.metrics import ncc


def test_what_is_kept_scores_as_what_was_found(tmp_path):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(5, 300, generator=generator) * torch.logspace(-3, 3, 5)[:, None]
    arrays = {"x_hat": x, "train_index": torch.arange(4), "x_train": torch.zeros(4, 300)}
    assert keep_reconstructions(arrays, tmp_path) == tmp_path / RECONSTRUCTIONS
    found, index = kept_reconstructions(tmp_path)
    assert list(index) == ["train_index"]  # rows, and no image of the data set
    span = x.amax(1, keepdim=True) - x.amin(1, keepdim=True)
    assert ((found - x).abs() <= span / 510 * 1.001).all()
    assert ncc(found, x).diagonal().min() > 0.9999
    assert (tmp_path / RECONSTRUCTIONS).stat().st_size < x.numel() + 1000


def test_a_constant_one_and_stacks_are_kept_and_what_has_none_is_not(tmp_path):
    keep_reconstructions({"x_hat": torch.full((2, 3, 4), 7.0)}, tmp_path)
    assert torch.equal(kept_reconstructions(tmp_path)[0], torch.full((2, 3, 4), 7.0))
    assert keep_reconstructions({"theta": torch.zeros(3)}, tmp_path / "none") is None
    with pytest.raises(ReconError, match="damaged"):
        kept_reconstructions(tmp_path / "none")
