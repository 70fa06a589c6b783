"""Leakage from one gradient: operators, ranks, R-GAP, gradient matching, and what bad input says."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from recon.attacks.gradient_matching import (
    GradientMatching,
    cosine_distance,
    cosine_distances,
    cosine_tv,
    cosine_tv_authors,
    dlg,
    hybrid,
    total_variation,
    victims,
)
from recon.attacks.leak import (
    Leak,
    averaged_gradient,
    features_from_fully_connected,
    features_without_bias,
)
from recon.attacks.operators import (
    System,
    convolution_matrix,
    generic_rank,
    gradient_matrix,
    numerical_rank,
    security_metric,
    systems,
    taps,
)
from recon.attacks.reconstruct import reconstruct
from recon.attacks.rgap import layer_by_layer, minimum_norm, rgap
from recon.chapters.leakage_shared import Victims
from recon.chapters.published import PUBLISHED_RANK
from recon.errors import ReconError
from recon.images.pools import load_pool
from recon.nets.conv import SEED, TABLE_1, Activation, Conv, ConvNet
from recon.scoring.metrics import mse, psnr
from recon.training.pretraining import pretrain

SHAPE = (2, 9, 8)
CONVS = [Conv(3, 4), Conv(4, 3, 2), Conv(3, 2, 2, 1), Conv(5, 3, 3, 2), Conv(2, 3, 4, 0)]
#: wide enough to be solved exactly, and not
SMALL = ConvNet((Conv(3, 6), Conv(3, 8)), shape=(2, 8, 8), classes=4)
LOSSY = ConvNet((Conv(3, 3, 2),), shape=(2, 9, 9), classes=4)


def some_leak(network: ConvNet = SMALL, count: int = 2, seed: int = 0) -> tuple[Leak, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(count, *network.shape, generator=generator, dtype=torch.float64) - 0.5
    weights = [w.double() for w in network.init(SEED)]
    labels = torch.arange(count) % network.classes
    return Leak.of(network, weights, x, labels), x


# ---------------------------------------------------------------------------------------- networks and operators


@pytest.mark.parametrize("name", ["CNN3 V2", "CNN4 V2"])
@pytest.mark.parametrize("activation", ["tanh", "leaky_relu", "relu"])
def test_written_out_gradients_are_autograds(name, activation):
    network = TABLE_1[name].with_activation(activation)
    weights = [w.double().requires_grad_() for w in network.init(SEED)]
    x = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64) - 0.5
    labels = torch.tensor([9, 4])
    found = network.gradients(weights, x, labels)
    for b in range(2):
        loss = F.cross_entropy(network.logits(weights, x[b : b + 1]), labels[b : b + 1])
        for ours, theirs in zip(found, torch.autograd.grad(loss, weights), strict=True):
            torch.testing.assert_close(ours[b].flatten(), theirs.flatten(), rtol=1e-9, atol=1e-14)


def test_initialisation_is_pytorchs_right_after_the_seed():
    torch.manual_seed(SEED)
    modules = [
        torch.nn.Conv2d(3, 6, 4, 2, bias=False),
        torch.nn.Conv2d(6, 3, 3, 2, bias=False),
        torch.nn.Linear(147, 10),
    ]
    expected = [p for module in modules for p in module.parameters()]
    state = torch.get_rng_state()
    for ours, theirs in zip(TABLE_1["CNN3 V2"].init(SEED), expected, strict=True):
        assert torch.equal(ours, theirs)
    assert torch.equal(torch.get_rng_state(), state)  # nobody else's random numbers change


@pytest.mark.parametrize("conv", CONVS, ids=str)
def test_operators_are_the_convolution_and_its_weight_gradient(conv):
    """For any kernel, stride, padding, also where (h + 2p − k) is no multiple of the stride."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(1, *SHAPE, generator=generator, dtype=torch.float64)
    weight = torch.randn(conv.channels, SHAPE[0], conv.kernel, conv.kernel, generator=generator, dtype=torch.float64)
    z = conv.apply(x, weight.requires_grad_())
    delta = torch.randn(z.shape, generator=generator, dtype=torch.float64)
    (gradient,) = torch.autograd.grad((z * delta).sum(), weight)
    weight = weight.detach()
    w, k = convolution_matrix(conv, weight, SHAPE), gradient_matrix(conv, delta[0], SHAPE)
    flat = x.flatten().numpy()
    np.testing.assert_allclose(w @ flat, z.detach().flatten().numpy(), atol=1e-12)
    np.testing.assert_allclose(k @ flat, gradient.flatten().numpy(), atol=1e-12)
    patches = conv.patches(x)
    np.testing.assert_allclose((delta.flatten(2) @ patches.mT).flatten(), gradient.flatten(), atol=1e-12)
    torch.testing.assert_close((weight.flatten(1) @ patches).view_as(z), z.detach(), rtol=1e-9, atol=1e-12)
    back = conv.transpose(delta, weight, SHAPE)
    np.testing.assert_allclose(w.T @ delta.flatten().numpy(), back.flatten().numpy(), atol=1e-12)
    assert tuple(z.shape[1:]) == conv.output(SHAPE)
    system = System(w, k)
    dense = system.dense()
    gram = dense.T @ dense if dense.shape[1] <= dense.shape[0] else dense @ dense.T
    np.testing.assert_allclose(system.gram(), gram, atol=1e-10)
    np.testing.assert_allclose(system.adjoint(dense @ flat), dense.T @ dense @ flat, atol=1e-9)


