"""Near-copies and the two-sample test: seen where planted, silent where there are none."""

from __future__ import annotations

import pytest
import torch

from recon_audit.scoring import compare_sets, features, near_copies, two_sample


@pytest.fixture
def images():
    return torch.rand(60, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def test_copies_are_found_up_to_brightness_and_noise(images):
    held_out = images[30:].clone()
    noise = torch.randn(3, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    held_out[4:7] = 0.5 * images[10:13] + 0.2 + 0.005 * noise
    assert [(row, index) for row, index, _ in near_copies(images[:30], held_out)] == [
        (4, 10),
        (5, 11),
        (6, 12),
    ]
    found = compare_sets(images[:30], held_out, 0)
    assert found.why_not is None and len(found.distinct) == 27 and 4 not in found.distinct
    held_out[:10] = images[:10]
    assert (
        "10 of 30 held-out images are near-copies" in compare_sets(images[:30], held_out, 0).why_not
    )


def test_the_two_sample_test_keeps_its_level():
    generator = torch.Generator().manual_seed(2)
    p = [
        two_sample(*torch.rand(2, 20, 1, 6, 6, generator=generator), seed, 99)
        for seed in range(200)
    ]
    assert sum(value < 0.1 for value in p) < 36 and min(p) >= 0.01


CHANGES = {
    "brightness": lambda x: 0.9 * x + 0.1,
    "blur": lambda x: torch.nn.functional.avg_pool2d(x, 3, 1, 1),
    "colour": lambda x: x * torch.tensor([1, 1, 0.8]).view(3, 1, 1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_other_brightness_texture_and_colour_are_told(images, change):
    found = compare_sets(images[:30], change(images[30:]), 0)
    assert 0.001 <= found.p < 0.01 and "two-sample test" in found.why_not


def test_features_of_constant_and_tiny_images_are_finite():
    assert torch.isfinite(features(torch.ones(5, 1, 1, 1))).all()
    assert two_sample(torch.ones(6, 1, 2, 2), torch.ones(6, 1, 2, 2), 0, 19) > 0.5
