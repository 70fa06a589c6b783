"""Every attack of the registry gives, on any module, what the algorithm gives on the network
made by hand, and refuses what it cannot represent.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from small_networks import IMAGE, convolutional, dense, fill, normal, seeded
from torch import nn

from recon import attacks
from recon.attacks import from_gradients, from_weights
from recon.attacks.bilevel import BilevelAttack
from recon.attacks.from_weights import BilevelSettings
from recon.attacks.gauss_newton import gauss_newton
from recon.attacks.gradient_matching import GEIPING_DESCENT, cosine_tv, dlg, hybrid, seeded_start
from recon.attacks.gradient_system import JointSystem, relative_residual
from recon.attacks.haim_recipe import PublishedSettings, recover_as_published
from recon.attacks.reconstruct import reconstruct
from recon.attacks.recover import RecoverSettings, recover
from recon.attacks.registry import NEEDS
from recon.attacks.rgap import rgap
from recon.attacks.separation import FirstLayer, SeparationSettings, separate
from recon.errors import ReconError
from recon.nets.conv import Conv, ConvNet
from recon.nets.mlp import MLP
from recon.optim.descent import HeavyBall
from recon.released import Gradient, Weights

LABEL = torch.tensor([1])
QUICK = RecoverSettings(m=2)


def images(n=1):
    return torch.rand(n, *IMAGE, generator=seeded(3), dtype=torch.float64) - 0.5


def gradient_of(module, n=1, loss=F.cross_entropy):
    return Gradient.of(module, loss, images(n), (LABEL + torch.arange(n)) % 4)


def as_convnet(gradient):
    """The same gradient of the package's own network, made by hand."""
    names = {"w1": "0.weight", "w2": "3.weight", "b2": "3.bias"}
    theta = {own: gradient.theta[name] for own, name in names.items()}
    gradients = {own: gradient.gradients[name] for own, name in names.items()}
    network = ConvNet((Conv(3, 6),), IMAGE, classes=4)
    return Gradient(network, theta, gradient.labels, gradients)


def same(candidates, expected):
    assert len(candidates.score) == len(candidates)
    assert candidates.images.shape[1:] == IMAGE
    assert torch.equal(candidates.images.flatten(), expected.flatten())


def parameters(module):
    return torch.cat([p.detach().flatten() for p in module.parameters()])


# ----------------------------------------------------------------------------------- of the weights


class Branched(nn.Module):
    """The layer that is given the image is not the first one that it holds."""

    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(40, 3)
        self.first = nn.Linear(128, 40)

    def forward(self, x):
        return self.hidden(torch.sigmoid(self.first(x.flatten(1))))


def test_separation_looks_at_the_layer_that_is_given_the_image():
    module, before = fill(Branched()), fill(Branched(), seed=1)
    module.first.weight.data += 30 * normal(40, 4) @ images(4).flatten(1)
    settings = SeparationSettings(iterations=5)
    layer = FirstLayer(module.first.weight.detach(), before.first.weight.detach())
    expected = separate(layer, IMAGE, settings, seeded(4))
    candidates = attacks.by_separation(Weights.of(module, before), IMAGE, settings, seeded(4))
    same(candidates, expected.x_hat)
    assert torch.equal(candidates.score, expected.share.repeat(2)) and len(candidates) >= 4


@pytest.mark.parametrize("outputs", [1, 2])
def test_decoreco_and_the_published_recipe(outputs):
    """Of two outputs the second minus the first is the logit."""
    module = dense(128, 12, 9, outputs)
    *layers, w, b = (p.detach() for p in module.parameters())
    if outputs == 2:
        w, b = w[1] - w[0], b[1:] - b[:1]
    theta = torch.cat([tensor.flatten() for tensor in (*layers, w, b)])
    weights = Weights(MLP((128, 12, 9, 1)), theta)
    settings = RecoverSettings(4, 2, 5, multiplier_scales=(1e-2,), layer_weights=(1.0, 1.0, 0.5))
    expected = recover(weights, settings, seeded(4))
    candidates = attacks.by_decoreco(Weights.of(module), IMAGE, settings, seeded(4))
    same(candidates, expected.x_hat)
    assert torch.equal(candidates.score, expected.contribution)
    published = PublishedSettings(m=4, steps=3)
    expected = recover_as_published(weights, published, seeded(4))
    same(
        attacks.by_published_recipe(Weights.of(module), IMAGE, published, seeded(4)), expected.x_hat
    )


def test_decoreco_takes_two_candidates_an_image_and_the_first_layer_alone(monkeypatch):
    """Where no settings are passed."""
    quick = partial(RecoverSettings, restarts=1, steps=2, scale_steps=1)
    monkeypatch.setattr(from_weights, "RecoverSettings", quick)
    weights = Weights.of(dense(128, 12, 9, 1), n_train=2)
    settings = quick(4, layer_weights=(1.0, 0.0, 0.0))
    expected = attacks.by_decoreco(weights, IMAGE, settings, seeded(4))
    same(attacks.by_decoreco(weights, IMAGE, generator=seeded(4)), expected.images)


