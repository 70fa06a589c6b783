"""Chapter 20: who is in which set, what counts as an error, how curves are judged, and the span of images."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from recon.analysis.privacy_bounds import epsilon_of_rho
from recon.chapters.all_but_one.claims import certain_claim, from_float32, told_apart
from recon.chapters.all_but_one.claims_private import apart, crossing, power, rho_of
from recon.chapters.all_but_one.compute_linear import nearest_known, trained, with_another, without
from recon.chapters.all_but_one.compute_output import Images, least, off, restored, truth
from recon.chapters.all_but_one.compute_reader import Digits, guesses_of, varied
from recon.chapters.all_but_one.compute_sgd import by_last_weights, images
from recon.chapters.all_but_one.sizes import OUTPUT, READER, SGD
from recon.chapters.base import Context
from recon.images.registry import load_pool
from recon.nets.mlp import MLP, affine
from recon.optim.subspace import Subspace, reduced
from recon.training.inner import Objective
from recon.training.private import clipped_each


@pytest.fixture(scope="module")
def context():
    return Context(load_pool("photos"), torch.device("cpu"), 0, None, None)


# --------------------------------------------------------------------------------------------------- linear models


def test_squared_errors_are_minimised_in_closed_form():
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(8, 15, generator=generator, dtype=torch.float64), (torch.arange(8) % 2).double()
    theta = trained("mse", x, y, 0.3)
    assert Objective(affine(15), y, 0.3, "mse").grad(theta[None], x[None]).norm() < 1e-10
    theta = trained("logistic", x, y, 0.3)
    assert Objective(affine(15), y, 0.3).grad(theta[None], x[None]).norm() < 1e-8


def test_what_is_known_and_what_is_taken_for_known():
    x, y = torch.arange(12.0).view(4, 3), torch.tensor([0.0, 1, 0, 1])
    kept, labels = without(x, y, 1, 3)
    assert torch.equal(kept, x[[0, 2]]) and torch.equal(labels, y[[0, 2]])
    wrong, labels = with_another(x, y, 0, torch.full((2, 3), 9.0))
    assert torch.equal(wrong[0], torch.full((3,), 9.0)) and torch.equal(wrong[1:], x[2:]) and torch.equal(labels, y[1:])
    assert torch.equal(x[1], torch.tensor([3.0, 4, 5]))  # nothing was written into it
    assert nearest_known(torch.tensor([[0.0], [1], [5]])) == pytest.approx((1 + 1 + 4) / 3)


def doubts(loss: str, exact: float, single: float, wrong: float, two: float) -> SimpleNamespace:
    each = {"exact": SimpleNamespace(doubt=exact), "single": SimpleNamespace(doubt=single)}
    return SimpleNamespace(
        loss=loss, **each, least_wrong_doubt=wrong, least_two_doubt=two, wrong_doubt=0.3, two_doubt=0.1
    )


def test_a_certificate_is_judged_from_rounded_weights_row_by_row():
    clear, close = doubts("logistic", 1e-9, 1e-7, 1e-5, 1e-4), doubts("mse", 1e-9, 1e-3, 2e-3, 5e-3)
    lost = doubts("mse", 1e-9, 1e-3, 2e-3, 1e-3)
    assert [told_apart(row) for row in (clear, close, lost)] == [True, True, False]
    said = certain_claim(SimpleNamespace(rows=[clear, close]))  # although 1e-3 is above the 1e-5 of the other row
    assert said.verdict == "finding" and said.value == pytest.approx(0.5)
    assert certain_claim(SimpleNamespace(rows=[clear, close, lost])).verdict == "partly"
    assert from_float32([clear, close, lost]) == (
        "logistic loss 1e-07 at most, below every wrong guess at 1 of 1 sizes; "
        "squared loss 1e-03 at most, below every wrong guess at 1 of 2 sizes"
    )


def test_a_wrong_guess_that_looks_like_rounding_leaves_the_certificate_in_part():
    row = doubts("logistic", 1e-9, 1e-9, 1e-3, 1e-8)
    rows = [row, doubts("mse", 1e-9, 1e-9, 1e-3, 1e-3)]
    assert told_apart(row) and certain_claim(SimpleNamespace(rows=rows)).verdict == "partly"


# ------------------------------------------------------------------------------------------- noise on the weights


def test_images_are_of_one_length_and_a_blank_leaves_nothing(context):
    found = Images.of(4, OUTPUT["smoke"], context)
    assert found.dim == 48 and len(found.targets) == OUTPUT["smoke"].targets
    for part in (found.train, found.others, found.held_out):
        assert torch.allclose(part.norm(dim=1), torch.tensor(48.0).double().sqrt())
    assert set(found.y.tolist()) == {-1.0, 1.0} and set(found.y[found.targets].tolist()) == {-1.0, 1.0}
    known, labels = found.known(3)
    assert len(known) == len(labels) == len(found.train) - 1 and not (known == found.train[3]).all(1).any()
    blank, same = found.blanked(3)
    assert not blank[3].any() and torch.equal(blank[4:], found.train[4:]) and torch.equal(same, found.y)
    x_hat = -3 * found.train[found.targets]  # sign and length are the eye's
    assert torch.allclose(restored(x_hat, found), truth(found), atol=1e-6)


def test_errors_are_blind_to_sign_and_length():
    x, other = torch.tensor([3.0, 4.0]), torch.tensor([4.0, -3.0])
    assert off(-2 * x, x) == pytest.approx(0, abs=1e-6) and off(other, x) == pytest.approx(1)
    taus = torch.linspace(-1, 1, 2001)[:, None]
    x_hat = torch.tensor([5.0, 0.0])  # as long as x
    best = ((x - taus * x_hat).square().sum(1) / x.square().sum()).min().item()
    assert off(x_hat, x) == pytest.approx(best, abs=1e-3)
    assert least(x, torch.stack([other, x_hat])) == pytest.approx(off(x_hat, x))


def curve(dim: int, errors: list[float], ratios: list[float]) -> list[SimpleNamespace]:
    return [
        SimpleNamespace(dim=dim, ratio=ratio, rho=ratio * dim, error=[error])
        for ratio, error in zip(ratios, errors, strict=True)
    ]


def test_curves_that_lie_together_over_one_scale_are_apart_over_the_other():
    ratios, errors = [0.1, 1.0, 10.0, 100.0], [1.0, 0.9, 0.3, 0.02]
    rows = curve(10, errors, ratios) + curve(100, errors, ratios)
    metrics = SimpleNamespace(
        budgets=rows,
        nulls=[SimpleNamespace(dim=10), SimpleNamespace(dim=100)],
        of=lambda dim: [row for row in rows if row.dim == dim],
    )
    assert apart(metrics, lambda row: row.ratio) == 0 and apart(metrics, lambda row: row.rho) > 0.3


def test_where_a_curve_crosses_one_half():
    assert crossing(curve(1, [1.0, 0.0], [1.0, 100.0])) == pytest.approx(10)
    assert crossing(curve(1, [0.9, 0.6, 0.2], [1.0, 10.0, 100.0])) == pytest.approx(10 ** (1 + 0.25))
    assert crossing(curve(1, [0.4, 0.3], [1.0, 10.0])) is None and crossing(curve(1, [1.0, 0.9], [1.0, 10.0])) is None


def test_how_fast_a_curve_falls():
    assert power(curve(1, [1.0, 0.3, 0.003], [0.1, 10.0, 1000.0])) == pytest.approx(1)
    assert power(curve(1, [0.4, 0.004], [10.0, 100.0])) == pytest.approx(2)


def test_a_budget_and_its_epsilon_are_inverse():
    for rho in (0.1, 1.0, 300.0):
        assert rho_of(epsilon_of_rho(rho)) == pytest.approx(rho)


# -------------------------------------------------------------------------------------------- noise on every step


def test_nothing_is_lost_in_the_span_of_the_images(context):
    """Lengths and products of clipped gradients, of which all evidence is made, are the same as in all pixels."""
    data, candidates = images(SGD["smoke"], context)
    assert not set(candidates.index.tolist()) & set(data.train.index.tolist())
    x, own = 2 * data.train.flat - 1, 2 * candidates.flat - 1
    space = Subspace.spanned_by(x[1:], own)
    assert torch.allclose(space.basis @ space.basis.mT, torch.eye(len(space)), atol=1e-5)
    full = MLP((x.shape[1], 4, 2))
    theta = full.flatten(full.init(torch.Generator().manual_seed(0)))[None]
    small, inside = reduced(full, theta, space)
    labels = candidates.labels % 2
    whole, part = (
        clipped_each(network, t, images_, labels, 0.1)[0]
        for network, t, images_ in ((full, theta, own), (small, inside, space.reduce(own)))
    )
    assert whole.shape[1] > part.shape[1] and torch.allclose(whole @ whole.mT, part @ part.mT, rtol=1e-3, atol=1e-6)


def test_practice_on_last_weights_learns_what_there_is_and_no_more():
    generator = torch.Generator().manual_seed(0)
    target = torch.arange(400) % 4
    losses = torch.randn(400, 4, generator=generator)
    assert (by_last_weights({"losses": losses, "target": target}, 5) == target).float().mean() < 0.35
    told = losses - 3 * torch.nn.functional.one_hot(target, 4)
    assert (by_last_weights({"losses": told, "target": target}, 5) == target).float().mean() > 0.8


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
