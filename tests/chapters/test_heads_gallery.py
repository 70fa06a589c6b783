"""The gallery that names features: its copies, and how names are counted."""

from __future__ import annotations

import torch

from companion.chapters.heads.experiment_gallery import compressed, copies, shifted


def test_copies_are_near_and_none_is_the_image():
    x = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    moved, smooth = shifted(x), x[..., :1, :1].expand(2, 3, 8, 8)
    assert torch.equal(moved[..., 1:, 2:], x[..., :-1, :-2])
    assert torch.equal(moved[..., 0, 2:], x[..., 0, :-2])
    assert (compressed(smooth) - smooth).abs().max() < 0.05
    assert (compressed(x) - x).abs().max() > 0.05 and len(compressed(x[:, :1])) == 2


def test_an_image_that_is_named_twice_counts_once():
    assert copies(torch.tensor([0, 0, 3, 5, 9]), 5) == 2


def test_a_gallery_names_each_training_image_by_its_own_feature(runs):
    """Features stand in the order of their images: the original is its own first name."""
    metrics = runs("heads-gallery").metrics
    same, *others = metrics.copies
    assert same.ceiling == metrics.n_train and min(row.ceiling for row in others) > 5
    assert max(row.heldout for row in metrics.copies) <= 1
