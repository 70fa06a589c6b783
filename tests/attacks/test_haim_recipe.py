"""The published recipe: its energy and gradients, its steps written out, what it notes on the way,
and resuming.
"""

from __future__ import annotations

import pytest
import torch
from interruptions import killed_after

from companion.store.checkpoints import Checkpoints
from recon.attacks import haim_recipe as module
from recon.attacks.decoreco import half_and_half
from recon.attacks.haim_recipe import (
    PublishedSettings,
    TracedRecipe,
    displacement,
    marks,
    matmul_precision,
    recipe_attack,
    recover_as_published,
)
from recon.attacks.stationarity import stationarity
from recon.errors import ReconError
from recon.nets.mlp import MLP
from recon.released import Weights

F64 = torch.float64
M, D = 4, 9


@pytest.fixture
def weights():
    network = MLP((D, 6, 6, 1))  # biases in all layers
    return Weights(
        network, network.flatten(network.init(torch.Generator().manual_seed(0), dtype=F64))
    )


@pytest.fixture
def start():
    generator = torch.Generator().manual_seed(1)
    return 1.2 * torch.randn(1, M, D, generator=generator, dtype=F64), torch.rand(
        1, M, generator=generator, dtype=F64
    )


def objective(weights, x, multipliers):
    """‖θ − (1/m) Σ λ_i y_i ∇Φ_i‖² + Σ relu(|x| − 1)² + 5 Σ relu(λ_min − λ_i)²."""
    labels = half_and_half(M, dtype=F64)
    found = stationarity(weights, x, multipliers * labels / M, alpha=19.14455)
    outside = (x.abs() - 1).clamp_min(0).square().sum((-2, -1))
    return found.energy + outside + 5 * (0.498303 - multipliers).clamp_min(0).square().sum(-1)


def test_the_trace_holds_energies_and_movement_at_the_marks(weights, start):
    x, multipliers = start
    attack = recipe_attack(weights, multipliers, 20, 0.01)
    run = TracedRecipe(attack)
    state, seen = run.init(x), {}
    for k in range(1, 21):
        at = state["x"]["x"]
        by_layer, energy, *_ = attack.value_and_grad(at, state["multipliers"]["x"])
        seen[k] = torch.cat([by_layer[0], energy, displacement(at, x).mean()[None]])
        state = run.step(state)
    at = marks(20)
    assert at[0] == 1 and at[-1] == 20
    torch.testing.assert_close(state["accepted"]["trace"], torch.stack([seen[k] for k in at]))


def test_the_energy_as_decoreco_is_the_recipes(weights):
    generator = torch.Generator().manual_seed(1)
    x = 1.2 * torch.randn(1, M, D, generator=generator, dtype=F64)
    unit = torch.rand(1, M, generator=generator, dtype=F64)
    assert (unit < 0.49).any() and (x.abs() > 1).any()
    attack = recipe_attack(weights, unit, 5, 0.05)
    _, energy, _, grad = attack.value_and_grad(x, attack.multipliers_init)
    torch.testing.assert_close(energy[0], objective(weights, x, unit)[0])
    for k in range(M):  # the gradient in λ_i/m is m times that in λ_i
        change = 1e-6 * torch.eye(M, dtype=F64)[k]
        up, down = (objective(weights, x, unit + s * change)[0] for s in (1, -1))
        assert grad[0, k].item() == pytest.approx(M * (up - down).item() / 2e-6, rel=1e-5, abs=1e-6)


def test_two_steps_as_decoreco_are_momentum_in_x_and_in_the_multipliers(weights):
    generator = torch.Generator().manual_seed(1)
    start = 0.3 * torch.randn(1, M, D, generator=generator, dtype=F64)
    unit = torch.rand(1, M, generator=generator, dtype=F64)
    attack = recipe_attack(weights, unit, 50, 0.05)
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


def test_starts_are_noise_of_the_scale_or_those_given(weights, start):
    settings = PublishedSettings(m=2000, steps=1, init_scale=0.3)
    # one step: the start is kept
    noise = recover_as_published(weights, settings, torch.Generator().manual_seed(0))
    assert noise.x_hat.std().item() == pytest.approx(0.3, rel=0.02)
    multipliers = noise.accepted["multipliers"]
    assert multipliers.min() >= 0 and multipliers.max() < 1
    assert multipliers.mean().item() == pytest.approx(0.5, abs=0.03)
    x = start[0]
    same = recover_as_published(weights, settings, torch.Generator().manual_seed(0), None, x[0])
    assert torch.equal(same.x_hat, x)
    assert PublishedSettings(m=M).init_scale == pytest.approx(8.857493e-4)  # not Fig. 5's 1.0


@pytest.mark.parametrize(
    ("run", "published"),
    [(1, (0.554917, 1e-4, 0.498303, 19.14455)), (2, (0.346208, 1e-4, 0.493591, 21.67936))],
)
@pytest.mark.parametrize("scaled", [False, True])
def test_steps_are_those_published_or_scaled_with_the_candidates(
    weights, monkeypatch, run, published, scaled
):
    """Of Haim et al.'s two CIFAR-10 runs, as their public code gives them."""
    made = []

    def note(*arguments):
        made.append(arguments[2:])
        return recipe_attack(*arguments)

    monkeypatch.setattr(module, "recipe_attack", note)
    settings = PublishedSettings(m=M, steps=2, scaled=scaled, run=run)
    recover_as_published(weights, settings, torch.Generator().manual_seed(0))
    factor = M / 1000 if scaled else 1
    step_x, step_multipliers, *smooth = published
    expected = (2, factor * step_x, factor * step_multipliers, *smooth)
    assert made[0] == pytest.approx(expected)
    assert [values[0] for values in module.RUNS.values()] == [8.857493e-4, 4.473685e-3]
    with pytest.raises(ReconError, match="no published run 3: choose one of 1, 2"):
        recover_as_published(weights, PublishedSettings(m=M, run=3), torch.Generator())


def test_an_interrupted_run_resumed_is_the_uninterrupted_one(weights, tmp_path):
    settings = PublishedSettings(m=M, steps=12, init_scale=0.3)

    def run(checkpoint=None):
        return recover_as_published(weights, settings, torch.Generator().manual_seed(0), checkpoint)

    whole, checkpoint = run(), Checkpoints(tmp_path).at("recipe")
    with killed_after(5):
        run(checkpoint)
    again = run(checkpoint)
    assert torch.equal(again.x_hat, whole.x_hat) and torch.equal(again.history, whole.history)
    assert torch.equal(again.accepted["trace"], whole.accepted["trace"])


def test_the_precision_of_products_is_set_back():
    before = torch.get_float32_matmul_precision()
    with matmul_precision("bfloat16"):
        assert torch.get_float32_matmul_precision() == "medium"
    assert torch.get_float32_matmul_precision() == before
    with pytest.raises(ReconError, match="unknown precision"), matmul_precision("int8"):
        pass
