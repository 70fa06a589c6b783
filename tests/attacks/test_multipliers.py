"""Multipliers of a pool: exact cases, signs and labels, one Gram matrix by three routes, and who
was trained on.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial

import pytest
import torch
from scipy.optimize import nnls
from sklearn.metrics import roc_auc_score
from small_networks import dense, fill, normal
from torch import nn

from recon.attacks import from_weights
from recon.attacks import multipliers as module
from recon.attacks.from_weights import Pool, by_multipliers
from recon.attacks.multipliers import (
    confidence,
    from_gradients,
    from_network,
    multipliers,
)
from recon.errors import ReconError
from recon.nets.mlp import MLP, affine
from recon.nets.module import ModuleNetwork
from recon.released import Weights
from recon.training.kkt import KKTSettings, certificate, train_to_kkt

F64 = torch.float64


@pytest.fixture
def exact():
    """θ = Σ λ_i g_i with some λ_i = 0."""
    gradients, truth = normal(12, 50), normal(12, seed=1).clamp_min(0)
    return gradients, truth, truth @ gradients


def from_module(module, x, y, start=None, **options):
    network = ModuleNetwork(module.eval())
    before = None if start is None else network.flatten(dict(start.named_parameters())).detach()
    return from_network(network, network.flatten(network.parameters()), x, y, before, **options)


@contextmanager
def exactly(monkeypatch):
    """The least squares of `by_multipliers` nearly without a ridge."""
    with monkeypatch.context() as patched:
        patched.setattr(from_weights, "multipliers", partial(multipliers, ridge=1e-12))
        yield


def test_multipliers_of_an_exact_sum_are_found(exact):
    gradients, truth, theta = exact
    found = multipliers(from_gradients(gradients, theta), 1e-12)
    torch.testing.assert_close(found.values, truth, rtol=1e-8, atol=1e-8)
    assert found.residual < 1e-6 and (truth == 0).any()
    torch.testing.assert_close(found.score[truth > 0], truth[truth > 0], rtol=1e-8, atol=1e-8)


def test_a_candidate_with_the_other_sign_is_refused(exact):
    gradients, truth, theta = exact
    row = int(truth.argmax())
    gradients[row] *= -1
    found = multipliers(from_gradients(gradients, theta))
    assert found.values[row] == 0 and found.score[row] < 0 and found.residual > 0.1


def test_with_noise_it_is_nonnegative_least_squares(exact, monkeypatch):
    monkeypatch.setattr(module, "COLUMNS", 7)
    gradients, _, theta = exact
    theta = theta + 2 * normal(50, seed=2)
    found = multipliers(from_gradients(gradients, theta), 1e-12)
    expected, distance = nnls(gradients.mT.numpy(), theta.numpy())
    torch.testing.assert_close(found.values, torch.from_numpy(expected), rtol=1e-6, atol=1e-6)
    assert found.residual == pytest.approx(distance / theta.norm().item(), rel=1e-6)
    for i in range(12):
        rest = theta - found.values @ gradients + found.values[i] * gradients[i]
        assert found.score[i].item() == pytest.approx(
            (rest @ gradients[i] / gradients[i].square().sum()).item(), abs=1e-6
        )
    assert (found.score[found.values == 0] <= 1e-9).all()


# ------------------------------------------------------------------------------------ the gradients


@pytest.mark.parametrize("outputs", [1, 2, 4])
@pytest.mark.parametrize("budget", [2**30, 400])
def test_a_module_gives_the_gradients_of_the_log_odds(outputs, budget):
    """θ − θ⁰, in one pass and in several."""
    net, start = dense(6, 5, 4, outputs), dense(6, 5, 4, outputs, seed=1)
    x, y = normal(9, 6), torch.arange(9) % max(outputs, 2)
    rows = []
    for image, label in zip(x, y, strict=True):
        logits = net(image[None])[0]
        logits = torch.cat([-logits, logits]) / 2 if outputs == 1 else logits
        phi = torch.logit(logits.softmax(0)[label])
        gradients = torch.autograd.grad(phi, net.parameters())
        rows.append(torch.cat([g.flatten() for g in gradients]))
    pairs = zip(net.parameters(), start.parameters(), strict=True)
    target = torch.cat([(p - before).detach().flatten() for p, before in pairs])
    expected = from_gradients(torch.stack(rows), target)
    system = from_module(net, x, y, start, budget=budget)
    for name in ("gram", "products", "norm"):
        torch.testing.assert_close(
            getattr(system, name), getattr(expected, name), rtol=1e-9, atol=1e-9
        )


class Twice(nn.Module):
    """A layer that is given both halves of an image, and one behind it."""

    def __init__(self):
        super().__init__()
        self.part, self.answer = nn.Linear(3, 4), nn.Linear(8, 1)

    def forward(self, x):
        return self.answer(self.part(x.unflatten(1, (2, 3))).relu().flatten(1))


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize(("kind", "closed", "others"), [(dense, 2, 0), (Twice, 1, 1)])
def test_gradients_take_as_few_passes_as_they_can(kind, closed, others, n):
    """An image takes one for all layers in closed form, and one for all else; a closed form one
    more, which checks it.
    """
    net = dense(6, 5, 1) if kind is dense else fill(Twice())
    x, y, rows, passes = normal(n, 6), torch.arange(n) % 2, [], []
    for image, label in zip(x, y, strict=True):
        phi = (2 * label - 1) * net(image[None]).sum()
        gradients = torch.autograd.grad(phi, net.parameters())
        rows.append(torch.cat([g.flatten() for g in gradients]))
    net.register_forward_hook(lambda *_: passes.append(1))
    expected = torch.stack(rows) @ torch.stack(rows).mT
    torch.testing.assert_close(from_module(net, x, y).gram, expected)
    assert len(passes) <= n * (1 + others) + closed


# ---------------------------------------------------------------------------------------- trainings


def test_weight_decay_at_rest_gives_every_multiplier():
    """λ_i = (1 − p_i) / (n · decay) for training images, 0 for others; of three classes."""
    n, decay = 10, 1e-2
    x, y = normal(2 * n, 30), torch.arange(2 * n) % 3
    net = nn.Linear(30, 3, dtype=F64).eval()
    with torch.no_grad():
        for k, p in enumerate(net.parameters()):
            p.copy_(0.1 * normal(*p.shape, seed=k))
    optimiser = torch.optim.LBFGS(
        net.parameters(),
        max_iter=500,
        tolerance_grad=1e-12,
        tolerance_change=0,
        line_search_fn="strong_wolfe",
    )

    def closure():
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(net(x[:n]), y[:n])
        loss = loss + decay / 2 * sum(p.square().sum() for p in net.parameters())
        loss.backward()
        return loss

    optimiser.step(closure)
    found = multipliers(from_module(net, x, y), 1e-12)
    p = net(x).softmax(1).gather(1, y[:, None])[:, 0]
    torch.testing.assert_close(
        found.values[:n], ((1 - p) / (n * decay))[:n].detach(), rtol=1e-5, atol=1e-5
    )
    assert found.values[n:].max() < 1e-4 and found.residual < 1e-5
    wrong = y.clone()
    wrong[0] = (y[0] + 1) % 3
    assert multipliers(from_module(net, x, wrong)).values[0] < 0.05 * found.values[0]


def test_a_known_start_makes_gradient_descent_on_a_linear_model_exact(monkeypatch):
    n, network = 8, affine(25)
    x, y = normal(2 * n, 25), torch.arange(2 * n) % 2
    start = theta = network.flatten(network.init(torch.Generator().manual_seed(3), dtype=F64))
    for _ in range(20):
        leaf = theta.requires_grad_()
        logits = network(network.unflatten(leaf), x[:n])
        loss = nn.functional.softplus(-confidence(logits[:, None], y[:n])).mean()
        theta = (leaf - torch.autograd.grad(loss, leaf)[0]).detach()
    pool = Pool(x, y)
    with exactly(monkeypatch):
        known = by_multipliers(Weights(network, theta, start.detach()), pool).diagnostics
    values = known["multipliers"]
    assert known["residual"] < 1e-6 and values[:n].min() > 0.03 > 1e-6 > values[n:].max()
    assert by_multipliers(Weights(network, theta), pool).diagnostics["residual"] > 0.05


def test_in_the_kkt_regime_members_carry_the_weights_and_others_do_not(monkeypatch):
    n = 10
    network = MLP((40, 60, 60, 1), bias=(True, False, False))
    x, y = normal(2 * n, 40), torch.arange(2 * n) % 2
    start = network.flatten(network.init(torch.Generator().manual_seed(0), "small"))
    trained = train_to_kkt(network, x[:n].float(), y[:n].float(), start, KKTSettings(400, -40.0))
    theta = trained.theta_star
    weights = Weights(network, theta.double())
    candidates = by_multipliers(weights, Pool(x, y))
    member = torch.arange(2 * n) < n
    assert roc_auc_score(member, candidates.score) == 1
    assert candidates.diagnostics["residual"] < 0.7
    values = candidates.diagnostics["multipliers"]
    assert values[n:].max() < 0.1 * values[:n].max()
    with exactly(monkeypatch):
        fit = by_multipliers(weights, Pool(x[:n], y[:n])).diagnostics
    certified = certificate(network, theta, x[:n].float(), y[:n].float())
    atol = 1e-6 * certified.multipliers.max().item()
    torch.testing.assert_close(
        fit["multipliers"].float(), certified.multipliers.float(), rtol=1e-4, atol=atol
    )
    assert fit["residual"] == pytest.approx(certified.residual, rel=1e-4)
    assert roc_auc_score(member, by_multipliers(weights, Pool(x, 1 - y)).score) < 0.5


def test_copies_share_a_multiplier(exact):
    gradients, truth, theta = exact
    twice = multipliers(from_gradients(torch.cat([gradients, gradients]), theta)).values
    torch.testing.assert_close(twice.view(2, 12), truth.expand(2, 12) / 2, rtol=1e-3, atol=1e-4)


def test_gradients_of_nothing_are_refused():
    with pytest.raises(ReconError, match="vanish"):
        multipliers(from_gradients(torch.zeros(3, 5), torch.ones(5)))


def test_frozen_parameters_do_not_count_unless_all_are():
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1)).double()
    x, y = normal(5, 4), torch.tensor([0, 1, 0, 1, 1])
    whole = from_module(net, x, y)
    net[0].requires_grad_(False)
    part = from_module(net, x, y)
    torch.testing.assert_close(part.norm, sum(p.square().sum() for p in net[2].parameters()))
    net.requires_grad_(False)
    torch.testing.assert_close(from_module(net, x, y).gram, whole.gram)
