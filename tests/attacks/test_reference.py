"""The reference recipe: its objective with coefficients λ_i/m and its steps, written out; which step size is taken."""

from __future__ import annotations

import pytest
import torch

from recon.attacks import reference as module
from recon.attacks.decoreco import half_and_half
from recon.attacks.reference import RecipeSettings, recipe_attack, recover_by_recipe
from recon.attacks.stationarity import stationarity
from recon.nets.mlp import three_layer
from recon.released import Weights

F64 = torch.float64
M, D = 4, 9


@pytest.fixture
def weights():
    network = three_layer(6, D)
    return Weights(network, network.flatten(network.init(torch.Generator().manual_seed(0), dtype=F64)))


def objective(weights, labels, x, multipliers):
    """Haim et al.: ‖θ − (1/m) Σ λ_i y_i ∇Φ_i‖² + Σ relu(|x| − 1)² + 5 Σ relu(λ_min − λ_i)²."""
    found = stationarity(weights, x, multipliers * labels / M, alpha=19.14455)
    outside = (x.abs() - 1).clamp_min(0).square().sum()
    return found.energy + outside + 5 * (0.498303 - multipliers).clamp_min(0).square().sum()


def test_the_energy_is_the_recipes(weights):
    generator = torch.Generator().manual_seed(1)
    labels = half_and_half(M, dtype=F64)
    x = 1.2 * torch.randn(1, M, D, generator=generator, dtype=F64)
    unit = torch.rand(1, M, generator=generator, dtype=F64)
    assert (unit < 0.49).any() and (x.abs() > 1).any()
    attack = recipe_attack(weights, labels, unit, 5, 0.05)
    _, energy, _, grad = attack.value_and_grad(x, attack.multipliers_init)
    torch.testing.assert_close(energy[0], objective(weights, labels, x[0], unit[0]))
    for k in range(M):  # the gradient in λ_i/m is m times that in λ_i
        change = 1e-6 * torch.eye(M, dtype=F64)[k]
        up, down = (objective(weights, labels, x[0], unit[0] + s * change) for s in (1, -1))
        assert grad[0, k].item() == pytest.approx(M * (up - down).item() / 2e-6, rel=1e-5, abs=1e-6)


def test_two_steps_are_momentum_in_x_and_in_the_multipliers(weights):
    generator = torch.Generator().manual_seed(1)
    labels = half_and_half(M, dtype=F64)
    start = 0.3 * torch.randn(1, M, D, generator=generator, dtype=F64)
    unit = torch.rand(1, M, generator=generator, dtype=F64)
    attack = recipe_attack(weights, labels, unit, 50, 0.05)
    state = attack.init(start)
    x, multipliers = start.clone(), unit.clone()  # λ itself, as the recipe has it
    velocity_x, velocity = torch.zeros_like(x), torch.zeros_like(unit)
    for _ in range(2):
        _, _, grad_x, grad = attack.value_and_grad(x, multipliers / M)
        velocity_x, velocity = 0.9 * velocity_x + grad_x, 0.9 * velocity + grad / M
        x, multipliers = x - 0.05 * velocity_x, multipliers - 1e-4 * velocity
        state = attack.step(state)
    torch.testing.assert_close(state["x"]["x"], x)
    torch.testing.assert_close(state["multipliers"]["x"], multipliers / M)


def test_the_step_size_with_the_lowest_energy_after_the_trial_is_taken(weights, monkeypatch):
    settings = RecipeSettings(m=M, steps=12, init_scale=0.3, trial_steps=3)
    monkeypatch.setattr(module, "STEP_SIZES", (50.0, 0.05, 1e-9))
    found, step = recover_by_recipe(weights, settings, torch.Generator().manual_seed(0))
    assert step == 0.05 and found.steps == 12 and found.x_hat.shape == (1, M, D)
    again, _ = recover_by_recipe(weights, settings, torch.Generator().manual_seed(0))
    assert torch.equal(again.x_hat, found.x_hat)


def test_starts_are_noise_of_the_scale_or_those_given(weights):
    settings = RecipeSettings(m=2000, steps=1, init_scale=0.3, trial_steps=1)
    found, _ = recover_by_recipe(weights, settings, torch.Generator().manual_seed(0))  # one step: the start is kept
    assert found.x_hat.std().item() == pytest.approx(0.3, rel=0.02)
    multipliers = 2000 * found.accepted["multipliers"]
    assert (
        multipliers.min() >= 0 and multipliers.max() < 1 and multipliers.mean().item() == pytest.approx(0.5, abs=0.03)
    )
    given = 0.1 * torch.randn(M, D, generator=torch.Generator().manual_seed(3), dtype=F64)
    settings = RecipeSettings(m=M, steps=1, init_scale=0.3, trial_steps=1)
    found, _ = recover_by_recipe(weights, settings, torch.Generator().manual_seed(0), None, given)
    assert torch.equal(found.x_hat[0], given)


def test_the_published_values():
    """Of Haim et al.'s CIFAR-10 run, as their public code gives them; the step sizes are this package's choice."""
    assert (module.ALPHA, module.LAMBDA_MIN, module.STEP_MULTIPLIERS) == (19.14455, 0.498303, 1e-4)
    assert module.TUNED_SCALE == 8.857493e-4
    assert module.STEP_SIZES == (0.5, 0.05, 0.005, 0.0005)
    assert RecipeSettings(m=M, steps=3, init_scale=0.1).trial_steps == 50


@pytest.mark.parametrize("best", range(4))
def test_every_step_size_is_tried_for_as_long_as_the_trial(weights, monkeypatch, best):
    """The trials and the run itself, from one start, with what stands for their energies."""
    runs = []

    def run(attack, start, steps, **_):
        runs.append((attack.optimiser_x, attack.optimiser_multipliers, steps, start))
        energy = torch.tensor([abs(module.STEP_SIZES.index(attack.optimiser_x.step_size) - best) + 1.0])
        return module.Reconstruction(start, energy, energy[None], steps, energy == 0)

    monkeypatch.setattr(module, "reconstruct", run)
    settings = RecipeSettings(m=M, steps=12, init_scale=0.3, trial_steps=3)
    _, step = recover_by_recipe(weights, settings, torch.Generator().manual_seed(0))
    assert step == module.STEP_SIZES[best]
    tried = [*module.STEP_SIZES, step]
    assert [(x, steps) for x, _, steps, _ in runs] == [
        (module.SGD(size, 0.9), 12 if k == 4 else 3) for k, size in enumerate(tried)
    ]
    assert all(multipliers == module.SGD(1e-4 / M**2, 0.9) for _, multipliers, _, _ in runs)
    assert all(torch.equal(start, runs[0][3]) for *_, start in runs)
