"""The gallery that names features: its copies, its other images, and how names are counted."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import torch

from companion.chapters.base import Context
from recon.attacks.heads import Public
from recon.images.registry import load_pool

compute = import_module("companion.chapters.heads.experiment_gallery")
G = torch.Generator().manual_seed(0)


def test_copies_are_near_and_none_is_the_image():
    x = torch.rand(2, 3, 8, 8, generator=G)
    moved, smooth = compute.shifted(x), x[..., :1, :1].expand(2, 3, 8, 8)
    assert torch.equal(moved[..., 1:, 2:], x[..., :-1, :-2])
    assert torch.equal(moved[..., 0, 2:], x[..., 0, :-2])
    assert (compute.compressed(smooth) - smooth).abs().max() < 0.05
    assert (compute.compressed(x) - x).abs().max() > 0.05 and len(compute.compressed(x[:, :1])) == 2


def test_a_gallery_has_copies_of_held_out_images_and_no_original():
    """Features stand in the order of their pixels, and name their images."""
    sizes, context = compute.SIZES["smoke"], Context(load_pool("photos"), None, 0, None, None)
    sizes = replace(sizes, n_train=6, cells=(replace(sizes.cells[0], n=6),), rest=4)
    task = compute._task(sizes, context, sizes.cells[0])
    galleries, pixels = compute._galleries(sizes, context, task)
    known, mirrored = galleries["the image itself"], galleries["mirrored"]
    assert torch.equal(known[:6], task.train) and len(known) == len(pixels) == 12 + 100 + 54 + 4
    likeness = compute.similarity(known[6:12], task.others, task.public)
    assert likeness.amax(1).min() > 0.999 and len(known[12:].unique(dim=0)) == len(known) - 12
    assert compute.similarity(known[12:], known[:12], task.public).max() < 0.999
    shown = pixels.unflatten(1, context.pool.shape)[::13]
    assert torch.allclose(compute.backbone(side=64)(shown), mirrored[::13], atol=1e-3)
    first = compute.similarity(task.train, known, task.public).argmax(1)
    assert compute._copies(first, 6) == 6 and compute._copies(first - 6, 6) == 0


def test_an_image_that_is_named_twice_counts_once():
    assert compute._copies(torch.tensor([0, 0, 3, 5, 9]), 5) == 2


def test_a_mixture_gets_the_sign_and_the_length_of_a_feature():
    public, x = Public(torch.rand(9, 6, generator=G)), torch.tensor([[-3.0, 1, 0, 0, 0, 0]])
    row, again = compute._as_feature(x, public)[0], compute._as_feature(-x, public)[0]
    assert torch.equal(row, again) and row.min() == 0 and row.argmax() == 0
    assert torch.allclose(row.norm(), public.features.norm(dim=1).median())
