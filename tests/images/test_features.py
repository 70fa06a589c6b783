"""Backbones: frozen, cached by all that their features depend on, refused in one sentence."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

from recon.errors import ReconError
from recon.images.features import Backbone, backbone, features


class Mean(nn.Module):
    """Counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.weight * x.mean((2, 3))


IMAGES = torch.rand(5, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def test_features_are_kept_and_follow_what_they_depend_on(tmp_path):
    of = Backbone("mean", Mean(), side=16)
    first = features(IMAGES, of, tmp_path)
    assert torch.equal(features(IMAGES, of, tmp_path), first) and of.module.calls == 1
    features(IMAGES.flip(0), of, tmp_path)
    features(IMAGES, Backbone("mean", of.module, side=32), tmp_path)
    of.module.weight.data.mul_(2)
    assert torch.allclose(features(IMAGES, of, tmp_path), 2 * first) and of.module.calls == 4


def test_pixels_are_enlarged_and_standardised():
    of = Backbone("mean", Mean(), side=16, mean=0.5, std=0.25)
    assert torch.allclose(of(torch.full((2, 1, 8, 8), 0.75)), torch.ones(2, 3), atol=1e-5)


def test_a_module_that_gives_no_vector_is_refused():
    with pytest.raises(ReconError, match="vector"):
        Backbone("flat", nn.Identity())(IMAGES)


def test_unknown_and_missing_backbones(monkeypatch):
    with pytest.raises(ReconError, match="lite0 to lite2 come with"):
        backbone("lite9")
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    with pytest.raises(ReconError, match="not installed"):
        backbone("lite1", side=33)


def test_real_weights_give_sparse_features_that_are_not_negative():
    z = backbone("lite0", 64)(IMAGES)
    assert z.shape == (5, 1280) and (z >= 0).all() and 0.3 < (z == 0).float().mean() < 0.8
