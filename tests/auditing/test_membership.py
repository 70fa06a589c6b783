"""Membership in the audit: what holds under the null and on leaky networks; shadow networks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from recon.auditing.membership import confidence, infer, power
from recon.auditing.networks import anatomy, logits_of
from recon.auditing.shadows import Recipe, Shadows, candidates, inferred, train_shadows, trained
from recon.errors import ReconError


def test_confidence_is_the_logit_of_the_probability():
    z = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)).double()
    y = torch.tensor([0, 1, 2, 3, 0, 1])
    p = z.softmax(1)[torch.arange(6), y]
    torch.testing.assert_close(confidence(z, y), torch.log(p / (1 - p)))
    torch.testing.assert_close(confidence(z.expand(3, 6, 4), y), torch.log(p / (1 - p)).expand(3, 6))
    one = z[:, :1]
    torch.testing.assert_close(confidence(one, y % 2), torch.where(y % 2 == 1, one[:, 0], -one[:, 0]))


def shadows_of(phi, inside):
    return Shadows([], inside, phi[..., None], torch.zeros(len(phi)))


# ------------------------------------------------------------------------------------------------ trained networks


@pytest.fixture(scope="module")
def case():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(48, 1, 4, 4, generator=generator)
    y = torch.randint(0, 3, (48,), generator=generator)
    module = nn.Sequential(
        nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Dropout(0.1), nn.Linear(24, 3)
    ).eval()
    return module, anatomy(module, (1, 4, 4)), x, y


RECIPE = Recipe("adam", 2e-2, 8, 120, 0.02)


def test_members_of_an_overfitted_network_are_found_and_others_are_not(case):
    module, seen, x, y = case
    target = trained(module, seen, x[:24], y[:24], RECIPE, torch.Generator().manual_seed(9))
    shadows = train_shadows(module, seen, x, y, RECIPE, 4, 0)
    found = infer(logits_of(target, seen, x), y, 24, shadows, 0)
    assert found.table[found.name]["auc"] > 0.75 and found.table[found.name]["p_value"] < 0.005
    assert found.power["auc"] > 0.7
    stranger = trained(
        module, seen, torch.flip(x, (0, 3)), torch.flip(y, (0,)), RECIPE, torch.Generator().manual_seed(9)
    )
    null = infer(logits_of(stranger, seen, x), y, 24, shadows, 0)
    assert null.table[null.name]["p_value"] > 0.01


def test_shadows_are_trained_on_complementary_halves_and_repeat(case):
    module, seen, x, y = case
    state = torch.get_rng_state()
    a, b = (train_shadows(module, seen, x, y, RECIPE, 3, seed) for seed in (0, 0))
    assert torch.equal(state, torch.get_rng_state())  # the global generator is as it was
    assert len(a) == 4 and (a.inside[0] == ~a.inside[1]).all() and (a.inside.sum(0) == 2).all()
    assert torch.equal(a.logits, b.logits) and (a.loss <= 0.3).all()
    assert not torch.equal(train_shadows(module, seen, x, y, RECIPE, 2, 1).inside, a.inside[:2])


def test_power_needs_two_pairs():
    inside = torch.tensor([[True, False], [False, True]])
    assert np.isnan(power(torch.tensor([0, 1]), shadows_of(torch.zeros(2, 2), inside))["auc"])


def test_a_recipe_is_inferred_from_loss_and_size(case):
    module, seen, x, y = case
    decayed = Recipe("sgd", 3e-2, 64, 2000, 0.3, 5e-3)
    target = trained(module, seen, x[:24], y[:24], decayed, torch.Generator().manual_seed(3))
    found = inferred(target, seen, x, y, 24, 0, None)
    assert found in candidates(found.target_loss, False)
    assert found.target_loss == pytest.approx(
        1.05 * torch.nn.functional.cross_entropy(target(x[:24]), y[:24]).item(), rel=1e-4
    )


@pytest.mark.parametrize(
    "wrong", [{"optimiser": "lion"}, {"lr": 0.0}, {"steps": 0}, {"batch": 0}, {"weight_decay": -1.0}]
)
def test_recipes_that_cannot_be(wrong):
    with pytest.raises(ReconError):
        Recipe(**wrong)
