"""Chapter 7: images of its own for every network, practice on the others only, verdicts in all
directions, and what is stored can be judged again.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from companion.chapters import ROOT, load
from companion.chapters.base import Context
from companion.chapters.decoreco_adversary import DECORECO_ADVERSARY
from companion.chapters.decoreco_adversary.discrimination import Scored, attainable
from companion.chapters.decoreco_adversary.experiment import (
    EVIDENCE,
    KINDS,
    PRACTISED,
    candidates,
    kinds,
    median_of,
    practised,
    scores,
    trusted,
)
from companion.chapters.decoreco_adversary.experiment import judged as judged_of
from companion.chapters.decoreco_adversary.networks import Outside, described, is_true
from companion.chapters.decoreco_adversary.story import first_false
from recon.images.registry import load_pool
from tests.records import bundle_of, replace

SMOKE = DECORECO_ADVERSARY.sizes["smoke"]


@pytest.fixture(scope="module")
def smoke(runs):
    return runs("decoreco-adversary")


def context(seed, folder=None):
    return Context(load_pool("photos"), torch.device("cpu"), seed, folder, None)


# ----------------------------------------------------------------------------------------- verdicts


def judged(smoke, arm="decoreco", share=None, **evidence):
    """The claims with some of the natural-looking group's numbers replaced: kind=(AUC, its low, its
    high, precision, its low).
    """
    group = smoke.metrics.arms[arm].natural
    some = next(iter(group.evidence.values()))
    found = {}
    for kind, (area, low, high, top, top_low) in evidence.items():
        auc = replace(some.auc, mean=area, low=low, high=high)
        found[kind] = replace(
            some, auc=auc, precision_at_20=replace(some.precision_at_20, mean=top, low=top_low)
        )
    changed = replace(
        group,
        evidence={"smoothness": some, **found},
        guess=replace(group.guess, precision_at_20=0.4),
    )
    changed = replace(
        changed,
        share_true=replace(group.share_true, low=0.3 if share is None else share),
        attainable=1.0,
    )
    arms = smoke.metrics.arms | {
        arm: replace(smoke.metrics.arms[arm], natural=changed, n_train=500)
    }
    every = DECORECO_ADVERSARY.claims(replace(smoke.metrics, arms=arms), SMOKE)
    return {claim.id: claim for claim in every}


@pytest.mark.parametrize(("arm", "kind", "name"), [
    ("decoreco", "combined", "adversary-cannot-tell"),
    ("decoreco", "agreement", "adversary-cannot-tell"),
    ("more", "certainty", "adversary-cannot-tell-separated"),
    ("more", "stability", "adversary-cannot-tell-separated"),
])  # fmt: skip
@pytest.mark.parametrize(("numbers", "share", "expected"), [
    # no better than chance, whatever the twenty are
    ((0.6, 0.5, 0.7, 0.99, 0.9), None, "reproduced"),
    ((0.6, 0.51, 0.7, 0.89, 0.8), None, "reproduced"),  # better than chance, and not certain
    ((0.6, 0.51, 0.7, 0.9, 0.4), None, "reproduced"),  # no surer of the twenty than a guess
    ((0.6, 0.51, 0.7, 0.9, 0.41), None, "not reproduced"),
    ((0.6, 0.51, 0.7, None, None), None, "undecided"),  # there are no twenty
    ((0.6, 0.4, 0.7, 0.9, 0.3), 0.9, "not reproduced"),  # nearly all that look natural are true
])  # fmt: skip
def test_whether_they_can_tell(smoke, arm, kind, name, numbers, share, expected):
    claim = judged(smoke, arm, share, **{kind: numbers})[name]
    if arm == "more" and expected == "not reproduced":
        expected = "contradicted by another attack"
    assert claim.verdict == expected and f"({kind};" in claim.ours
    assert (claim.value, claim.null_value) == (numbers[3], 0.4)
    assert claim.margin == (None if numbers[3] is None else pytest.approx(0.9 - numbers[3]))


def test_no_verdict_on_the_thesis_depends_on_the_rule_that_was_mended():
    """The rule before (3074a91) asked for nine true of the ten most trusted, whatever was
    attainable.
    """
    kept_run = load(ROOT / "book" / "paper-size" / "decoreco-adversary", arrays=False)
    metrics = kept_run.metrics
    arms = {
        name: (
            replace(arm, natural=replace(arm.natural, attainable=1.0))
            if name in ("decoreco", "more")
            else arm
        )
        for name, arm in metrics.arms.items()
    }
    assert metrics.arms["decoreco"].natural.attainable < 0.9  # there the two rules differ
    mended, before = (
        [
            claim.verdict
            for claim in DECORECO_ADVERSARY.claims(each, DECORECO_ADVERSARY.sizes["paper"])[:2]
        ]
        for each in (metrics, replace(metrics, arms=arms))
    )
    # 100 images cannot confirm it
    assert mended == before == ["undecided", "contradicted by another attack"]


def test_what_is_said_of_the_candidates_budget_and_of_the_first_false_one(smoke):
    metrics, paper = smoke.metrics, DECORECO_ADVERSARY.sizes["paper"]
    said = {claim.id: claim.ours for claim in DECORECO_ADVERSARY.claims(metrics, paper)}
    n, more = metrics.arms["decoreco"].n_train, metrics.arms["more"].n_train
    assert said["adversary-cannot-tell"].endswith(
        f"searches stopped after 1,000 steps; n = {n}; of these candidates only; "
        "they cannot tell here, the paper has 500 images"
    )
    assert said["adversary-cannot-tell-separated"].endswith(
        f"; n = {more}; of these candidates only"
    )
    group = replace(metrics.arms["decoreco"].natural, candidates=1000, true=350, networks=10)
    assert first_false(group) == "the first of the others, about 65 a network"
    assert first_false(replace(group, candidates=1350)) == "1 % of the others, about 100 a network"


def test_what_was_practised_comes_before_what_was_not(smoke):
    both = judged(smoke, combined=(0.8, 0.7, 0.9, 0.5, 0.4), agreement=(0.6, 0.5, 0.7, 0.7, 0.4))
    assert both["adversary-cannot-tell"].value == 0.5


@pytest.mark.parametrize(("true", "candidates", "expected"), [
    (0, 30, "undecided"), (30, 30, "not reproduced"), (29, 30, "undecided"), (0, 0, "undecided")
])  # fmt: skip
def test_where_there_is_nothing_to_tell_apart(smoke, true, candidates, expected):
    arm = smoke.metrics.arms["decoreco"]
    group = replace(arm.natural, true=true, candidates=candidates, evidence={})
    metrics = replace(
        smoke.metrics, arms=smoke.metrics.arms | {"decoreco": replace(arm, natural=group)}
    )
    found = {claim.id: claim for claim in DECORECO_ADVERSARY.claims(metrics, SMOKE)}
    assert found["adversary-cannot-tell"].verdict == expected
    assert found["adversary-asks-separation"].verdict == "not reproduced"


@pytest.mark.parametrize(("low", "combined", "expected"), [
    (0.8, 0.79, "finding"), (0.8, 0.8, "partly"), (0.51, 0.6, "partly"), (0.5, 0.4, "not reproduced")  # noqa: E501
])  # fmt: skip
def test_separation_has_to_beat_stationarity(smoke, low, combined, expected):
    numbers = {"separated": (0.9, low, 1.0, 0.8, 0.7), "combined": (0.4, 0.3, combined, 0.6, 0.5)}
    smooth = (0.4, 0.3, 0.45, 0.5, 0.4)
    claim = judged(smoke, **numbers, smoothness=smooth)["adversary-asks-separation"]
    assert claim.verdict == expected and (claim.value, claim.null_value) == (0.9, 0.4)
    claim = judged(smoke, **numbers, smoothness=(0.9, 0.8, 0.95, 0.5, 0.4))[
        "adversary-asks-separation"
    ]
    assert claim.verdict in ("partly", "not reproduced")  # smoothness alone says as much


# ------------------------------------------------------------------------------------- the networks


@pytest.mark.parametrize("seed", [0, 1])
def test_nobody_outside_is_trained_on(seed):
    """Neither the adversary's photographs, nor those that a true candidate must not resemble
    more.
    """
    own = context(seed)
    outside = Outside.of(own, SMOKE)
    known = {
        tuple(image.tolist())
        for image in torch.cat([outside.own, outside.others]).mul(255).round().long()[:, ::97]
    }
    sets = [
        each for n in (SMOKE.n_train, SMOKE.more_n) for each in own.datasets(n, SMOKE.networks, n)
    ]
    trained = [
        {tuple(image.tolist()) for image in each.train.flat.mul(255).round().long()[:, ::97]}
        for each in sets
    ]
    assert len(known) == len(outside.own) + len(outside.others) and not any(
        known & images for images in trained
    )
    for first, second in ((0, 1), (2, 3)):
        assert not set(sets[first].train.index.tolist()) & set(sets[second].train.index.tolist())


def test_the_paper_size_has_ten_sets_of_their_own():
    """Where the pool is CIFAR-10's; here its numbers."""
    sizes = DECORECO_ADVERSARY.sizes["paper"]
    assert sizes.networks == 10 and sizes.steps(sizes.more_n) == 1200 and sizes.n_train == 100


