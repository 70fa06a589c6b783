"""The chapter on heads: what its counts and rates are."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from companion.chapters.heads.experiment import as_features, cosines
from companion.chapters.members import judged, rates
from recon.attacks.heads import Public

G = torch.Generator().manual_seed(0)


def test_counts_are_of_different_candidates():
    """One candidate cannot stand for two features."""
    public, images = Public(torch.randn(50, 6, generator=G)), torch.randn(3, 6, generator=G)
    assert set(cosines(images.flip(0), images, public).values()) == {3}
    assert cosines(images[:1].repeat(3, 1), images, public).cos_09 == 1


def test_rates_are_of_members_at_false_alarms_of_others():
    score, member = torch.arange(1000.0).flip(0), np.arange(1000) < 10
    assert rates(score, member) == {"auc": 1, "tpr_at_1pct": 1, "tpr_at_0.1pct": 1}
    assert rates(-score, member).auc == 0


def test_false_alarms_are_of_fresh_images():
    """Ten members, a hundred others and four fresh images, two of which score as members do."""
    parts = [torch.full((10,), 2.0), torch.linspace(0, 1, 100), torch.tensor([3.0, 2, 0, 0])]
    score, kind = torch.cat(parts), np.repeat([1, 0, 2], [10, 100, 4])
    row = judged(score, kind, 0)
    assert row.auc == row.tpr_at_1pct == row.tpr_at_01pct == 1 and row.false_alarms == 0.5
    assert row.from_to_at_1pct == [1, 1] and judged(-score, kind, 0).tpr_at_1pct == 0


def test_a_mixture_gets_the_sign_and_the_length_of_a_feature():
    public, x = Public(torch.rand(9, 6, generator=G)), torch.tensor([[-3.0, 1, 0, 0, 0, 0]])
    row, again = as_features(x, public)[0], as_features(-x, public)[0]
    assert torch.equal(row, again) and row.min() == 0 and row.argmax() == 0
    assert row.norm().item() == pytest.approx(public.features.norm(dim=1).median().item())
