"""Appendix H: who is in which set, and what is guessed first."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from companion.chapters.all_but_one.experiment_linear import nearest_known, trained, with_another, without
from companion.chapters.all_but_one.experiment_reader import SIZES as READER
from companion.chapters.all_but_one.experiment_reader import Digits, guesses_of, varied
from recon.nets.mlp import MLP, affine
from recon.training.inner_problem import Objective, with_ones

# --------------------------------------------------------------------------------------------------- linear models


def test_squared_errors_are_minimised_in_closed_form():
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(8, 15, generator=generator, dtype=torch.float64), (torch.arange(8) % 2).double()
    theta = trained("mse", x, y, 0.3)
    off = with_ones(x) @ theta - (2 * y - 1)
    assert (off @ with_ones(x) / 8 + 0.3 * theta).norm() < 1e-10
    theta = trained("logistic", x, y, 0.3)
    assert Objective(affine(15), y, 0.3).grad(theta[None], x[None]).norm() < 1e-8


def test_what_is_known_and_what_is_taken_for_known():
    x, y = torch.arange(12.0).view(4, 3), torch.tensor([0.0, 1, 0, 1])
    kept, labels = without(x, y, 1)
    assert torch.equal(kept, x[[0, 2, 3]]) and torch.equal(labels, y[[0, 2, 3]])
    wrong, labels = with_another(x, y, 0, torch.full((2, 3), 9.0))
    assert torch.equal(wrong[0], torch.full((3,), 9.0)) and torch.equal(wrong[1:], x[2:]) and torch.equal(labels, y[1:])
    assert torch.equal(x[1], torch.tensor([3.0, 4, 5]))  # nothing was written into it
    assert nearest_known(torch.tensor([[0.0], [1], [5]])) == pytest.approx((1 + 1 + 4) / 3)


# ------------------------------------------------------------------------------------------------- small networks


@pytest.mark.parametrize("shadows", [80, 2000])
def test_no_digit_plays_two_parts(shadows):
    sizes = replace(READER["smoke"], shadows=shadows)
    found = Digits.of(sizes, seed=1)
    (known, _), (victims, _), (practice, labels) = found.known, found.victims, found.practice
    assert (len(known), len(victims), len(practice)) == (sizes.n_known, sizes.victims, shadows) and len(
        labels
    ) == shadows
    for one, other in ((known, victims), (known, practice), (victims, practice)):
        assert torch.cdist(one, other).min() > 1e-3
    assert practice.min() >= 0 and practice.max() <= 1
    assert not torch.equal(Digits.of(sizes, seed=2).known[0], known)


def test_copies_are_like_their_digit_and_not_the_same():
    x = Digits.of(READER["smoke"], 0).known[0]
    copies = varied(x, torch.Generator().manual_seed(0))
    away = (copies - x).square().mean(1)
    strangers = (copies - x.roll(1, 0)).square().mean(1)
    assert away.min() > 1e-4 and away.median() < 0.5 * strangers.median()


def test_guesses_are_the_means_of_the_known_classes():
    x, labels = torch.tensor([[0.0], [1.0], [0.5]]), torch.tensor([1, 1, 2])
    world = SimpleNamespace(x=x, labels=labels, network=MLP((1, 2, 4)))
    assert guesses_of(world)[:, 0].tolist() == [0.5, 0.5, 0.5, 0.5] and math.isclose(x.mean().item(), 0.5)
    world.x = torch.tensor([[0.0], [1.0], [0.8]])
    assert guesses_of(world)[2, 0].item() == pytest.approx(0.8)
