"""The chapter on heads: what its counts, rates and released heads are."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
import torch
from torch import nn

from recon.attacks.heads import Public
from recon.chapters import registry

compute = import_module("recon.chapters.heads.compute")
G = torch.Generator().manual_seed(0)


def test_counts_are_of_different_candidates():
    """One candidate cannot stand for two features."""
    public = Public(torch.randn(50, 6, generator=G))
    images = torch.randn(3, 6, generator=G)
    all_found = compute.cosines(images.flip(0), images, public)
    assert (all_found.cos_07, all_found.cos_08, all_found.cos_09) == (3, 3, 3)
    assert compute.cosines(images[:1].repeat(3, 1), images, public).cos_09 == 1


def test_rates_are_of_members_at_false_alarms_of_others():
    member = np.arange(1000) < 10
    score = torch.arange(1000.0).flip(0)  # members first
    found = compute.told(score, member)
    assert (found.auc, found.tpr_at_1pct, found.tpr_at_01pct) == (1, 1, 1)
    worst = compute.told(-score, member)
    assert (worst.auc, worst.tpr_at_1pct) == (0, 0)


def test_confidence_needs_no_label():
    module = nn.Sequential(nn.Linear(2, 3, bias=False))
    module[0].weight.data = torch.tensor([[1.0, 0], [0, 1], [0, 0]])
    assert compute._margin(module, torch.tensor([[3.0, 1.0], [1.0, 3.5]])).tolist() == [2.0, 2.5]
    one = nn.Sequential(nn.Linear(2, 1, bias=False))
    one[0].weight.data = torch.tensor([[1.0, -2.0]])
    assert compute._margin(one, torch.tensor([[1.0, 1.0]])).tolist() == [1.0]


@pytest.mark.parametrize(
    ("recipe", "holds"),
    [
        (
            "8-bit weights",
            lambda old, new: len(new.unique()) <= 255 and (old - new).abs().max() <= old.abs().max() / 250,
        ),
        ("half of the weights pruned", lambda old, new: 0.49 < (new == 0).float().mean() < 0.51),
        ("noise 1 on the weights", lambda old, new: 0.9 < (new - old).std() / old.square().mean().sqrt() < 1.1),
        ("dropout 0.5", torch.equal),
    ],
)
def test_what_is_done_to_a_head_before_it_is_published(recipe, holds):
    module = nn.Sequential(nn.Linear(50, 40))
    old = module[0].weight.detach().clone()
    compute._harmed(recipe, module, torch.Generator().manual_seed(1))
    assert holds(old, module[0].weight.detach())


def test_what_is_known_of_the_start():
    start = torch.randn(200, 50, generator=G)
    assert compute._known("unknown", start, G) is None
    assert torch.equal(compute._known("known", start, G), start)
    nearly = compute._known("known up to 10 %", start, G)
    assert (nearly - start).norm() / start.norm() == pytest.approx(0.1, rel=0.05)


def test_views_are_of_the_same_image():
    x = torch.rand(2, 3, 8, 8, generator=G)
    views = compute._views(x)
    assert torch.equal(views[0], x) and torch.equal(views[1].flip(-1), x) and len(views) == compute.VIEWS
    assert all(torch.allclose(view.sum(), x.sum()) and view.shape == x.shape for view in views)


def test_the_smoke_run_finds_features_and_certifies_them(runs):
    """A sign turned or a set exchanged would leave nothing of it."""
    result = runs("heads")
    first = result.metrics.cells[0]
    assert first.matches.cos_08 >= 8 > first.null.cos_08 and first.matches.cos_09 > first.best_null.cos_09
    assert first.certified_true >= 0.8 * first.certified >= 5
    assert first.span.auc > 0.95 and first.rank >= first.n_train
    assert result.array("x_hat").min() >= 0 and result.array("features_train").shape == (20, 1280)
    assert registry()["heads"].claims(result.metrics, registry()["heads"].sizes["smoke"]) == result.claims
