"""Who was trained on, out of a whole fine-tune: what each part is, and that together they tell."""

from __future__ import annotations

import copy

import pytest
import torch
from small_networks import fill, normal, seeded
from torch import nn
from torch.nn.functional import cross_entropy

from recon.attacks import by_fine_tune
from recon.attacks.fine_tunes import at_head, first_of_head, label_filter, re_estimated
from recon.attacks.from_weights import AskedPool, FineTuneSettings
from recon.attacks.heads import Public, matched_filter
from recon.errors import ReconError
from recon.nets.mlp import MLP
from recon.released import Weights
from recon.scoring.roc import auc

N, CLASSES = 12, 3


def network() -> nn.Sequential:
    """A backbone with batch norm, and a head of two layers."""
    body = (nn.Conv2d(1, 24, 3), nn.BatchNorm2d(24), nn.ReLU(), nn.AdaptiveAvgPool2d(2))
    head = (nn.Flatten(), nn.Linear(96, 64), nn.ReLU(), nn.Linear(64, CLASSES))
    return fill(nn.Sequential(*body, *head)).double().eval()


def test_statistics_are_the_mean_of_those_of_public_batches():
    module, x = network(), 3 * normal(20, 1, 8, 8) + 1
    before = copy.deepcopy(module.state_dict())
    norm = re_estimated(module, x, batch=10)[1]
    outputs = module[0](x).detach()
    halves = [half.var((0, 2, 3)) for half in outputs.split(10)]
    torch.testing.assert_close(norm.running_mean, outputs.mean((0, 2, 3)), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(norm.running_var, sum(halves) / 2, rtol=1e-4, atol=1e-5)
    assert not any(part.training for part in module.modules()) and not norm.training
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())


def test_at_head_is_what_enters_and_the_gradient_of_the_label():
    module, x, y = network(), normal(7, 1, 8, 8), torch.arange(7) % CLASSES
    layer = first_of_head(module, x)
    assert layer is module[5]
    features, toward = at_head(module, layer, x, y, batch=3)
    torch.testing.assert_close(features, module[:5](x).detach())
    w = module[7].weight.detach()
    on = (layer(features) > 0).float().detach()
    torch.testing.assert_close(toward, (w[y] - w.mean(0)) * on)


def test_no_linear_head_is_said():
    with pytest.raises(ReconError, match="no linear layer"):
        first_of_head(
            network()[:5],
            normal(2, 1, 8, 8),
        )
    weights = Weights(MLP((8, 4, 1)), normal(MLP((8, 4, 1)).n_params))
    with pytest.raises(ReconError, match="of a module"):
        by_fine_tune(weights, AskedPool(normal(2, 8), torch.zeros(2), normal(9, 8)))


def test_the_filter_aligns_a_layer_with_the_label_alone():
    w, toward, features = normal(5, 6), normal(4, 5, seed=1), normal(4, 6, seed=2)
    public = Public(normal(50, 6, seed=3))
    score = label_filter(w, toward, features, public)
    assert score.shape == (4,)
    torch.testing.assert_close(label_filter(3 * w, 2 * toward, features, public), score)
    torch.testing.assert_close(label_filter(w, -toward, features, public), -score)
    # one unit, towards the label: what the matched filter has, with a sign
    one = matched_filter(w[:1], torch.tensor([torch.inf]), features, public, ridge=1.0)
    ours = label_filter(w[:1], torch.ones(4, 1), features, public)
    torch.testing.assert_close(ours.abs(), one)


def trained(x, y):
    """A fine-tune in training mode, whose running statistics lag."""
    module = network().train()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.momentum = 0.001
    optimiser = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
    for _ in range(150):
        optimiser.zero_grad()
        cross_entropy(module(x), y).backward()
        optimiser.step()
    return module.eval()


def test_members_are_told_and_statistics_help():
    """Not those of another fine-tune: the attack sees nothing where there is nothing."""
    x, other = (2 + normal(N, 1, 8, 8, seed=seed) for seed in (1, 2))
    y = torch.randint(CLASSES, (N,), generator=seeded(5))
    held_out, public = (2 + normal(k, 1, 8, 8, seed=k) for k in (300, 200))
    labels = torch.cat([y, torch.arange(300) % CLASSES])
    pool = AskedPool(torch.cat([x, held_out]), labels, public)
    member = (torch.arange(N + 300) < N).numpy()

    def area(module, batch) -> float:
        found = by_fine_tune(Weights.of(module), pool, FineTuneSettings(batch))
        assert torch.equal(found.images, pool.x)
        return auc(found.score.numpy(), member)

    module = trained(x, y)
    assert area(module, 12) > 0.85 and area(module, 12) >= area(module, None)
    assert 0.25 < area(trained(other, y), 12) < 0.75
