"""What is said of an arm of the published recipe: shares, movement, and how far it came."""

from __future__ import annotations

import pytest
import torch

from companion.chapters.reference_common import (
    ReferenceArm,
    ReferenceSizes,
    arm_of,
    came_text,
    if_in_full,
    shares,
)
from recon.attacks.decoreco import half_and_half
from recon.attacks.haim_recipe import marks
from recon.attacks.reconstruct import Reconstruction
from recon.nets.gram import layer_norms
from recon.nets.mlp import MLP
from recon.released import Weights

M, D = 4, 9


@pytest.fixture
def weights():
    network = MLP((D, 6, 6, 1))
    return Weights(network, network.flatten(network.init(torch.Generator().manual_seed(0))))


def test_shares_are_what_is_left_of_every_layer(weights):
    generator = torch.Generator().manual_seed(1)
    x, multipliers = torch.randn(M, D, generator=generator), torch.rand(M, generator=generator)
    share = shares(weights, x, multipliers)
    theta = {name: value.double().requires_grad_() for name, value in weights.params.items()}
    c = multipliers.double() * half_and_half(M, dtype=torch.float64) / M
    passes = weights.network.passes(
        {k: v.detach() for k, v in theta.items()}, x.double(), torch.ones_like, alpha=19.14455
    )
    left = (
        theta["w1"] - (c[:, None] * passes.delta[1]).mT @ x.double(),
        theta["b1"] - (c[:, None] * passes.delta[1]).sum(0),
    )
    expected = sum(part.square().sum() for part in left)
    norm = theta["w1"].square().sum() + theta["b1"].square().sum()
    assert share[0] == pytest.approx((expected / norm).item()) and len(share) == 3


def test_an_arm_says_how_far_it_came(weights):
    at = marks(100)
    trace = torch.zeros(len(at), 5)
    trace[:, 0] = torch.tensor([2.0 if mark <= 90 else 1.5 for mark in at])
    accepted = {"multipliers": torch.ones(1, M), "x_init": torch.ones(1, M, D), "trace": trace}
    found = Reconstruction(
        1.5 * torch.ones(1, M, D),
        torch.ones(1),
        torch.ones(100, 1),
        100,
        torch.ones(1) < 0,
        accepted,
    )
    arm = arm_of(found, weights, ReferenceSizes(steps=100), "random", {"nearest_is_own_start": 3})
    assert (arm.steps, arm.published_steps, arm.m, arm.nearest_is_own_start) == (100, 50_000, M, 3)
    assert arm.moved == pytest.approx(0.5) and arm.fell_layer_1 == pytest.approx(0.25)
    assert arm.start_share[0] == pytest.approx(
        2 / layer_norms(weights.network, weights.params)[0].item()
    )


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
    ("fell", "words"),
    [(0.043, "still falling by 4.3%"), (0.004, "fell by 0.4%"), (-0.004, "rose by 0.4%")],
)
def test_what_is_said_of_a_run_names_its_budget_and_how_layer_1_ended(fell, words):
    assert (
        came_text(an_arm(fell_layer_1=fell))
        == f"all 50,000 published steps, the full budget; layer 1 {words} over the last tenth, at"
        " 3.1% of its squared norm, images moved by 50%"
    )
    assert "full budget, products in bfloat16 where the processor has them; layer 1" in came_text(
        an_arm(precision="bfloat16")
    )
    stopped = came_text(an_arm(steps=600))
    assert (
        stopped
        == "600 of 50,000 steps: undecided; layer 1 at 3.1% of its squared norm, images moved"
        " by 50%"
    )
    assert "converged" not in came_text(an_arm()) + stopped
