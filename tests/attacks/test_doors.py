"""Every door on a module of one's own gives what the attack underneath gives, and refuses what it
cannot represent.
"""

from __future__ import annotations

import inspect
import math
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from recon import attacks
from recon.attacks import from_gradients, from_weights
from recon.attacks.bilevel import BilevelAttack
from recon.attacks.from_gradients import DLGSettings, HybridSettings
from recon.attacks.gauss_newton import gauss_newton
from recon.attacks.gradient_matching import (
    GEIPING_DESCENT,
    GradientMatching,
    cosine_tv,
    dlg,
    hybrid,
    seeded_start,
)
from recon.attacks.gradient_system import JointSystem, relative_residual
from recon.attacks.haim_recipe import PublishedSettings, recover_as_published
from recon.attacks.imprint import Imprint, edges_of
from recon.attacks.multipliers import from_network, multipliers
from recon.attacks.reconstruct import reconstruct
from recon.attacks.recover import RecoverSettings, recover
from recon.attacks.registry import NEEDS, Candidates
from recon.attacks.rgap import rgap
from recon.attacks.separation import FirstLayer, SeparationSettings, separate
from recon.attacks.training_inversion import invert_training
from recon.errors import ReconError
from recon.nets.conv import Conv, ConvNet
from recon.nets.mlp import MLP
from recon.optim.descent import HeavyBall
from recon.released import Gradient, Weights

SHAPE = (2, 8, 8)
LABEL = torch.tensor([1])


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def drawn(module, scale=0.5, dtype=torch.float64):
    """With random parameters, in evaluation mode."""
    generator = seeded()
    for parameter in module.parameters():
        fan = math.prod(parameter.shape[1:]) or 1
        parameter.data = (
            scale * torch.randn(parameter.shape, generator=generator, dtype=dtype) / fan**0.5
        )
    return module.to(dtype).eval()


def convolutions(bias=False, activation=nn.Tanh, **options):
    first = nn.Conv2d(2, 6, 3, bias=bias, **options)
    features = first(torch.zeros(1, *SHAPE)).numel()
    return drawn(nn.Sequential(first, activation(), nn.Flatten(), nn.Linear(features, 4)), 2.0)


def photo(n=1):
    return torch.rand(n, *SHAPE, generator=seeded(3), dtype=torch.float64) - 0.5


def sent(module=None, n=1):
    return Gradient.of(
        module or convolutions(), F.cross_entropy, photo(n), (LABEL + torch.arange(n)) % 4
    )


def as_ours(gradient):
    """The same gradient of the package's own network, made by hand."""
    network = ConvNet((Conv(3, 6),), SHAPE, classes=4)
    renamed = {"w1": "0.weight", "w2": "3.weight", "b2": "3.bias"}
    theta, gradients = (
        {own: each[n] for own, n in renamed.items()}
        for each in (gradient.theta, gradient.gradients)
    )
    return Gradient(network, theta, gradient.labels, gradients)


def same(found, expected):
    assert isinstance(found, Candidates) and len(found.score) == len(found)
    torch.testing.assert_close(found.images.flatten(), expected.flatten(), rtol=0, atol=0)


def dense(*widths, bias=True):
    pairs = zip(widths, widths[1:], strict=False)
    layers = [each for a, b in pairs for each in (nn.Linear(a, b, bias=bias), nn.ReLU())]
    return drawn(nn.Sequential(nn.Flatten(), *layers[:-1]))


def params(module):
    return torch.cat([p.detach().flatten() for p in module.parameters()])


# ----------------------------------------------------------------------------------- of the weights


def test_separation_looks_at_the_layer_that_is_given_the_image():
    class Branched(nn.Module):
        def __init__(self):
            super().__init__()
            self.unused_first, self.first, self.last = (
                nn.Linear(40, 40),
                nn.Linear(128, 40),
                nn.Linear(40, 3),
            )

        def forward(self, x):
            return self.last(torch.sigmoid(self.unused_first(self.first(x.flatten(1)))))

    module, before = (
        drawn(Branched(), dtype=torch.float32),
        drawn(Branched(), 0.1, dtype=torch.float32),
    )
    module.first.weight.data += (
        30 * torch.randn(40, 4, generator=seeded()) @ photo(4).float().flatten(1)
    )
    settings = SeparationSettings(iterations=5)
    layer = FirstLayer(module.first.weight.detach(), before.first.weight.detach())
    expected = separate(layer, SHAPE, settings, seeded(4))
    found = attacks.by_separation(Weights.of(module, start=before), SHAPE, settings, seeded(4))
    same(found, expected.x_hat)
    assert len(found) >= 4 and found.images.shape[1:] == SHAPE and "W1(0)" in found.knows
    assert torch.equal(found.score, expected.share.repeat(2))
    assert "W1(0)" not in attacks.by_separation(Weights.of(module), SHAPE, settings).knows


