"""Metrics against scikit-image and loops; matching against brute force and its invariances."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from recon.errors import ReconError
from recon.scoring import metrics
from recon.scoring.matching import METRICS, match_counts, nearest, one_to_one, padded, target_decoy


def images(n, seed=0):
    """Random images with some structure, (n, 3072) float64 in [0, 1]."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(n, 3, 8, 8, generator=generator, dtype=torch.float64)
    smooth = torch.nn.functional.interpolate(coarse, size=32, mode="bilinear")
    return (0.8 * smooth + 0.2 * torch.rand(smooth.shape, generator=generator, dtype=torch.float64)).flatten(1)


def test_ssim_equals_scikit_image():
    a, b = images(3), images(4, seed=1)
    ours = metrics.ssim(a, b, chunk=2)
    for i, j in itertools.product(range(3), range(4)):
        pair = (x.reshape(3, 32, 32).numpy() for x in (a[i], b[j]))
        assert ours[i, j].item() == pytest.approx(structural_similarity(*pair, data_range=1, channel_axis=0), abs=1e-10)


def test_psnr_equals_scikit_image():
    a, b = images(3), images(3, seed=1)
    expected = [peak_signal_noise_ratio(x.numpy(), y.numpy(), data_range=1) for x, y in zip(a, b, strict=True)]
    assert np.allclose(metrics.psnr(metrics.mse(a, b)), expected)


def test_l2_and_ncc_equal_loops():
    a, b = images(3), images(4, seed=1)
    for i, j in itertools.product(range(3), range(4)):
        assert metrics.l2(a, b)[i, j].item() == pytest.approx((a[i] - b[j]).norm().item(), abs=1e-12)
        assert metrics.ncc(a, b)[i, j].item() == pytest.approx(np.corrcoef(a[i], b[j])[0, 1], abs=1e-12)


def test_ncc_ignores_brightness_and_contrast_and_survives_constants():
    a, b = images(3), images(4, seed=1)
    assert torch.allclose(metrics.ncc(a, b), metrics.ncc(0.1 * a + 3, 7 * b - 1))
    assert torch.equal(metrics.ncc(torch.full((1, 3072), 0.3), b.float()), torch.zeros(1, 4))


@pytest.mark.parametrize("metric", METRICS)
def test_nearest_equals_brute_force(metric):
    a, b = images(5), images(7, seed=1)
    pairwise, larger = METRICS[metric]
    match = nearest(a, b, metric)
    for i in range(5):
        scores = [pairwise(a[i : i + 1], b[j : j + 1], metrics.CIFAR_SHAPE).item() for j in range(7)]
        best = max(scores) if larger else min(scores)
        assert match.score[i].item() == pytest.approx(best, abs=1e-9)
        assert match.index[i].item() == scores.index(best) or scores[match.index[i]] == pytest.approx(best)


@pytest.mark.parametrize("metric", METRICS)
def test_self_match(metric):
    a = images(6)
    match = nearest(a, a, metric)
    assert torch.equal(match.index, torch.arange(6))
    assert torch.allclose(match.score, torch.full((6,), 0.0 if metric == "l2" else 1.0, dtype=a.dtype), atol=1e-12)
    if metric == "l2":
        assert (match.score == 0).all()


@pytest.mark.parametrize("metric", METRICS)
def test_matching_follows_a_permutation(metric):
    a, b = images(5), images(7, seed=1)
    order = torch.randperm(5, generator=torch.Generator().manual_seed(2))
    for match in (nearest, one_to_one):
        assert torch.equal(match(a[order], b, metric).index, match(a, b, metric).index[order])


def test_one_to_one_is_the_best_assignment():
    a, b = images(4), images(5, seed=1)
    scores = metrics.ncc(a, b)
    best = max(sum(scores[i, p[i]].item() for i in range(4)) for p in itertools.permutations(range(5), 4))
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


def test_ncc_per_channel_equals_a_loop_and_ignores_each_channels_contrast():
    a, b = images(3), images(4, seed=1)
    found = metrics.ncc_channel(a, b)
    for i in range(3):
        for j in range(4):
            pairs = zip(a[i].reshape(3, -1), b[j].reshape(3, -1), strict=True)
            expected = np.mean([np.corrcoef(p, q)[0, 1] for p, q in pairs])
            assert found[i, j].item() == pytest.approx(expected, abs=1e-6)
    tinted = (a.reshape(3, 3, -1) * torch.tensor([0.2, 1.0, 3.0])[:, None] + 0.1).flatten(1)
    assert torch.allclose(metrics.ncc_channel(tinted, b), found, atol=1e-5)


def noise(n, seed):
    return torch.randn(n, 3072, generator=torch.Generator().manual_seed(seed))


def test_target_decoy_counts_finds_and_their_chance():
    train, held_out = noise(10, 1), noise(10, 2)
    found = target_decoy(torch.cat([train[:6] + 0.1 * noise(6, 3), noise(14, 4)]), train, held_out, 0.6)
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
    counts = match_counts(centred[:1].repeat(10, 1), centred, mean)
    assert set(counts) == {"ncc_0.5", "ncc_0.6", "ncc_0.7", "ncc_0.8", "ncc_channel_0.6", "ssim_0.4"}
    assert counts["ncc_0.6"] == 1 and counts["ssim_0.4"] <= 2
    perfect = match_counts(centred, centred, mean)
    assert perfect["ncc_0.6"] == perfect["ssim_0.4"] == 5


def test_match_counts_of_fewer_candidates_than_images():
    """Missing candidates find nothing, and a zero row is none, by SSIM either."""
    train = images(5)
    mean = train.mean(0)
    centred = train - mean
    two = match_counts(centred[:2], centred, mean)
    assert two["ncc_0.8"] == two["ncc_channel_0.6"] == two["ssim_0.4"] == 2
    assert match_counts(padded(centred[:2], 9), centred, mean) == two
    assert padded(centred, 3) is not centred and torch.equal(padded(centred, 3), centred)
    for none in (centred[:0], torch.zeros_like(centred)):
        assert not any(match_counts(none, centred, mean).values())
    grey = images(1).mean() + 0 * mean  # the mean itself must not be counted, though it resembles every image here
    assert match_counts(torch.zeros_like(centred), train[:1].repeat(5, 1) - grey, grey)["ssim_0.4"] == 0


def test_mixtures_of_training_images_break_the_p_value():
    """What `target_decoy` says it assumes: blur in the span of the training images is not chance."""
    values = []
    for seed in range(20):
        train, held_out = noise(8, 10 + seed), noise(8, 100 + seed)
        values.append(target_decoy(noise(16, seed)[:, :8] @ train, train, held_out, 0.3).p_value)
    assert np.mean(np.array(values) <= 0.05) > 0.5


def test_unequal_null_is_refused():
    with pytest.raises(ReconError, match="as many held-out"):
        target_decoy(noise(4, 0), noise(2, 1), noise(3, 2), 0.6)
