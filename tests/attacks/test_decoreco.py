"""The attack: exact recovery on a toy, the span of the images, penalties, resuming, pooling,
evidence, bad input.
"""

import math
from dataclasses import replace

import pytest
import torch

from companion.store.checkpoints import Checkpoints
from recon.attacks.decoreco import DecoReco, image_span
from recon.attacks.reconstruct import reconstruct
from recon.attacks.recover import RecoverSettings, contribution, recover
from recon.errors import ReconError
from recon.nets.mlp import MLP, three_layer
from recon.optim.descent import SGD, Adam
from recon.optim.subspace import Subspace
from recon.released import Weights
from recon.training.kkt import KKTSettings, train_to_kkt

F64 = torch.float64


def test_exact_recovery_of_one_sample():
    """θ₁ = c w2ᵀ xᵀ with w2 > 0 is a KKT point with the one image x; its direction comes back, its
    label, its share.
    """
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, generator=generator, dtype=F64)
    # so every unit is active at x, none sits on a kink
    w2 = 0.2 + torch.rand(1, 40, generator=generator, dtype=F64)
    network = MLP((6, 40, 1), bias=(False, False))
    theta = network.flatten({"w1": 0.7 * w2.mT * x, "w2": w2})
    attack = DecoReco(
        *(Weights(network, theta), torch.full((8, 2), 0.5, dtype=F64), 2000),
        layer_weights=(1.0, 0.0),
        final=1e-4,
    )
    found = reconstruct(attack, 0.1 * torch.randn(8, 2, 6, generator=generator, dtype=F64), 2000)
    row = int(found.energy.argmin())  # some starts see only dead units
    assert found.energy[row] < 1e-6 * network.unflatten(theta)["w1"].square().sum()
    share = contribution(attack, found.x_hat[row], found.accepted["multipliers"][row])
    best = found.x_hat[row, share.argmax()]
    assert torch.nn.functional.cosine_similarity(best, x, dim=0) > 0.9999
    assert attack.labels[share.argmax()] == 1


def released(n=6, d=30, width=50, steps=300):
    generator = torch.Generator().manual_seed(2)
    network = three_layer(width, d)
    x = torch.randn(n, d, generator=generator)
    y = torch.arange(n, dtype=torch.float32) % 2
    theta = network.flatten(network.init(generator, "small"))
    # a net this small grows without bound
    trained = train_to_kkt(network, x, y, theta, KKTSettings(steps, -300.0))
    return network, trained.theta_star, x, y


def attack_on(network, theta, m=4, starts=1, steps=30, **settings):
    unit = (
        torch.rand(starts, m, generator=torch.Generator().manual_seed(4)).clamp_min(0.05).to(theta)
    )
    return DecoReco(Weights(network, theta), unit * 0.1, steps, **settings)


def test_span_of_the_images_is_found_from_the_weights():
    network, theta, x, _ = released()
    basis = image_span(Weights(network, theta)).basis
    assert basis.shape[0] == len(x)
    assert torch.allclose(basis @ basis.mT, torch.eye(len(basis)), atol=1e-5)
    assert (x - x @ basis.mT @ basis).norm() < 1e-2 * x.norm()


def test_restricted_energy_differs_by_a_constant_only():
    network, theta, _, _ = released()
    space = image_span(Weights(network, theta))
    attack, basis = attack_on(network, theta, starts=2), space.basis
    small = attack.restricted(space)
    coordinates = torch.randn(2, 4, len(basis), generator=torch.Generator().manual_seed(6))
    full = attack.value_and_grad(coordinates @ basis, attack.multipliers_init)
    cut = small.value_and_grad(coordinates, attack.multipliers_init)
    w1 = network.unflatten(theta)["w1"]
    constant = (w1 - w1 @ basis.mT @ basis).square().sum()
    assert torch.allclose(full[1] - constant, cut[1], rtol=1e-4)
    assert torch.allclose(
        full[2] @ basis.mT, cut[2], rtol=1e-3, atol=1e-3 * cut[2].abs().max().item()
    )


@pytest.mark.parametrize("logarithmic", [True, False])
def test_a_step_goes_down_the_gradient_in_the_unknowns(logarithmic):
    """The unknowns are x and ν = log λ, λ or c: one step of plain descent against central
    differences of the energy.
    """
    network = MLP((5, 6, 1), smoothing=5.0)  # so that R's gradient in x is exact
    theta = network.flatten(network.init(torch.Generator().manual_seed(0), dtype=F64))
    steps = {"optimiser_x": SGD(0.3), "optimiser_multipliers": SGD(0.7)}
    attack = attack_on(
        network, theta, starts=2, steps=10, logarithmic=logarithmic, alpha=5.0, final=0.2, **steps
    )
    attack = replace(attack, lambda_min=0.05, lambda_weight=0.4, box_weight=0.3)
    state = attack.init(
        1.5 * torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(1), dtype=F64)
    )
    factors = [0.2 + 0.4 * (1 + math.cos(math.pi * k / 10)) for k in (1, 2)]
    for factor in factors:
        x, raw = state["x"]["x"], state["multipliers"]["x"]

        def energy(x, raw):
            return attack.value_and_grad(x, raw.exp() if logarithmic else raw)[1]

        state = attack.step(state)
        for place, at, size in (("x", x, 0.3), ("multipliers", raw, 0.7)):
            gradient = torch.zeros_like(at)
            for index in range(at[0].numel()):
                change = torch.zeros_like(at).flatten(1)
                change[:, index] = 1e-6
                change = change.view_as(at)
                ends = [
                    energy(x + s * change, raw) if place == "x" else energy(x, raw + s * change)
                    for s in (1, -1)
                ]
                gradient.flatten(1)[:, index] = (ends[0] - ends[1]) / 2e-6
            moved = state[place]["x"] - at
            torch.testing.assert_close(moved, -size * factor * gradient, rtol=1e-6, atol=1e-7)


