"""Chapter 1: the arrays that anyone can check it with, and Anscombe's quartet."""

from __future__ import annotations

import pytest
import torch
from sklearn.linear_model import LogisticRegression

from companion.chapters.linear.experiment import SIZES, anscombe
from recon.nets.mlp import affine
from recon.training.inner_problem import Objective, solve_affine, with_ones


@pytest.fixture(scope="module")
def smoke(runs):
    return runs("linear")


def test_arrays_suffice_to_retrain(smoke):
    """By our own solver and by scikit-learn's."""
    x, y, theta = (smoke.array(name) for name in ("counterfactual_x", "y", "theta_star"))
    decay = SIZES["smoke"].weight_decay
    objective = Objective(affine(3072), y, decay)
    assert (solve_affine(objective, x.unsqueeze(0)).theta[0] - theta).norm() <= 1e-8 * theta.norm()
    model = LogisticRegression(
        C=1 / (len(y) * decay), fit_intercept=False, tol=1e-10, max_iter=5000
    )
    model.fit(with_ones(x).numpy(), y.numpy())
    assert (torch.from_numpy(model.coef_[0]) - theta).norm() < 1e-4 * theta.norm()
    pixels = x + smoke.array("mean")
    assert pixels.min() >= 0 and pixels.max() <= 1
    assert not torch.isin(smoke.array("counterfactual_index"), smoke.array("train_index")).any()


def test_quartet_is_anscombes():
    """Published summary (Anscombe 1973): mean x 9.0, mean y 7.5, line y = 3 + 0.5x, Σ(x − x̄)² =
    110.
    """
    for x, y in anscombe():
        line = torch.linalg.lstsq(with_ones(x.unsqueeze(1)), y.unsqueeze(1)).solution.flatten()
        assert line.tolist() == pytest.approx([0.5, 3.0], abs=0.005)
        assert float(x.mean()) == 9 and abs(float(y.mean()) - 7.5) < 0.005
        assert abs(float((x - x.mean()).square().sum()) - 110) < 1e-9
