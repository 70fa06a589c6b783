"""What is said of an arm of the published recipe: shares, movement, and when it counts as converged."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from companion.chapters import reference_common as module
from companion.chapters.reference_common import ReferenceArm, ReferenceSizes, arm_of, came_text, if_in_full, shares
from recon.attacks.decoreco import half_and_half
from recon.attacks.haim_recipe import marks
from recon.attacks.reconstruct import Reconstruction
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
    by_layer, share = shares(weights, x, multipliers)
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
    assert by_layer[0] == pytest.approx(expected.item()) and share[0] == pytest.approx((expected / norm).item())
    assert len(share) == 3


def arm(weights, history, steps, published=None, monkeypatch=None):
    at = marks(steps)
    x_init = torch.ones(1, M, D)
    trace = torch.zeros(len(at), 5)
    trace[:, 0] = torch.linspace(2.0, 1.0, len(at))
    trace[:, -1] = torch.linspace(0.0, 0.5, len(at))
    accepted = {"multipliers": torch.ones(1, M), "x_init": x_init, "trace": trace}
    found = Reconstruction(1.5 * x_init, history[-1:], history[:, None], steps, history[-1:] < 0, accepted)
    monkeypatch.setattr(module, "ReferenceArm", SimpleNamespace)
    monkeypatch.setattr(module, "STEPS", published)
    return arm_of(found, weights, ReferenceSizes(steps=steps), "random", {}, 1.0)


@pytest.mark.parametrize(
    ("published", "last", "converged"), [(100, 0.995, True), (100, 0.985, False), (101, 0.995, False)]
)
def test_converged_means_the_whole_budget_and_a_small_fall_at_its_end(weights, monkeypatch, published, last, converged):
    history = torch.cat([torch.linspace(9.0, 1.0, 90), torch.linspace(1.0, last, 11)[1:]])
    found = arm(weights, history, 100, published, monkeypatch)
    assert found.converged is converged and found.fell == pytest.approx(1 - last, abs=1e-6)
    assert found.moved == pytest.approx(0.5) and found.moved_least == pytest.approx(0.5)
    assert 0 < found.fell_layer_1 < 0.2 and 0 < found.moved_last < 0.2


def an_arm(**values):
    whole = {"converged": True, "steps": 50_000, "published_steps": 50_000, "moved": 0.5, "fell_layer_1": 0.043}
    return ReferenceArm({**whole, "energy_share": [0.031, 0.9, 0.1], **values})


@pytest.mark.parametrize("converged", [True, False])
def test_a_verdict_comes_from_the_published_budget_whether_it_converged_or_not(converged):
    whole, stopped = an_arm(converged=converged), an_arm(converged=converged, steps=49_999)
    assert (if_in_full(whole, "partly"), if_in_full(stopped, "partly")) == ("partly", "undecided")


@pytest.mark.parametrize(
    ("fell", "words"), [(0.043, "still falling by 4.3%"), (0.004, "fell by 0.4%"), (-0.004, "rose by 0.4%")]
)
def test_what_is_said_of_a_run_names_its_budget_and_how_layer_1_ended(fell, words):
    assert came_text(an_arm(fell_layer_1=fell)) == (
        f"all 50,000 published steps, the full budget; layer 1 {words} over the last tenth, at 3.1% of its squared "
        "norm, images moved by 50%"
    )
    stopped = came_text(an_arm(steps=600))
    assert stopped == "600 of 50,000 steps: undecided; layer 1 at 3.1% of its squared norm, images moved by 50%"
    assert "converged" not in came_text(an_arm()) + stopped
