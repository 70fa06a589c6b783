"""The adversary's certainty: every number against a loop over all candidates, and what evidence
must do.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from recon.attacks.separation import Separated
from recon.errors import ReconError
from recon.scoring.certainty import SURE, assessed, calibrated, evidence, probability


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def separated(sparsity, stability, share):
    none = torch.empty(len(sparsity), 0)
    return Separated(none, none.mT, none, sparsity, stability, share, torch.zeros(2))


def shadow(r=200, seed=0):
    """Candidates of which the true ones are sparser, stabler and stronger, with exceptions."""
    generator = seeded(seed)
    true = torch.rand(r, generator=generator) < 0.4
    u = torch.rand(3, r, generator=generator)
    sparsity, stability = -2 + u[0] + 0.5 * true, (0.6 * u[1] + 0.35 * true).clamp(0, 1)
    return separated(sparsity, stability, 0.01 + 0.1 * u[2] + 0.03 * true), true


# ----------------------------------------------------------------------------------------- assessed


def brute_auc(p, t):
    pairs = [(a > b) + 0.5 * (a == b) for a in p[t] for b in p[~t]]
    return sum(pairs) / len(pairs)


def brute_tpr(p, t, rate=0.01):
    found = [0.0]
    for threshold in set(p.tolist()):
        if sum(p[~t] >= threshold) <= rate * sum(~t):
            found.append(sum(p[t] >= threshold) / sum(t))
    return max(found)


@pytest.mark.parametrize(
    ("r", "digits", "seed"),
    [(12, 1, 0), (12, 1, 1), (40, 2, 2), (300, 2, 3), (300, 6, 4), (450, 3, 5)],
)
def test_assessed_by_brute_force(r, digits, seed):
    random = np.random.default_rng(seed)
    t = random.random(r) < 0.35
    t[:2] = True, False
    p = np.round(np.clip(0.5 * random.random(r) + 0.5 * random.random(r) ** 0.3 * t, 0, 1), digits)
    p[2:5] = 1.0, 0.0, SURE
    found = assessed(torch.from_numpy(p), torch.from_numpy(t))
    assert found["auc"] == pytest.approx(brute_auc(p, t))
    assert found["tpr_at_1pct_fpr"] == pytest.approx(brute_tpr(p, t))
    first = sorted(range(r), key=lambda k: (-p[k], k))[:50]
    assert found["precision_top50"] == pytest.approx(sum(t[k] for k in first) / len(first))
    sure = [k for k in range(r) if p[k] >= 0.95]
    assert found["sure"] == len(sure) > 0
    assert found["precision_sure"] == pytest.approx(sum(t[k] for k in sure) / len(sure))
    assert found["recall_sure"] == pytest.approx(sum(t[k] for k in sure) / sum(t))
    assert found["brier"] == pytest.approx(sum((p[k] - t[k]) ** 2 for k in range(r)) / r)
    assert (found["candidates"], found["true"]) == (r, sum(t))


def test_rate_on_a_straight_curve():
    """One true and one false candidate at every probability: two of 200 false ones are 1 %."""
    p, t = np.repeat(np.linspace(0, 0.9, 200), 2), np.tile([True, False], 200)
    found = assessed(torch.from_numpy(p), torch.from_numpy(t))
    assert found["tpr_at_1pct_fpr"] == pytest.approx(brute_tpr(p, t)) == 0.01 and found[
        "auc"
    ] == pytest.approx(0.5)


def test_reliability_counts_every_candidate_once():
    bins, random = 5, np.random.default_rng(5)
    p, t = random.random(200), random.random(200) < 0.5
    p[:3] = 0.0, 1.0, 1 / bins
    rows = assessed(torch.from_numpy(p), torch.from_numpy(t))["reliability"]
    assert sum(row[2] for row in rows) == 200 and len(rows) == bins
    for b, (mean, share, count) in enumerate(rows):
        within = [
            k for k in range(200) if b <= p[k] * bins < b + 1 or (b == bins - 1 and p[k] == 1)
        ]
        assert count == len(within)
        assert mean == pytest.approx(np.mean(p[within])) and share == pytest.approx(
            np.mean(t[within])
        )


def test_empty_bins_are_left_out():
    rows = assessed(torch.tensor([0.05, 0.07, 0.99]), torch.tensor([False, False, True]))[
        "reliability"
    ]
    assert [row[2] for row in rows] == [2, 1]


@pytest.mark.parametrize("true", [True, False])
def test_one_kind_alone_has_no_curve(true):
    found = assessed(torch.tensor([0.2, 0.96]), torch.tensor([true, true]))
    assert found["auc"] is None and found["tpr_at_1pct_fpr"] is None
    assert found["precision_sure"] == float(true) and found["recall_sure"] == 0.5 * true
    assert found["true"] == 2 * true


def test_nobody_is_sure_and_nothing_is_found():
    found = assessed(torch.tensor([0.2, 0.9]), torch.tensor([True, False]))
    assert found["sure"] == 0 and found["precision_sure"] is None and found["recall_sure"] == 0.0
    empty = assessed(torch.zeros(0), torch.zeros(0, dtype=torch.bool))
    assert empty["candidates"] == empty["true"] == empty["sure"] == 0 and empty["reliability"] == []
    assert all(
        empty[key] is None
        for key in ("auc", "tpr_at_1pct_fpr", "precision_top50", "precision_sure", "brier")
    )


# ----------------------------------------------------------------------------- evidence and its use


def test_evidence():
    found = separated(
        torch.tensor([-1.0, -2.0]), torch.tensor([0.9, 1.0]), torch.tensor([0.5, 0.0])
    )
    expected = [[-1.0, -np.log(0.1), np.log(0.5)], [-2.0, -np.log(1e-6), np.log(1e-9)]]
    assert np.allclose(evidence(found), expected, rtol=1e-5)
    assert evidence(separated(*torch.empty(3, 0))).shape == (0, 3)


def test_evidence_needs_restarts():
    with pytest.raises(ReconError, match="restarts"):
        evidence(separated(torch.zeros(2), torch.tensor([0.5, torch.nan]), torch.ones(2)))


@pytest.mark.parametrize("column", range(3))
def test_probability_grows_with_each_kind_of_evidence(column):
    model = calibrated([shadow(seed=0), shadow(seed=1)])
    columns = [torch.full((9,), -1.3), torch.full((9,), 0.5), torch.full((9,), 0.06)]
    columns[column] = (
        torch.linspace(-2, -0.5, 9),
        torch.linspace(0, 0.98, 9),
        torch.linspace(0.01, 0.14, 9),
    )[column]
    p = probability(model, separated(*columns))
    assert (p.diff() > 0).all() and p.min() >= 0 and p.max() <= 1


def test_probabilities_are_calibrated_on_another_network():
    model = calibrated([shadow(1000, 0), shadow(1000, 1)])
    found, true = shadow(2000, 2)
    p = probability(model, found)
    result = assessed(p, true)
    assert result["auc"] > 0.75 and abs(p.mean().item() - true.double().mean().item()) < 0.04
    for mean, share, count in result["reliability"]:
        assert abs(mean - share) < 0.1 or count < 50


def test_probability_of_nothing():
    assert probability(calibrated([shadow()]), separated(*torch.empty(3, 0))).shape == (0,)


@pytest.mark.parametrize("true", [True, False])
def test_shadows_of_one_kind_teach_nothing(true):
    found, truth = shadow()
    with pytest.raises(ReconError, match="shadow"):
        calibrated([(found, torch.full_like(truth, true))] * 2)


def test_one_shadow_may_be_of_one_kind_if_another_is_not():
    found, truth = shadow()
    calibrated([(found, torch.zeros_like(truth)), (found, truth)])