@pytest.mark.parametrize("outputs", [1, 2])
def test_decoreco_and_the_published_recipe(outputs):
    module = dense(128, 12, 9, outputs)
    *layers, w, b = (p.detach() for p in module.parameters())
    theta = torch.cat(
        [
            each.flatten()
            for each in (*layers, *((w, b) if outputs == 1 else (w[1] - w[0], b[1:] - b[:1])))
        ]
    )
    weights = Weights(MLP((128, 12, 9, 1)), theta)
    settings = RecoverSettings(
        m=4, restarts=2, steps=5, multiplier_scales=(1e-2,), layer_weights=(1.0, 1.0, 0.5)
    )
    expected = recover(weights, settings, seeded(4))
    found = attacks.by_decoreco(Weights.of(module), SHAPE, settings, seeded(4))
    same(found, expected.x_hat)
    assert torch.equal(found.score, expected.contribution)
    published = PublishedSettings(m=4, steps=3)
    expected = recover_as_published(weights, published, seeded(4))
    same(
        attacks.by_published_recipe(Weights.of(module), SHAPE, published, seeded(4)), expected.x_hat
    )


def test_decoreco_by_default_has_two_candidates_an_image_and_says_what_it_lacks():
    with pytest.raises(ReconError, match="n_train=…"):
        attacks.by_decoreco(Weights.of(dense(128, 5, 1)), SHAPE)
    assert PublishedSettings(m=1000, steps=50_000) == from_weights.HAIM


def test_bilevel_of_an_affine_network():
    module, y = dense(128, 1), torch.tensor([0.0, 1.0, 1.0]).double()
    settings = from_weights.BilevelSettings(steps=4, step_size=1.0, momentum=0.5)
    released = Weights(MLP((128, 1)), params(module), y=y, weight_decay=0.01)
    attack = BilevelAttack(released, HeavyBall(1.0, 0.5, tol=1e-8, box=(0.0, 1.0)))
    start = torch.rand(1, 3, 128, generator=seeded(4), dtype=torch.float64)
    expected = reconstruct(attack, start, 4, 1e-8)
    found = attacks.by_bilevel(
        Weights.of(module, y=y, weight_decay=0.01), SHAPE, settings, seeded(4)
    )
    same(found, expected.x_hat)
    assert found.score.tolist() == [-expected.energy.item()] * 3


def test_bilevel_of_one_hidden_layer_starts_where_the_network_did_if_that_is_known():
    module, before, y = dense(128, 6, 1), dense(128, 6, 1), torch.tensor([0.0, 1.0]).double()
    settings = from_weights.BilevelSettings(steps=3, step_size=1.0, momentum=0.5, inner_first=20)
    known = {"y": y, "weight_decay": 0.01}
    found = attacks.by_bilevel(Weights.of(module, before, **known), SHAPE, settings, seeded(4))
    again = attacks.by_bilevel(Weights.of(module, before, **known), SHAPE, settings, seeded(4))
    other = attacks.by_bilevel(Weights.of(module, **known), SHAPE, settings, seeded(4))
    same(found, again.images)
    assert (
        not torch.equal(found.images, other.images)
        and (found.images >= 0).all()
        and "θ⁰" in found.knows
    )
    assert torch.isfinite(found.score).all() and "θ⁰" not in other.knows


def test_multipliers_of_a_module_are_those_of_the_same_network():
    module, before = dense(128, 6, 1), drawn(dense(128, 6, 1), 0.1)
    pool = from_weights.Pool(photo(5), torch.tensor([0, 1, 0, 1, 1]))
    network = MLP((128, 6, 1))
    theta, theta_init = (network.unflatten(params(each)) for each in (module, before))
    for start, expected in ((None, None), (before, theta_init)):
        found = attacks.by_multipliers(Weights.of(module, start), pool)
        problem = from_network(network, theta, pool.x.flatten(1), pool.y, expected)
        torch.testing.assert_close(found.score, multipliers(problem).score, rtol=1e-6, atol=1e-9)
        assert torch.equal(found.images, pool.x) and found.diagnostics["residual"] <= 1