@pytest.mark.parametrize("conv", CONVS, ids=str)
def test_rank_is_that_of_a_dense_svd_and_of_the_formula(conv):
    network = ConvNet((conv,), shape=SHAPE, classes=5)
    weights = [w.double() for w in network.init(SEED)]
    x = torch.rand(1, *SHAPE, generator=torch.Generator().manual_seed(2), dtype=torch.float64) - 0.5
    (system,) = systems(network, weights, x, torch.tensor([1]))
    values = np.linalg.svd(system.dense(), compute_uv=False)
    expected = int((values > 1e-9 * values[0]).sum())
    found = numerical_rank(system)
    assert found.rank == expected and found.deficiency == expected - system.shape[1]
    unused = int(np.prod(SHAPE)) - len(np.unique(taps(conv, SHAPE)[taps(conv, SHAPE) >= 0]))
    bound = min(generic_rank(conv, SHAPE), system.shape[1] - unused)  # pixels that no tap reads are lost
    assert found.rank <= bound if conv.stride == 3 else found.rank == bound
    assert found.condition == pytest.approx(values[0] / values[expected - 1], rel=1e-2)


def test_dependencies_that_the_formula_counts():
    """Σ_p δ[o, p] W[(o', p), ·] = Σ_t w[o', t] K[(o, t), ·] for all c_out² pairs."""
    conv = CONVS[0]
    weight = torch.randn(conv.channels, SHAPE[0], 3, 3, dtype=torch.float64)
    delta = torch.randn(conv.output(SHAPE), dtype=torch.float64)
    w = convolution_matrix(conv, weight, SHAPE).toarray().reshape(conv.channels, -1, int(np.prod(SHAPE)))
    k = gradient_matrix(conv, delta, SHAPE).toarray().reshape(conv.channels, -1, int(np.prod(SHAPE)))
    left = np.einsum("op,qpx->oqx", delta.flatten(1).numpy(), w)
    right = np.einsum("qt,otx->oqx", weight.flatten(1).numpy(), k)
    np.testing.assert_allclose(left, right, atol=1e-10)


def test_security_metric_is_the_printed_integer():
    for deficiencies, c in PUBLISHED_RANK.values():
        assert security_metric(list(deficiencies)) == c
    for name in ("CNN3 V2", "CNN3 V4", "CNN4 V1"):  # the whole table is in the book's result
        network = TABLE_1[name]
        generic = [
            generic_rank(conv, shape) - int(np.prod(shape))
            for conv, shape in zip(network.convs, network.shapes(), strict=False)
        ]
        assert tuple(generic) == PUBLISHED_RANK[name][0]


# -------------------------------------------------------------------------------------------------------- attacks


def test_fully_connected_layers_give_their_input_away():
    leak, x = some_leak()
    inputs = SMALL.activation(SMALL.convs[0].apply(x, leak.weights[0]))
    inputs = SMALL.activation(SMALL.convs[1].apply(inputs, leak.weights[1]))
    torch.testing.assert_close(features_from_fully_connected(leak), inputs.flatten(1), rtol=1e-9, atol=1e-12)
    assert torch.equal(leak.gradients[-1].argmin(-1), leak.labels)  # ∂ℓ/∂b = p − e_y: the label is no secret
    out, slope = torch.randn(5), torch.rand(5)
    vector = torch.randn(3)
    torch.testing.assert_close(features_without_bias(torch.outer(out * slope, vector), out, slope), vector)


