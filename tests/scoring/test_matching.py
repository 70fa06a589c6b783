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
from scipy.special import comb
from skimage.metrics import structural_similarity

from recon.errors import ReconError
from recon.scoring import metrics
from recon.scoring.matching import (
    LABELS,
    METRICS,
    Competition,
    Counts,
    match_counts,
    nearest,
    one_to_one,
    padded,
    rescale,
    target_decoy,
)

SHAPE = (3, 32, 32)


def images(n, seed=0, shape=SHAPE):
    """Random images with some structure, (n, d) float64 in [0, 1]."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(n, shape[0], 4, 4, generator=generator, dtype=torch.float64)
    smooth = torch.nn.functional.interpolate(coarse, size=shape[1:], mode="bilinear").flatten(1)
    return 0.8 * smooth + 0.2 * torch.rand(smooth.shape, generator=generator, dtype=torch.float64)


def test_one_to_one_is_the_best_assignment():
    a, b = images(4), images(5, seed=1)
    scores = metrics.ncc(a, b)
    orders = itertools.permutations(range(5), 4)
    best = max(scores[range(4), order].sum().item() for order in orders)
    match = one_to_one(a, b, "ncc")
    assert len(match.index.unique()) == 4
    assert match.score.sum().item() == pytest.approx(best)


def noise(n, seed):
    return torch.randn(n, 3072, generator=torch.Generator().manual_seed(seed))


def test_target_decoy_counts_finds_and_their_chance():
    train, held_out = noise(10, 1), noise(10, 2)
    x_hat = torch.cat([train[:6] + 0.1 * noise(6, 3), noise(14, 4)])
    expected = Competition(6, 0, 1 / 6, 1 / comb(20, 6, exact=True) * comb(10, 6, exact=True))
    assert vars(target_decoy(x_hat, train, held_out, 0.6)) == pytest.approx(vars(expected))
    assert target_decoy(noise(20, 5), train, held_out, 0.6) == Competition(0, 0, 1.0, 1.0)
    # more candidates than images compete for them
    x_hat = torch.cat([noise(20, 3), held_out[:3], train[:2], train[:2] + 0.5 * noise(2, 4)])
    crowd = target_decoy(x_hat, train[:3], held_out[:3], 0.6)
    assert (crowd.targets, crowd.decoys, crowd.fdr) == (2, 3, 1.0)


def test_match_counts_of_fewer_candidates_than_images():
    """Missing candidates find nothing, and a zero row is none, by SSIM either."""
    train = images(5)
    mean = train.mean(0)
    centred = train - mean
    two = match_counts(centred[:2], centred, mean, SHAPE)
    assert two.ncc_08 == two.ncc_channel_06 == two.ssim_04 == 2
    assert match_counts(padded(centred[:2], 9), centred, mean, SHAPE) == two
    for nothing in (centred[:0], torch.zeros_like(centred)):
        assert match_counts(nothing, centred, mean, SHAPE) == Counts(0, 0, 0, 0, 0, 0)


def test_mixtures_of_training_images_break_the_p_value():
    """What `target_decoy` says it assumes: blur in the span of the training images is not
    chance.
    """
    values = []
    for seed in range(20):
        train, held_out = noise(8, 10 + seed), noise(8, 100 + seed)
        values.append(target_decoy(noise(16, seed)[:, :8] @ train, train, held_out, 0.3).p_value)
    assert np.mean(np.array(values) <= 0.05) > 0.5


def test_the_p_value_is_that_of_all_memberships():
    """By enumeration: of all ways to call 5 of 10 images training images, how many give as many
    targets.
    """
    train, held_out = noise(5, 1), noise(5, 2)
    matched = {0, 1, 2, 3, 7}
    result = target_decoy(torch.cat([train, held_out])[list(matched)], train, held_out, 0.6)
    assert (result.targets, result.decoys, result.fdr) == (4, 1, 2 / 4)
    memberships = itertools.combinations(range(10), 5)
    as_many = [len(matched & set(members)) >= 4 for members in memberships]
    assert result.p_value == pytest.approx(np.mean(as_many))


def test_a_score_at_the_threshold_does_not_count():
    """Above means strictly."""
    eye = torch.eye(4, dtype=torch.float64)
    x_hat = 3 * eye[:1] + eye[1:2] + eye[2:3]
    score = one_to_one(x_hat, eye).score.item()
    assert target_decoy(x_hat, eye[:2], eye[2:], score).targets == 0
    assert target_decoy(x_hat, eye[:2], eye[2:], score - 1e-9).targets == 1


def counts_by_loops(x_hat, images, mean, shape):
    """`match_counts` with SciPy's assignment over scores of NumPy and scikit-image, one pair at a
    time.
    """

    def assigned(rows, columns, score):
        table = np.array([[score(a, b) for b in columns] for a in rows])
        return table[linear_sum_assignment(table, maximize=True)]

    def ncc(a, b):
        return np.corrcoef(a, b)[0, 1]

    def ncc_channel(a, b):
        channels = zip(a.reshape(shape[0], -1), b.reshape(shape[0], -1), strict=True)
        return np.mean([ncc(p, q) for p, q in channels])

    def ssim(a, b):
        pair = (a.reshape(shape), b.reshape(shape))
        return structural_similarity(*pair, data_range=1, channel_axis=0)

    candidates = np.vstack([x_hat, np.zeros((max(len(images) - len(x_hat), 0), x_hat.shape[1]))])
    with np.errstate(invalid="ignore"):  # a zero row has no correlation
        whole = assigned(images, candidates, lambda a, b: np.nan_to_num(ncc(a, b)))
        channel = assigned(images, candidates, lambda a, b: np.nan_to_num(ncc_channel(a, b)))
    pictures = x_hat + mean
    low, high = pictures.min(1, keepdims=True), pictures.max(1, keepdims=True)
    alike = assigned((pictures - low) / (high - low), images + mean, ssim)
    above = [int((whole > threshold).sum()) for threshold in (0.5, 0.6, 0.7, 0.8)]
    return Counts(*above, int((channel > 0.6).sum()), int((alike > 0.4).sum()))


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 8, 8), (2, 9, 13)])
@pytest.mark.parametrize("m", [3, 8, 14])
def test_match_counts_equal_loops(shape, m):
    train = images(8, m, shape)
    mean = train.mean(0) + 0.2 * images(1, 99, shape)[0]
    centred = train - mean
    strength = torch.linspace(0, 2.5, m, dtype=torch.float64)[:, None] * centred.std()
    generator = torch.Generator().manual_seed(m)
    x_hat = torch.randn(m, len(mean), generator=generator, dtype=torch.float64)
    x_hat = centred[torch.arange(m) % 8] + strength * x_hat
    counts = match_counts(x_hat, centred, mean, shape)
    assert counts == counts_by_loops(x_hat.numpy(), centred.numpy(), mean.numpy(), shape)
    # the yardsticks differ, so that none can stand for another
    assert len(set(vars(counts).values())) > 1


def test_rescale_is_of_every_image_by_itself():
    x = torch.tensor([[1.0, 3.0, 2.0], [5.0, 5.0, 5.0], [-4.0, 0.0, 4.0]])
    assert rescale(x).tolist() == [[0.0, 1.0, 0.5], [0.0, 0.0, 0.0], [0.0, 0.5, 1.0]]


def test_counts_are_json_by_their_labels():
    text = '{"ncc_0.5":6,"ncc_0.6":5,"ncc_0.7":4,"ncc_0.8":3,"ncc_channel_0.6":2,"ssim_0.4":1}'
    adapter = TypeAdapter(Counts)
    counts = adapter.validate_json(text)
    assert counts == Counts(6, 5, 4, 3, 2, 1)
    assert adapter.dump_json(counts, by_alias=True).decode() == text
    assert [getattr(counts, name) for name in LABELS] == [6, 5, 4, 3, 2, 1]


def test_counts_are_combined_field_by_field():
    counts, other = Counts(6, 5, 4, 3, 2, 1), Counts(1, 1, 2, 2, 3, 3)
    expected = Counts(61, 51, 42, 32, 23, 13)
    assert counts.map(lambda a, b: 10 * a + b, other) == expected


@pytest.mark.parametrize("metric", METRICS)
def test_nearest_equals_brute_force_and_follows_a_permutation(metric):
    a, b = images(5), images(7, seed=1)
    match = nearest(a, b, metric, SHAPE)
    for row in range(5):
        scores = [METRICS[metric](a[row : row + 1], image[None], SHAPE).item() for image in b]
        assert match.index[row] == scores.index(max(scores))
        assert match.score[row].item() == pytest.approx(max(scores), abs=1e-9)
    order = torch.tensor([3, 1, 4, 0, 2])
    for way in (nearest, one_to_one):
        assert torch.equal(way(a[order], a, metric, SHAPE).index, order)


def test_what_matching_refuses():
    with pytest.raises(ReconError, match="unknown metric 'l3'"):
        nearest(images(1), images(1), "l3")
    with pytest.raises(ReconError, match="rows of one length"):
        nearest(images(1), torch.zeros(1, 5))
    with pytest.raises(ReconError, match="at least as many"):
        one_to_one(images(3), images(2))
    with pytest.raises(ReconError, match="as many held-out"):
        target_decoy(noise(4, 0), noise(2, 1), noise(3, 2), 0.6)