def test_true_is_near_a_training_image_and_nearer_than_to_any_other():
    generator = torch.Generator().manual_seed(0)
    train, other, noise = (torch.randn(3, 3072, generator=generator) for _ in range(3))
    images = bundle_of(train, train, other, (3, 32, 32))
    outside = Outside(torch.randn(9, 3072, generator=generator), other)
    x = torch.stack(
        [
            train[0],
            2 * train[1] + 1.9 * other[1],
            train[1] + 2 * other[1],
            train[2] + 3 * noise[2],
            -train[2],
        ]
    )
    about = described(x, images, outside, either_sign=False)
    assert is_true(about).tolist() == [True, True, False, False, False]
    assert about["image"][:4].tolist() == [0, 1, 1, 2]
    either = described(x, images, outside, either_sign=True)
    assert is_true(either).tolist() == [True, True, False, False, True] and either["image"][4] == 2
    assert is_true(
        described(x[:1], images, Outside(outside.own, train), either_sign=False)
    ).tolist() == [False]


# -------------------------------------------------------------------------------------- the judging


def network(seed, m=60):
    """A network's candidates: true ones have more of everything."""
    generator = torch.Generator().manual_seed(seed)
    true = torch.rand(m, generator=generator) < 0.4
    names = (*EVIDENCE, "separated", "smoothness", "edges", "sparsity", "share")
    part = {name: torch.rand(m, generator=generator) + 0.5 * true for name in names}
    return part | {
        "stability": 0.4 * torch.rand(m, generator=generator) + 0.5 * true,
        "true": true,
        "natural": torch.rand(m, generator=generator) < 0.7,
        "ncc": torch.rand(m, generator=generator) * 0.4 + 0.5 * true,
        "either": torch.rand(m, generator=generator) * 1.8 - 0.9,
        "either_image": torch.randint(20, (m,), generator=generator),
        "image": torch.randint(20, (m,), generator=generator),
        "x_hat": torch.randn(m, 3072, generator=generator),
        "x_train": torch.randn(20, 3072, generator=generator),
        "mean": torch.zeros(3072),
    }