def test_retraining_finds_the_last_image():
    known, y = photo(4).flatten(1), torch.tensor([0, 1, 2, 0])
    module = dense(128, 3)

    def train(x, labels):
        """One step of gradient descent of a softmax regression from the network's own start."""
        w, b = (p.detach() for p in module.parameters())
        rows = []
        for image, label in zip(x, labels, strict=True):
            images, targets = torch.cat([known, image[None]]), torch.cat([y, label[None]])
            off = (F.linear(images, w, b).softmax(-1) - F.one_hot(targets, 3)) / len(images)
            rows.append(torch.cat([(w - 5 * off.mT @ images).flatten(), b - 5 * off.sum(0)]))
        return torch.stack(rows)

    secret = (photo(5)[4:] + 0.5).flatten(1)
    network = dense(128, 3)
    theta = train(secret, torch.tensor([2]))[0]
    nn.utils.vector_to_parameters(theta, network.parameters())
    prior = from_weights.AllButOne(train, torch.full((3, *SHAPE), 0.5, dtype=torch.float64))
    found = attacks.by_retraining(Weights.of(network), prior)
    same(found, invert_training(train, theta, prior.guesses.flatten(1)).x_hat)
    assert (
        found.diagnostics["label"] == 2
        and (found.images.flatten() - secret.flatten()).abs().max() < 1e-6
    )


# ---------------------------------------------------------------------------------- of the gradient


def test_rgap_of_a_gradient_made_here_and_of_one_received():
    module = convolutions()
    gradient = sent(module)
    expected = rgap(as_ours(gradient))
    found = attacks.by_rgap(gradient, SHAPE)
    same(found, expected)
    assert (found.images - photo()).abs().max() < 1e-6 and -1e-6 < found.score.item() <= 0
    by_autograd = torch.autograd.grad(
        F.cross_entropy(module(photo()), LABEL), list(module.parameters())
    )
    named = dict(zip([name for name, _ in module.named_parameters()], by_autograd, strict=True))
    for received in (by_autograd, named, dict(reversed(named.items()))):
        for y in (LABEL, None):
            again = Gradient.received(module, F.cross_entropy, received, y)
            assert torch.equal(again.labels, LABEL)
            torch.testing.assert_close(attacks.by_rgap(again, SHAPE).images, expected)


@pytest.mark.parametrize("n", [1, 2])
def test_dlg_and_cosine_tv_of_any_module(n):
    """A bias and an unusual activation: no closed form."""
    module = convolutions(bias=True, activation=nn.ELU)
    gradient = sent(module, n)
    start = torch.randn(n, *SHAPE, generator=seeded(4)).double()
    images, history = dlg(gradient, start, 3)
    found = attacks.by_dlg(gradient, SHAPE, DLGSettings(3), seeded(4))
    same(found, images)
    leaf = start.clone().requires_grad_()
    found_g = torch.autograd.grad(
        F.cross_entropy(module(leaf), gradient.labels), list(module.parameters()), create_graph=True
    )
    pairs = list(zip(found_g, (g[0] for g in gradient.gradients.values()), strict=True))
    assert history.shape == (3, 1) and history[-1] < sum((a - b).square().sum() for a, b in pairs)
    settings = from_gradients.CosineSettings(steps=4, whole=True, descent=GEIPING_DESCENT)
    found = attacks.by_cosine_tv(gradient, SHAPE, settings, seeded(4))
    same(found, cosine_tv(gradient, start, 4, whole=True, descent=GEIPING_DESCENT).x_hat)
    whole = [torch.cat([each.flatten() for each in side]) for side in zip(*pairs, strict=True)]
    tv = (leaf.diff(dim=-1).abs().mean() + leaf.diff(dim=-2).abs().mean()) * 0.01
    energy = GradientMatching(gradient, 1, whole=True, beta=0.01, image=SHAPE).energy(start)
    torch.testing.assert_close(energy[0], 1 - F.cosine_similarity(*whole, dim=0) + tv)


