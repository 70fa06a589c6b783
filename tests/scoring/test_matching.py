"""Matching against brute force and its invariances; the competition against an enumeration; counts
by yardstick.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter
from scipy.optimize import linear_sum_assignment
from skimage.metrics import structural_similarity

from recon.errors import ReconError
from recon.scoring import metrics
from recon.scoring.matching import (
    LABELS,
    METRICS,
    ByYardstick,
    Counts,
    match_counts,
    nearest,
    one_to_one,
    padded,
    rescale,
    target_decoy,
)

SHAPE = (3, 32, 32)


def labelled(found):
    return {label: getattr(found, name) for name, label in LABELS.items()}


def images(n, seed=0):
    """Random images with some structure, (n, 3072) float64 in [0, 1]."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(n, 3, 8, 8, generator=generator, dtype=torch.float64)
    smooth = torch.nn.functional.interpolate(coarse, size=32, mode="bilinear")
    return (
        0.8 * smooth + 0.2 * torch.rand(smooth.shape, generator=generator, dtype=torch.float64)
    ).flatten(1)


@pytest.mark.parametrize("metric", METRICS)
def test_nearest_equals_brute_force(metric):
    a, b = images(5), images(7, seed=1)
    pairwise, larger = METRICS[metric]
    match = nearest(a, b, metric, SHAPE)
    for i in range(5):
        scores = [pairwise(a[i : i + 1], b[j : j + 1], SHAPE).item() for j in range(7)]
        best = max(scores) if larger else min(scores)
        assert match.score[i].item() == pytest.approx(best, abs=1e-9)
        assert match.index[i].item() == scores.index(best) or scores[
            match.index[i]
        ] == pytest.approx(best)


@pytest.mark.parametrize("metric", METRICS)
def test_self_match(metric):
    a = images(6)
    match = nearest(a, a, metric, SHAPE)
    assert torch.equal(match.index, torch.arange(6))
    assert torch.allclose(
        match.score, torch.full((6,), 0.0 if metric == "l2" else 1.0, dtype=a.dtype), atol=1e-12
    )
    if metric == "l2":
        assert (match.score == 0).all()


@pytest.mark.parametrize("metric", METRICS)
def test_matching_follows_a_permutation(metric):
    a, b = images(5), images(7, seed=1)
    order = torch.randperm(5, generator=torch.Generator().manual_seed(2))
    for match in (nearest, one_to_one):
        assert torch.equal(
            match(a[order], b, metric, SHAPE).index, match(a, b, metric, SHAPE).index[order]
        )


def test_one_to_one_is_the_best_assignment():
    a, b = images(4), images(5, seed=1)
    scores = metrics.ncc(a, b)
    best = max(
        sum(scores[i, p[i]].item() for i in range(4)) for p in itertools.permutations(range(5), 4)
    )
    match = one_to_one(a, b, "ncc")
    assert len(set(match.index.tolist())) == 4
    assert match.score.sum().item() == pytest.approx(best)


def test_one_to_one_does_not_count_twice_what_nearest_does():
    b = images(3)
    a = b[[0, 0, 0]]
    assert (nearest(a, b, "ncc").score > 0.99).sum() == 3
    assert (one_to_one(a, b, "ncc").score > 0.99).sum() == 1


def test_bad_input():
    with pytest.raises(ReconError, match="unknown metric 'l3'"):
        nearest(images(1), images(1), "l3")
    with pytest.raises(ReconError, match="rows of one length"):
        nearest(images(1), torch.zeros(1, 5))
    with pytest.raises(ReconError, match="at least as many"):
        one_to_one(images(3), images(2))


def noise(n, seed):
    return torch.randn(n, 3072, generator=torch.Generator().manual_seed(seed))


def test_target_decoy_counts_finds_and_their_chance():
    train, held_out = noise(10, 1), noise(10, 2)
    found = target_decoy(
        torch.cat([train[:6] + 0.1 * noise(6, 3), noise(14, 4)]), train, held_out, 0.6
    )
    assert (found.targets, found.decoys) == (6, 0)
    assert found.fdr == pytest.approx(1 / 6)
    assert found.p_value == pytest.approx(1 / 184.57, rel=1e-3)  # C(10, 6) / C(20, 6)
    nothing = target_decoy(noise(20, 5), train, held_out, 0.6)
    assert (nothing.targets, nothing.decoys, nothing.fdr, nothing.p_value) == (0, 0, 1.0, 1.0)


