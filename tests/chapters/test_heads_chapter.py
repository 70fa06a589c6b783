"""The chapter on heads: what its counts, rates and released heads are."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
import torch
from torch import nn

from companion.chapters import registry
from companion.chapters.base import Context
from companion.chapters.heads.experiment import Cell, best_null
from companion.chapters.heads.scoring import assigned, pictures
from companion.store.checkpoints import Checkpoints
from recon.attacks.heads import Public
from recon.images.registry import load_pool
from recon.scoring.metrics import ncc
from recon.training.recipes import Recipe, build, train

compute = import_module("companion.chapters.heads.experiment")
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
            lambda old, new: (
                len(new.unique()) <= 255 and (old - new).abs().max() <= old.abs().max() / 250
            ),
        ),
        ("half of the weights pruned", lambda old, new: 0.49 < (new == 0).float().mean() < 0.51),
        (
            "noise 1 on the weights",
            lambda old, new: 0.9 < (new - old).std() / old.square().mean().sqrt() < 1.1,
        ),
        ("dropout 0.5", torch.equal),
    ],
)
def test_what_is_done_to_a_head_before_it_is_published(recipe, holds):
    module = nn.Sequential(nn.Linear(50, 40))
    old = module[0].weight.detach().clone()
    compute._harmed(recipe, module, torch.Generator().manual_seed(1))
    assert holds(old, module[0].weight.detach())


def test_batch_norm_in_use_scales_the_rows_of_the_first_layer():
    """The head without it answers alike."""
    recipe, draws = (
        Recipe(width=7, depth=2, classes=3, steps=30, batch=10),
        torch.Generator().manual_seed(2),
    )
    module = build(recipe, 5, draws)
    module.insert(1, nn.BatchNorm1d(7))
    x, y = torch.randn(40, 5, generator=draws), torch.randint(3, (40,), generator=draws)
    trained = train(recipe, x, y, draws, module=module)
    bare = compute._without_norm(trained.module)
    assert len(bare) == 3 and compute._without_norm(bare) is bare
    torch.testing.assert_close(bare(x), trained.module(x))
    rows = bare[0].weight / trained.w1
    assert rows.std(1).max() < 1e-5 < rows.std(0).min()


@pytest.mark.parametrize("recipe", ["batch norm", "standardised features"])
def test_what_is_subtracted_from_features_is_put_back(tmp_path, recipe):
    """A head of few images: its rows mix features less a mean, and with it all of them are
    found.
    """
    sizes = registry()["heads"].sizes["smoke"]
    cell = Cell(n=20, width=64, recipe=recipe)
    context = Context(
        load_pool("photos"),
        torch.device("cpu"),
        0,
        Checkpoints(tmp_path),
        lambda unit, names, label: {},
    )
    task = compute._task(sizes, context, cell)
    released = compute._head(sizes, context, cell, task)
    row, _ = compute._attacked(sizes, context, cell, task, released, "known")
    assert row.rank <= 20 and row.matches.cos_07 >= 9 and row.span.auc > 0.9
    plain, rank = compute._searched(Cell(n=20, width=64), task, released.w1)
    assert rank is None and torch.equal(plain.w1, released.w1)
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


def test_each_image_has_a_candidate_of_its_own():
    public = Public(torch.randn(50, 6, generator=G))
    images = torch.randn(4, 6, generator=G)
    assert torch.equal(assigned(images.flip(0), images, public), images)


def test_views_are_of_the_same_image():
    x = torch.rand(2, 3, 8, 8, generator=G)
    views = compute._views(x)
    assert torch.equal(views[0], x) and torch.equal(views[1].flip(-1), x) and len(views) == 4
    assert all(torch.allclose(view.sum(), x.sum()) and view.shape == x.shape for view in views)


def test_the_smoke_run_finds_features_and_certifies_them(runs):
    """A sign turned or a set exchanged would leave nothing of it."""
    result = runs("heads")
    first = result.metrics.cells[0]
    assert (
        first.matches.cos_08 >= 8 > first.null.cos_08
        and first.matches.cos_09 > best_null(first).cos_09
    )
    assert first.certified_true >= 0.8 * first.certified >= 5
    assert first.span.auc > 0.95 and first.n_train / 2 < first.rank <= first.n_train
    assert result.array("x_hat").min() >= 0 and result.array("features_train").shape == (20, 1280)
    assert (
        registry()["heads"].claims(result.metrics, registry()["heads"].sizes["smoke"])
        == result.claims
    )
