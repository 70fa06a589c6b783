"""The published recipe: its energy and gradients, its steps written out, what it notes on the way,
and resuming.
"""

from __future__ import annotations

import pytest
import torch

from companion.store.checkpoints import flatten_tree, unflatten_tree
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


def test_the_published_values():
    """Of Haim et al.'s CIFAR-10 run, as their public code gives them."""
    assert (module.STEP_X, module.MOMENTUM, module.STEPS) == (0.554917, 0.9, 50_000)
    assert (module.ALPHA, module.LAMBDA_MIN, module.STEP_MULTIPLIERS) == (19.14455, 0.498303, 1e-4)
    assert module.TUNED_SCALE == 8.857493e-4
    assert PublishedSettings(m=M).init_scale == 1.0


def test_the_trace_holds_energies_and_movement_at_the_marks(weights, start):
    x, multipliers = start
    attack = recipe_attack(weights, half_and_half(M, dtype=F64), multipliers, 20, 0.01)
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


def test_movement_is_relative_to_the_start():
    x_init = torch.tensor([[[3.0, 4.0], [1.0, 0.0]]])
    torch.testing.assert_close(
        displacement(x_init + torch.tensor([0.0, 5.0]), x_init), torch.tensor([1.0, 5.0])
    )


def test_starts_are_noise_of_the_scale_or_those_given(weights):
    settings = PublishedSettings(m=2000, steps=1, init_scale=0.3)
    # one step: the start is kept
    found = recover_as_published(weights, settings, torch.Generator().manual_seed(0))
    assert found.x_hat.shape == (1, 2000, D) and found.x_hat.std().item() == pytest.approx(
        0.3, rel=0.02
    )
    multipliers = found.accepted["multipliers"]
    assert (
        multipliers.min() >= 0
        and multipliers.max() < 1
        and multipliers.mean().item() == pytest.approx(0.5, abs=0.03)
    )
    given = 0.1 * torch.randn(M, D, generator=torch.Generator().manual_seed(3), dtype=F64)
    found = recover_as_published(weights, settings, torch.Generator().manual_seed(0), None, given)
    assert torch.equal(found.x_hat[0], given)


def test_an_interrupted_run_resumed_is_the_uninterrupted_one(weights, monkeypatch):
    class Memory:
        tree = None

        def load(self):
            return None if self.tree is None else unflatten_tree(self.tree)

        def save(self, tree):
            self.tree = {name: tensor.clone() for name, tensor in flatten_tree(tree).items()}

    class Killed(Exception):
        pass

    settings, memory, taken = PublishedSettings(m=M, steps=12, init_scale=0.3), Memory(), []
    whole = recover_as_published(weights, settings, torch.Generator().manual_seed(0))
    reconstruct, step = module.reconstruct, TracedRecipe.step
    monkeypatch.setattr(
        module, "reconstruct", lambda *a, **k: reconstruct(*a, **{**k, "every_s": -1.0})
    )

    def killed(self, state):
        if len(taken) == 5:
            raise Killed
        taken.append(1)
        return step(self, state)

    monkeypatch.setattr(TracedRecipe, "step", killed)
    with pytest.raises(Killed):
        recover_as_published(weights, settings, torch.Generator().manual_seed(0), memory)
    monkeypatch.setattr(TracedRecipe, "step", step)
    again = recover_as_published(weights, settings, torch.Generator().manual_seed(0), memory)
    assert torch.equal(again.x_hat, whole.x_hat) and torch.equal(again.history, whole.history)
    assert torch.equal(again.accepted["trace"], whole.accepted["trace"])


def test_the_precision_of_products_is_set_back():
    before = torch.get_float32_matmul_precision()
    with matmul_precision("bfloat16"):
        assert torch.get_float32_matmul_precision() == "medium"
    assert torch.get_float32_matmul_precision() == before
    with pytest.raises(ReconError, match="unknown precision"), matmul_precision("int8"):
        pass


def test_shapes_that_do_not_fit_are_refused(weights, start):
    x, multipliers = start
    run = TracedRecipe(recipe_attack(weights, half_and_half(M, dtype=F64), multipliers, 5))
    with pytest.raises(ReconError, match="one start"):
        run.init(x.repeat(2, 1, 1))
    with pytest.raises(ReconError, match="does not fit"):
        run.init(x[:, :2])


def test_the_energy_as_decoreco_is_the_recipes(weights):
    generator = torch.Generator().manual_seed(1)
    labels = half_and_half(M, dtype=F64)
    x = 1.2 * torch.randn(1, M, D, generator=generator, dtype=F64)
    unit = torch.rand(1, M, generator=generator, dtype=F64)
    assert (unit < 0.49).any() and (x.abs() > 1).any()
    attack = recipe_attack(weights, labels, unit, 5, 0.05)
    _, energy, _, grad = attack.value_and_grad(x, attack.multipliers_init)
    torch.testing.assert_close(energy[0], objective(weights, x, unit)[0])
    for k in range(M):  # the gradient in λ_i/m is m times that in λ_i
        change = 1e-6 * torch.eye(M, dtype=F64)[k]
        up, down = (objective(weights, x, unit + s * change)[0] for s in (1, -1))
        assert grad[0, k].item() == pytest.approx(M * (up - down).item() / 2e-6, rel=1e-5, abs=1e-6)


def test_two_steps_as_decoreco_are_momentum_in_x_and_in_the_multipliers(weights):
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


def test_marks_are_even_on_a_log_scale_and_late():
    assert marks(10, early=3, late=2) == (1, 3, 5, 10)


def test_steps_are_those_published_or_scaled_with_the_candidates(weights):
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            module, "recipe_attack", lambda *args: seen.append(args[4:]) or recipe_attack(*args)
        )
        for scaled in (False, True):
            settings = PublishedSettings(m=M, steps=2, init_scale=0.3, scaled=scaled)
            recover_as_published(weights, settings, torch.Generator().manual_seed(0))
    first = module.LAMBDA_MIN, module.ALPHA
    assert seen[0] == (module.STEP_X, module.STEP_MULTIPLIERS, *first)
    assert seen[1] == pytest.approx(
        (M / 1000 * module.STEP_X, M / 1000 * module.STEP_MULTIPLIERS, *first)
    )


def test_run_2_has_its_own_step_smoothing_and_least_multiplier(weights, start):
    x, multipliers = start
    settings = PublishedSettings(m=M, steps=2, run=2)
    generator = torch.Generator().manual_seed(0)
    unit = torch.rand(1, M, generator=generator).to(x)
    attack = recipe_attack(
        weights, half_and_half(M, dtype=F64), unit, 2, 0.346208, 1e-4, 0.493591, 21.67936
    )
    found = recover_as_published(weights, settings, torch.Generator().manual_seed(0), None, x[0])
    expected = module.reconstruct(attack, x, 2)
    assert torch.equal(found.x_hat, expected.x_hat) and not torch.equal(found.x_hat, x)
    assert module.RUNS[1] == (8.857493e-4, 0.554917, 0.498303, 19.14455)
    assert module.RUNS[2][0] == 4.473685e-3
    with pytest.raises(ReconError, match="has no run 3: choose one of 1, 2"):
        recover_as_published(weights, PublishedSettings(m=M, run=3), generator)
