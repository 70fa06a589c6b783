"""Training to the KKT regime: exactness of the reduced coordinates, certificates, identities,
resuming.
"""

import math
from dataclasses import replace

import pytest
import torch
from scipy.optimize import nnls

from recon.errors import ReconError
from recon.nets.mlp import MLP, three_layer
from recon.optim import loop
from recon.optim.descent import SGD, HeavyBall
from recon.optim.lbfgs import LBFGSSettings
from recon.store.checkpoints import FileCheckpoint
from recon.training.inner_problem import Objective, solve_lbfgs
from recon.training.kkt import (
    FINAL_LOSS,
    KKTSettings,
    Observer,
    certificate,
    log_logistic_loss,
    margins,
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


@pytest.mark.parametrize("method", ["loss-scaled", "gradient-descent"])
def test_training_in_the_span_equals_training_in_full(method):
    """The same steps in n coordinates and in d; the padded copy has n ≥ d and takes the full
    path.
    """
    network, x, y, theta = problem()
    reduced = train_to_kkt(network, x, y, theta, KKTSettings(30, method=method, step_size=0.1))
    wide = x.repeat(3, 1)  # the same loss, but 18 ≥ 12 images
    full = train_to_kkt(
        network, wide, y.repeat(3), theta, KKTSettings(30, method=method, step_size=0.1)
    )
    assert (reduced.theta_star - full.theta_star).norm() < 1e-6 * full.theta_star.norm()
    assert torch.allclose(reduced.history, full.history, rtol=1e-6)


def test_gradient_descent_is_gradient_descent():
    network, x, y, theta = problem()
    trained = train_to_kkt(
        network, x, y, theta, KKTSettings(4, method="gradient-descent", step_size=0.3)
    )
    expected, objective = theta[None], Objective(network, y, 0.0)
    for _ in range(3):  # the last accepted point is where the fourth gradient was taken
        expected = expected - 0.3 * objective.grad(expected, x[None])
    assert (trained.theta_star - expected[0]).norm() < 1e-10 * theta.norm()


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


def test_no_underflow_far_into_the_kkt_regime():
    network, x, y, theta = problem(dtype=torch.float32)
    trained = train_to_kkt(network, x, y, theta, KKTSettings(400))
    assert trained.log_loss < -1000 and torch.isfinite(trained.theta_star).all()
    assert math.exp(trained.log_loss) == 0.0


def test_the_certificate_falls_as_training_goes_on():
    generator = torch.Generator().manual_seed(5)
    network, x, y = (
        three_layer(60, 40),
        torch.randn(8, 40, generator=generator, dtype=F64),
        torch.arange(8.0) % 2,
    )
    theta, seen = network.flatten(network.init(generator, "small", F64)), []

    def look(k, theta):
        seen.append(certificate(network, theta, x, y, layer_weights=LAYER_1).residual_by_layer[0])

    train_to_kkt(
        network,
        x,
        y.double(),
        theta,
        KKTSettings(300, goal=-1e9),
        observer=Observer((3, 15, 150), look),
    )
    assert len(seen) == 3
    assert seen[0] > seen[1] > seen[2] and seen[2] < 0.3
    found = certificate(
        network, train_to_kkt(network, x, y, theta, KKTSettings(300)).theta_star, x, y
    )
    assert (found.multipliers >= 0).all()


def test_kkt_identity_with_weight_decay():
    """At a stationary point with decay λ_i = −ℓ'_i/(n·wd) is exact, and the residual is
    ‖∇E‖/(wd·‖θ‖).
    """
    network = MLP((12, 7, 1), smoothing=4.0)  # smooth, so that L-BFGS converges to the last digits
    _, x, y, _ = problem()
    theta = network.flatten(network.init(torch.Generator().manual_seed(0), dtype=F64))
    objective = Objective(network, y, 0.02)
    theta = solve_lbfgs(objective, x[None], theta[None], LBFGSSettings(1e-11, 3000, history=20))[0]
    slope = torch.sigmoid(network(network.unflatten(theta), x)) - y
    found = certificate(network, theta, x, y, unsigned=True)
    assert torch.allclose(found.multipliers, -slope / (len(y) * 0.02), rtol=1e-5, atol=1e-7)
    assert found.residual < 1e-6
    # not stationary: the gradient bounds the residual
    rough = theta + 1e-3 * torch.ones_like(theta)
    grad = objective.grad(rough[None], x[None]).norm()
    assert certificate(network, rough, x, y, unsigned=True).residual <= grad / (
        0.02 * rough.norm()
    ) * (1 + 1e-9)


def test_several_classes():
    """The soft margin's logistic loss is the cross-entropy; training separates the classes."""
    _, x, y, _ = problem(outputs=3)
    network = three_layer(60, 12, 3)
    theta = network.flatten(network.init(torch.Generator().manual_seed(0), "small", F64))
    soft = margins(network, network.unflatten(theta), x, y)
    outputs = network(network.unflatten(theta), x)
    expected = torch.nn.functional.cross_entropy(outputs, y.long(), reduction="none")
    assert torch.allclose(torch.nn.functional.softplus(-soft), expected)
    trained = train_to_kkt(network, x, y, theta, KKTSettings(600, goal=-100.0))
    assert (network(network.unflatten(trained.theta_star), x).argmax(-1) == y).all()
    found = certificate(network, trained.theta_star, x, y)
    assert found.residual < certificate(network, theta, x, y).residual


def layer_gradients(network, theta, x, y):
    """∇_{θ_l} of y_i Φ(x_i), or of the margin against the best other class, by autograd; [(n, p_l)]
    over layers.
    """
    params = {
        name: value.detach().requires_grad_() for name, value in network.unflatten(theta).items()
    }
    outputs = network(params, x)
    if outputs.dim() > 1:
        others = [[k for k in range(outputs.shape[1]) if k != label] for label in y.long().tolist()]
        phi = torch.stack(
            [row[int(c)] - row[o].max() for row, c, o in zip(outputs, y, others, strict=True)]
        )
    else:
        phi = (2 * y - 1) * outputs
    found = []
    for one in phi:
        grads = torch.autograd.grad(one, list(params.values()), retain_graph=True)
        by_name = dict(zip(params, grads, strict=True))
        layers = range(1, network.depth + 1)
        found.append(
            [
                torch.cat([g.flatten() for n, g in by_name.items() if n[1:] == str(k)])
                for k in layers
            ]
        )
    return [torch.stack([row[k] for row in found]) for k in range(network.depth)]


@pytest.mark.parametrize(
    ("outputs", "weights"),
    [(1, None), (1, LAYER_1), (1, (1.0, 0.3, 0.2)), (3, None), (3, (0.5, 2.0, 1.0))],
)
def test_the_certificate_is_least_squares_on_the_gradients(outputs, weights):
    """SciPy's NNLS on the gradients themselves, which autograd gives, and every number that
    follows.
    """
    network, x, y, theta = problem(outputs=outputs)
    theta = 10 * theta
    gradients = layer_gradients(network, theta, x, y)
    params = network.unflatten(theta)
    own = [
        torch.cat([v.flatten() for n, v in params.items() if n[1:] == str(k)])
        for k in range(1, network.depth + 1)
    ]
    root = [math.sqrt(w) for w in weights or (1.0, 1.0, 1.0)]
    matrix = torch.cat([w * g.mT for w, g in zip(root, gradients, strict=True)]).numpy()
    expected, _ = nnls(matrix, torch.cat([w * t for w, t in zip(root, own, strict=True)]).numpy())
    expected = torch.from_numpy(expected)
    found = certificate(network, theta, x, y, layer_weights=weights)
    torch.testing.assert_close(found.multipliers, expected, rtol=1e-4, atol=1e-6)
    left = torch.stack(
        [(t - expected @ g).square().sum() for t, g in zip(own, gradients, strict=True)]
    )
    norms = torch.stack([t.square().sum() for t in own])
    torch.testing.assert_close(found.energy_by_layer, left, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(found.residual_by_layer, (left / norms).sqrt(), rtol=1e-6, atol=1e-9)
    assert found.residual == pytest.approx((left.sum() / norms.sum()).sqrt().item(), rel=1e-6)


def test_the_log_loss_is_that_of_the_end():
    network, x, y, theta = problem()
    objective = Objective(network, y, 0.0)
    for method in ("loss-scaled", "gradient-descent"):
        trained = train_to_kkt(network, x, y, theta, KKTSettings(25, method=method, step_size=0.2))
        value = objective.value(trained.theta_star[None], x[None])
        assert (
            trained.log_loss
            == pytest.approx(value.log().item(), rel=1e-9)
            == trained.history[-1].item()
        )


def test_no_step_is_longer_than_three_percent():
    network, x, y, theta = problem(n=14)  # no coordinates, so that the weights' norm is seen whole
    steps = []
    observer = Observer(range(1, 61), lambda k, theta: steps.append(theta))
    train_to_kkt(network, x, y, theta, KKTSettings(60), observer=observer)
    lengths = [
        ((b - a).norm() / a.norm().clamp_min(1.0)).item()
        for a, b in zip(steps, steps[1:], strict=False)
    ]
    assert len(steps) == 60 and 0.029 < max(lengths) <= 0.03 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"y": torch.full((6,), 2.0, dtype=F64)}, "labels must be 0"),
        ({"y": torch.full((6,), -1.0, dtype=F64)}, "labels must be 0"),
        ({"x": torch.full((6, 12), torch.nan, dtype=F64)}, "finite"),
        ({"x": torch.ones(6, 11, dtype=F64)}, "do not fit"),
        ({"x": torch.ones(6, 12, dtype=F64)}, "all training images are equal"),
        ({"theta_init": torch.ones(3, dtype=F64)}, "parameters"),
        ({"method": "newton"}, "unknown training method"),
    ],
)
def test_bad_input_is_one_sentence(change, sentence):
    network, x, y, theta = problem()
    arguments = {"x": x, "y": y, "theta_init": theta, **change}
    with pytest.raises(ReconError, match=sentence):
        settings = KKTSettings(3, method=arguments.pop("method", "loss-scaled"))
        train_to_kkt(network, settings=settings, **arguments)


