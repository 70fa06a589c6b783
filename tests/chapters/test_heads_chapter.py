"""The chapter on heads: what its counts, rates and released heads are."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
import torch
from torch import nn

from companion.chapters.base import Context
from companion.chapters.heads.experiment import Cell
from companion.chapters.heads.scoring import assigned, pictures, rates
from recon.attacks.heads import Public
from recon.images.registry import load_pool
from recon.scoring.metrics import ncc

compute = import_module("companion.chapters.heads.experiment")
G = torch.Generator().manual_seed(0)
COSINES = ("cos_0.7", "cos_0.8", "cos_0.9")


def test_counts_are_of_different_candidates():
    """One candidate cannot stand for two features."""
    public, images = Public(torch.randn(50, 6, generator=G)), torch.randn(3, 6, generator=G)
    assert compute.cosines(images.flip(0), images, public) == dict.fromkeys(COSINES, 3)
    assert compute.cosines(images[:1].repeat(3, 1), images, public).cos_09 == 1
    assert torch.equal(assigned(images.flip(0), images, public), images)


def test_rates_are_of_members_at_false_alarms_of_others():
    score, member = torch.arange(1000.0).flip(0), np.arange(1000) < 10
    assert rates(score, member) == {"auc": 1, "tpr_at_1pct": 1, "tpr_at_0.1pct": 1}
    assert rates(-score, member).auc == 0


def test_confidence_is_the_distance_of_the_two_largest_outputs():
    module = nn.Sequential(nn.Linear(2, 3, bias=False))
    module[0].weight.data = torch.tensor([[1.0, 0], [0, 1], [0, 0]])
    assert compute._margin(module, torch.tensor([[3.0, 1.0], [1.0, 3.5]])).tolist() == [2.0, 2.5]


@pytest.mark.parametrize(
    ("recipe", "holds"),
    [
        ("8-bit weights", lambda old, new: len(new.unique()) <= 255 and (old - new).abs().max() <= old.abs().max() / 250),  # noqa: E501
        ("half of the weights pruned", lambda old, new: 0.49 < (new == 0).float().mean() < 0.51),
        ("noise 1 on the weights", lambda old, new: 0.9 < (new - old).std() / old.square().mean().sqrt() < 1.1),  # noqa: E501
    ],
)  # fmt: skip
def test_what_is_done_to_a_head_before_it_is_published(recipe, holds):
    w = 0.1 * torch.randn(40, 50, generator=G)
    assert holds(w, compute.RECIPES[recipe].publish(w, G))


@pytest.mark.parametrize("recipe", ["batch norm", "standardised features"])
def test_what_is_subtracted_from_features_is_put_back(recipe):
    """A head of few images: its rows mix features less a mean, and with it all of them are
    found.
    """
    sizes, cell = compute.SIZES["smoke"], Cell(n=20, width=64, recipe=recipe)
    context = Context(load_pool("photos"), torch.device("cpu"), 0, None, None)
    task = compute._task(sizes, context, cell)
    released = compute._head(sizes, context, cell, task)
    row, _ = compute._attack(sizes, context, cell, task, released, "known")
    assert row.rank <= 20 and row.matches.cos_07 >= 9 and row.span.auc > 0.9
    assert compute.accuracy(released.module, task.train, task.labels) > 0.9


@pytest.mark.parametrize("true", [True, False])
def test_true_features_give_what_the_ceiling_gives_and_noise_does_not(true):
    """Features that are their image's pixels and some more."""
    draws = torch.Generator().manual_seed(4)
    pixels, public = torch.rand(10, 12, generator=draws), torch.rand(400, 12, generator=draws)
    train_, known = (torch.cat([x, x.square()], dim=1) for x in (pixels, public))
    x_hat = train_.flip(0) if true else torch.rand(10, 24, generator=draws)
    shown = pictures(x_hat, train_, pixels, Public(known), public)
    likeness = {
        name: ncc(shown[name], pixels).diagonal().median()
        for name in ("decoded", "ceiling", "nearest_public")
    }
    assert likeness["ceiling"] > 0.9 and (likeness["decoded"] > 0.9) == true == (
        shown["matched"].min() > 0.999
    )
    assert likeness["nearest_public"] < likeness["ceiling"]


def test_views_are_of_the_same_image():
    x = torch.rand(2, 3, 8, 8, generator=G)
    views = compute._views(x)
    assert torch.equal(views[0], x) and torch.equal(views[1].flip(-1), x) and len(views) == 4
    assert all(torch.allclose(view.sum(), x.sum()) and view.shape == x.shape for view in views)
