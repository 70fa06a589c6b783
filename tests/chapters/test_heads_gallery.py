"""The gallery that names features: its copies, its strangers, and how names are counted."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import pytest
import torch

from companion.chapters.base import Context
from recon.attacks.heads import Public
from recon.images.registry import load_pool

compute = import_module("companion.chapters.heads.experiment_gallery")
G = torch.Generator().manual_seed(0)
SMALL = replace(compute.SIZES["smoke"], n_train=6, rest=4)


def test_copies_are_near_and_none_is_the_image():
    x = torch.rand(2, 3, 8, 8, generator=G)
    made = {kind: copy(x) for kind, copy in compute.COPIES.items()}
    assert torch.equal(made["mirrored"].flip(-1), x)
    assert torch.equal(made["shifted"][..., 1:, 2:], x[..., :-1, :-2])
    assert torch.equal(made["shifted"][..., 0, 2:], x[..., 0, :-2])
    smooth = x[..., :1, :1].expand(2, 3, 8, 8)
    assert (compute.compressed(smooth) - smooth).abs().max() < 0.05
    assert (made["JPEG"] - x).abs().max() > 0.05 and compute.compressed(x[:, :1]).shape[1] == 1


@pytest.fixture(scope="module")
def gallery():
    context = Context(load_pool("photos"), torch.device("cpu"), 0, None, None)
    task = compute._setting(SMALL, context)[1]
    return task, compute._gallery(SMALL, context, task)


def test_a_gallery_has_copies_of_decoys_and_no_original(gallery):
    task, made = gallery
    n, k = len(task.train), len(made.others)
    known = made.known["the image itself"]
    assert torch.equal(known[:n], task.train) and len(known) == 2 * n + k == 2 * n + len(
        made.labels
    )
    assert not set(made.decoys.tolist()) & set(task.train_index.tolist())
    decoys = [task.other_index.tolist().index(i) for i in made.decoys.tolist()]
    assert torch.allclose(known[n : 2 * n], task.others[decoys], atol=1e-4)
    others = {tuple(row) for row in made.others.flatten(1).tolist()}
    assert not others & {tuple(row) for row in made.copies["the image itself"].flatten(1).tolist()}


def test_others_have_the_features_of_their_pixels(gallery):
    task, made = gallery
    of = compute.backbone(side=SMALL.side)
    for place in (0, 120, -1):  # a public image, a held-out one, one of the rest
        again = of(made.others[place][None])[0]
        assert torch.allclose(again, made.known["JPEG"][2 * len(task.train) :][place], atol=1e-3)


def test_true_features_name_their_images_and_those_of_decoys_do_not(gallery):
    task, made = gallery
    n, known = len(task.train), made.known["the image itself"]
    first = compute.similarity(task.train, known, task.public).argmax(1)
    decoy = compute.similarity(known[n : 2 * n], known, task.public).argmax(1)
    assert compute._copies_among(first, 0, n) == n == compute._copies_among(decoy, n, 2 * n)
    assert compute._copies_among(decoy, 0, n) == 0


def test_an_image_that_is_named_twice_counts_once():
    assert compute._copies_among(torch.tensor([0, 0, 3, 5, 9]), 0, 5) == 2
    assert compute._copies_among(torch.tensor([0, 0, 3, 5, 9]), 5, 10) == 2


def test_a_mixture_gets_the_sign_and_the_length_of_a_feature():
    public = Public(torch.rand(9, 6, generator=G))
    x = torch.tensor([[-3.0, 1, 0, 0, 0, 0], [3.0, -1, 0, 0, 0, 0]])
    row = compute._as_feature(x, public)
    assert torch.allclose(row[0], row[1]) and row.min() == 0 and row[0].argmax() == 0
    assert torch.allclose(row.norm(dim=1), public.features.norm(dim=1).median())
