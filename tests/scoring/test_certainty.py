"""The adversary's certainty: every number against a loop over all candidates, and what evidence
must do.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from recon.attacks.separation import Separated
from recon.errors import ReconError
from recon.scoring.certainty import (
    SURE,
    assessed,
    calibrated,
    evidence,
    probability,
    shadow_classifier,
)


def separated(sparsity, stability, share):
    none = torch.empty(len(sparsity), 0)
    return Separated(none, none.mT, none, sparsity, stability, share, torch.zeros(2))


def shadow(r=200, seed=0):
    """Candidates of which the true ones are sparser, stabler and stronger, with exceptions."""
    generator = torch.Generator().manual_seed(seed)
    true = torch.rand(r, generator=generator) < 0.4
    u = torch.rand(3, r, generator=generator)
    stability = (0.6 * u[1] + 0.35 * true).clamp(0, 1)
    return separated(-2 + u[0] + 0.5 * true, stability, 0.01 + 0.1 * u[2] + 0.03 * true), true


@pytest.mark.parametrize(
    ("r", "digits", "seed"), [(12, 1, 0), (12, 1, 1), (40, 2, 2), (300, 2, 3), (450, 3, 5)]
)
def test_assessed_by_brute_force(r, digits, seed):
    random = np.random.default_rng(seed)
    t = random.random(r) < 0.35
    t[:2] = True, False
    p = np.round(np.clip(0.5 * random.random(r) + 0.5 * random.random(r) ** 0.3 * t, 0, 1), digits)
    p[2:5] = 1.0, 0.0, SURE
    result = assessed(torch.from_numpy(p), torch.from_numpy(t))
    expected = {
        "auc": roc_auc_score(t, p),
        "sure": np.sum(p >= 0.95),
        "precision_sure": np.mean(t[p >= 0.95]),
        "recall_sure": np.mean(p[t] >= 0.95),
        "candidates": r,
        "true": t.sum(),
    }
    assert {name: result[name] for name in expected} == pytest.approx(expected)


def test_reliability_counts_every_candidate_once():
    random = np.random.default_rng(5)
    p, t = 0.8 * random.random(200), random.random(200) < 0.5
    p[:3] = 0.0, 1.0, 0.2
    rows = assessed(torch.from_numpy(p), torch.from_numpy(t))["reliability"]
    expected = []
    for low in (0.0, 0.2, 0.4, 0.6, 0.8):
        inside = (p >= low) & (p < low + 0.2) if low < 0.8 else p >= low
        expected.append([p[inside].mean(), t[inside].mean(), inside.sum()])
    np.testing.assert_allclose(rows, expected)
    alone = assessed(torch.tensor([0.05, 0.07, 0.99]), torch.tensor([False, False, True]))
    assert [row[2] for row in alone["reliability"]] == [2, 1]  # empty bins are left out


@pytest.mark.parametrize("true", [True, False])
def test_one_kind_alone_has_no_curve(true):
    result = assessed(torch.tensor([0.2, 0.96]), torch.tensor([true, true]))
    assert result["auc"] is None
    assert result["precision_sure"] == float(true) and result["recall_sure"] == 0.5 * true


def test_evidence():
    columns = torch.tensor([[-1.0, -2.0], [0.9, 1.0], [0.5, 0.0]])
    expected = [[-1.0, -np.log(0.1), np.log(0.5)], [-2.0, -np.log(1e-6), np.log(1e-9)]]
    np.testing.assert_allclose(evidence(separated(*columns)), expected, rtol=1e-5)
    with pytest.raises(ReconError, match="restarts"):
        evidence(separated(torch.zeros(2), torch.tensor([0.5, torch.nan]), torch.ones(2)))


@pytest.mark.parametrize(("column", "low", "high"), [(0, -2, -0.5), (1, 0, 0.98), (2, 0.01, 0.14)])
def test_probability_grows_with_each_kind_of_evidence(column, low, high):
    columns = torch.tensor([[-1.3], [0.5], [0.06]]).repeat(1, 9)
    columns[column] = torch.linspace(low, high, 9)
    p = probability(calibrated([shadow(seed=0), shadow(seed=1)]), separated(*columns))
    assert (p.diff() > 0).all() and p.min() >= 0 and p.max() <= 1


def test_probabilities_are_calibrated_on_another_network():
    model = calibrated([shadow(1000, 0), shadow(1000, 1)])
    candidates, true = shadow(2000, 2)
    result = assessed(probability(model, candidates), true)
    assert result["auc"] > 0.75
    for mean, share, count in result["reliability"]:
        assert abs(mean - share) < 0.1 or count < 50


def test_the_classifier_is_where_the_losses_and_half_the_squared_weights_balance():
    """w = Σ (t − p) z over the standardised evidence z, Σ (t − p) = 0 for the intercept."""
    candidates, true = shadow()
    x, t = evidence(candidates), true.numpy()
    model = shadow_classifier(x, t)
    left = t - model.predict_proba(x)[:, 1]
    expected = left @ ((x - x.mean(0)) / x.std(0))
    np.testing.assert_allclose(model[-1].coef_[0], expected, rtol=0.05)
    assert abs(left.sum()) < 1e-2


@pytest.mark.parametrize("true", [True, False])
def test_shadows_of_one_kind_teach_nothing(true):
    candidates, truth = shadow()
    with pytest.raises(ReconError):
        calibrated([(candidates, torch.full_like(truth, true))] * 2)


def test_nobody_is_sure_and_there_are_no_candidates():
    result = assessed(torch.tensor([0.2, 0.9]), torch.tensor([True, False]))
    assert result["sure"] == 0 and result["precision_sure"] is None
    empty = assessed(torch.zeros(0), torch.zeros(0, dtype=torch.bool))
    assert empty["candidates"] == empty["true"] == empty["sure"] == 0
    assert empty["reliability"] == [] and empty["auc"] is None
