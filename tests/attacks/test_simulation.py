"""Simulated training: it is training; its derivative is right; two images come back; wrong labels are seen."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from recon.attacks.simulation import SimulationMatching, SimulationSettings, certificate, simulate
from recon.errors import ReconError
from recon.nets.residual import by_batch, residual_module
from recon.nets.small_convolutional import count, small_convolutional
from recon.training.simulated import Simulation

SHAPE = (3, 4, 4)
LABELS = torch.tensor([1, 0])
SETTINGS = SimulationSettings(steps=60, polish=200)


def seeded(k=0):
    return torch.Generator().manual_seed(k)


def images(n=2, k=1):
    return (torch.rand(n, *SHAPE, generator=seeded(k)) - 0.5).double()


def network(channels=6, pooled=False, activation="tanh"):
    return small_convolutional(channels, activation, pooled, SHAPE, seeded(), classes=3).double()


def simulation(module=None, steps=4):
    return Simulation.of(network() if module is None else module, LABELS, 0.3, steps)


def test_it_is_torchs_own_training():
    training, module, x = simulation(), network(), images()
    optimiser = torch.optim.SGD(module.parameters(), lr=0.3)
    for _ in range(4):
        optimiser.zero_grad()
        F.cross_entropy(module(x), LABELS).backward()
        optimiser.step()
    for name, value in training(x).items():
        torch.testing.assert_close(value, dict(module.named_parameters())[name].detach())


def test_its_derivative_by_the_images_is_that_of_central_differences():
    training, x = simulation(), images()
    direction = torch.randn(x.shape, generator=seeded(2), dtype=x.dtype)
    _, slope = torch.func.jvp(training.update, (x,), (direction,))
    numerical = (training.update(x + 1e-5 * direction) - training.update(x - 1e-5 * direction)) / 2e-5
    assert (slope - numerical).norm() < 1e-6 * numerical.norm()


def test_the_energy_is_least_at_the_images():
    training, x = simulation(), images()
    attack = SimulationMatching(training, training.update(x), SHAPE, SimulationSettings(tv=0.0))
    assert abs(attack.energy(x).item()) < 1e-12
    assert attack.energy(-x) > 0.1
    smooth = SimulationMatching(training, training.update(x), SHAPE, SimulationSettings(tv=1.0))
    variation = x.diff(dim=-1).abs().mean() + x.diff(dim=-2).abs().mean()
    assert smooth.energy(x).item() == pytest.approx(variation.item())


@pytest.mark.parametrize(
    "module", [None, by_batch(residual_module(8, "tanh", False, images(6, 5), seeded(), classes=3))]
)
def test_two_images_come_back_and_the_adversary_can_tell(module):
    training, x = simulation(module), images()
    found = simulate(training, training(x), SHAPE, SETTINGS, seeded(3))
    assert found.residual <= found.residual_matched
    left = (training.update(found.x_hat) - training.update(x)).norm() / training.update(x).norm()
    assert found.residual == pytest.approx(left.item(), rel=1e-6)
    if module is None:
        assert found.residual < 1e-3
        assert (found.x_hat - x).abs().max() < 0.02


def test_images_stay_within_what_pixels_can_be_and_steps_shrink():
    training, x = simulation(), images()
    settings = SimulationSettings(steps=12, step_size=0.2, tv=0.0)
    attack = SimulationMatching(training, training.update(x), SHAPE, settings)
    state, moved = attack.init(torch.zeros(1, 2, x[0].numel(), dtype=x.dtype)), []
    for _ in range(settings.steps):
        before, state = state["adam"]["x"], attack.step(state)
        moved.append((state["adam"]["x"] - before).abs().max().item())
        assert state["adam"]["x"].abs().max() <= 0.5
    assert moved[0] == pytest.approx(settings.step_size, rel=1e-4)  # Adam's first step
    assert moved[-1] < 0.05 * moved[0]


def test_the_certificate_is_computed_in_float64_of_weights_in_float32():
    training, x = simulation(), images()
    single = training.to(torch.float32)
    sure = certificate(single, {name: value.float() for name, value in training(x).items()}, x.float())
    assert sure.step.dtype == torch.float64 and sure.whole
    assert certificate(training, training(x), x).rank == sure.rank


def test_the_certificate_says_how_far_off_the_images_are():
    training, x = simulation(), images()
    near = x + 1e-4 * torch.randn(x.shape, generator=seeded(4), dtype=x.dtype)
    sure = certificate(training, training(x), near)
    assert sure.whole and sure.rank == sure.unknowns == x.numel() <= count(training.module)
    assert (near + sure.step - x).norm() < 0.01 * (near - x).norm()
    assert sure.error == pytest.approx((near - x).square().mean().sqrt().item(), rel=0.02)


def test_too_few_parameters_lack_rank_whatever_the_images():
    few = network(channels=1, pooled=True)
    assert count(few) < images().numel()
    training = simulation(few)
    sure = certificate(training, training(images()), images(k=6))
    assert sure.rank <= count(few) < sure.unknowns and not sure.whole


def test_wrong_labels_leave_more():
    training, x = simulation(), images()
    wrong = Simulation.of(network(), LABELS.flip(0) + 1, 0.3, 4)
    right, cheated = (simulate(each, training(x), SHAPE, SETTINGS, seeded(3)) for each in (training, wrong))
    assert cheated.residual > 10 * right.residual


def test_the_same_seed_gives_the_same_answer():
    training, x = simulation(), images()
    settings = SimulationSettings(steps=3, polish=2)
    first, again = (simulate(training, training(x), SHAPE, settings, seeded(3)).x_hat for _ in range(2))
    assert torch.equal(first, again)


def test_bad_input_is_one_sentence():
    with pytest.raises(ReconError, match="running means"):
        Simulation.of(residual_module(4, "relu", False, images(6, 5), seeded(), classes=3).train(), LABELS, 0.1, 2)
    with pytest.raises(ReconError, match="at least one step"):
        simulation(steps=0)
    with pytest.raises(ReconError, match="nothing|no training"):
        simulate(simulation(), simulation().theta_init, SHAPE, SETTINGS, seeded())
    with pytest.raises(ReconError, match="one start"):
        SimulationMatching(simulation(), torch.ones(3), SHAPE, SETTINGS).init(torch.zeros(2, 2, 48))
    with pytest.raises(ReconError, match="unknown activation"):
        small_convolutional(4, "gelu", False, SHAPE, seeded())


def test_norm_by_batch_couples_the_images_and_fixed_norm_does_not():
    x = images(4)
    fixed = residual_module(4, "relu", True, images(6, 5), seeded(), classes=3)
    alone = fixed(x[:1])
    assert torch.allclose(alone, fixed(x)[:1])
    coupled = by_batch(fixed)
    assert not torch.allclose(coupled(x[:2])[:1], coupled(x)[:1])
    assert not any(isinstance(each, nn.BatchNorm2d) and each.track_running_stats for each in coupled.modules())
