"""Heads are those of plain training, and other people's attacks are their formulas."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from companion.chapters.heads import attackers
from companion.chapters.heads.experiment import ADAMW_CHANGES, BASE, Head
from companion.chapters.heads.experiment_members import SIZES, drawn_from
from recon.scoring.roc import auc
from recon.training.recipes import loss_of, train

D = 12


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(n: int, classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    g = seeded(1)
    return torch.rand(n, D, generator=g), torch.randint(classes, (n,), generator=g)


def network(outputs: int, hidden: int = 5) -> nn.Sequential:
    torch.manual_seed(6)
    return nn.Sequential(nn.Linear(D, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


def parts(module: nn.Module) -> list[torch.Tensor]:
    return [part.detach() for part in module.parameters()]


@pytest.mark.parametrize("changes", [{"weight_decay": 0.05, "batch": 2}, ADAMW_CHANGES])
def test_a_head_is_that_of_training_in_all_coordinates(changes):
    recipe = replace(BASE, width=6, classes=3, steps=30, **changes)
    head = Head.of(recipe, *images(5, 3), seeded())
    wanted = train(recipe, *images(5, 3), seeded())
    assert torch.equal(head.w1_init, wanted.w1_init)
    for ours, theirs in zip(head.parts, wanted.module.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


def linear_loss(at, slope, label, step: torch.Tensor) -> torch.Tensor:
    return loss_of((at + slope @ step)[None], label[None])


@pytest.mark.parametrize("classes", [1, 3])
def test_the_inverse_hessian_is_that_of_all_images_but_one(classes):
    """That of Gauss and Newton is the Hessian where the network is linear in its weights."""
    n, module = 4, network(classes).double()
    x, y = images(6, max(classes, 2))
    scores = attackers.inverse_hessian(parts(module), x, y, n, lr=0.1)
    theta, names = tuple(parts(module)), [name for name, _ in module.named_parameters()]
    zero = torch.zeros(sum(part.numel() for part in theta), dtype=torch.float64)
    losses, slopes, hessians = [], [], []
    for image, label in zip(x.double(), y, strict=True):

        def outputs(*theta: torch.Tensor, image=image) -> torch.Tensor:
            weights = dict(zip(names, theta, strict=True))
            return torch.func.functional_call(module, weights, (image,))

        made = torch.autograd.functional.jacobian(outputs, theta)
        slope = torch.cat([part.reshape(classes, -1) for part in made], 1)

        loss = partial(linear_loss, outputs(*theta), slope, label)
        losses.append(loss(zero))
        slopes.append(torch.func.grad(loss)(zero))
        hessians.append(torch.func.hessian(loss)(zero))
    for k, score in enumerate(scores.tolist()):
        rest = [j for j in range(n) if j != k % n]
        hessian = torch.stack([hessians[j] for j in rest]).mean(0)
        hessian.diagonal().add_(attackers.DAMPING)
        mean = torch.stack([slopes[j] for j in rest]).mean(0)
        a, b = torch.linalg.solve(hessian, torch.stack([slopes[k], mean], 1)).mT
        wanted = losses[k] / 1.9 - (a @ a / n + 2 * a @ b) / 0.1
        assert score == pytest.approx(wanted.item(), rel=1e-4, abs=1e-3)


def test_shadows_tell_of_images_that_none_was_trained_on():
    """Harder images have lower log odds; members stand out from what theirs are elsewhere."""
    g = seeded(5)
    hard = 3 * torch.randn(200, generator=g)
    inside = torch.rand(20, 200, generator=g) < 0.02
    member = torch.arange(200) < 50
    shadows = hard + 0.3 * torch.randn(20, 200, generator=g) + 2 * inside
    phi = hard + 0.3 * torch.randn(200, generator=g) + 2 * member
    for attack in (attackers.lira_online, attackers.lira_offline):
        assert auc(attack(phi, shadows, inside).numpy(), member.numpy()) > 0.99
    assert auc(phi.numpy(), member.numpy()) < 0.8


def test_alignment_is_the_cosine_with_what_training_has_written():
    module, written, (x, y) = network(3), torch.randn(5, D, generator=seeded()), images(4, 3)
    scores = attackers.alignment(parts(module), x, y, written)
    for k in range(4):
        gradient = torch.autograd.grad(loss_of(module(x[k][None]), y[k][None]), module[0].weight)[0]
        wanted = torch.cosine_similarity(-gradient.flatten(), written.flatten(), dim=0)
        assert scores[k].item() == pytest.approx(wanted.item(), rel=1e-4)


def test_shadows_have_as_many_images_of_each_of_two_classes():
    two = np.arange(40) % 2
    rows = drawn_from(np.arange(10, 40), two, 12, np.random.default_rng(0))
    assert len(set(rows)) == 12 and two[rows].sum() == 6 and rows.min() >= 10


def test_the_table_names_no_cell_twice():
    names = [cell.name for cell in SIZES["paper"].cells]
    assert len(set(names)) == len(names)


def test_heads_of_ten_and_of_two_classes_are_better_than_a_guess(runs):
    plain, two = (runs("heads-members").metrics.cells[k] for k in (0, 3))
    assert plain.accuracy[0] > 0.5 and two.accuracy[0] > 0.5