def test_target_decoy_is_calibrated_where_nothing_leaked():
    """Candidates made of both sets alike: the p-value is not small more often than it should be."""
    values = []
    for seed in range(40):
        train, held_out = noise(8, 10 + seed), noise(8, 100 + seed)
        pick = torch.randperm(16, generator=torch.Generator().manual_seed(seed))[:6]
        x_hat = torch.cat([torch.cat([train, held_out])[pick], noise(10, 1000 + seed)])
        values.append(target_decoy(x_hat, train, held_out, 0.6).p_value)
    assert np.mean(np.array(values) <= 0.1) <= 0.2


def test_match_counts_are_one_to_one():
    """One perfect candidate and its copies count once, however many yardsticks."""
    train = images(5)
    mean = train.mean(0)
    centred = train - mean
    counts = match_counts(centred[:1].repeat(10, 1), centred, mean, SHAPE)
    assert counts.ncc_06 == 1 and counts.ssim_04 <= 2
    perfect = match_counts(centred, centred, mean, SHAPE)
    assert perfect.ncc_06 == perfect.ssim_04 == 5


def test_match_counts_of_fewer_candidates_than_images():
    """Missing candidates find nothing, and a zero row is none, by SSIM either."""
    train = images(5)
    mean = train.mean(0)
    centred = train - mean
    two = match_counts(centred[:2], centred, mean, SHAPE)
    assert two.ncc_08 == two.ncc_channel_06 == two.ssim_04 == 2
    assert match_counts(padded(centred[:2], 9), centred, mean, SHAPE) == two
    assert padded(centred, 3) is not centred and torch.equal(padded(centred, 3), centred)
    for none in (centred[:0], torch.zeros_like(centred)):
        assert match_counts(none, centred, mean, SHAPE) == Counts(0, 0, 0, 0, 0, 0)
    # the mean itself must not be counted, though it resembles every image here
    grey = images(1).mean() + 0 * mean
    assert (
        match_counts(torch.zeros_like(centred), train[:1].repeat(5, 1) - grey, grey, SHAPE).ssim_04
        == 0
    )


def test_mixtures_of_training_images_break_the_p_value():
    """What `target_decoy` says it assumes: blur in the span of the training images is not
    chance.
    """
    values = []
    for seed in range(20):
        train, held_out = noise(8, 10 + seed), noise(8, 100 + seed)
        values.append(target_decoy(noise(16, seed)[:, :8] @ train, train, held_out, 0.3).p_value)
    assert np.mean(np.array(values) <= 0.05) > 0.5


def test_unequal_null_is_refused():
    with pytest.raises(ReconError, match="as many held-out"):
        target_decoy(noise(4, 0), noise(2, 1), noise(3, 2), 0.6)


def test_the_p_value_is_that_of_all_memberships():
    """By enumeration: of all ways to call 5 of 10 images training images, how many give as many
    targets.
    """
    train, held_out = noise(5, 1), noise(5, 2)
    both = torch.cat([train, held_out])
    x_hat = both[[0, 1, 2, 3, 7]]
    found = target_decoy(x_hat, train, held_out, 0.6)
    assert (found.targets, found.decoys) == (4, 1) and found.fdr == pytest.approx(2 / 4)
    drawn = [
        len({0, 1, 2, 3, 7} & set(members)) for members in itertools.combinations(range(10), 5)
    ]
    assert found.p_value == pytest.approx(np.mean([targets >= 4 for targets in drawn]))


@pytest.mark.parametrize("metric", ["ncc", "l2"])
def test_a_score_at_the_threshold_does_not_count(metric):
    """Above (for distances: below) means strictly."""
    eye = torch.eye(4, dtype=torch.float64)
    train, held_out, x_hat = eye[:2], eye[2:], 3 * eye[:1] + eye[1:2] + eye[2:3]
    score = one_to_one(x_hat, torch.cat([train, held_out]), metric).score.item()
    nudge = 1e-9 if metric == "ncc" else -1e-9
    assert target_decoy(x_hat, train, held_out, score, metric).targets == 0
    assert target_decoy(x_hat, train, held_out, score - nudge, metric).targets == 1


def test_more_candidates_than_images_compete_for_them():
    train, held_out = noise(3, 1), noise(3, 2)
    x_hat = torch.cat([noise(20, 3), held_out[:2], train, train + 0.5 * noise(3, 4)])
    found = target_decoy(x_hat, train, held_out, 0.6)
    assert (found.targets, found.decoys) == (3, 2) and found.fdr == 1.0


