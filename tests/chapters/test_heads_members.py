"""Heads trained many at once are PyTorch's, and other people's attacks are their formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from companion.chapters.heads import attackers, stacked
from companion.chapters.heads.experiment import ADAMW_CHANGES, BASE
from companion.chapters.heads.experiment_members import SIZES, _drawn
from recon.scoring.roc import auc
from recon.training.recipes import OPTIMISERS, build, loss_of

D = 12


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(n: int, seed: int = 1, classes: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    g = seeded(seed)
    return torch.rand(2, n, D, generator=g), torch.randint(classes, (2, n), generator=g)


def losses(heads: list, k: int, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    w1, b1, w2, b2 = (part[k] for part in heads)
    return loss_of((x @ w1.mT + b1).relu() @ w2.mT + b2, y, "none")


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("changes", [{"weight_decay": 0.05}, ADAMW_CHANGES])
def test_heads_trained_together_are_those_of_pytorch(changes, classes):
    """Full batches, so that the order of images is no matter."""
    recipe = replace(BASE, width=6, classes=classes, batch=None, steps=30, **changes)
    x, y = images(5, classes=classes)
    heads, initial = stacked.train_heads(recipe, x, y, seeded())
    generator = seeded()
    modules = [build(recipe, D, generator) for _ in range(2)]
    for k, module in enumerate(modules):
        assert torch.equal(initial[k], module[0].weight)
        momentum = {"momentum": recipe.momentum} if recipe.optimiser == "sgd" else {}
        optimiser = OPTIMISERS[recipe.optimiser](
            module.parameters(), lr=recipe.lr, weight_decay=recipe.weight_decay, **momentum
        )
        for _ in range(recipe.steps):
            optimiser.zero_grad()
            loss_of(module(x[k]), y[k]).backward()
            optimiser.step()
        for part, wanted in zip(heads, module.parameters(), strict=True):
            torch.testing.assert_close(part[k], wanted.detach(), atol=1e-5, rtol=1e-4)


def test_gradients_of_private_training_are_clipped_image_by_image(monkeypatch):
    monkeypatch.setattr(stacked, "_noise_multiplier", lambda recipe, n: 0.0)
    recipe = replace(BASE, width=6, classes=3, batch=None, momentum=0.0, weight_decay=0.0, steps=1)
    recipe = replace(recipe, epsilon=1.0, clip=0.3, lr=1.0)
    x, y = images(5)
    heads, _ = stacked.train_heads(recipe, x, y, seeded())
    generator = seeded()
    module = [build(recipe, D, generator) for _ in range(2)][1]
    steps = [torch.zeros_like(part) for part in module.parameters()]
    for image, label in zip(x[1], y[1], strict=True):
        loss = loss_of(module(image[None]), label[None])
        gradients = torch.autograd.grad(loss, list(module.parameters()))
        length = torch.cat([g.flatten() for g in gradients]).norm()
        for step, gradient in zip(steps, gradients, strict=True):
            step -= gradient * min(1.0, 0.3 / length.item()) / 5
    for part, old, step in zip(heads, module.parameters(), steps, strict=True):
        torch.testing.assert_close(part[1], old.detach() + step, atol=1e-6, rtol=1e-4)


def test_the_noise_of_private_training_is_the_same_in_all_directions(monkeypatch):
    """In the span of the images it is added step by step, outside in the end."""
    monkeypatch.setattr(stacked, "_noise_multiplier", lambda recipe, n: 1e4)
    recipe = replace(BASE, width=400, batch=None, momentum=0.0, weight_decay=0.0, steps=5)
    recipe = replace(recipe, epsilon=1.0, clip=1.0, lr=1e-3)
    x, y = images(4)
    heads, initial = stacked.train_heads(recipe, x, y, seeded())
    inside = torch.linalg.qr(x[0].mT).Q
    moved = heads[0][0] - initial[0]
    parts = moved @ inside, moved - moved @ inside @ inside.mT
    lengths = [p.square().sum().item() / k for p, k in zip(parts, (4, D - 4), strict=True)]
    assert lengths[0] / lengths[1] == pytest.approx(1, abs=0.15)
    assert moved.std() == pytest.approx(1e-3 * 1e4 / 4 * 5**0.5, rel=0.1)


@pytest.mark.parametrize("classes", [1, 3])
def test_the_inverse_hessian_is_that_of_all_images_but_one(classes):
    g, n, m = seeded(), 4, 6
    shapes = [(1, 5, D), (1, 5), (1, classes, 5), (1, classes)]
    head = [torch.randn(shape, generator=g) for shape in shapes]
    x, y = torch.rand(m, D, generator=g), torch.randint(max(classes, 2), (m,), generator=g)
    left = torch.arange(m) % n
    scores = attackers.inverse_hessian(head, x, y, x[:n], y[:n], left, lr=0.1)
    theta = [part.double() for part in head]
    flat = torch.cat([part.flatten() for part in theta])

    def outputs(flat: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        split = flat.split([part.numel() for part in theta])
        w1, b1, w2, b2 = (a.view(b.shape[1:]) for a, b in zip(split, theta, strict=True))
        return (image.double()[None] @ w1.mT + b1).relu() @ w2.mT + b2

    def loss(flat: torch.Tensor, k: int) -> torch.Tensor:
        return loss_of(outputs(flat, x[k]), y[k][None])

    gradients = [torch.func.grad(loss)(flat, k) for k in range(m)]
    for k in range(m):
        rest = [j for j in range(n) if j != left[k]]
        hessian = attackers.DAMPING * torch.eye(len(flat), dtype=torch.float64)
        for j in rest:
            jacobian = torch.func.jacrev(outputs)(flat, x[j])[0]
            p = outputs(flat, x[j])[0]
            p = p.sigmoid() if classes == 1 else p.softmax(0)
            curvature = p.diag() - p[:, None] * p
            hessian += jacobian.mT @ curvature @ jacobian / (n - 1)
        of = torch.linalg.solve(hessian, gradients[k])
        mean = torch.linalg.solve(hessian, torch.stack([gradients[j] for j in rest]).mean(0))
        wanted = loss(flat, k) / 1.9 - (of @ of / n + 2 * of @ mean) / 0.1
        assert scores[k].item() == pytest.approx(wanted.item(), rel=1e-4, abs=1e-3)


def test_whoever_is_not_in_the_head_is_not_identified_by_the_inverse_hessian():
    """The attacker thinks that twenty of these images were trained on, and none was."""
    g = seeded(3)
    module = nn.Sequential(nn.Linear(D, 30), nn.ReLU(), nn.Linear(30, 3))
    head = [part.detach()[None] for part in module.parameters()]
    x, y = torch.rand(400, D, generator=g), torch.randint(3, (400,), generator=g)
    left = torch.arange(400) % 20
    score = attackers.inverse_hessian(head, x, y, x[:20], y[:20], left, lr=0.1)
    assert 0.3 < auc(score.numpy(), np.arange(400) < 20) < 0.7


def test_log_odds_are_of_the_label():
    outputs, y = torch.tensor([[2.0, 0.0, 1.0]]), torch.tensor([0])
    p = outputs.softmax(1)[0, 0]
    assert attackers.log_odds(outputs, y).item() == pytest.approx((p / (1 - p)).log().item(), 1e-5)
    assert attackers.log_odds(torch.tensor([[3.0], [3.0]]), torch.tensor([0, 1])).tolist() == [
        -3,
        3,
    ]


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
    g = seeded(6)
    module = nn.Sequential(nn.Linear(D, 8), nn.ReLU(), nn.Linear(8, 3))
    head = [part.detach()[None] for part in module.parameters()]
    x, y = torch.rand(4, D, generator=g), torch.randint(3, (4,), generator=g)
    written = torch.randn(8, D, generator=g)
    scores = attackers.alignment(head, x, y, written)
    for k in range(4):
        gradient = torch.autograd.grad(loss_of(module(x[k][None]), y[k][None]), module[0].weight)[0]
        wanted = torch.cosine_similarity(-gradient.flatten(), written.flatten(), dim=0)
        assert scores[k].item() == pytest.approx(wanted.item(), rel=1e-4)


def test_shadows_have_as_many_images_of_each_of_two_classes():
    two = np.arange(40) % 2
    rows = _drawn(np.arange(10, 40), two, 12, np.random.default_rng(0))
    assert len(set(rows)) == 12 and two[rows].sum() == 6 and rows.min() >= 10


def test_the_table_names_no_cell_twice():
    names = [cell.name for cell in SIZES["paper"].cells]
    assert len(set(names)) == len(names)


def test_heads_of_ten_and_of_two_classes_are_better_than_a_guess(runs):
    plain, two = (runs("heads-members").metrics.cells[k] for k in (0, 3))
    assert plain.accuracy[0] > 0.5 and two.accuracy[0] > 0.5