def test_negatives_and_doubtful_are_not_true():
    x_train = torch.randn(4, 3072, generator=torch.Generator().manual_seed(0))
    noise = torch.randn(4, 3072, generator=torch.Generator().manual_seed(1))
    x = torch.stack(
        [
            x_train[0],
            -x_train[1],
            x_train[2] + 1.3 * noise[2],
            -x_train[3] - 1.3 * noise[3],
            noise[0],
        ]
    )
    about = {"x_hat": x, "ncc": torch.tensor([1.0, 0.1, 0.6, 0.1, 0.0]), "other": torch.zeros(5)}
    part = candidates({"x_train": x_train, **about})
    assert part["true"].tolist() == [True, False, False, False, False]
    assert part["either_image"][:4].tolist() == [0, 1, 2, 3] and part["either"][1] == pytest.approx(
        -1
    )
    negative, doubtful = kinds("decoreco", part)
    assert negative.tolist() == [False, True, False, False, False]
    assert doubtful.tolist() == [False, False, True, True, False]
    negative, doubtful = kinds("more", part)
    assert not negative.any() and doubtful.tolist() == [False, True, True, True, False]


def test_negatives_count_as_true_if_the_sign_is_left_out():
    one = network(0) | {"natural": torch.ones(60, dtype=torch.bool)}
    negative, _ = kinds("decoreco", one)
    _, found = judged_of("decoreco", [one], replace(SMOKE, draws=2), context(0))
    true, score = one["true"].numpy(), one["agreement"].numpy()
    assert found.negative == negative.sum() > 0
    assert found.evidence["agreement"].auc.mean == pytest.approx(roc_auc_score(true, score))
    assert found.evidence["agreement"].auc_either.mean == pytest.approx(
        roc_auc_score(true | negative, score)
    )