@pytest.mark.parametrize("method", ["loss-scaled", "gradient-descent"])
def test_training_ends_at_its_goal(method):
    network, x, y, theta = problem()
    settings = KKTSettings(3000, goal=-0.8, method=method, step_size=0.5)
    trained = train_to_kkt(network, x, y, theta, settings)
    assert trained.log_loss <= -0.8 and len(trained.history) < 3000
    assert (trained.history[:-1] > -0.8).all() and trained.history[-1] <= -0.8
    short = train_to_kkt(
        network, x, y, theta, KKTSettings(3, goal=-0.8, method=method, step_size=0.5)
    )
    assert short.log_loss > -0.8 and len(short.history) == 3
    assert torch.equal(trained.theta_init, theta)


def test_settings_of_the_two_methods():
    settings = KKTSettings(7)
    assert settings == KKTSettings(7, -1e4, "loss-scaled", None, momentum=0.9, relative_step=0.03)
    assert settings.optimiser == HeavyBall(1.0, tol=-1e4, max_relative_step=0.03)
    assert KKTSettings(7, -5.0, step_size=0.2).optimiser == HeavyBall(
        0.2, tol=-5.0, max_relative_step=0.03
    )
    assert KKTSettings(7, method="gradient-descent").optimiser == SGD(0.01)
    assert KKTSettings(7, method="gradient-descent", step_size=0.2).optimiser == SGD(0.2)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_the_log_loss_is_that_of_the_sum_of_losses(dtype):
    """Against logarithms of exact sums where they do not underflow, on both sides of the branch at
    20, and slopes.
    """
    for values in (
        [-30.0, 3.0, 25.0],
        [19.9, 20.1, 19.0],
        [-1.0],
        [40.0, 41.0],
        [0.0, 0.0, 5.0, 21.0],
    ):
        m = torch.tensor(values, dtype=dtype, requires_grad=True)
        losses = [math.log1p(math.exp(-v)) if v > -700 else -v for v in values]
        found = log_logistic_loss(m)
        assert found.item() == pytest.approx(
            math.log(sum(losses) / len(losses)), rel=1e-5, abs=1e-6
        )
        slopes = torch.autograd.grad(found, m)[0].tolist()
        expected = [-1 / (1 + math.exp(v)) / sum(losses) for v in values]
        assert slopes == pytest.approx(expected, rel=1e-4)
    both = log_logistic_loss(torch.tensor([[1.0, 2.0], [500.0, 700.0]], dtype=dtype))
    assert both.shape == (2,) and both[1].item() == pytest.approx(-500 - math.log(2))


