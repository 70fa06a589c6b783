"""Training to the KKT regime: exactness of the reduced coordinates, certificates, identities,
resuming.
"""

import math
from dataclasses import replace

import pytest
import torch
from scipy.optimize import nnls

from companion.store.checkpoints import FileCheckpoint
from recon.errors import ReconError
from recon.nets.mlp import MLP, three_layer
from recon.optim import loop
from recon.optim.descent import HeavyBall
from recon.optim.lbfgs import LBFGSSettings
from recon.training.inner_problem import Objective, solve_lbfgs
from recon.training.kkt import (
    KKTSettings,
    certificate,
    confidence,
    log_logistic_loss,
    train_to_kkt,
)

F64 = torch.float64
LAYER_1 = (1.0, 0.0, 0.0)


def problem(n=6, d=12, outputs=1, dtype=F64):
    generator = torch.Generator().manual_seed(5)
    network = three_layer(7, d, outputs)
    x = torch.randn(n, d, generator=generator, dtype=dtype)
    y = torch.arange(n, dtype=dtype) % max(2, outputs)
    return network, x, y, network.flatten(network.init(generator, "small", dtype))


def test_training_in_the_span_equals_training_in_full():
    """The same steps in n coordinates and in d; the padded copy has n ≥ d and takes the full
    path.
    """
    network, x, y, theta = problem()
    settings = KKTSettings(30)
    reduced = train_to_kkt(network, x, y, theta, settings)
    # the same loss, but 18 ≥ 12 images
    full = train_to_kkt(network, x.repeat(3, 1), y.repeat(3), theta, settings)
    assert (reduced.theta_star - full.theta_star).norm() < 1e-6 * full.theta_star.norm()
    assert torch.allclose(reduced.history, full.history, rtol=1e-6)


def test_the_first_steps_descend_on_the_logarithm_of_the_loss():
    network, x, y, theta = problem()
    theta, settings = 3 * theta, KKTSettings(2, momentum=0.0, relative_step=10.0)
    trained, objective = train_to_kkt(network, x, y, theta, settings), Objective(network, y, 0.0)
    before = objective.value(theta[None], x[None])
    expected = theta[None] - objective.grad(theta[None], x[None]) / before
    assert (trained.theta_star - expected[0]).norm() < 1e-10 * theta.norm()
    loss = objective.value(expected, x[None]).item()
    assert math.exp(trained.log_loss) == pytest.approx(loss) == trained.history[-1].exp().item()


def test_resumed_training_equals_an_uninterrupted_one(tmp_path, monkeypatch):
    network, x, y, theta = problem(dtype=torch.float32)
    whole = train_to_kkt(network, x, y, theta, KKTSettings(40))
    file = FileCheckpoint(tmp_path / "training.safetensors")
    # a checkpoint each step
    monkeypatch.setattr(loop.time, "monotonic", iter(range(0, 10**6, 100)).__next__)
    train_to_kkt(network, x, y, theta, KKTSettings(17), file)
    resumed = train_to_kkt(network, x, y, theta, KKTSettings(40), file)
    assert torch.equal(resumed.theta_star, whole.theta_star) and torch.equal(
        resumed.history, whole.history
    )


def test_kkt_identity_with_weight_decay():
    """At a stationary point with decay λ_i = −ℓ'_i/(n·wd) is exact."""
    network = MLP((12, 7, 1), smoothing=4.0)  # smooth, so that L-BFGS converges to the last digits
    _, x, y, _ = problem()
    theta = network.flatten(network.init(torch.Generator().manual_seed(0), dtype=F64))
    settings = LBFGSSettings(1e-11, 3000, history=20)
    theta = solve_lbfgs(Objective(network, y, 0.02), x[None], theta[None], settings)[0]
    slope = torch.sigmoid(network(network.unflatten(theta), x)) - y
    fitted = certificate(network, theta, x, y, unsigned=True)
    assert torch.allclose(fitted.multipliers, -slope / (len(y) * 0.02), rtol=1e-5, atol=1e-7)
    assert fitted.residual < 1e-6


