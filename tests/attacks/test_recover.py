"""Restarts in batches, checkpoints, θ* and nothing else of the weights, and the adversary's evidence by hand."""

from __future__ import annotations

import pytest
import torch

from recon.attacks import recover as module
from recon.attacks.decoreco import half_and_half, image_span
from recon.attacks.reconstruct import reconstruct
from recon.attacks.recover import RecoverSettings, energy_gradient, random_start, recover, tuned_attack
from recon.attacks.stationarity import stationarity
from recon.errors import ReconError
from recon.nets.mlp import three_layer
from recon.optim import loop
from recon.released import Weights
from recon.store import checkpoints
from recon.store.checkpoints import Checkpoints
from recon.training.kkt import KKTSettings, train_to_kkt

SETTINGS = RecoverSettings(m=4, restarts=5, steps=25, scale_steps=4, multiplier_scales=(1e-2, 1e-1))


@pytest.fixture(scope="module")
def weights():
    generator = torch.Generator().manual_seed(2)
    network = three_layer(20, 15)
    x, y = torch.randn(3, 15, generator=generator), torch.tensor([0.0, 1.0, 1.0])
    theta = network.flatten(network.init(generator, "small"))
    return Weights(network, train_to_kkt(network, x, y, theta, KKTSettings(100, -100.0)).theta_star.double())


def seeded():
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("project", [True, False])
def test_restarts_are_runs_of_their_own_by_their_seeds(weights, project, monkeypatch):
    """Against one call of `reconstruct` for each restart, and whatever the number in a batch."""
    settings = RecoverSettings(**{**vars(SETTINGS), "project": project})
    found = recover(weights, settings, seeded())
    labels = half_and_half(4, dtype=torch.float64)
    space = image_span(weights)
    seeds = torch.randint(2**31, (6,), generator=seeded()).tolist()

    def alone(seed, scale, steps):
        start, unit = random_start(settings, 15, weights.theta_star, seed)
        attack = tuned_attack(weights, labels, unit * scale, steps, settings)
        if project:
            attack, start = attack.restricted(space), space.reduce(start)
        return reconstruct(attack, start, steps)

    ends = {scale: alone(seeds[5], scale, 4).energy.item() for scale in settings.multiplier_scales}
    assert found.multiplier_scale == min(ends, key=ends.get) and len(set(ends.values())) == 2
    for restart in range(5):
        expected = alone(seeds[restart], found.multiplier_scale, 25)
        torch.testing.assert_close(found.history[:, restart], expected.history[:, 0], rtol=1e-9, atol=1e-12)
        images = space.lift(expected.x_hat[0]) if project else expected.x_hat[0]
        multipliers = expected.accepted["multipliers"][0]
        params, signed = weights.params, multipliers * labels
        by_layer = stationarity(
            Weights(weights.network, weights.network.flatten(params)), images, signed, alpha=settings.alpha
        ).by_layer
        torch.testing.assert_close(found.by_layer[restart], by_layer, rtol=1e-8, atol=1e-12)
        for rank in (found.restart == restart).nonzero()[:, 0].tolist():
            torch.testing.assert_close(found.multipliers[rank], multipliers[found.row[rank]], rtol=1e-8, atol=0)
            assert found.labels[rank] == labels[found.row[rank]]
            if found.agreement[rank] < settings.alike:  # merged with nothing
                torch.testing.assert_close(found.x_hat[rank], images[found.row[rank]], rtol=1e-7, atol=1e-9)
    assert found.history.shape == (25, 5) and found.energy.shape == (5,) and found.by_layer.shape == (5, 3)
    torch.testing.assert_close(found.energy, found.history[-1])  # each step's history is the best so far
    assert (found.basis is None) == (not project)
    for size in (1, 3, 8):
        monkeypatch.setattr(module, "AT_ONCE_ON_CPU", size)
        torch.testing.assert_close(recover(weights, settings, seeded()).x_hat, found.x_hat, rtol=1e-7, atol=1e-9)


def test_every_restart_begins_at_a_given_start(weights):
    start = 0.1 * torch.randn(4, 15, generator=seeded(), dtype=torch.float64)
    found = recover(weights, RecoverSettings(m=4, restarts=3, steps=1, project=False), seeded(), None, start)
    torch.testing.assert_close(found.x_hat, start[found.row])  # the first energy is the start's, of every restart


def test_random_start_by_hand():
    like = torch.zeros(1, dtype=torch.float64)
    x, unit = random_start(RecoverSettings(m=2000, init_scale=0.3), 15, like, 4)
    assert x.shape == (1, 2000, 15) and unit.shape == (1, 2000) and x.dtype == unit.dtype == torch.float64
    assert x.std().item() == pytest.approx(0.3, rel=0.02) and unit.mean().item() == pytest.approx(0.5, abs=0.03)
    assert unit.min().item() == pytest.approx(0.01) and unit.max() < 1
    assert random_start(RecoverSettings(m=4, candidates=6), 15, like, 4)[0].shape == (1, 6, 15)


def test_resumed_restarts_give_the_uninterrupted_answer(weights, tmp_path, monkeypatch):
    whole = recover(weights, SETTINGS, seeded())
    saves, save = iter(range(40)), checkpoints.save_tensors

    def dying(*state):
        if next(saves, None) is None:
            raise KeyboardInterrupt
        save(*state)

    with monkeypatch.context() as patch:
        patch.setattr(loop.time, "monotonic", iter(range(0, 10**6, 100)).__next__)  # a checkpoint each step
        patch.setattr(checkpoints, "save_tensors", dying)
        with pytest.raises(KeyboardInterrupt):
            recover(weights, SETTINGS, seeded(), Checkpoints(tmp_path))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["restarts-0-1.safetensors", "restarts-2-3.safetensors"]
    resumed = recover(weights, SETTINGS, seeded(), Checkpoints(tmp_path))
    assert torch.equal(resumed.x_hat, whole.x_hat) and torch.equal(resumed.history, whole.history)


def test_one_network_at_a_time(weights):
    with pytest.raises(ReconError, match="one θ"):
        recover(Weights(weights.network, weights.theta_star.repeat(2, 1)), SETTINGS, seeded())


def test_gradient_at_what_was_found(weights):
    found = recover(weights, SETTINGS, seeded())
    gradient, x = energy_gradient(weights, found, SETTINGS), found.x_hat
    v = torch.randn(x.shape, generator=seeded(), dtype=x.dtype)

    def energy(images):
        signed, options = found.multipliers * found.labels, {"alpha": 100.0, "layer_weights": (1.0, 0.0, 0.0)}
        return stationarity(weights, images, signed, **options)

    assert torch.equal(gradient(x + v), energy(x + v).grad_x)
    assert not torch.equal(gradient(x + v), gradient(x))
