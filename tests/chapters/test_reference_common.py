"""What is said of an arm of the published recipe: shares, movement, and how far it came."""

from __future__ import annotations

import pytest
import torch

from companion.chapters.reference_common import (
    ReferenceArm,
    came_text,
    fell_layer_1,
    if_in_full,
    shares,
)
from recon.attacks.decoreco import half_and_half
from recon.attacks.haim_recipe import ALPHA, marks
from recon.nets.mlp import MLP
from recon.released import Weights


def test_shares_are_what_is_left_of_every_layer():
    network, generator = MLP((9, 6, 6, 1)), torch.Generator().manual_seed(0)
    weights = Weights(network, network.flatten(network.init(generator)))
    x, multipliers = torch.randn(4, 9, generator=generator), torch.rand(4, generator=generator)
    share = shares(weights, x, multipliers)
    theta = {name: value.double() for name, value in weights.params.items()}
    c = multipliers.double() * half_and_half(4, dtype=torch.float64) / 4
    delta = network.passes(theta, x.double(), torch.ones_like, alpha=ALPHA).delta[1]
    weighted = c[:, None] * delta
    left = torch.cat(
        [theta["w1"] - weighted.mT @ x.double(), (theta["b1"] - weighted.sum(0))[:, None]], 1
    )
    whole = torch.cat([theta["w1"], theta["b1"][:, None]], 1)
    assert share[0] == pytest.approx((left.square().sum() / whole.square().sum()).item())
    assert len(share) == 3


def test_the_fall_is_over_the_last_tenth_of_the_steps():
    energy = [3.0 if mark <= 50 else 2.0 if mark <= 90 else 1.5 for mark in marks(100)]
    assert fell_layer_1(torch.tensor(energy)[:, None], 100) == pytest.approx(0.25)


def an_arm(**values):
    whole = {
        "precision": "float32",
        "steps": 50_000,
        "published_steps": 50_000,
        "moved": 0.5,
        "fell_layer_1": 0.043,
    }
    return ReferenceArm({**whole, "energy_share": [0.031, 0.9, 0.1], **values})


def test_a_verdict_comes_from_the_published_budget():
    whole, stopped = an_arm(), an_arm(steps=49_999)
    assert (if_in_full(whole, "partly"), if_in_full(stopped, "partly")) == ("partly", "undecided")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "layer 1 still falling by 4.3% over"),
        ({"fell_layer_1": 0.004}, "layer 1 fell by 0.4% over"),
        ({"fell_layer_1": -0.004}, "layer 1 rose by 0.4% over"),
        ({"precision": "bfloat16"}, "full budget, products in bfloat16"),
        ({"steps": 600}, "600 of 50,000 steps: undecided"),
    ],
)
def test_what_is_said_of_a_run_names_its_budget_and_how_layer_1_ended(values, words):
    assert words in came_text(an_arm(**values))