def test_what_is_attainable():
    def known(true, m):
        return Scored(np.zeros(m), np.arange(m) < true, np.arange(m))

    assert attainable([known(15, 50)]) == 0.75 and attainable([known(30, 50), known(5, 10)]) == 0.75
    assert attainable([known(0, 0)]) is None


@pytest.mark.parametrize("arm", PRACTISED)
def test_practice_is_on_the_other_networks_only(arm):
    parts = [network(seed) for seed in range(3)]
    name = PRACTISED[arm]
    found = scores(arm, parts)[name]
    swapped = [{**parts[0], "true": ~parts[0]["true"]}, *parts[1:]]
    again = scores(arm, swapped)[name]
    assert np.array_equal(found[0], again[0]) and not np.allclose(found[1], again[1])
    for score, part in zip(found, parts, strict=True):
        assert roc_auc_score(part["true"], score) > 0.9
    lonely = [{**part, "true": torch.ones(60, dtype=torch.bool)} for part in parts]
    assert practised(arm, lonely[:2], parts[2]) is None and name not in scores(arm, lonely)


def test_practice_on_what_looks_natural_leaves_the_rest_out():
    parts = [network(seed) for seed in range(2)]
    rest = ~parts[1]["natural"]
    changed = {**parts[1], "true": torch.where(rest, ~parts[1]["true"], parts[1]["true"])}
    found, again = (practised("decoreco", shadows, parts[0]) for shadows in (parts[1:], [changed]))
    assert np.array_equal(found, again)


def test_the_network_shown_is_the_median_one():
    assert (
        median_of([0.9, None, 0.2, 0.5]) == 3
        and median_of([0.3, 0.1]) == 1
        and median_of([None]) == median_of([]) == 0
    )


def test_the_most_trusted_are_natural_looking_and_in_order(smoke):
    parts = [network(seed) for seed in range(3)]
    judged = smoke.metrics.arms["more"].natural.evidence["stability"]
    judged = replace(judged, auc=replace(judged.auc, values=[0.9, 0.2, 0.5]))
    group = replace(smoke.metrics.arms["decoreco"].natural, evidence={"combined": judged})
    found = trusted("decoreco", group, parts)
    k = int(found["decoreco.network"])
    assert k == 2  # the median one
    natural = parts[k]["natural"]
    score = torch.from_numpy(scores("decoreco", parts)["combined"][k])
    rows = natural.nonzero()[:, 0][score[natural].argsort(descending=True)][:20]
    assert torch.equal(found["decoreco.ncc"], parts[k]["either"][rows])
    assert torch.equal(found["decoreco.true"], parts[k]["true"][rows])
    assert found["decoreco.x_hat"].min() == 0 and found["decoreco.x_hat"].max() == 1


def test_a_separated_image_is_shown_with_the_sign_of_its_nearest(smoke):
    parts, x_train = [network(seed) for seed in range(2)], torch.randn(20, 3072)
    for part in parts:
        part |= {
            "x_train": x_train,
            "x_hat": -x_train[part["either_image"]],
            "either": -torch.ones(60),
        }
    found = trusted("more", replace(smoke.metrics.arms["more"].natural, evidence={}), parts)
    torch.testing.assert_close(found["more.x_hat"], found["more.train"])
    assert (found["more.ncc"] == 1).all()


# -------------------------------------------------------------------------------------------- smoke


def test_all_kinds_of_evidence_and_bounds(smoke):
    assert set(smoke.metrics.arms["decoreco"].natural.evidence) == {*KINDS["decoreco"], "combined"}
    for arm in smoke.metrics.arms.values():
        group = arm.natural
        assert group.candidates == group.true + group.negative + group.doubtful + group.false
        for found in arm.natural.evidence.values():
            for number in (found.auc, found.precision_at_20, found.tpr_at_1pct_fpr):
                assert number.mean is None or 0 <= number.low <= number.high <= 1
    assert smoke.metrics.networks == 2
