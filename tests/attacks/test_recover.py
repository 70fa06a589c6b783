"""Restarts in batches, checkpoints, θ* and nothing else of the weights, and the adversary's
evidence by hand.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from interruptions import killed_after
from small_networks import seeded

from companion.store.checkpoints import Checkpoints
from recon.attacks import recover as module
from recon.attacks.decoreco import half_and_half, image_span
from recon.attacks.reconstruct import reconstruct
from recon.attacks.recover import (
    RecoverSettings,
    agreement,
    contribution,
    merge,
    random_start,
    recover,
    select,
    tuned_attack,
)
from recon.attacks.stationarity import stationarity
from recon.nets.mlp import three_layer
from recon.released import Weights
from recon.training.kkt import KKTSettings, train_to_kkt

SETTINGS = RecoverSettings(m=4, restarts=5, steps=25, scale_steps=4, multiplier_scales=(1e-2, 1e-1))


@pytest.fixture(scope="module")
def weights():
    generator = torch.Generator().manual_seed(2)
    network = three_layer(20, 15)
    x, y = torch.randn(3, 15, generator=generator), torch.tensor([0.0, 1.0, 1.0])
    theta = network.flatten(network.init(generator, "small"))
    return Weights(
        network, train_to_kkt(network, x, y, theta, KKTSettings(100, -100.0)).theta_star.double()
    )


def test_every_restart_begins_at_a_given_start(weights):
    start = 0.1 * torch.randn(4, 15, generator=seeded(), dtype=torch.float64)
    found = recover(
        weights, RecoverSettings(m=4, restarts=3, steps=1, project=False), seeded(), None, start
    )
    # the first energy is the start's, of every restart
    torch.testing.assert_close(found.x_hat, start[found.row])


def test_resumed_restarts_give_the_uninterrupted_answer(weights, tmp_path):
    whole = recover(weights, SETTINGS, seeded())
    with killed_after(40):
        recover(weights, SETTINGS, seeded(), Checkpoints(tmp_path))
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "restarts-0-1.safetensors",
        "restarts-2-3.safetensors",
    ]
    resumed = recover(weights, SETTINGS, seeded(), Checkpoints(tmp_path))
    assert torch.equal(resumed.x_hat, whole.x_hat) and torch.equal(resumed.history, whole.history)


# ----------------------------------------------------------- pooling, against loops over candidates


def pooled(restarts=4, own=5, dim=12, seed=7):
    """x (P, d), contributions, labels, restart: noisy copies of a few patterns, of either label,
    and one constant.
    """
    generator = torch.Generator().manual_seed(seed)
    patterns = torch.randn(3, dim, generator=generator, dtype=torch.float64)
    kind = torch.randint(3, (restarts * own,), generator=generator)
    noise = torch.randn(restarts * own, dim, generator=generator, dtype=torch.float64)
    x = patterns[kind] + torch.linspace(0.1, 1.0, len(kind), dtype=torch.float64)[:, None] * noise
    x[3] = 0.25  # correlates with nothing
    labels = torch.where(torch.rand(len(kind), generator=generator) < 0.5, -1.0, 1.0).double()
    share = torch.rand(len(kind), generator=generator, dtype=torch.float64) + 0.1
    return x, share, labels, torch.arange(restarts).repeat_interleave(own)


def correlations(x):
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.nan_to_num(np.corrcoef(x.numpy()))


@pytest.mark.parametrize("restarts", [1, 2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_agreement_is_the_mean_best_correlation_with_the_other_restarts(restarts, seed):
    x, _, labels, restart = pooled(restarts, seed=seed)
    c, found = correlations(x), agreement(x, labels, restart)
    for i in range(len(x)):
        total = 0.0
        for r in range(restarts):
            same = [c[i, j] for j in range(len(x)) if restart[j] == r and labels[j] == labels[i]]
            total += 0.0 if r == restart[i] else max([0.0, *same])
        assert found[i].item() == pytest.approx(total / max(restarts - 1, 1), abs=1e-12)
    assert found[3] == 0 and ((found > 0.3).any() if restarts > 1 else not found.any())


@pytest.mark.parametrize("distinct", [0.0, 0.6, 1.1])
@pytest.mark.parametrize("m", [1, 3, 9, 20])
def test_selection_is_greedy_and_filled_up(m, distinct):
    """The best first, then the best that is unlike all before it; the best of the rest where there
    are too few.
    """
    x, share, _, _ = pooled()
    c, left, chosen = correlations(x), sorted(range(len(x)), key=lambda i: -share[i]), []
    while left and len(chosen) < m:
        i = left.pop(0)
        if all(c[i, j] <= distinct for j in chosen):
            chosen.append(i)
    rest = sorted((i for i in range(len(x)) if i not in chosen), key=lambda i: -share[i])
    chosen += rest[: m - len(chosen)]
    found = select(x, share, m, distinct).tolist()
    assert found == sorted(chosen, key=lambda i: -share[i]) and len(found) == m


@pytest.mark.parametrize("alike", [-0.5, 0.3, 0.6, 0.95, 1.1])
@pytest.mark.parametrize("seed", range(3))
def test_merging_is_a_mean_weighted_by_contributions(alike, seed):
    x, share, labels, restart = pooled(seed=seed)
    rows, c = torch.tensor([0, 4, 19, 8, 11]), correlations(x)
    found, partners = merge(x, share, labels, restart, rows, alike), 0
    for k, i in enumerate(rows.tolist()):
        parts = [i]
        for r in range(4):
            same = [j for j in range(len(x)) if restart[j] == r and labels[j] == labels[i]]
            best = max(same, key=lambda j: c[i, j], default=None)
            if r != restart[i] and best is not None and c[i, best] > alike:
                parts.append(best)
        expected = sum(share[j] * x[j] for j in parts) / sum(share[j] for j in parts)
        torch.testing.assert_close(found[k], expected, rtol=1e-12, atol=1e-12)
        partners += len(parts) - 1
    assert (partners == 0) if alike > 1 else (partners > 0 or alike > 0.9)


@pytest.mark.parametrize("layer_weights", [(1.0, 0.0, 0.0), (1.0, 0.3, 2.0), None])
def test_a_contribution_is_the_norm_of_a_gradient(weights, layer_weights):
    """λ_i ‖∇_θ Φ(x_i)‖ over the layers that count, the derivative of ReLU being a step that alpha
    makes steep.
    """
    settings = RecoverSettings(m=4, alpha=1e9)
    multipliers = torch.tensor([[0.5, 1.0, 0.1, 3.0]], dtype=torch.float64)
    attack = replace(tuned_attack(weights, multipliers, 5, settings), layer_weights=layer_weights)
    x = torch.randn(4, 15, generator=seeded(), dtype=torch.float64)
    found = contribution(attack, x, multipliers[0])
    for i in range(4):
        params = {name: value.clone().requires_grad_() for name, value in weights.params.items()}
        grads = dict(
            zip(
                params,
                torch.autograd.grad(weights.network(params, x[i : i + 1])[0], params.values()),
                strict=True,
            )
        )
        square = sum(
            (layer_weights or (1, 1, 1))[int(name[1:]) - 1] * g.square().sum().item()
            for name, g in grads.items()
        )
        assert found[i].item() == pytest.approx(
            multipliers[0, i].item() * math.sqrt(square), rel=1e-9
        )


def test_settings_of_the_book():
    """What the stored results were computed with."""
    assert vars(RecoverSettings(m=6)) == {
        "m": 6,
        "restarts": 8,
        "steps": 1000,
        "init_scale": 0.01,
        "multiplier_scales": (0.001, 0.003, 0.01, 0.03),
        "scale_steps": 200,
        "step_x": 0.02,
        "step_multipliers": 0.01,
        "alpha": 100.0,
        "layer_weights": (1.0, 0.0, 0.0),
        "distinct": 0.6,
        "alike": 0.8,
        "project": True,
    }
    assert module.AT_ONCE_ON_CPU == 2


def test_the_settings_reach_the_attack_and_its_start(weights):
    settings = RecoverSettings(
        m=2000, init_scale=0.3, step_x=0.3, step_multipliers=0.7, alpha=5.0, layer_weights=(1, 2, 3)
    )
    x, unit = random_start(settings, 15, weights.theta_star, 4)
    assert x.shape == (1, 2000, 15) and x.std().item() == pytest.approx(0.3, rel=0.02)
    assert unit.shape == (1, 2000) and unit.mean().item() == pytest.approx(0.5, abs=0.03)
    assert unit.min().item() == pytest.approx(0.01) and unit.max() < 1
    attack = tuned_attack(weights, unit, 9, settings)
    assert attack.optimiser_x == module.Adam(0.3)
    assert attack.optimiser_multipliers == module.Adam(0.7)
    assert (attack.alpha, attack.layer_weights, attack.steps) == (5.0, (1, 2, 3), 9)


@pytest.mark.parametrize("project", [True, False])
def test_restarts_are_runs_of_their_own_by_their_seeds(weights, project, monkeypatch):
    """Against one call of `reconstruct` for each restart, and whatever the number in a batch."""
    settings = replace(SETTINGS, project=project)
    answer = recover(weights, settings, seeded())
    labels = half_and_half(4, dtype=torch.float64)
    space = image_span(weights)
    seeds = torch.randint(2**31, (6,), generator=seeded()).tolist()

    def run(seed, scale, steps):
        start, unit = random_start(settings, 15, weights.theta_star, seed)
        attack = tuned_attack(weights, unit * scale, steps, settings)
        if project:
            attack, start = attack.restricted(space), space.reduce(start)
        return reconstruct(attack, start, steps)

    ends = {scale: run(seeds[5], scale, 4).energy.item() for scale in settings.multiplier_scales}
    assert answer.multiplier_scale == min(ends, key=ends.get)
    for restart in range(5):
        expected = run(seeds[restart], answer.multiplier_scale, 25)
        torch.testing.assert_close(answer.history[:, restart], expected.history[:, 0])
        images = space.lift(expected.x_hat[0]) if project else expected.x_hat[0]
        multipliers = expected.accepted["multipliers"][0]
        by_layer = stationarity(weights, images, multipliers * labels, alpha=100.0).by_layer
        torch.testing.assert_close(answer.by_layer[restart], by_layer)
        chosen = answer.restart == restart
        rows = answer.row[chosen]
        torch.testing.assert_close(answer.multipliers[chosen], multipliers[rows])
        assert torch.equal(answer.labels[chosen], labels[rows])
        single = answer.agreement[chosen] < settings.alike  # merged with nothing
        torch.testing.assert_close(answer.x_hat[chosen][single], images[rows][single])
    torch.testing.assert_close(answer.energy, answer.history[-1])
    assert (answer.basis is None) == (not project)
    for size in (1, 3):
        monkeypatch.setattr(module, "AT_ONCE_ON_CPU", size)
        again = recover(weights, settings, seeded())
        torch.testing.assert_close(again.x_hat, answer.x_hat, rtol=1e-7, atol=1e-9)