def test_the_best_point_is_kept_with_all_that_belongs_to_it():
    network, theta, _, _ = released()
    x_init = 0.1 * torch.randn(2, 4, 30, generator=torch.Generator().manual_seed(7))
    attack = attack_on(
        network, theta, starts=2, steps=40, optimiser_x=Adam(0.5), optimiser_multipliers=Adam(0.5)
    )
    state, energies = attack.init(x_init), []
    for _ in range(40):
        multipliers = state["multipliers"]["x"].exp()
        energies.append(attack.value_and_grad(state["x"]["x"], multipliers)[1])
        state = attack.step(state)
    energies, kept = torch.stack(energies), state["accepted"]
    assert (energies.diff(dim=0) > 0).any() and torch.equal(kept["energy"], energies.min(0).values)
    by_layer, energy, _, _ = attack.value_and_grad(kept["x"], kept["multipliers"])
    torch.testing.assert_close(energy, kept["energy"])
    torch.testing.assert_close(by_layer, kept["by_layer"])


@pytest.mark.parametrize("network", [MLP((30, 1)), MLP((30, 12, 10, 8, 1))])
def test_any_mlp_with_or_without_biases(network):
    theta = network.flatten(network.init(torch.Generator().manual_seed(0)))
    attack = DecoReco(Weights(network, theta), torch.full((1, 4), 0.05), 20)
    found = reconstruct(
        attack, 0.1 * torch.randn(1, 4, 30, generator=torch.Generator().manual_seed(1)), 20
    )
    assert (found.history[-1] <= found.history[0]).all()


def test_rows_of_a_batch_are_runs_of_their_own():
    network, theta, _, _ = released()
    theta = theta.double()
    x_init = 0.1 * torch.randn(2, 4, 30, generator=torch.Generator().manual_seed(7), dtype=F64)
    attack = attack_on(network, theta, starts=2)
    both = reconstruct(attack, x_init, 25)
    for row in range(2):
        alone = replace(attack, multipliers_init=attack.multipliers_init[row : row + 1])
        single = reconstruct(alone, x_init[row : row + 1], 25)
        assert torch.allclose(single.x_hat[0], both.x_hat[row], rtol=1e-8, atol=1e-10)


def test_recover_finds_the_images_of_a_small_net(tmp_path):
    """End to end, with a null: far above what fresh images of the same kind score."""
    network, theta, x, _ = released(n=4, d=60, width=200, steps=600)
    settings = RecoverSettings(m=8, restarts=3, steps=600, scale_steps=60)
    found = recover(
        Weights(network, theta), settings, torch.Generator().manual_seed(0), Checkpoints(tmp_path)
    )
    fresh = torch.randn(4, 60, generator=torch.Generator().manual_seed(9))

    def best(images):
        return torch.corrcoef(torch.cat([images, found.x_hat]))[:4, 4:].amax(1)

    assert (best(x) > 0.85).all() and best(fresh).max() < 0.7
    assert (found.contribution.diff() <= 1e-6).all()
    again = recover(Weights(network, theta), settings, torch.Generator().manual_seed(0))
    assert torch.equal(again.x_hat, found.x_hat) and found.x_hat.shape == (8, 60)
    assert found.multiplier_scale in settings.multiplier_scales


def test_penalties_are_added_to_the_energy():
    network, theta, _, _ = released()
    plain = attack_on(network, theta.double(), logarithmic=False, alpha=20.0)
    assert plain.box_weight == plain.lambda_weight == 0.0
    attack = replace(plain, box_weight=2.0, lambda_min=0.2, lambda_weight=5.0)
    x = 1.5 * torch.randn(1, 4, 30, generator=torch.Generator().manual_seed(8), dtype=F64)
    c = attack.multipliers_init
    box = ((x - 1).clamp_min(0) ** 2 + (-1 - x).clamp_min(0) ** 2).sum()
    short = ((0.2 - c).clamp_min(0) ** 2).sum()
    energy = plain.value_and_grad(x, c)[1]
    torch.testing.assert_close(attack.value_and_grad(x, c)[1], energy + 2 * box + 5 * short)
    # λ = e^ν needs no penalty
    positive = replace(attack, logarithmic=True)
    torch.testing.assert_close(positive.value_and_grad(x, c)[1], energy + 2 * box)
    # the box means pixels in coordinates, too
    inside = attack.restricted(Subspace(torch.eye(30, dtype=F64)))
    torch.testing.assert_close(inside.value_and_grad(x, c)[1], energy + 2 * box + 5 * short)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"multipliers_init": torch.ones(1, 3)}, "even and positive"),
        ({"multipliers_init": torch.ones(1, 0)}, "even and positive"),
        ({"alpha": 0.0}, "must be positive"),
        ({"steps": 0}, "must be positive"),
    ],
)
def test_bad_input_is_one_sentence(change, sentence):
    network, theta, _, _ = released(steps=2)
    attack = attack_on(network, theta)
    with pytest.raises(ReconError, match=sentence):
        replace(attack, **change)
    with pytest.raises(ReconError, match="one θ"):
        replace(attack, weights=Weights(network, theta.repeat(2, 1)))
    with pytest.raises(ReconError, match="does not fit"):
        attack.init(torch.ones(2, 4, 30))
