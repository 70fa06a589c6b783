"""Where descents end, curves on the solution set, and descent from given images."""

from __future__ import annotations

import pytest
import torch

from recon.analysis.basins import crossing, different_starts, random_pairs, set_distances
from recon.analysis.connection import connection
from recon.analysis.landscape import StationarityAttack, bilevel_energy, segment, sweep_bilevel
from recon.analysis.pixel_descent import descend_in_pixels
from recon.attacks.decoreco import half_and_half
from recon.attacks.reconstruct import reconstruct
from recon.nets.mlp import affine, three_layer
from recon.optim.descent import HeavyBall
from recon.released import Weights
from recon.scoring.metrics import ssim
from recon.training.inner import Objective, solve_affine


def test_crossing_and_pairs():
    grid = (0.0, 0.5, 1.0)
    assert crossing(grid, torch.tensor([4.0, 1.0, 0.0]), torch.tensor([0.0, 3.0, 4.0])) == pytest.approx(1 / 3)
    assert crossing(grid, torch.tensor([1.0, 1.0, 1.0]), torch.tensor([2.0, 2.0, 2.0])) is None
    assert crossing(grid, torch.tensor([2.0, 2.0, 2.0]), torch.tensor([1.0, 1.0, 1.0])) is None
    assert different_starts(grid) == [0, 1, 2, 4, 5, 7, 8]
    pairs = random_pairs(5, 4, torch.Generator().manual_seed(0))
    assert len(set(pairs)) == 4 and all(i < j < 5 for i, j in pairs)
    assert len(random_pairs(3, 10, torch.Generator())) == 3


def test_set_distances_by_a_loop():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(2, 3, 3072, generator=generator)
    sets = {"truth": torch.rand(4, 3072, generator=generator), "random": torch.rand(2, 3072, generator=generator)}
    found = set_distances(x, sets)
    for name, members in sets.items():
        for start in range(2):
            alike = [members[ssim(image[None], members)[0].argmax()] for image in x[start]]
            by_ssim = torch.stack([(image - other).norm() for image, other in zip(x[start], alike, strict=True)])
            by_l2 = torch.stack([(image - members).norm(dim=1).min() for image in x[start]])
            torch.testing.assert_close(found[name][start], by_ssim.mean())
            torch.testing.assert_close(found[f"{name}_l2"][start], by_l2.mean())


def test_connection_of_two_solutions():
    """The straight segment leaves the solution set; its projection does not, and keeps both ends."""
    generator = torch.Generator().manual_seed(0)
    truth, start = torch.rand(2, 6, 40, generator=generator, dtype=torch.float64)
    y = torch.tensor([0.0, 0, 0, 1, 1, 1], dtype=torch.float64)
    theta = solve_affine(Objective(affine(40), y, 1e-2), truth[None]).theta[0]
    released = Weights(affine(40), theta, y=y, weight_decay=1e-2)
    end = sweep_bilevel(released, start[None], 5000, HeavyBall(0.3, 0.9, tol=1e-12)).x_hat[0]
    found = connection(released, truth, end, 11)
    torch.testing.assert_close(found.straight, bilevel_energy(released, segment(truth, end, 11)))
    assert found.straight[5] > 1e-4 and found.straight[[0, -1]].max() < 1e-9
    assert found.curve.max() < 1e-15 and found.curve.shape == (11,)
    assert 0 < found.bend < (end - truth).norm(dim=1).mean() and 0.5 < found.jump < 2


def test_descent_in_the_span_of_weights_and_starts_is_the_one_in_all_pixels():
    network = three_layer(5, 30)
    generator = torch.Generator().manual_seed(1)
    theta = network.flatten(network.init(generator, dtype=torch.float64))
    x = torch.randn(2, 4, 30, generator=generator, dtype=torch.float64)
    descent = HeavyBall(0.01, 0.9)
    attack = StationarityAttack(network, theta, half_and_half(4, dtype=torch.float64), descent)
    plain = reconstruct(attack, x, 25).x_hat
    assert (plain - x).abs().max() > 1e-3  # it moved
    found = descend_in_pixels(Weights(network, theta), x, list(x), 25, descent)
    torch.testing.assert_close(found, plain, atol=1e-8, rtol=0)