BOXED = HeavyBall(1.0, 0.5, tol=1e-8, box=(-0.5, 1.0))


def test_bilevel_of_an_affine_network_starts_anywhere_in_the_box():
    module, y = dense(128, 1), torch.tensor([0.0, 1.0, 1.0]).double()
    settings = BilevelSettings(4, BOXED)
    released = Weights(MLP((128, 1)), parameters(module), y=y, weight_decay=0.01)
    attack = BilevelAttack(released, BOXED)
    start = 1.5 * torch.rand(1, 3, 128, generator=seeded(4), dtype=torch.float64) - 0.5
    expected = reconstruct(attack, start, 4, 1e-8)
    known = Weights.of(module, y=y, weight_decay=0.01)
    candidates = attacks.by_bilevel(known, IMAGE, settings, seeded(4))
    same(candidates, expected.x_hat)
    assert candidates.score.tolist() == [-expected.energy.item()] * 3


def test_bilevel_of_one_hidden_layer_starts_where_the_network_did_if_that_is_known():
    module, before = dense(128, 6, 1), dense(128, 6, 1, seed=1)
    known = {"y": torch.tensor([0.0, 1.0]).double(), "weight_decay": 0.01}
    settings = BilevelSettings(3, BOXED, inner_first=20)
    first, again, other = (
        attacks.by_bilevel(Weights.of(module, start, **known), IMAGE, settings, seeded(4))
        for start in (before, before, None)
    )
    same(first, again.images)
    assert not torch.equal(first.images, other.images)
    assert -0.5 <= first.images.min() < -0.3 and 0.8 < first.images.max() <= 1
    assert "θ⁰" in first.knows and "θ⁰" not in other.knows


def test_multipliers_of_a_module_are_those_of_the_same_network():
    module, before = dense(128, 6, 1), dense(128, 6, 1, seed=1)
    pool = from_weights.Pool(images(5), torch.tensor([0, 1, 0, 1, 1]))
    weights = Weights(MLP((128, 6, 1)), parameters(module), parameters(before))
    candidates = attacks.by_multipliers(Weights.of(module, before), pool)
    same(candidates, pool.x)
    expected = attacks.by_multipliers(weights, pool).score
    torch.testing.assert_close(candidates.score, expected, rtol=1e-6, atol=1e-9)


# ---------------------------------------------------------------------------------- of the gradient


def test_rgap_of_a_gradient_made_here_and_of_one_received():
    module = convolutional()
    candidates = attacks.by_rgap(gradient_of(module), IMAGE)
    same(candidates, rgap(as_convnet(gradient_of(module))))
    assert (candidates.images - images()).abs().max() < 1e-6
    assert -1e-6 < candidates.score.item() <= 0
    sent = torch.autograd.grad(F.cross_entropy(module(images()), LABEL), list(module.parameters()))
    named = {name: g for (name, _), g in zip(module.named_parameters(), sent, strict=True)}
    for received in (sent, dict(reversed(named.items()))):
        again = Gradient.received(module, F.cross_entropy, received)  # the label is read off
        assert torch.equal(again.labels, LABEL)
        torch.testing.assert_close(attacks.by_rgap(again, IMAGE).images, candidates.images)


@pytest.mark.parametrize("n", [1, 2])
def test_dlg_and_cosine_tv_of_any_module(n):
    """A bias and an unusual activation: no closed form."""
    gradient = gradient_of(convolutional(nn.ELU, bias=True), n)
    start = torch.randn(n, *IMAGE, generator=seeded(4)).double()
    settings = from_gradients.DLGSettings(3)
    same(attacks.by_dlg(gradient, IMAGE, settings, seeded(4)), dlg(gradient, start, 3)[0])
    settings = from_gradients.CosineSettings(4, True, GEIPING_DESCENT, tv=0.3, deviation=0.5)
    expected = cosine_tv(gradient, start / 2, 4, whole=True, descent=GEIPING_DESCENT, tv=0.3)
    same(attacks.by_cosine_tv(gradient, IMAGE, settings, seeded(4)), expected.x_hat)


def test_matching_by_a_module_is_matching_by_the_closed_form():
    gradient = gradient_of(convolutional())
    ours = as_convnet(gradient)
    start = seeded_start(ours, 4)
    settings = from_gradients.CosineSettings(steps=6)
    of_module, of_network = (
        attacks.by_cosine_tv(released, IMAGE, settings, seeded(4)) for released in (gradient, ours)
    )
    same(of_network, cosine_tv(ours, start, 6).x_hat)
    torch.testing.assert_close(of_module.images, of_network.images)
    one = from_gradients.HybridSettings(0.001, True, GEIPING_DESCENT, 0.1)
    expected = hybrid(ours, 0.001, whole=True, descent=GEIPING_DESCENT, tv=0.1)
    same(attacks.by_hybrid(gradient, IMAGE, one), expected)
    assert from_gradients.CHEN.steps == 4800 and from_gradients.GEIPING.whole