@pytest.mark.parametrize(
    ("outputs", "weights"), [(1, (1.0, 1.0, 1.0)), (1, LAYER_1), (3, (0.5, 2.0, 1.0))]
)
def test_the_certificate_is_least_squares_on_the_gradients(outputs, weights):
    """SciPy's NNLS on the gradients themselves, which autograd gives, and every number that
    follows.
    """
    network, x, y, theta = problem(outputs=outputs)
    theta = 10 * theta
    gradients, layers = jacobian(network, theta, x, y)
    roots = [math.sqrt(w) for w in weights]
    matrix = torch.cat([w * g.mT for w, g in zip(roots, gradients, strict=True)])
    target = torch.cat([w * t for w, t in zip(roots, layers, strict=True)])
    expected = torch.from_numpy(nnls(matrix.numpy(), target.numpy())[0])
    fitted = certificate(network, theta, x, y, layer_weights=weights)
    torch.testing.assert_close(fitted.multipliers, expected, rtol=1e-4, atol=1e-6)
    remainders = [t - expected @ g for t, g in zip(layers, gradients, strict=True)]
    energy = torch.stack([remainder.square().sum() for remainder in remainders])
    norms = torch.stack([t.square().sum() for t in layers])
    relative = (energy / norms).sqrt()
    torch.testing.assert_close(fitted.energy_by_layer, energy, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(fitted.residual_by_layer, relative, rtol=1e-6, atol=1e-9)
    assert fitted.residual == pytest.approx((energy.sum() / norms.sum()).sqrt().item(), rel=1e-6)


def test_no_step_is_longer_than_three_percent():
    network, x, y, theta = problem(n=14)  # no coordinates, so that the weights' norm is seen whole
    path = torch.stack(
        [train_to_kkt(network, x, y, theta, KKTSettings(k)).theta_star for k in range(1, 61)]
    )
    lengths = path.diff(dim=0).norm(dim=1) / path[:-1].norm(dim=1).clamp_min(1.0)
    assert 0.029 < lengths.max() <= 0.03 * (1 + 1e-9)


def test_training_ends_at_its_goal():
    network, x, y, theta = problem()
    settings = KKTSettings(3000, goal=-0.8)
    trained = train_to_kkt(network, x, y, theta, settings)
    assert len(trained.history) < 3000 and trained.log_loss <= -0.8
    assert (trained.history[:-1] > -0.8).all()
    short = train_to_kkt(network, x, y, theta, replace(settings, steps=3))
    assert short.log_loss > -0.8 and len(short.history) == 3


def test_settings_of_the_two_ways():
    assert KKTSettings(7).optimiser == HeavyBall(1.0, tol=-1e4, max_relative_step=0.03)
    flow = KKTSettings.gradient_flow()
    assert flow.goal == math.log(4e-6)  # where the reference ends
    assert flow.optimiser == HeavyBall(1.0, momentum=0.0, tol=flow.goal, max_relative_step=3e-3)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize(
    "values", [[-30.0, 3.0, 25.0], [19.9, 20.1, 19.0], [-1.0], [0.0, 5.0, 21.0]]
)
def test_the_log_loss_is_that_of_the_sum_of_losses(dtype, values):
    """Against logarithms of exact sums where they do not underflow, on both sides of the branch at
    20, and slopes.
    """
    m = torch.tensor(values, dtype=dtype, requires_grad=True)
    losses = [math.log1p(math.exp(-v)) for v in values]
    log_loss = log_logistic_loss(m)
    expected = math.log(sum(losses) / len(losses))
    assert log_loss.item() == pytest.approx(expected, rel=1e-5, abs=1e-6)
    slopes = [-1 / (1 + math.exp(v)) / sum(losses) for v in values]
    assert torch.autograd.grad(log_loss, m)[0].tolist() == pytest.approx(slopes, rel=1e-4)
    batch = log_logistic_loss(torch.tensor([[1.0, 2.0], [500.0, 700.0]], dtype=dtype))
    assert batch.shape == (2,) and batch[1].item() == pytest.approx(-500 - math.log(2))


def test_the_flow_ends_at_the_references_loss_and_follows_plain_descent():
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(6, 8, generator=generator, dtype=F64), torch.arange(6).double() % 2
    network = MLP((8, 16, 16, 1))
    theta = network.flatten(network.init(generator, dtype=F64))
    goal = math.log(0.05)
    flow, fast = (
        train_to_kkt(network, x, y, theta, settings)
        for settings in (
            replace(KKTSettings.gradient_flow(), goal=goal),
            KKTSettings(5000, goal=goal),
        )
    )
    plain, objective, steps = theta[None], Objective(network, y, 0.0), 0
    while objective.value(plain, x[None]) > 0.05:
        plain, steps = plain - 0.01 * objective.grad(plain, x[None]), steps + 1
    assert flow.log_loss <= goal and len(flow.history) < steps / 3

    def distance(trained):
        return (trained.theta_star - plain[0]).norm()

    assert distance(flow) < 0.05 * (plain[0] - theta).norm()
    assert distance(flow) < distance(fast) / 3


def jacobian(network, theta, x, y):
    """∇_{θ_l} of y_i Φ(x_i), or of the margin against the best other class, by autograd; (n, p_l)
    by layer, and θ_l (p_l,).
    """

    def phi(params):
        outputs = network(params, x)
        if outputs.dim() == 1:
            return (2 * y - 1) * outputs
        true = torch.nn.functional.one_hot(y.long(), outputs.shape[1]).bool()
        return outputs[true] - outputs.masked_fill(true, -torch.inf).amax(1)

    params = network.unflatten(theta)
    gradients = torch.func.jacrev(phi)(params)
    layers = [[f"w{k}", f"b{k}"] for k in range(1, network.depth + 1)]
    names = [[name for name in layer if name in params] for layer in layers]
    return (
        [torch.cat([gradients[k].flatten(1) for k in layer], 1) for layer in names],
        [torch.cat([params[k].flatten() for k in layer]) for layer in names],
    )


@pytest.mark.parametrize(
    "change",
    [
        {"y": torch.full((6,), 0.5, dtype=F64)},
        {"y": torch.full((6,), -1.0, dtype=F64)},
        {"y": torch.arange(6, dtype=F64)},  # more classes than outputs
        {"y": torch.zeros(6, 1, dtype=F64)},
        {"x": torch.full((6, 12), torch.nan, dtype=F64)},
        {"x": torch.ones(6, 11, dtype=F64)},
        {"x": torch.ones(6, 12, dtype=F64)},
        {"theta_init": torch.ones(3, dtype=F64)},
    ],
)
def test_what_training_refuses(change):
    network, x, y, theta = problem()
    arguments = {"x": x, "y": y, "theta_init": theta, **change}
    with pytest.raises(ReconError):
        train_to_kkt(network, settings=KKTSettings(3), **arguments)
    # one image is not equal to any
    assert len(train_to_kkt(network, x[:1], y[:1], theta, KKTSettings(2)).history) == 2


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_logistic_loss_of_a_margin_is_the_cross_entropy(outputs):
    network, x, y, theta = problem(outputs=outputs)
    params = network.unflatten(1e2 * theta)
    logits = network(params, x).view(len(x), outputs)
    margins = confidence(logits, y)
    if outputs == 1:
        logits = torch.cat([torch.zeros_like(logits), logits], dim=1)
    expected = torch.nn.functional.cross_entropy(logits, y.long(), reduction="none")
    losses = torch.nn.functional.softplus(-margins)
    torch.testing.assert_close(losses, expected)