def test_margins_by_hand():
    network, x, y, theta = problem()
    outputs = network(network.unflatten(theta), x)
    expected = [
        o if label == 1 else -o for o, label in zip(outputs.tolist(), y.tolist(), strict=True)
    ]
    assert margins(network, network.unflatten(theta), x, y).tolist() == pytest.approx(expected)
    network, x, y, theta = problem(outputs=3)
    outputs = network(network.unflatten(1e2 * theta), x).tolist()
    found = margins(network, network.unflatten(1e2 * theta), x, y).tolist()
    for row, label, value in zip(outputs, y.int().tolist(), found, strict=True):
        others = sum(math.exp(o) for k, o in enumerate(row) if k != label)
        assert value == pytest.approx(row[label] - math.log(others))


def test_signs_of_the_multipliers_are_free_where_they_are_unsigned():
    """Without signs the coefficients are plain least squares of θ on ∇Φ_i."""
    network, x, y, theta = problem()
    theta = 10 * theta
    gradients = layer_gradients(network, theta, x, torch.ones_like(y))  # of Φ itself
    matrix, own = (
        torch.cat(gradients, 1).mT,
        torch.cat([v.flatten() for v in network.unflatten(theta).values()]),
    )
    expected = torch.linalg.lstsq(matrix, own).solution
    found = certificate(network, theta, x, y, unsigned=True)
    torch.testing.assert_close(found.multipliers, expected, rtol=1e-4, atol=1e-6)
    assert found.residual == pytest.approx(
        ((own - matrix @ expected).norm() / own.norm()).item(), rel=1e-6
    )


