"""The smoothest of all images with one gradient."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from small_networks import LOSSY, SMALL, some_gradient

from recon.attacks import tv_min as module
from recon.attacks.gauss_newton import RowSpace, Solved, gauss_newton
from recon.attacks.gradient_matching import total_variation
from recon.attacks.gradient_system import JointSystem, relative_residual
from recon.attacks.tv_min import tv_min
from recon.nets.conv import Conv, ConvNet

DEEP = ConvNet((Conv(3, 2), Conv(3, 3, 2)), shape=(2, 9, 9), classes=4)


def roughness(system, x):
    return total_variation(x.view(1, *system.network.shape)).item()


@pytest.mark.parametrize("network", [LOSSY, DEEP], ids=["one layer", "two layers"])
def test_it_has_the_gradient_and_less_variation_than_other_solutions(network):
    gradient, x = some_gradient(network, 1)
    system = JointSystem.of(gradient)
    solved = gauss_newton(system, steps=100)
    found = tv_min(system, solved.x)
    assert relative_residual(gradient, found.x) < 1e-9
    assert len(found.energy) > 1 and found.energy.max() < 1e-20
    assert roughness(system, found.x) < 0.95 * min(
        roughness(system, solved.x), roughness(system, x[0].flatten())
    )
    other = gauss_newton(system, 0.2 * x[0].flatten(), steps=100).x
    assert (other - solved.x).abs().max() > 0.01  # there are several to choose from
    again = tv_min(system, other)
    # whatever it starts from
    assert abs(roughness(system, again.x) / roughness(system, found.x) - 1) < 0.1


def test_no_step_along_the_kernel_makes_it_smoother():
    gradient, _ = some_gradient(LOSSY, 1)
    system = JointSystem.of(gradient)
    found = tv_min(system, gauss_newton(system, steps=100).x).x
    rows, generator = RowSpace.of(system.jacobian(found)), torch.Generator().manual_seed(0)
    for _ in range(20):
        step = rows.unseen(torch.randn(len(found), generator=generator, dtype=torch.float64))
        assert roughness(system, found + 0.1 * step / step.norm()) > roughness(system, found)
    leaf = found.clone().requires_grad_()
    total_variation(leaf.view(1, *LOSSY.shape)).backward()
    down = -rows.unseen(leaf.grad)
    for length in (0.01, 0.1, 0.5):
        lower = roughness(system, (found + length * down / down.norm()).clamp(-0.5, 0.5))
        assert lower > 0.99 * roughness(system, found)


def test_moves_of_one_layer_never_leave_the_solutions(monkeypatch):
    """Its kernel is the same everywhere, so that Gauss–Newton has nothing to mend."""
    gradient, _ = some_gradient(LOSSY, 1)
    system = JointSystem.of(gradient)
    solved, mended = gauss_newton(system, steps=100), []

    def spied(*args, **settings):
        mended.append(gauss_newton(*args, **settings))
        return mended[-1]

    monkeypatch.setattr("recon.attacks.tv_min.gauss_newton", spied)
    tv_min(system, solved.x)
    assert len(mended) == 1 and mended[0].energy[0] < 1e-20


def test_pixels_stay_in_range():
    gradient, _ = some_gradient(LOSSY, 1)
    system = JointSystem.of(gradient)
    found = tv_min(system, gauss_newton(system, steps=100).x).x
    assert found.abs().max() < 0.52


def test_it_goes_on_while_a_round_lowers_the_variation_by_a_hundredth(monkeypatch):
    """And stops after the first that does not, long before the rounds it may take."""
    gradient, _ = some_gradient(DEEP, 1)
    system, starts, along_kernel = JointSystem.of(gradient), [], module._along_kernel
    monkeypatch.setattr(
        module, "_along_kernel", lambda s, x, steps: starts.append(x) or along_kernel(s, x, steps)
    )
    found = tv_min(system, gauss_newton(system, steps=100).x, rounds=10, steps=50)
    rough = [float(module._roughness(system, x)) for x in (*starts, found.x)]
    falls = [1 - after / before for before, after in pairwise(rough)]
    assert 1 < len(falls) < 10 and min(falls[:-1]) >= 0.01 > falls[-1]


@pytest.mark.parametrize(
    ("off", "share"), [(0.0, 1.0), (0.01, 0.999)], ids=["a solution", "nearly one"]
)
def test_a_smoother_image_is_refused_where_its_energy_is_above_the_bound(off, share, monkeypatch):
    """Ten times the start's energy, or 1e-20 if that is more; 1e-20 itself will do."""
    gradient, x = some_gradient(LOSSY, 1)
    system, start = JointSystem.of(gradient), x[0].flatten() + off
    bound = max(1e-20, 10 * float((system(start) - system.target).square().sum()))
    assert (bound > 1e-20) == (off > 0)
    for energy, taken in ((share * bound, True), (1.001 * bound, False)):
        left = torch.tensor([energy], dtype=torch.float64)
        monkeypatch.setattr(
            module, "gauss_newton", lambda _, x, left=left, **settings: Solved(x, left)
        )
        found = tv_min(system, start, steps=20)
        assert (
            (roughness(system, found.x) < roughness(system, start))
            == taken
            == (len(found.energy) == 2)
        )


def test_rounding_the_absolute_values_adds_at_most_a_thousandth_each_way():
    """To the mean horizontal difference and to the mean vertical one; all of it in a grey image."""
    gradient, x = some_gradient(LOSSY, 1)
    system, image = JointSystem.of(gradient), x[0].flatten()
    assert 0 < float(module._roughness(system, image)) - roughness(system, image) < 0.002
    assert float(module._roughness(system, 0 * image)) == pytest.approx(0.002)


def test_one_solution_is_the_smoothest():
    gradient, x = some_gradient(SMALL, 1)
    system = JointSystem.of(gradient)
    solved = gauss_newton(system)
    found = tv_min(system, solved.x)
    assert torch.allclose(found.x, x[0].flatten(), atol=1e-8)
    assert torch.allclose(found.x, solved.x, atol=1e-8)


def test_a_row_space_and_its_kernel_make_up_all():
    generator = torch.Generator().manual_seed(0)
    for rows, columns in ((5, 9), (9, 5)):
        jacobian = torch.randn(rows, 3, generator=generator, dtype=torch.float64) @ torch.randn(
            3, columns, generator=generator, dtype=torch.float64
        )
        found = RowSpace.of(jacobian)
        assert found.basis.shape == (columns, 3)
        torch.testing.assert_close(found.basis.mT @ found.basis, torch.eye(3, dtype=torch.float64))
        x = torch.randn(columns, generator=generator, dtype=torch.float64)
        unseen = found.unseen(x)
        assert (jacobian @ unseen).abs().max() < 1e-10
        torch.testing.assert_close(jacobian @ (x - unseen), jacobian @ x)