def counts_by_loops(x_hat, images, mean, shape):
    """`match_counts` with SciPy's assignment over scores of NumPy and scikit-image, one pair at a
    time.
    """

    def assigned(rows, columns, score):
        table = np.array([[score(a, b) for b in columns] for a in rows]).reshape(
            len(rows), len(columns)
        )
        return table[linear_sum_assignment(table, maximize=True)]

    def ncc(a, b):
        return np.corrcoef(a, b)[0, 1] if a.std() > 1e-6 and b.std() > 1e-6 else 0.0

    def ncc_channel(a, b):
        return np.mean(
            [
                ncc(p, q)
                for p, q in zip(a.reshape(shape[0], -1), b.reshape(shape[0], -1), strict=True)
            ]
        )

    def ssim(a, b):
        return structural_similarity(
            a.reshape(shape), b.reshape(shape), data_range=1, channel_axis=0
        )

    x, y, shift = (t.double().numpy() for t in (x_hat, images, mean))
    whole, channel = (assigned(y, x, score) for score in (ncc, ncc_channel))
    shown = [row + shift for row in x if row.any()]
    shown = [(row - row.min()) / (row.max() - row.min()) for row in shown]
    seen = assigned(shown, list(y + shift), ssim) if shown else np.zeros(0)
    table = {f"ncc_{t}": int((whole > t).sum()) for t in (0.5, 0.6, 0.7, 0.8)}
    return table | {
        "ncc_channel_0.6": int((channel > 0.6).sum()),
        "ssim_0.4": int((seen > 0.4).sum()),
    }


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 8, 8), (2, 9, 13)])
@pytest.mark.parametrize("m", [3, 8, 14])
def test_match_counts_equal_loops(shape, m):
    dim, generator = int(np.prod(shape)), torch.Generator().manual_seed(m)
    coarse = torch.rand(8, shape[0], 3, 3, generator=generator, dtype=torch.float64)
    images = torch.nn.functional.interpolate(coarse, size=shape[1:], mode="bilinear").flatten(1)
    mean = images.mean(0) + 0.2 * torch.rand(dim, generator=generator, dtype=torch.float64)
    centred = images - mean
    strength = torch.linspace(0, 2.5, m, dtype=torch.float64)[:, None] * centred.std()
    x_hat = centred[torch.arange(m) % 8] + strength * torch.randn(
        m, dim, generator=generator, dtype=torch.float64
    )
    found = match_counts(x_hat, centred, mean, shape)
    assert labelled(found) == counts_by_loops(x_hat, centred, mean, shape)
    # the yardsticks differ, so that none can stand for another
    assert len({*labelled(found).values()}) > 1


def test_rescale_is_of_every_image_by_itself():
    x = torch.tensor([[[1.0, 3.0, 2.0], [5.0, 5.0, 5.0]], [[-4.0, 0.0, 4.0], [0.0, 0.5, 1.0]]])
    expected = [[[0.0, 1.0, 0.5], [0.0, 0.0, 0.0]], [[0.0, 0.5, 1.0], [0.0, 0.5, 1.0]]]
    assert rescale(x).tolist() == expected


def test_counts_are_json_by_their_labels():
    counts = Counts(6, 5, 4, 3, 2, 1)
    text = '{"ncc_0.5":6,"ncc_0.6":5,"ncc_0.7":4,"ncc_0.8":3,"ncc_channel_0.6":2,"ssim_0.4":1}'
    adapter = TypeAdapter(Counts)
    assert (
        adapter.dump_json(counts, by_alias=True).decode() == text
        and adapter.validate_json(text) == counts
    )
    assert labelled(counts) == adapter.dump_python(counts, by_alias=True)
    assert list(LABELS) == ["ncc_05", "ncc_06", "ncc_07", "ncc_08", "ncc_channel_06", "ssim_04"]
    letters = dict(zip(labelled(counts), "fedcba", strict=True))
    names = TypeAdapter(ByYardstick[str]).validate_python(letters)
    assert names.ssim_04 == "a" and names.ncc_05 == "f"
    with pytest.raises(ValueError, match="ssim_0.4"):
        adapter.validate_json(text.replace(',"ssim_0.4":1', ""))


def test_counts_are_combined_field_by_field():
    one, other, third = Counts(6, 5, 4, 3, 2, 1), Counts(1, 1, 2, 2, 3, 3), Counts(0, 0, 0, 0, 0, 9)
    assert one.map(lambda a, b, c: 100 * a + 10 * b + c, other, third) == Counts(
        610, 510, 420, 320, 230, 139
    )
    assert one.map(str) == ByYardstick("6", "5", "4", "3", "2", "1")


def test_a_distance_counts_where_it_is_below_the_threshold():
    train, held_out = torch.eye(8)[:4], torch.eye(8)[4:]
    near, far = torch.eye(8)[:2] * 1.1, torch.eye(8)[2:4] * 4.0
    found = target_decoy(torch.cat([near, far]), train, held_out, 0.5, metric="l2")
    assert (found.targets, found.decoys) == (2, 0)
