"""Reconstructions in 8 bits: what is read back scores as what was kept."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file, save_file

from companion.store.kept import RECONSTRUCTIONS, keep_reconstructions, kept_reconstructions
from recon.errors import ReconError
from recon.scoring.metrics import ncc


def test_what_is_kept_scores_as_what_was_found(tmp_path):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(5, 300, generator=generator) * torch.logspace(-3, 3, 5)[:, None]
    keep_reconstructions({"x_hat": x, "x_train": torch.zeros(4, 300)}, tmp_path)
    found = kept_reconstructions(tmp_path)
    span = x.amax(1, keepdim=True) - x.amin(1, keepdim=True)
    assert ((found - x).abs() <= span / 510 * 1.001).all()
    assert ncc(found, x).diagonal().min() > 0.9999
    assert (tmp_path / RECONSTRUCTIONS).stat().st_size < x.numel() + 1000


@pytest.mark.parametrize("shape", [(7, 3072), (2, 5, 192), (1, 3), (9, 48)])
def test_pictures_are_packed_and_come_back_as_they_were(tmp_path, shape):
    """In any number, in stacks, down to one pixel: every level is its own pixel's again."""
    levels = torch.randint(256, shape, generator=torch.Generator().manual_seed(0)).float()
    levels[..., 0], levels[..., -1] = 0, 255
    keep_reconstructions({"x_hat": levels}, tmp_path)
    assert torch.allclose(kept_reconstructions(tmp_path), levels, atol=1e-3)


def test_a_damaged_picture_is_named(tmp_path):
    keep_reconstructions({"x_hat": torch.rand(4, 48)}, tmp_path)
    found = load_file(tmp_path / RECONSTRUCTIONS)
    for webp in (found["webp"][:-20], found["webp"].flip(0)):
        save_file(found | {"webp": webp.contiguous()}, tmp_path / RECONSTRUCTIONS)
        with pytest.raises(ReconError, match="damaged"):
            kept_reconstructions(tmp_path)


def test_a_constant_one_and_stacks_are_kept_and_what_has_none_is_not(tmp_path):
    keep_reconstructions({"x_hat": torch.full((2, 3, 4), 7.0)}, tmp_path)
    assert torch.equal(kept_reconstructions(tmp_path), torch.full((2, 3, 4), 7.0))
    keep_reconstructions({"theta": torch.zeros(3)}, tmp_path / "none")
    with pytest.raises(ReconError, match="damaged"):
        kept_reconstructions(tmp_path / "none")