@pytest.mark.parametrize("rows", [40, 12])
@pytest.mark.parametrize("deficient", [False, True])
def test_minimum_norm_is_lstsqs(rows, deficient):
    from scipy import sparse

    rng = np.random.default_rng(0)
    u = rng.standard_normal((rows, 20))
    if deficient:
        u[rows // 2 :] = u[: rows - rows // 2]
    v = rng.standard_normal(rows)
    system = System(sparse.csr_array(u[: rows // 2]), sparse.csr_array(u[rows // 2 :]))
    expected = np.linalg.lstsq(u, v, rcond=1e-10)[0]
    np.testing.assert_allclose(minimum_norm(system, v), expected, atol=1e-6)


@pytest.mark.parametrize("activation", ["tanh", "leaky_relu"])
def test_rgap_is_exact_where_the_rank_is_full_and_minimum_norm_where_not(activation):
    leak, x = some_leak(SMALL.with_activation(activation))
    for victim, image in zip(victims(leak), x, strict=True):
        assert mse(rgap(victim), image[None]).item() < 1e-12
    leak, x = some_leak(LOSSY.with_activation(activation))
    found = rgap(victims(leak)[0])
    (system,) = systems(leak.network, leak.weights, x[:1], leak.labels[:1])
    assert numerical_rank(system).deficiency < 0
    assert 1e-4 < mse(found, x[:1]).item() < x[0].square().mean()
    expected = np.linalg.pinv(system.dense()) @ system.apply(x[0].flatten().numpy())
    np.testing.assert_allclose(found.flatten().numpy(), expected, atol=1e-6)


def test_hybrid_improves_on_the_minimum_norm_solution_and_starts_from_it(tmp_path):
    leak, x = some_leak(LOSSY)
    start = torch.cat([rgap(victim) for victim in victims(leak)])
    attack = GradientMatching(leak, 5, 1e-3, alpha=1.0, beta=1.0, gamma=0.05)
    improved = hybrid(leak, share=0.05, checkpoints=tmp_path)
    assert (attack.energy(start) > 0).all()
    assert mse(improved, x).mean() != mse(start, x).mean()
    torch.testing.assert_close(improved, start, atol=0.6, rtol=0)
    deeper, y = some_leak(SMALL)
    assert hybrid(deeper, share=0.001).shape == y.shape  # two layers, one after the other


def test_energies():
    leak, x = some_leak()
    exact = GradientMatching(leak, 1, 1e-3)
    assert exact.energy(x).abs().max() < 1e-12
    u, v = torch.randn(2, 3, 4)
    expected = 1 - F.cosine_similarity(u, v)
    torch.testing.assert_close(cosine_distance(u, v), expected)
    chain = SMALL.chain(leak.weights, 0.5 * x, leak.labels)
    apart = sum(cosine_distance(g, target) for g, target in zip(chain.gradients(), leak.gradients, strict=True))
    torch.testing.assert_close(cosine_distances(chain, leak.gradients), apart)
    assert (apart > 1e-4).all()
    ramp = torch.arange(4.0).expand(1, 2, 3, 4)
    assert total_variation(ramp).item() == pytest.approx(1.0)
    one = next(layer_by_layer(victims(leak)[0]))
    system = GradientMatching(
        victims(leak)[0], 1, 1e-3, first=one.layer, alpha=0.0, gamma=1.0, system=(one.z, one.delta)
    )
    hidden = SMALL.activation(SMALL.convs[0].apply(x[:1], leak.weights[0]))
    assert system.energy(hidden).item() < 1e-12  # U x = V at the truth
    assert system.energy(torch.zeros_like(hidden)).item() > 1e-3


@pytest.mark.parametrize("attack", [cosine_tv, cosine_tv_authors])
def test_matching_descends_resumes_and_treats_victims_alike(attack, tmp_path, monkeypatch):
    leak, _ = some_leak()
    whole = attack(leak, SEED, 40)
    assert (whole.energy < whole.history[0]).all()
    alone = attack(victims(leak)[1], SEED, 40)
    torch.testing.assert_close(alone.x_hat[0], whole.x_hat[1], atol=1e-6, rtol=0)
    calls, step = 0, GradientMatching.step

    def interrupted(self, state):
        nonlocal calls
        calls += 1
        if calls == 20:
            raise KeyboardInterrupt
        return step(self, state)

    monkeypatch.setattr("recon.optim.loop.time.monotonic", iter(range(0, 10**6, 60)).__next__)
    monkeypatch.setattr(GradientMatching, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        attack(leak, SEED, 40, tmp_path / "state.safetensors")
    resumed = attack(leak, SEED, 40, tmp_path / "state.safetensors")
    assert torch.equal(resumed.x_hat, whole.x_hat)


def test_dlg_finds_a_small_image():
    network = ConvNet((Conv(3, 4),), shape=(1, 5, 5), classes=4)
    leak, x = some_leak(network, 1)
    found, history = dlg(leak, SEED, 30)
    assert history.shape == (30, 1) and history[-1] < 1e-3 * history[0]
    assert mse(found, x).item() < 0.1


def test_scores():
    truth = torch.zeros(1, 3, 2, 2)
    assert mse(truth + 0.1, truth).item() == pytest.approx(0.01)
    assert psnr(torch.tensor(0.01)).item() == pytest.approx(20.0, abs=1e-4)
    assert (psnr(torch.tensor(0.01), 255.0) - psnr(torch.tensor(0.01))).item() == pytest.approx(48.13, abs=0.01)


def test_batches_leak_a_mixture_and_are_noticed():
    leak, x = some_leak(count=3)
    mixed = averaged_gradient(SMALL, leak.weights, x, leak.labels)
    with pytest.raises(ReconError, match="more than one image"):
        rgap(mixed)
    each, features = leak.gradients[-1], features_from_fully_connected(leak)
    row = int(mixed.gradients[-1][0].abs().argmax())
    shares = each[:, row] / each[:, row].sum()
    torch.testing.assert_close(features_from_fully_connected(mixed, check=False)[0], shares @ features)


# ------------------------------------------------------------------------------------------------------ bad input


def broken(change: str):
    leak, x = some_leak()
    gradients, weights, labels = [g.clone() for g in leak.gradients], leak.weights, leak.labels
    if change == "label":
        return lambda: Leak(SMALL, weights, torch.tensor([0, 4]), gradients)
    if change == "label of":
        return lambda: Leak.of(SMALL, weights, x, torch.tensor([-1, 0]))
    if change == "float label":
        return lambda: Leak(SMALL, weights, labels.double(), gradients)
    if change == "bias":
        gradients[-1].zero_()
        return lambda: features_from_fully_connected(Leak(SMALL, weights, labels, gradients))
    if change == "no bias":
        return lambda: features_without_bias(torch.ones(2, 3), torch.zeros(2), torch.ones(2))
    if change == "nan":
        gradients[0][0, 0, 0] = float("nan")
        return lambda: Leak(SMALL, weights, labels, gradients)
    if change == "shape":
        return lambda: Leak(SMALL, weights, labels, [*gradients[:-1], gradients[-1][:, :-1]])
    if change == "missing":
        return lambda: Leak(SMALL, weights, labels, gradients[:-1])
    if change == "relu":
        other, _ = some_leak(SMALL.with_activation("relu"))
        return lambda: rgap(victims(other)[0])
    if change == "sigmoid":
        return lambda: Activation("sigmoid")
    if change == "kernel":
        return lambda: ConvNet((Conv(9, 2),), shape=(1, 5, 5)).shapes()
    if change == "two":
        return lambda: rgap(leak)
    return lambda: rgap(some_leak(ConvNet((), shape=(1, 3, 3), classes=4), 1)[0])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("label", "from 0 to 3"),
        ("label of", "from 0 to 3"),
        ("float label", "whole numbers"),
        ("bias", "no gradient"),
        ("no bias", "no gradient"),
        ("nan", "finite"),
        ("shape", "does not fit"),
        ("missing", "one per parameter tensor"),
        ("relu", "not invertible"),
        ("sigmoid", "unsupported activation"),
        ("kernel", "does not fit"),
        ("two", "one image at a time"),
        ("none", "no convolution"),
    ],
)
def test_bad_input_is_one_sentence(change, sentence):
    with pytest.raises(ReconError, match=sentence) as caught:
        broken(change)()
    assert "\n" not in str(caught.value)


def test_victims_are_the_papers_truck_and_deer_and_one_image_of_each_class():
    pool = load_pool("photos")
    assert Victims.of(pool).labels.tolist() == [0, 1] and not Victims.of(pool).exact
    assert len(Victims.of_each_class(pool, 4).x) == 4
    if not os.environ.get("RECON_DATA"):
        pytest.skip("needs CIFAR-10")
    pool = load_pool("cifar10")
    assert Victims.of(pool).labels.tolist() == [9, 4]
    each = Victims.of_each_class(pool)
    assert each.labels.tolist() == list(range(10))
    assert each.index == [29, 4, 6, 9, 3, 27, 0, 7, 8, 1]  # the first of each class in CIFAR-10's own order


def test_pre_training_learns_and_is_repeatable():
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(40) % 2
    x = torch.randn(40, *SMALL.shape, generator=generator) * 0.1 + labels[:, None, None, None] - 0.5
    first, second = (
        pretrain(SMALL, SMALL.init(SEED), x, labels, 10, torch.Generator().manual_seed(1)) for _ in range(2)
    )
    assert (SMALL.logits(first, x).argmax(1) == labels).double().mean() > 0.9
    assert (SMALL.logits(SMALL.init(SEED), x).argmax(1) == labels).double().mean() < 0.9
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_matching_runs_in_the_loop_of_every_attack():
    leak, _ = some_leak()
    attack = GradientMatching(leak, 3, 1e-3)
    found = reconstruct(attack, torch.zeros(2, 1, 128, dtype=torch.float64), 3)
    assert found.steps == 3 and found.x_hat.shape == (2, 1, 128)
