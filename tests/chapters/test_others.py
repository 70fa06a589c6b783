"""Photographs in place of a training set: not one pixel in common, and patches that lie apart."""

from __future__ import annotations

import torch

from companion.chapters.linear.others import APART, others
from recon.images import photos
from recon.images.partitions import partition
from recon.images.registry import load_pool


def test_patches_are_outside_the_training_thirds_and_lie_apart():
    pool = load_pool("photos")
    data = partition(pool, 88)
    found = others(pool, data.train.index)
    assert found.pixels.dtype == torch.uint8 and found.pixels.shape == (len(found.y), 3072) and len(found.y) > 5000
    train = {tuple(row) for row in (data.train.flat * 255).round().to(torch.uint8).tolist()}
    assert not train & {tuple(row) for row in found.pixels[::7].tolist()}
    assert torch.equal(found.apart, found.apart.mT) and not found.apart.diagonal().any()
    held_out = {tuple(row) for row in (data.held_out.flat * 255).round().to(torch.uint8).tolist()}
    assert held_out & {tuple(row) for row in found.pixels.tolist()}  # patches of the pool are among them


def test_neighbouring_patches_are_not_apart():
    pool = load_pool("photos")
    found = others(pool, torch.arange(0))
    size = photos.PATCH
    first, nearby = (found.pixels[k].unflatten(0, (3, size, size)) for k in (0, 1))
    assert APART == 16 and torch.equal(first[:, 4:], nearby[:, :-4])  # the next one is four pixels below
    assert not found.apart[0, 1] and found.apart[0, -1]