@pytest.mark.parametrize(
    "change",
    [
        {"y": torch.zeros(5, dtype=F64)},
        {"x": torch.ones(12, dtype=F64)},
        {"y": torch.zeros(6, 1, dtype=F64)},
        {"theta_init": torch.full((12 * 7 + 7 + 49 + 7,), torch.inf, dtype=F64)},
        {"theta_init": torch.zeros(1, 12 * 7 + 7 + 49 + 7, dtype=F64)},
        {"y": torch.full((6,), 0.5, dtype=F64)},
    ],
)
def test_more_bad_input(change):
    network, x, y, theta = problem()
    with pytest.raises(ReconError):
        train_to_kkt(
            network, settings=KKTSettings(2), **{"x": x, "y": y, "theta_init": theta, **change}
        )
    # one image is not equal to any
    assert len(train_to_kkt(network, x[:1], y[:1], theta, KKTSettings(2)).history) == 2


def test_the_flow_ends_at_the_references_loss_and_follows_plain_descent():
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(6, 8, generator=generator, dtype=torch.float64), torch.arange(6).double() % 2
    network = MLP((8, 16, 16, 1))
    theta = network.flatten(network.init(generator, dtype=torch.float64))
    goal = math.log(0.05)
    flow = train_to_kkt(network, x, y, theta, replace(KKTSettings.gradient_flow(), goal=goal))
    fast = train_to_kkt(network, x, y, theta, KKTSettings(5000, goal=goal))
    plain = train_to_kkt(
        network, x, y, theta, KKTSettings(100_000, goal=goal, method="gradient-descent")
    )
    assert max(flow.log_loss, plain.log_loss) <= goal and len(flow.history) < len(plain.history) / 3

    def away(trained):
        return (
            (trained.theta_star - plain.theta_star).norm() / (plain.theta_star - theta).norm()
        ).item()

    assert away(flow) < 0.05 and away(flow) < away(fast) / 3


def test_the_goal_is_the_references():
    flow = KKTSettings.gradient_flow()
    assert FINAL_LOSS == 4e-6 and flow.goal == math.log(4e-6)
    assert flow.optimiser == HeavyBall(1.0, momentum=0.0, tol=flow.goal, max_relative_step=3e-3)
