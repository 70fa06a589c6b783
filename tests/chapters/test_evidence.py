"""Evidence by hand, and the curvature of quadratic energies, which is known."""

from __future__ import annotations

import pytest
import torch

from companion.chapters.decoreco_adversary.experiment import EVIDENCE, features
from companion.chapters.decoreco_adversary.networks import evidence, sharpness
from companion.store.record import Record

F64 = torch.float64


def test_evidence_by_hand():
    attack = Record(
        x_hat=torch.tensor([[3.0, 4.0], [0.0, 2.0], [1.0, 0.0]]),
        multipliers=torch.tensor([0.1, 0.2, 0.3]),
        contribution=torch.tensor([5.0, 6.0, 7.0]),
        agreement=torch.tensor([0.5, 0.6, 0.7]),
    )
    margins, curvature = torch.tensor([2.0, 8.0, -1.0]), torch.tensor([9.0, 8.0, 7.0])
    measured = evidence(attack, margins, curvature)
    assert tuple(measured) == EVIDENCE
    assert measured["norm"].tolist() == [5.0, 2.0, 1.0]
    # the median is 2; a wrong side counts as a margin of 1e-12
    torch.testing.assert_close(measured["margin"], -torch.tensor([1.0, 4.0, 2e12]).log())
    expected = {"contribution": attack.contribution, "multiplier": attack.multipliers}
    expected |= {"agreement": attack.agreement, "sharpness": curvature}
    for name, values in expected.items():
        assert torch.equal(measured[name], values)


@pytest.mark.parametrize("probes", [1, 3])
@pytest.mark.parametrize("step", [1e-3, 0.5])
def test_sharpness_of_a_separable_energy_is_its_mean_curvature(step, probes):
    """R = ½ Σ a_i d_k x_ik²: exactly a_i · mean d, by any number of probes and any step."""
    a, d = torch.tensor([1.0, -2.0, 5.0], dtype=F64), torch.linspace(0, 3, 7, dtype=F64)
    x = torch.randn(3, 7, generator=torch.Generator().manual_seed(0), dtype=F64)
    curvature = sharpness(lambda x: a[:, None] * d * x, x, probes, step)
    torch.testing.assert_close(curvature, 1.5 * a, rtol=1e-9, atol=1e-9)


def test_sharpness_averages_other_directions_and_candidates_out():
    generator = torch.Generator().manual_seed(0)
    hessian = torch.randn(12, 12, generator=generator, dtype=F64)
    hessian = hessian + hessian.T
    x = torch.randn(3, 4, generator=generator, dtype=F64)
    curvature = sharpness(lambda x: (hessian @ x.flatten()).view_as(x), x, probes=4000)
    expected = hessian.diagonal().view(3, 4).mean(1)
    torch.testing.assert_close(curvature, expected, rtol=0, atol=0.15)


def test_features_are_ranks_in_the_order_of_the_evidence():
    measured = {name: torch.tensor([3.0, -1.0, 10.0]) + k for k, name in enumerate(EVIDENCE)}
    measured["norm"] = -measured["norm"]
    expected = [[0.5, 0.0, 1.0]] * 6
    expected[2] = [0.5, 1.0, 0.0]
    assert features(measured).T.tolist() == expected
