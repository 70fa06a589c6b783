"""Chapter 7: images of its own for every network, practice on the others only, what is true, and
what can be told without practice.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from companion.chapters.base import Context
from companion.chapters.decoreco_adversary import DECORECO_ADVERSARY
from companion.chapters.decoreco_adversary.experiment import (
    EVIDENCE,
    PRACTISED,
    candidates,
    judge,
    kinds,
    most_trusted,
    practise,
    scores,
)
from companion.chapters.decoreco_adversary.networks import others_of
from companion.chapters.evidence import Outside, describe, is_true, judged_plainly
from companion.store.record import Record
from recon.images.registry import load_pool
from tests.records import bundle_of, replace

SMOKE = DECORECO_ADVERSARY.sizes["smoke"]


def context(seed):
    return Context(load_pool("photos"), torch.device("cpu"), seed, None, None)


def noise(n, seed):
    return torch.randn(n, 3072, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("trained_first", [True, False])
def test_results_are_judged_in_the_order_of_what_they_explain(trained_first):
    """Training images are true and other photographs are not, and noise does not look natural."""
    here = context(0)
    images = here.images(20)
    others = Outside.without(here, images.train_index).others[:30] - images.mean
    parts = [images.train, others]
    x = torch.cat([*(parts if trained_first else parts[::-1]), noise(9, 0)])
    judged = judged_plainly(x, images, here)
    assert len(images) / 2 < judged.true <= len(images) < judged.natural <= len(images) + 30
    by_order = judged.evidence.contribution
    wanted = (judged.true, 1.0) if trained_first else (0, 0.0)
    assert (by_order.right, by_order.precision) == wanted
    nothing = judged_plainly(noise(9, 0), images, here)
    assert nothing.natural == nothing.true == nothing.evidence.edges.right == 0


# ------------------------------------------------------------------------------------- the networks


@pytest.mark.parametrize("seed", [0, 1])
def test_nobody_outside_is_trained_on(seed):
    """Neither the adversary's photographs, nor those that a true candidate must not resemble
    more.
    """

    def pixels(images):
        return {tuple(image.tolist()) for image in images.mul(255).round().long()[:, ::97]}

    outside = others_of(context(seed), SMOKE)
    known = pixels(torch.cat([outside.practice, outside.others]))
    assert len(known) == len(outside.practice) + len(outside.others)
    for n in (SMOKE.n_train, SMOKE.more_n):
        first, second = context(seed).datasets(n, SMOKE.networks, n)
        assert not known & (pixels(first.train.flat) | pixels(second.train.flat))
        assert not torch.isin(first.train.index, second.train.index).any()


def test_true_is_near_a_training_image_and_nearer_than_to_any_other():
    train, other, noises = noise(3, 0), noise(3, 1), noise(3, 2)
    images = bundle_of(train, train, other, (3, 32, 32))
    outside = Outside(noise(9, 3), other)
    blends = [2 * train[1] + 1.9 * other[1], train[1] + 2 * other[1], train[2] + 3 * noises[2]]
    x = torch.stack([train[0], *blends, -train[2]])
    about = describe(x, images, outside, either_sign=False)
    assert is_true(about).tolist() == [True, True, False, False, False]
    assert about["image"][:4].tolist() == [0, 1, 1, 2]
    either = describe(x, images, outside, either_sign=True)
    assert is_true(either).tolist() == [True, True, False, False, True] and either["image"][4] == 2
    copied = describe(x[:1], images, replace(outside, others=train), either_sign=False)
    assert not is_true(copied).any()


# -------------------------------------------------------------------------------------- the judging


def network(seed, m=60):
    """A network's candidates: true ones have more of everything."""
    generator = torch.Generator().manual_seed(seed)
    true = torch.rand(m, generator=generator) < 0.4
    names = (*EVIDENCE, "separated", "smoothness", "edges", "sparsity", "share", "ncc")
    part = {name: torch.rand(m, generator=generator) + 0.5 * true for name in names}
    return part | {
        "stability": 0.4 * torch.rand(m, generator=generator) + 0.5 * true,
        "true": true,
        "natural": torch.rand(m, generator=generator) < 0.7,
        "either": torch.rand(m, generator=generator) * 1.8 - 0.9,
        "either_image": torch.randint(20, (m,), generator=generator),
        "image": torch.randint(20, (m,), generator=generator),
        "x_hat": noise(m, seed),
        "x_train": noise(20, 100 + seed),
        "mean": torch.zeros(3072),
    }


