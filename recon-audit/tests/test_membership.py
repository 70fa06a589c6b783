"""Membership in the audit: what holds under the null and on leaky networks; shadow networks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from recon.errors import ReconError
from recon_audit.anatomy import examine
from recon_audit.membership import epsilon_bound, infer
from recon_audit.shadows import (
    Recipe,
    infer_recipe,
    rounding_of,
    train_network,
    train_shadows,
)

# --------------------------------------------------------------------------------- trained networks


@pytest.fixture(scope="module")
def case():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(48, 1, 4, 4, generator=generator)
    y = torch.randint(0, 3, (48,), generator=generator)
    module = nn.Sequential(
        nn.Conv2d(1, 6, 3),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.1),
        nn.Linear(24, 3),
    ).eval()
    return examine(module, (1, 4, 4)), x, y


RECIPE = Recipe("adam", 2e-2, 8, 120, 0.02)


def test_members_of_an_overfitted_network_are_found_and_others_are_not(case):
    network, x, y = case
    target = train_network(network, x[:24], y[:24], RECIPE, torch.Generator().manual_seed(9))
    shadows = train_shadows(network, x, y, RECIPE, 4, 0)
    found = infer(target.logits(x), y, 24, shadows, 0)
    assert found.table[found.name]["auc"] > 0.75 and found.table[found.name]["p_value"] < 0.005
    assert found.power["auc"] > 0.7
    stranger = train_network(
        network,
        torch.flip(x, (0, 3)),
        torch.flip(y, (0,)),
        RECIPE,
        torch.Generator().manual_seed(9),
    )
    null = infer(stranger.logits(x), y, 24, shadows, 0)
    assert null.table[null.name]["p_value"] > 0.01


def test_shadows_are_trained_on_complementary_halves_and_repeat(case):
    network, x, y = case
    state = torch.get_rng_state()
    a, b = (train_shadows(network, x, y, RECIPE, 4, seed) for seed in (0, 0))
    assert torch.equal(state, torch.get_rng_state())  # the global generator is as it was
    assert len(a) == 4 and (a.inside[0] == ~a.inside[1]).all() and (a.inside.sum(0) == 2).all()
    assert torch.equal(a.phi, b.phi) and (a.loss <= 0.3).all()
    assert not torch.equal(train_shadows(network, x, y, RECIPE, 2, 1).inside, a.inside[:2])


def test_a_recipe_is_inferred_from_loss_and_size(case):
    network, x, y = case
    decayed = Recipe("sgd", 3e-2, 64, 2000, 0.3, 5e-3)
    target = train_network(network, x[:24], y[:24], decayed, torch.Generator().manual_seed(3))
    found = infer_recipe(target, x, y, 24, 0, None, torch.arange(len(x)))
    assert (found.optimiser, found.lr) in (("adam", 1e-3), ("sgd", 3e-2))
    assert found.target_loss == pytest.approx(
        1.05 * torch.nn.functional.cross_entropy(target.module(x[:24]), y[:24]).item(), rel=1e-4
    )


def _steps(rows):
    """Of 8 bits, times a step of the matrix, or of each row."""
    return lambda x: (127 * x / x.abs().amax(rows, keepdim=True)).round() * 0.013


@pytest.mark.parametrize(
    "rounding",
    [lambda x: x.bfloat16().float(), lambda x: x.half().float(), _steps((0, 1)), _steps(1)],
)
def test_numbers_of_shadows_are_rounded_as_the_networks_are(rounding):
    audited, other = torch.randn(2, 30, 200, generator=torch.Generator().manual_seed(0))
    same = rounding_of(rounding(audited))(other)
    assert 0 < (same - other).abs().max() < 0.05
    torch.testing.assert_close(rounding_of(rounding(audited))(same), same, rtol=1e-4, atol=0)
    assert torch.equal(rounding_of(audited)(other), other)


def test_groups_go_as_one_through_halves_and_scores(case):
    network, x, y = case
    groups = torch.arange(48) // 4
    shadows = train_shadows(network, x, y, Recipe(steps=5), 4, 0, groups=groups)
    of_groups = shadows.inside.view(4, 12, 4)
    assert (of_groups.all(2) == of_groups.any(2)).all() and (of_groups.all(2).sum(1) == 6).all()
    told = infer(torch.randn(48, 3), y, 6, shadows, 0, groups=groups)
    assert told.score.shape == (12,) and told.table["lira"]["named"]["0.01"]["of"] == 6


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 3.0])
def test_a_lower_bound_of_epsilon_is_one(epsilon):
    """Randomised response says of 200 coins each what it is with probability e^ε / (1 + e^ε)."""
    random, member = np.random.default_rng(0), np.arange(200) < 100
    lower = []
    for seed in range(40):
        said = np.where(random.random(200) < 1 / (1 + np.exp(-epsilon)), member, ~member)
        lower.append(epsilon_bound(said + 0.0, member, seed, 0.0)["lower"])
    assert sum(bound > epsilon for bound in lower) <= 5
    assert max(lower) >= epsilon - 0.5
    exact = epsilon_bound(member + 0.0, member, 0, 1e-6)
    assert exact["lower"] > 3 > epsilon_bound(member + 0.0, member, 0, 1e-3)["lower"]


@pytest.mark.parametrize(
    "wrong",
    [{"optimiser": "lion"}, {"lr": 0.0}, {"steps": 0}, {"batch": 0}, {"weight_decay": -1.0}],
)
def test_recipes_that_cannot_be(wrong):
    with pytest.raises(ReconError):
        Recipe(**wrong)
