"""Energies of gradient matching against their definitions, and its runs."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from small_networks import LOSSY, SMALL, STRIDED, some_gradient

from companion.chapters.leakage_common import SEED
from companion.store.checkpoints import Checkpoints
from recon.attacks import gradient_matching
from recon.attacks.gradient_matching import (
    GEIPING_DESCENT,
    Alignment,
    Descent,
    GradientMatching,
    cosine_tv,
    dlg,
    hybrid,
    seeded_start,
    total_variation,
)
from recon.attacks.reconstruct import Reconstruction
from recon.attacks.rgap import layer_by_layer, rgap, system_of
from recon.errors import ReconError
from recon.nets.conv import Conv, ConvNet, cross_entropy_direction


def autograd_distances(gradient, x):
    """Σ_j D(g_j(x), g_j) of each image and D(g(x), g), by autograd and definition (10)."""
    found = []
    for b, label in enumerate(gradient.labels):
        leaves = {name: tensor.clone().requires_grad_() for name, tensor in gradient.theta.items()}
        loss = F.cross_entropy(gradient.network(leaves, x[b : b + 1]), label[None])
        grads = torch.autograd.grad(loss, list(leaves.values()))
        pairs = zip(grads, gradient.gradients.values(), strict=True)
        pairs = [(g.flatten(), t[b].flatten()) for g, t in pairs]
        whole = [torch.cat(each) for each in zip(*pairs, strict=True)]
        by_tensor = sum(1 - F.cosine_similarity(g, t, dim=0) for g, t in pairs)
        found.append(torch.stack([by_tensor, 1 - F.cosine_similarity(*whole, dim=0)]))
    return torch.stack(found, dim=1)


@pytest.mark.parametrize("network", [SMALL, STRIDED], ids=["small", "strided"])
def test_the_energy_is_the_sum_of_cosine_distances_or_that_of_the_whole_gradient(network):
    gradient, x = some_gradient(network)
    by_tensor, whole = autograd_distances(gradient, 0.5 * x)
    assert (by_tensor > 1e-4).all() and (whole > 1e-4).all()
    assert ((whole - by_tensor).abs() > 0.1 * by_tensor).all()  # two energies, and not nearly one
    for setting, expected in (({}, by_tensor), ({"whole": True}, whole)):
        assert GradientMatching(gradient, 1, **setting).energy(x).abs().max() < 1e-12
        torch.testing.assert_close(
            GradientMatching(gradient, 1, alpha=3.0, **setting).energy(0.5 * x), 3 * expected
        )
    layers = network.layers(gradient.theta, 0.5 * x, cross_entropy_direction(gradient.labels))
    alignment = Alignment.of(layers, gradient.gradients)
    torch.testing.assert_close(alignment.by_tensor(), by_tensor)
    torch.testing.assert_close(alignment.whole(), whole)
    scaled = Alignment.of(layers, {name: 3 * g for name, g in gradient.gradients.items()})
    # a cosine does not see how long the gradient is
    torch.testing.assert_close(scaled.whole(), whole)


def test_total_variation_is_the_mean_of_horizontal_plus_that_of_vertical_differences():
    rows, columns = torch.arange(3.0)[:, None], torch.arange(4.0)
    assert total_variation(columns.expand(1, 2, 3, 4)).item() == pytest.approx(1.0)
    x = torch.stack([(2 * rows + 3 * columns).expand(2, 3, 4), -5 * rows.expand(2, 3, 4)])
    torch.testing.assert_close(total_variation(x), torch.tensor([5.0, 5.0]))
    gradient, x = some_gradient()
    plain, smooth = (GradientMatching(gradient, 1, beta=beta).energy(x) for beta in (0.0, 0.7))
    torch.testing.assert_close(smooth - plain, 0.7 * total_variation(x))


@pytest.mark.parametrize("layer", [2, 1])
def test_the_linear_systems_term_is_the_residual_of_the_layers_system(layer):
    """γ ‖U_i x − V_i‖² with the dense U_i."""
    gradient, _ = some_gradient(STRIDED, 1)
    found = next(f for f in layer_by_layer(gradient) if f.layer == layer)
    conv, weight, shape = STRIDED.convs[layer - 1], gradient.theta[f"w{layer}"], found.x.shape[1:]
    system = torch.from_numpy(system_of(conv, weight, found.delta[0], tuple(shape)).dense())
    right = torch.cat([found.z.flatten(), gradient.gradients[f"w{layer}"].flatten()])
    attack = GradientMatching(
        gradient, 1, first=layer, alpha=0.0, gamma=0.3, system=(found.z, found.delta)
    )
    assert attack.shape == tuple(shape)
    generator = torch.Generator().manual_seed(0)
    for x in (found.x, torch.randn(found.x.shape, generator=generator, dtype=torch.float64)):
        expected = 0.3 * (system @ x.flatten() - right).square().sum()
        torch.testing.assert_close(attack.energy(x)[0], expected, rtol=1e-8, atol=1e-12)


def test_later_layers_match_the_gradients_from_there_on():
    """Σ_{j ≥ i}: at x_{i−1} of another image as many terms as parameter tensors from layer i on."""
    gradient, x = some_gradient(STRIDED)
    hidden = STRIDED.activation(STRIDED.convs[0].apply(0.5 * x, gradient.theta["w1"]))
    parts = {name: tensor for name, tensor in gradient.theta.items() if name != "w1"}
    found = GradientMatching(gradient, 1, first=2).energy(hidden)
    whole = STRIDED.gradients(gradient.theta, 0.5 * x, gradient.labels)
    pairs = [(whole[name].flatten(1), gradient.gradients[name].flatten(1)) for name in parts]
    expected = sum(1 - F.cosine_similarity(u, v) for u, v in pairs)
    torch.testing.assert_close(found, expected)


def test_a_step_is_pytorchs_adam_and_keeps_the_best():
    gradient, x = some_gradient(SMALL)
    attack = GradientMatching(gradient, 6, Descent(0.05), beta=0.1)
    start = 0.3 * x.flatten(1)[:, None]
    state, leaf = attack.init(start), start.clone().requires_grad_()
    adam, energies, visited = torch.optim.Adam([leaf], lr=0.05), [], []
    for _ in range(6):
        torch.testing.assert_close(state["adam"]["x"], leaf.detach())
        state = attack.step(state)
        adam.zero_grad()
        energy = attack.energy(leaf.view_as(x))
        energies.append(energy.detach())
        visited.append(leaf.detach().clone())
        energy.sum().backward()
        adam.step()
    torch.testing.assert_close(state["adam"]["x"], leaf.detach())
    least = torch.stack(energies).min(0)
    torch.testing.assert_close(state["accepted"]["energy"], least.values)
    for b, k in enumerate(least.indices.tolist()):
        torch.testing.assert_close(state["accepted"]["x"][b], visited[k][b])


def test_hybrid_improves_on_the_minimum_norm_solution_and_starts_from_it(tmp_path):
    gradient, x = some_gradient(LOSSY)
    start = torch.cat([rgap(victim) for victim in gradient.split()])
    found = [next(layer_by_layer(victim)) for victim in gradient.split()]
    system = (torch.cat([f.z for f in found]), torch.cat([f.delta for f in found]))
    attack = GradientMatching(gradient, 5, alpha=1.0, beta=1.0, gamma=0.05, system=system)
    improved = hybrid(gradient, share=0.05, checkpoints=Checkpoints(tmp_path))
    assert (attack.energy(improved) < attack.energy(start)).all()
    torch.testing.assert_close(improved, start, atol=0.6, rtol=0)
    deeper, y = some_gradient(SMALL)
    assert hybrid(deeper, share=0.001).shape == y.shape  # two layers, one after the other


def test_dlg_is_l_bfgs_on_squared_differences_by_double_backward():
    network = ConvNet((Conv(3, 4),), shape=(1, 5, 5), classes=4)
    gradient, _ = some_gradient(network, 1)
    leaf = seeded_start(gradient, SEED).clone().requires_grad_()
    theta = {name: tensor.clone().requires_grad_() for name, tensor in gradient.theta.items()}
    optimiser, energies = torch.optim.LBFGS([leaf], lr=1), []

    def closure():
        optimiser.zero_grad()
        loss = F.cross_entropy(network(theta, leaf), gradient.labels)
        grads = torch.autograd.grad(loss, list(theta.values()), create_graph=True)
        pairs = zip(grads, gradient.gradients.values(), strict=True)
        value = sum((g - target[0]).square().sum() for g, target in pairs)
        value.backward(inputs=[leaf])
        return value

    for _ in range(2):
        energies.append(optimiser.step(closure).detach())
    found, history = dlg(gradient, seeded_start(gradient, SEED), 2)
    torch.testing.assert_close(history[:, 0], torch.stack(energies), rtol=1e-5, atol=1e-12)
    torch.testing.assert_close(found, leaf.detach(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("first", "side"), [(1, 0.5), (2, 1.0)])
def test_signed_steps_stay_in_the_box_and_shrink_at_the_milestones(first, side):
    """An image is within [−½, ½], what tanh returns within [−1, 1]; a tenth of the step after 3/10
    and after half of the budget.
    """
    gradient, _ = some_gradient(SMALL)
    descent = Descent(0.3 * side, signed=True, boxed=True, milestones=(0.3, 0.5))
    attack = GradientMatching(gradient, 10, descent, first=first)
    state = attack.init(torch.zeros(2, 1, math.prod(attack.shape), dtype=torch.float64))
    sizes = []
    for _ in range(7):
        after = attack.step(state)
        sizes.append((after["adam"]["x"] - state["adam"]["x"]).abs().max().item() / side)
        state = after
    assert sizes[0] == pytest.approx(0.3, rel=1e-5)  # Adam's first step is its step size
    assert 0.003 < sizes[4] < 0.0303 and sizes[6] < 0.00303
    assert state["adam"]["x"].abs().max() > 0.9 * side
    assert state["adam"]["x"].abs().max() <= side


@pytest.fixture
def runs(monkeypatch):
    """What `reconstruct` is asked for, and a stand-in for its improvement: a tenth less."""
    noted = []

    def shrink(attack, x_init, steps, **_):
        noted.append((attack, steps, 0.9 * x_init))
        energy = torch.zeros(len(x_init))
        return Reconstruction(0.9 * x_init, energy, energy[None], steps, energy == 0, {})

    monkeypatch.setattr(gradient_matching, "reconstruct", shrink)
    return noted


def test_hybrids_settings_go_by_layer_and_its_improvement_feeds_the_next(runs):
    deep = ConvNet((Conv(3, 6), Conv(3, 8), Conv(3, 9), Conv(1, 9)), shape=(2, 8, 8), classes=4)
    gradient, x = some_gradient(deep)
    images = hybrid(gradient, share=0.1, whole=True, descent=GEIPING_DESCENT, tv=0.5)
    assert all(attack.whole and attack.descent == GEIPING_DESCENT for attack, _, _ in runs)
    settings = [(a.first, steps, a.alpha, a.beta, a.gamma) for a, steps, _ in runs]
    assert settings == [
        (4, 100, 10.0, 0.05, 1.0),
        (3, 100, 10.0, 0.05, 1.0),
        (2, 800, 1.0, 0.5, 0.1),
        (1, 1000, 1.0, 0.5, 0.05),
    ]
    for (_, _, improved), (attack, _, _) in pairwise(runs):
        torch.testing.assert_close(attack.system[0].flatten(1), improved[:, 0].atanh())
    assert torch.equal(images, runs[-1][2].view_as(x))


def test_the_papers_settings_and_those_of_geiping(runs):
    """The total variation counts once for each cosine: for each of the four tensors of θ."""
    gradient, x = some_gradient()
    cosine_tv(gradient, x)
    cosine_tv(gradient, x, whole=True, descent=GEIPING_DESCENT)
    settings = [(a.whole, a.descent, a.alpha, a.beta, steps) for a, steps, _ in runs]
    milestones = (3 / 8, 5 / 8, 7 / 8)
    signed = Descent(0.025, signed=True, boxed=True, milestones=milestones)
    assert settings == [
        (False, Descent(1e-3), 1.0, 0.04, 4800),
        (True, signed, 1.0, 0.01, 4800),
    ]


def test_matching_descends_and_treats_victims_alike():
    gradient, _ = some_gradient()
    start = seeded_start(gradient, SEED)
    torch.manual_seed(SEED)  # as the paper draws it, the same for every victim
    assert torch.equal(start[1], torch.randn(1, *SMALL.shape)[0].double())
    both = cosine_tv(gradient, start, 40)
    assert (both.energy < both.history[0]).all()
    second = cosine_tv(gradient.split()[1], start[1:], 40)
    torch.testing.assert_close(second.x_hat[0], both.x_hat[1], atol=1e-6, rtol=0)


def test_hybrid_needs_a_convolution():
    with pytest.raises(ReconError, match="no convolution"):
        hybrid(some_gradient(ConvNet((), shape=(1, 3, 3), classes=4), 1)[0])
