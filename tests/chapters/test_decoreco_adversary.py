"""Chapter 12: judging against brute force, the verdict in all directions, and images of its own for every network."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from recon.chapters import load
from recon.chapters.base import Context
from recon.chapters.decoreco_adversary import DECORECO_ADVERSARY
from recon.chapters.decoreco_adversary.compute import Attempt, is_true, judge, mean_sd, summary
from recon.chapters.decoreco_adversary.metrics import MeanSd
from recon.chapters.run import run
from recon.images.bundle import Bundle
from recon.images.partitions import partition
from recon.images.registry import load_pool

PUBLISHED = Path(__file__).parents[2] / "book" / "executed" / "results" / "decoreco-adversary"
SMOKE = DECORECO_ADVERSARY.sizes["smoke"]


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    return run("decoreco-adversary", "smoke", "photos", "cpu", out=tmp_path_factory.mktemp("adversary"))


def mean(value, sd=0.0):
    return MeanSd(mean=value, sd=sd)


@pytest.mark.parametrize(
    ("auc", "sd", "at_10", "expected"),
    [
        (0.6, 0.05, 0.3, "reproduced"),  # within two standard deviations of chance
        (0.6, 0.04, 0.3, "partly"),
        (0.9, 0.1, 0.89, "partly"),
        (0.9, 0.1, 0.9, "not reproduced"),
    ],
)
def test_whether_they_can_tell(auc, sd, at_10, expected):
    metrics = load(PUBLISHED, arrays=False).metrics
    combined = replace(metrics.evidence["combined"], auc=mean(auc, sd), precision_at_10=mean(at_10))
    (claim,) = DECORECO_ADVERSARY.claims(replace(metrics, evidence={"combined": combined}), SMOKE)
    assert claim.verdict == expected and "(combined)" in claim.ours and "they trust most" in claim.ours


def test_without_practice_the_best_single_evidence_counts_and_without_any_the_thesis_holds():
    metrics = load(PUBLISHED, arrays=False).metrics
    some = metrics.evidence["combined"]
    evidence = {"norm": replace(some, auc=mean(0.6)), "margin": replace(some, auc=mean(0.8))}
    (claim,) = DECORECO_ADVERSARY.claims(replace(metrics, evidence=evidence), SMOKE)
    assert claim.ours.startswith("AUC 0.80 ± 0.00 (margin)")
    (claim,) = DECORECO_ADVERSARY.claims(replace(metrics, evidence={}), SMOKE)
    assert claim.verdict == "reproduced" and claim.ours.startswith("no network")


def test_judgement_by_counting_pairs():
    generator = np.random.default_rng(0)
    truth, score = generator.random(50) < 0.3, generator.random(50)
    found = judge(truth, score)
    pairs = [s > t for s in score[truth] for t in score[~truth]]
    assert found.numbers.auc == pytest.approx(np.mean(pairs))
    order = np.argsort(-score)
    assert found.numbers.precision_at_10 == pytest.approx(truth[order[:10]].mean())
    assert found.numbers.precision_at_40 == pytest.approx(truth[order[:40]].mean())
    hits = truth[order].cumsum()
    by_hand = np.mean([hits[k] / (k + 1) for k in range(50) if truth[order[k]]])
    assert found.numbers.average_precision == pytest.approx(by_hand)
    assert found.roc.shape == found.precision.shape == (101,)
    assert found.roc[-1] == 1 and (np.diff(found.roc) >= 0).all()
    perfect = judge(truth, truth.astype(float)).numbers
    assert perfect.auc == perfect.average_precision == perfect.precision_at_10 == 1.0
    assert summary([found, found]).auc == mean(found.numbers.auc)


def test_mean_and_spread():
    assert mean_sd([1.0, 3.0]) == mean(2.0, pytest.approx(2**0.5))
    assert mean_sd([4.0]) == mean(4.0) and mean_sd([]) == mean(0.0)


def test_true_is_near_a_training_image_and_nearer_than_to_any_other():
    generator = torch.Generator().manual_seed(0)
    train, held_out, noise = (torch.randn(3, 3072, generator=generator) for _ in range(3))
    images = Bundle.of_tensors(train, train, held_out, (3, 32, 32))
    x = torch.stack([train[0], 2 * train[1] + 1.9 * held_out[1], train[1] + 2 * held_out[1], train[2] + 3 * noise[2]])
    assert is_true(x, images, 0.6).tolist() == [True, True, False, False]


def test_every_network_has_images_of_its_own_and_the_shadow_those_of_the_partition(tmp_path, monkeypatch):
    seen = []

    def record(sizes, context, images, k):
        seen.append((context.seed, k, images))
        return Attempt({}, torch.zeros(2, dtype=torch.bool), torch.zeros(2, 3072), {"span": torch.zeros(2, 3072)})

    module = import_module("recon.chapters.decoreco_adversary.compute")
    monkeypatch.setattr(module, "attack_once", record)
    pool = load_pool("photos")
    for seed in (0, 1):
        outcome = DECORECO_ADVERSARY.compute(SMOKE, Context(pool, torch.device("cpu"), seed, tmp_path, None))
        assert outcome.metrics.evidence == {} and outcome.metrics.networks == 0 and not outcome.arrays
    assert [(seed, k) for seed, k, _ in seen] == [(seed, k) for seed in (0, 1) for k in range(3)]
    for seed in (0, 1):
        indices = [set(images.train_index.tolist()) for s, _, images in seen if s == seed]
        assert len(set().union(*indices)) == sum(map(len, indices))
    first = partition(pool, SMOKE.n_train, n_held_out=SMOKE.n_train)
    assert torch.equal(seen[0][2].train_index, first.init.index)
    assert torch.equal(seen[1][2].train_index, first.train.index)


def test_evidence_at_smoke(smoke):
    for found in smoke.metrics.evidence.values():
        assert all(0 <= each.mean <= 1 for each in (found.auc, found.average_precision, found.precision_at_10))
    assert len(smoke.metrics.counts) == SMOKE.networks
    shares = smoke.metrics.null_share_true
    assert shares[smoke.metrics.best_null_name].mean == max(share.mean for share in shares.values())


def test_figures_draw(smoke):
    for draw in DECORECO_ADVERSARY.figures.values():
        figure = draw(smoke)
        assert figure.get_facecolor() == (1, 1, 1, 1)
        plt.close(figure)