def test_negatives_and_doubtful_are_not_true():
    x_train, other = noise(4, 0), noise(4, 1)
    blends = x_train + 1.3 * other
    x = torch.stack([x_train[0], -x_train[1], blends[2], -blends[3], other[0]])
    about = {"x_hat": x, "ncc": torch.tensor([1.0, 0.1, 0.6, 0.1, 0.0]), "other": torch.zeros(5)}
    part = candidates({"x_train": x_train, **about})
    assert part["true"].tolist() == [True, False, False, False, False]
    assert part["either_image"][:4].tolist() == [0, 1, 2, 3]
    assert part["either"][1] == pytest.approx(-1)
    negative, doubtful = kinds("decoreco", part)
    assert negative.tolist() == [False, True, False, False, False]
    assert doubtful.tolist() == [False, False, True, True, False]
    negative, doubtful = kinds("more", part)
    assert not negative.any() and doubtful.tolist() == [False, True, True, True, False]


def test_negatives_count_as_true_if_the_sign_is_left_out():
    part = network(0) | {"natural": torch.arange(60) < 50}
    negative, _ = kinds("decoreco", part)
    every, natural = judge("decoreco", [part], replace(SMOKE, draws=2), context(0))
    true, score, negative = part["true"].numpy()[:50], part["agreement"].numpy()[:50], negative[:50]
    assert every.mean == pytest.approx(part["true"].double().mean().item())
    assert natural.negative == negative.sum() > 0 and natural.true == true.sum()
    auc = natural.evidence["agreement"]
    assert auc.auc.mean == pytest.approx(roc_auc_score(true, score))
    assert auc.auc_either.mean == pytest.approx(roc_auc_score(true | negative, score))


@pytest.mark.parametrize("arm", PRACTISED)
def test_practice_is_on_the_other_networks_only(arm):
    parts = [network(seed) for seed in range(3)]
    name = PRACTISED[arm]
    learned = scores(arm, parts)[name]
    swapped = scores(arm, [{**parts[0], "true": ~parts[0]["true"]}, *parts[1:]])[name]
    assert np.array_equal(learned[0], swapped[0]) and not np.allclose(learned[1], swapped[1])
    for score, part in zip(learned, parts, strict=True):
        assert roc_auc_score(part["true"], score) > 0.9
    lonely = [{**part, "true": torch.ones(60, dtype=torch.bool)} for part in parts]
    assert practise(arm, lonely[:2], parts[2]) is None and name not in scores(arm, lonely)


@pytest.mark.parametrize("arm", PRACTISED)
def test_practice_on_what_looks_natural_leaves_the_rest_out(arm):
    part, shadow = network(0), network(1)
    changed = {**shadow, "true": shadow["true"] ^ ~shadow["natural"]}
    assert np.array_equal(practise(arm, [shadow], part), practise(arm, [changed], part))


def test_the_most_trusted_are_natural_looking_and_in_order():
    parts = [network(seed) for seed in range(3)]
    group = Record(evidence={"combined": Record(auc=Record(values=[0.9, None, 0.5]))})
    shown = most_trusted("decoreco", group, parts)
    assert shown["decoreco.network"] == 2  # the median one, the lower of two
    natural = parts[2]["natural"]
    score = torch.from_numpy(scores("decoreco", parts)["combined"][2])
    rows = natural.nonzero()[:, 0][score[natural].argsort(descending=True)][:20]
    assert torch.equal(shown["decoreco.ncc"], parts[2]["either"][rows])
    assert torch.equal(shown["decoreco.true"], parts[2]["true"][rows])
    assert shown["decoreco.x_hat"].min() == 0 and shown["decoreco.x_hat"].max() == 1


def test_a_separated_image_is_shown_with_the_sign_of_its_nearest():
    part = network(0)
    part |= {"x_hat": -part["x_train"][part["either_image"]], "either": -torch.ones(60)}
    shown = most_trusted("more", Record(evidence={}), [part])
    torch.testing.assert_close(shown["more.x_hat"], shown["more.train"])
    assert (shown["more.ncc"] == 1).all()
