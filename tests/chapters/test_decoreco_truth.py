"""Energies of the truth, of other images and of what the attack makes of each."""

from __future__ import annotations

import pytest
import torch

from companion.chapters.decoreco_truth import experiment
from companion.chapters.decoreco_truth.experiment import converged
from companion.chapters.run import run


def test_no_other_images_come_near_the_energy_of_the_truth(runs):
    metrics = runs("decoreco-truth").metrics
    before, after = metrics.energy_fitted, metrics.energy_after_attack
    assert before.truth < before.partition <= 1.0
    assert after.truth < 0.5 * min(after.partition, after.random)


def test_energies_before_are_those_of_the_images_that_they_name(tmp_path, monkeypatch):
    """At sizes of nothing, with the sum of the pixels in the energy's place."""
    monkeypatch.setattr(
        experiment, "fitted_energy", lambda _net, x, _y, _alpha: x.double().sum().item()
    )
    sizes = {"n_train": 6, "width": 8, "train_steps": 2, "attack.steps": 2, "attack.scale_steps": 1}
    result = run(
        "decoreco-truth", profile="smoke", data="photos", device="cpu", out=tmp_path, **sizes
    )
    before = result.metrics.energy_fitted
    for energy, name in ((before.truth, "x_train"), (before.partition, "x_init")):
        assert energy == pytest.approx(result.array(name).double().sum().item(), abs=1e-3)
    assert abs(before.partition) > 1 > abs(before.truth)  # the training mean is subtracted


def test_converged_is_a_fall_below_one_percent_over_the_last_tenth():
    history = torch.cat([torch.linspace(9.0, 1.0, 90), torch.linspace(1.0, 0.995, 11)[1:]])
    assert converged(history) and not converged(torch.cat([history[:-1], torch.tensor([0.985])]))
