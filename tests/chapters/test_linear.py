"""The chapter's experiment at smoke size, and the arrays that anyone can check it with."""

from __future__ import annotations

import json

import pytest
import torch

from recon.chapters.base import Context
from recon.chapters.linear import EXPERIMENT, anscombe, counting
from recon.images.registry import load_pool
from recon.nets.mlp import affine
from recon.training.inner import Objective, solve_affine, with_ones


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    context = Context(load_pool("photos"), torch.device("cpu"), 0, tmp_path_factory.mktemp("checkpoints"))
    return EXPERIMENT.run(EXPERIMENT.configs["smoke"], context)


@pytest.mark.parametrize("start", ["counterfactual", "noise", "repeated"])
def test_other_images_same_classifier(outcome, start):
    found = outcome.metrics[start]
    assert found["relative_theta_error"] <= 1e-8 and found["converged"]
    assert found["relative_theta_error_unmoved"] > 0.1
    assert found["jacobian_rank"] == 3073
    assert found["solution_dim"] == found["n"] * 3072 - 3073
    assert found["lowest_pixel"] >= 0 and found["highest_pixel"] <= 1


def test_arrays_suffice_to_retrain(outcome):
    x, y, theta = (outcome.arrays[name] for name in ("counterfactual_x", "y", "theta_star"))
    assert x.dtype == torch.float64 and x.shape == (len(y), 3072) and theta.shape == (3073,)
    objective = Objective(affine(), y, outcome.metrics["counterfactual"]["weight_decay"])
    assert (solve_affine(objective, x.unsqueeze(0)).theta[0] - theta).norm() <= 1e-8 * theta.norm()
    pixels = x + outcome.arrays["mean"]
    assert pixels.min() >= 0 and pixels.max() <= 1
    assert not set(outcome.arrays["counterfactual_index"].tolist()) & set(outcome.arrays["train_index"].tolist())


def test_counterfactuals_are_not_training_images(outcome):
    found = outcome.metrics["counterfactual"]
    assert found["nn_train_l2"] > 0.8 * found["held_out_nn_l2"]
    assert found["mean_change_l2"] < 0.2 * found["nn_train_l2"]


def test_claims_hold_and_metrics_are_json(outcome):
    assert {claim.verdict for claim in outcome.claims} <= {"reproduced", "partly", "finding"}
    json.dumps(outcome.metrics, allow_nan=False)


def test_quartet_is_anscombes():
    """Published summary (Anscombe 1973): mean x 9.0, mean y 7.5, line y = 3 + 0.5x, Σ(x − x̄)² = 110."""
    for x, y in anscombe():
        line = torch.linalg.lstsq(with_ones(x.unsqueeze(1)), y.unsqueeze(1)).solution.flatten()
        torch.testing.assert_close(line, torch.tensor([0.5, 3.0], dtype=torch.float64), rtol=0, atol=0.005)
        assert float(x.mean()) == 9 and abs(float(y.mean()) - 7.5) < 0.005
        assert abs(float((x - x.mean()).square().sum()) - 110) < 1e-9


def test_counting_by_hand():
    ours, hidden, haim = counting(500, 3072)
    assert (ours["unknowns"], ours["perfect_fit"], ours["stationarity"]) == (1_536_000, 500, 3073)
    assert hidden["stationarity"] == 3072 * 6144 + 6144 + 6144 + 1
    assert haim["stationarity"] == 3_072_000 + 1000 + 1_000_000 + 1000 + 1000 + 1


def test_figures_draw_without_a_model(outcome):
    import matplotlib.pyplot as plt

    from recon.store.results import Result

    empty = dict(data={}, seed=0, device="cpu", versions={}, commit="", seconds=0, key="", config={})
    result = Result("linear", "smoke", metrics=outcome.metrics, claims=outcome.claims, arrays=outcome.arrays, **empty)
    for draw in EXPERIMENT.figures.values():
        figure = draw(result)
        assert figure.get_facecolor() == (1, 1, 1, 1)
        plt.close(figure)