def test_gauss_newton_in_closed_form_and_of_any_module():
    gradient = gradient_of(convolutional())
    expected = gauss_newton(JointSystem.of(as_convnet(gradient)))
    same(attacks.by_gauss_newton(gradient, IMAGE), expected.x)
    both = gradient_of(convolutional(nn.Softplus, bias=True), 2)
    candidates = attacks.by_gauss_newton(both, IMAGE)
    assert (candidates.images - images(2)).abs().max() < 1e-6 and candidates.score.min() > -1e-8
    assert relative_residual(both, images(2)) < 1e-12 < relative_residual(both, images(2).flip(0))


# ----------------------------------------------------------------------------------------- refusals


class Scaled(nn.Module):
    """Dense layers and ReLU, and a factor that no layer holds."""

    def __init__(self):
        super().__init__()
        self.net = dense(128, 5, 1)

    def forward(self, x):
        return 2 * self.net(x)


def twice():
    """One layer that is used two times."""
    layer = nn.Linear(128, 128)
    return nn.Sequential(nn.Flatten(), layer, nn.ReLU(), layer).eval()


def smooth(logits, labels):
    return F.cross_entropy(logits, labels, label_smoothing=0.1)


@pytest.mark.parametrize(
    ("attack", "released", "sentence"),
    [
        ("by_rgap", lambda: gradient_of(convolutional(bias=True)), "'0' is Conv2d"),
        ("by_rgap", lambda: gradient_of(convolutional(groups=2)), "groups=2"),
        ("by_rgap", lambda: gradient_of(convolutional(dilation=2)), "dilation="),
        ("by_rgap", lambda: gradient_of(convolutional(stride=(1, 2))), "stride="),
        ("by_rgap", lambda: gradient_of(convolutional(padding="same")), "padding=same"),
        (
            "by_rgap",
            lambda: gradient_of(convolutional(padding=1, padding_mode="circular")),
            "padding_mode=circular",
        ),
        ("by_hybrid", lambda: gradient_of(convolutional(nn.ELU)), "has Conv2d, ELU"),
        ("by_rgap", lambda: gradient_of(convolutional(nn.ReLU)), "ReLU is not invertible"),
        (
            "by_rgap",
            lambda: gradient_of(convolutional(lambda: nn.LeakyReLU(0.2))),
            r"LeakyReLU\(0.2\)",
        ),
        (
            "by_rgap",
            lambda: gradient_of(convolutional(lambda: nn.BatchNorm2d(6, affine=False)).double()),
            "BatchNorm2d",
        ),
        ("by_rgap", lambda: gradient_of(convolutional(), 2), "one image at a time, not 2"),
        ("by_rgap", lambda: gradient_of(convolutional(), 1, smooth), "the cross-entropy of whole"),
        ("by_rgap", lambda: Weights.of(convolutional()), "by_rgap takes Gradient"),
        (
            "by_decoreco",
            lambda: Weights.of(fill(nn.Sequential(nn.Flatten(), nn.Linear(128, 1), nn.Tanh()))),
            "it has Flatten, Linear, Tanh",
        ),
        ("by_decoreco", lambda: Weights.of(convolutional()), "'0' is a Conv2d"),
        ("by_decoreco", lambda: Weights.of(dense(128, 5, 3)), "3 outputs"),
        ("by_decoreco", lambda: Weights.of(Scaled()), "not those of dense layers"),
        ("by_decoreco", lambda: Weights.of(dense(128, 5, 1)), "n_train=…"),
        ("by_separation", lambda: Weights.of(convolutional()), "the module has Conv2d"),
        ("by_separation", lambda: Weights.of(twice()), "used more than once"),
        ("by_separation", lambda: Weights.of(dense(64, 1)), "does not classify images"),
        ("by_bilevel", lambda: Weights.of(dense(128, 1)), "needs labels"),
    ],
)
def test_what_an_attack_cannot_represent_is_refused(attack, released, sentence):
    settings = QUICK if "n_train" not in sentence and attack == "by_decoreco" else None
    with pytest.raises(ReconError, match=sentence) as error:
        getattr(attacks, attack)(released(), IMAGE, settings)
    assert "\n" not in str(error.value)


def test_what_is_released_must_fit_the_module():
    module = convolutional()
    assert not Weights.of(convolutional().train()).network.module.training
    with pytest.raises(ReconError, match="the start has parameters of other"):
        Weights.of(module, start=dense(128, 1))
    zeros = [torch.zeros_like(p) for p in module.parameters()]
    for gradients, labels, sentence in (
        ({"0.weight": zeros[0]}, LABEL, "one for each of 3 parameters: '3.weight'"),
        (zeros, None, "pass the labels"),
        (zeros, LABEL, "not zero"),
    ):
        with pytest.raises(ReconError, match=sentence):
            Gradient.received(module, F.cross_entropy, gradients, labels)


# -------------------------------------------------------------------------------------- the package


def test_attacks_have_one_signature_and_say_what_they_need():
    names = [name for name in attacks.__all__ if name.startswith("by_")]
    for name in names:
        first = list(inspect.signature(getattr(attacks, name)).parameters)[:4]
        assert first == ["released", "shape_or_prior", "settings", "generator"]
    assert sorted(NEEDS) == names


def test_importing_the_package_imports_no_torch():
    code = "import sys, recon.attacks; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
