"""A layer made to be read: who is alone in a bin, and what the server may say of it."""

from __future__ import annotations

import pytest
import torch

from recon.attacks.imprint import Imprint, edges_of
from recon.errors import ReconError

DIM, CLASSES = 48, 5


def images(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    level = torch.rand(count, 1, generator=generator) - 0.5
    return (level + 0.2 * torch.randn(count, DIM, generator=generator)).double()


def server(bins=64):
    generator = torch.Generator().manual_seed(1)
    v = torch.randn(CLASSES, generator=generator).double() / bins
    return Imprint(
        edges_of(images(500, seed=2), bins),
        v,
        0.1 * torch.randn(CLASSES, generator=generator).double(),
    )


def read(chosen, x):
    labels = torch.arange(len(x)) % CLASSES
    return chosen.read(chosen.mean_gradient(x, labels), len(x))


def alone(chosen, x):
    bins = torch.bucketize(x.mean(1), chosen.edges)
    return [i for i in range(len(x)) if int((bins == bins[i]).sum()) == 1]


def test_images_that_are_alone_in_their_bin_are_read_and_no_others():
    x, chosen = images(20), server()
    found = read(chosen, x)
    near = torch.cdist(found.images, x, p=float("inf")).amin(0) < 1e-6
    assert 0 < len(alone(chosen, x)) < len(x)
    assert torch.nonzero(near).flatten().tolist() == alone(chosen, x)
    true = torch.cdist(found.images, x, p=float("inf")).amin(1) < 1e-6
    assert torch.equal(found.alone, true)  # and the server knows


def test_two_in_one_bin_are_a_mixture_that_is_not_taken_for_an_image():
    x, chosen = images(2), server()
    x[1] += x[0].mean() - x[1].mean()
    found = read(chosen, x)
    assert len(found.images) == 1 and not found.alone.any()
    assert torch.cdist(found.images, x, p=float("inf")).amin() > 1e-3


def test_bins_are_equally_likely():
    public = images(4000, seed=3)
    counts = torch.bincount(torch.bucketize(public.mean(1), edges_of(public, 8)), minlength=9)
    assert counts[0] == 0 and counts[1:].min() > 300


def test_in_the_precision_of_clients_empty_bins_are_left_out():
    """float32, twenty images in 64 bins: as many candidates as bins with somebody in them."""
    x, chosen = images(20), server()
    single = Imprint(chosen.edges.float(), chosen.v.float(), chosen.c.float())
    found = read(single, x.float())
    assert len(found.images) == len(torch.bucketize(x.mean(1).float(), single.edges).unique())
    near = torch.cdist(found.images, x, p=float("inf")).amin(0) < 1e-3
    assert torch.nonzero(near).flatten().tolist() == alone(single, x.float())


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Imprint(torch.zeros(2), torch.ones(2), torch.zeros(2)), "must ascend"),
        (lambda: edges_of(images(1), 8), "different brightness"),
        (lambda: edges_of(images(10), 1), "different brightness"),
    ],
)
def test_what_makes_no_bins_is_refused(call, sentence):
    with pytest.raises(ReconError, match=sentence):
        call()