def test_matching_by_a_module_is_matching_by_the_closed_form():
    gradient = sent()
    ours = as_ours(gradient)
    start = seeded_start(ours, 4)
    settings = from_gradients.CosineSettings(steps=6)
    found = attacks.by_cosine_tv(gradient, SHAPE, settings, seeded(4))
    torch.testing.assert_close(found.images, cosine_tv(ours, start, 6).x_hat.view(1, *SHAPE))
    same(attacks.by_cosine_tv(ours, SHAPE, settings, seeded(4)), cosine_tv(ours, start, 6).x_hat)
    same(attacks.by_dlg(ours, SHAPE, DLGSettings(2), seeded(4)), dlg(ours, start, 2)[0])
    same(attacks.by_hybrid(gradient, SHAPE, HybridSettings(0.001)), hybrid(ours, 0.001))
    assert (
        from_gradients.CosineSettings(4800) == from_gradients.CHEN and from_gradients.GEIPING.whole
    )


def test_gauss_newton_in_closed_form_and_of_any_module():
    gradient = sent()
    same(
        attacks.by_gauss_newton(gradient, SHAPE), gauss_newton(JointSystem.of(as_ours(gradient))).x
    )
    both = sent(convolutions(bias=True, activation=nn.Softplus), 2)
    found = attacks.by_gauss_newton(both, SHAPE)
    assert (found.images - photo(2)).abs().max() < 1e-6 and found.score.min() > -1e-8
    assert relative_residual(both, photo(2)) < 1e-12 < relative_residual(both, photo(2).flip(0))
    lower = Gradient.of(convolutions(bias=True).float(), F.cross_entropy, photo().float(), LABEL)
    assert attacks.by_gauss_newton(lower, SHAPE).images.dtype == torch.float64


def test_imprint_reads_what_was_made_for_it():
    public, x = photo(40).flatten(1), photo(6)
    x = x + torch.linspace(-0.3, 0.3, 6).view(-1, 1, 1, 1).double()
    server = Imprint(
        edges_of(torch.cat([public, x.flatten(1)]), 32),
        torch.arange(4.0).double(),
        torch.ones(4).double(),
    )
    theta = server.theta(128)
    module = (
        nn.Sequential(nn.Flatten(), nn.Linear(128, 32), nn.ReLU(), nn.Linear(32, 4)).double().eval()
    )
    for parameter, value in zip(module.parameters(), theta.values(), strict=True):
        parameter.data = value
    y = torch.tensor([0, 1, 2, 3, 0, 1])
    found = attacks.by_imprint(Gradient.of(module, F.cross_entropy, x, y), SHAPE)
    expected = server.read(server.mean_gradient(x.flatten(1), y), 6)
    torch.testing.assert_close(found.images.flatten(1), expected.images)
    assert found.score.tolist() == expected.alone.double().tolist() and found.score.sum() >= 2
    with pytest.raises(ReconError, match="not made of brightness"):
        attacks.by_imprint(Gradient.of(dense(128, 32, 4), F.cross_entropy, x, y), SHAPE)
    with pytest.raises(ReconError, match="two dense layers"):
        attacks.by_imprint(sent(), SHAPE)


# ----------------------------------------------------------------------------------------- refusals

ODD = {
    "the convolution '0' is Conv2d": {"bias": True},
    "groups=2": {"groups": 2},
    "dilation=": {"dilation": 2},
    "stride=": {"stride": (1, 2)},
    "padding_mode=circular": {"padding": 1, "padding_mode": "circular"},
    "padding=same": {"padding": "same"},
}


@pytest.mark.parametrize("said", ODD)
def test_layers_without_a_linear_system_are_refused_in_one_sentence(said):
    with pytest.raises(ReconError, match=said) as error:
        attacks.by_rgap(sent(convolutions(**ODD[said])), SHAPE)
    assert "\n" not in str(error.value) and "any module" in str(error.value)
    with pytest.raises(ReconError, match=said):
        attacks.by_hybrid(sent(convolutions(**ODD[said])), SHAPE)


