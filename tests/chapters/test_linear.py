"""Chapter 1: other images with the same classifier at smoke size, and the arrays that anyone can
check it with.
"""

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


def test_other_images_same_classifier(smoke):
    moved = smoke.metrics.counterfactual
    assert moved.relative_theta_error <= 1e-8 and moved.converged
    assert moved.relative_theta_error_unmoved > 0.1
    assert moved.jacobian_rank == 3073
    assert moved.solution_dim == moved.n * 3072 - 3073


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


def test_twins_of_8_bits(smoke):
    pair = smoke.metrics.twins
    assert pair.agree == pair.numbers == 3073 and pair.same_images == 0
    assert pair.agree_rounded < 30 and pair.agree_unmoved < 30
    train, other, start = (smoke.array(f"twin_{name}") for name in ("train", "other", "start"))
    assert train.dtype == other.dtype == torch.uint8 and len(train) == pair.n
    change = (other.double() - start.double()).abs()
    assert pair.mean_change_levels == pytest.approx(float(change.mean()))


def test_quartet_is_anscombes():
    """Published summary (Anscombe 1973): mean x 9.0, mean y 7.5, line y = 3 + 0.5x, Σ(x − x̄)² =
    110.
    """
    for x, y in anscombe():
        line = torch.linalg.lstsq(with_ones(x.unsqueeze(1)), y.unsqueeze(1)).solution.flatten()
        assert line.tolist() == pytest.approx([0.5, 3.0], abs=0.005)
        assert float(x.mean()) == 9 and abs(float(y.mean()) - 7.5) < 0.005
        assert abs(float((x - x.mean()).square().sum()) - 110) < 1e-9
