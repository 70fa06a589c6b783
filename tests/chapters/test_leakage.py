"""The leakage chapters' images and conventions."""

from __future__ import annotations

import os

import pytest
import torch

from recon.chapters.leakage_common import Victims
from recon.images.pools import load_pool
from recon.scoring.metrics import mse, psnr


def test_the_published_psnr_has_peak_255():
    truth = torch.zeros(1, 3, 2, 2)
    assert mse(truth + 0.1, truth).item() == pytest.approx(0.01)
    assert psnr(torch.tensor(0.01)).item() == pytest.approx(20.0, abs=1e-4)
    assert (psnr(torch.tensor(0.01), 255.0) - psnr(torch.tensor(0.01))).item() == pytest.approx(48.13, abs=0.01)


def test_victims_are_the_papers_truck_and_deer_and_one_image_of_each_class():
    pool = load_pool("photos")
    assert Victims.of(pool).labels.tolist() == [0, 1] and not Victims.of(pool).exact
    assert len(Victims.of_each_class(pool, 4).x) == 4
    if not os.environ.get("RECON_DATA"):
        pytest.skip("needs CIFAR-10")
    pool = load_pool("cifar10")
    assert Victims.of(pool).labels.tolist() == [9, 4]
    each = Victims.of_each_class(pool)
    assert each.labels.tolist() == list(range(10))
    assert each.index == [29, 4, 6, 9, 3, 27, 0, 7, 8, 1]  # the first of each class in CIFAR-10's own order