def test_activations_and_layers_without_a_linear_system_are_refused():
    with pytest.raises(ReconError, match="has Conv2d, ELU"):
        attacks.by_rgap(sent(convolutions(activation=nn.ELU)), SHAPE)
    with pytest.raises(ReconError, match=r"LeakyReLU\(0.2\)"):
        attacks.by_rgap(sent(convolutions(activation=lambda: nn.LeakyReLU(0.2))), SHAPE)
    with pytest.raises(ReconError, match="ReLU is not invertible"):
        attacks.by_rgap(sent(convolutions(activation=nn.ReLU)), SHAPE)
    normed = nn.Sequential(
        nn.Conv2d(2, 6, 3, bias=False),
        nn.BatchNorm2d(6),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(216, 4),
    )
    with pytest.raises(ReconError, match="'1' is a BatchNorm2d"):
        attacks.by_rgap(sent(normed.double().eval()), SHAPE)
    with pytest.raises(ReconError, match="one image at a time, not 2"):
        attacks.by_rgap(sent(n=2), SHAPE)
    with pytest.raises(ReconError, match="the cross-entropy of whole labels"):
        attacks.by_rgap(
            Gradient.of(convolutions(), nn.CrossEntropyLoss(label_smoothing=0.1), photo(), LABEL),
            SHAPE,
        )
    assert (
        len(attacks.by_rgap(sent(convolutions(activation=lambda: nn.LeakyReLU(0.01))), SHAPE)) == 1
    )


class Scaled(nn.Module):
    """Dense layers and ReLU, and a factor that no layer holds."""

    def __init__(self, parameter):
        super().__init__()
        self.net, self.factor = (
            dense(128, 5, 1),
            nn.Parameter(torch.tensor(2.0)) if parameter else 2.0,
        )

    def forward(self, x):
        return self.net(x) * self.factor


def test_what_is_no_dense_network_with_relu_is_refused():
    for module, said in (
        (
            drawn(nn.Sequential(nn.Flatten(), nn.Linear(128, 5), nn.Tanh(), nn.Linear(5, 1))),
            "it has Flatten, Linear, Tanh",
        ),
        (convolutions(), "'0' is a Conv2d"),
        (dense(128, 5, 3), "3 outputs"),
        (Scaled(parameter=False).eval(), "answers are not those of dense layers"),
        (Scaled(parameter=True).double().eval(), "is a Scaled"),
    ):
        with pytest.raises(ReconError, match=said):
            attacks.by_decoreco(Weights.of(module), SHAPE, RecoverSettings(m=2))
    with pytest.raises(ReconError, match="the module has Conv2d"):
        attacks.by_separation(Weights.of(convolutions()), SHAPE)
    with pytest.raises(ReconError, match="does not classify images"):
        attacks.by_separation(Weights.of(dense(128, 1)), (3, 8, 8))
    layer = nn.Linear(128, 128)
    with pytest.raises(ReconError, match="used more than once"):
        attacks.by_separation(
            Weights.of(nn.Sequential(nn.Flatten(), layer, nn.ReLU(), layer).eval()), SHAPE
        )
    with pytest.raises(ReconError, match="needs labels"):
        attacks.by_bilevel(Weights.of(dense(128, 1)), SHAPE)


def test_what_is_released_must_fit_the_module_and_the_door():
    module = convolutions()
    with pytest.raises(
        ReconError, match=r"by_rgap takes Gradient, such as Gradient.of\(module, …\), not a Weights"
    ):
        attacks.by_rgap(Weights.of(module), SHAPE)
    training = convolutions().train()
    assert not Weights.of(training).network.module.training and training.training
    with pytest.raises(ReconError, match="the start has parameters of other"):
        Weights.of(module, start=dense(128, 1))
    gradients = [torch.zeros_like(p) for p in module.parameters()]
    with pytest.raises(ReconError, match="2 gradients do not fit a network of 3"):
        Gradient.received(module, F.cross_entropy, gradients[:2], LABEL)
    with pytest.raises(ReconError, match="must have shape"):
        Gradient.received(module, F.cross_entropy, gradients[::-1], LABEL)
    for odd in ({"0.weight": gradients[0]}, [None, *gradients[1:]], {"net.0.weight": gradients[0]}):
        with pytest.raises(ReconError, match="missing or foreign"):
            Gradient.received(module, F.cross_entropy, odd, LABEL)
    with pytest.raises(ReconError, match="pass the labels"):
        Gradient.received(module, F.cross_entropy, gradients)


# -------------------------------------------------------------------------------------- the package


def test_doors_have_one_signature_and_say_what_they_need():
    doors = [name for name in attacks.__all__ if name.startswith("by_")]
    assert sorted(NEEDS) == doors and len(doors) == 12
    for name in doors:
        assert list(inspect.signature(getattr(attacks, name)).parameters) == [
            *("released", "shape_or_prior", "settings", "generator"),
        ]
    with pytest.raises(AttributeError, match="no attribute 'by_magic'"):
        attacks.by_magic  # noqa: B018


def test_importing_the_package_imports_no_torch():
    code = "import sys, recon.attacks; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
