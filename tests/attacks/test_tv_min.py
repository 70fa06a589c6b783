"""The smoothest of all images with one gradient."""

from __future__ import annotations

import pytest
import torch
from small_networks import LOSSY, SMALL, normal, some_gradient

from recon.attacks import tv_min as module
from recon.attacks.gauss_newton import Solved, gauss_newton, row_space
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
    assert len(found.energy) > 1 and found.energy.max() < 1e-20 and found.x.abs().max() < 0.52
    assert roughness(system, found.x) < 0.95 * min(
        roughness(system, solved.x), roughness(system, x[0].flatten())
    )
    other = gauss_newton(system, 0.2 * x[0].flatten(), steps=100).x
    assert (other - solved.x).abs().max() > 0.01  # there are several to choose from
    again = tv_min(system, other)
    # whatever it starts from
    assert abs(roughness(system, again.x) / roughness(system, found.x) - 1) < 0.1


def unseen(basis, x):
    """The projection onto the kernel."""
    return x - basis @ (basis.mT @ x)


def test_no_step_along_the_kernel_makes_it_smoother():
    gradient, _ = some_gradient(LOSSY, 1)
    system = JointSystem.of(gradient)
    found = tv_min(system, gauss_newton(system, steps=100).x).x
    rows, generator = row_space(system.jacobian(found)), torch.Generator().manual_seed(0)
    for _ in range(20):
        step = unseen(rows, torch.randn(len(found), generator=generator, dtype=torch.float64))
        assert roughness(system, found + 0.1 * step / step.norm()) > roughness(system, found)
    leaf = found.clone().requires_grad_()
    total_variation(leaf.view(1, *LOSSY.shape)).backward()
    down = -unseen(rows, leaf.grad)
    for length in (0.01, 0.1, 0.5):
        lower = roughness(system, (found + length * down / down.norm()).clamp(-0.5, 0.5))
        assert lower > 0.99 * roughness(system, found)


def test_a_smoother_image_that_is_no_solution_is_refused(monkeypatch):
    gradient, x = some_gradient(LOSSY, 1)
    system, image = JointSystem.of(gradient), x[0].flatten()
    for energy, taken in ((0.9e-20, True), (1.1e-20, False)):
        left = torch.tensor([energy], dtype=torch.float64)
        monkeypatch.setattr(module, "gauss_newton", lambda _, x, left=left, **__: Solved(x, left))
        answer = tv_min(system, image, steps=20)
        assert (roughness(system, answer.x) < roughness(system, image)) == taken


def test_shorter_steps_go_the_same_way_until_one_is_a_solution(monkeypatch):
    gradient, x = some_gradient(LOSSY, 1)
    system, image, tried = JointSystem.of(gradient), x[0].flatten(), []

    def half_the_way(_, x, **__):
        tried.append(x - image)
        return Solved(x, torch.tensor([float(len(tried) == 1)]).double())

    monkeypatch.setattr(module, "gauss_newton", half_the_way)
    answer = tv_min(system, image, rounds=1, steps=20)
    whole, half = tried
    torch.testing.assert_close(half, whole / 2)
    assert torch.equal(answer.x, image + half)


@pytest.mark.parametrize(("shrink", "rounds"), [(0.998, 1), (0.9, 4)])
def test_it_stops_where_a_round_gains_less_than_a_hundredth(shrink, rounds, monkeypatch):
    gradient, x = some_gradient(LOSSY, 1)
    path = [shrink**k * x[0].flatten() for k in range(5)]
    ends = iter(Solved(at, torch.zeros(2).double()) for at in path[1:])
    monkeypatch.setattr(module, "gauss_newton", lambda *_, **__: next(ends))
    answer = tv_min(JointSystem.of(gradient), path[0], rounds=4, steps=1)
    assert torch.equal(answer.x, path[rounds]) and len(answer.energy) == 1 + rounds


def test_one_solution_is_the_smoothest():
    gradient, x = some_gradient(SMALL, 1)
    system = JointSystem.of(gradient)
    answer = tv_min(system, gauss_newton(system).x)
    assert torch.allclose(answer.x, x[0].flatten(), atol=1e-8)


@pytest.mark.parametrize(("rows", "columns"), [(5, 9), (9, 5)])
def test_a_row_space_and_its_kernel_make_up_all(rows, columns):
    jacobian = normal(rows, 3) @ normal(3, columns, seed=1)
    basis, x = row_space(jacobian), normal(columns, seed=2)
    torch.testing.assert_close(basis.mT @ basis, torch.eye(3, dtype=torch.float64))
    assert (jacobian @ unseen(basis, x)).abs().max() < 1e-10
