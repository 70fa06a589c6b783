"""Whatever comes, every attack on a gradient returns finite images or says one sentence; and what
it says of them is so.
"""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_networks import (
    IMAGE,
    LOSSY,
    convolutional,
    dense,
    fill,
    normal,
    seeded,
    some_gradient,
)
from torch import nn

from recon import attacks
from recon.attacks import from_gradients
from recon.attacks.from_gradients import (
    GEIPING,
    CosineSettings,
    DLGSettings,
    GaussNewtonSettings,
    HybridSettings,
    RGAPSettings,
)
from recon.attacks.gauss_newton import Solved, gauss_newton
from recon.errors import ReconError
from recon.released import Gradient, rounding

DOORS = {
    "by_rgap": None,
    "by_dlg": DLGSettings(1),
    "by_cosine_tv": CosineSettings(2),
    "by_hybrid": HybridSettings(1e-4),
    "by_gauss_newton": GaussNewtonSettings(2),
}
X = torch.rand(3, *IMAGE, generator=seeded(3), dtype=torch.float64) - 0.5


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.MultiheadAttention(16, 2, batch_first=True)
        self.answer = nn.Linear(128, 4)

    def forward(self, x):
        tokens = x.reshape(len(x), 8, 16)
        return self.answer(self.heads(tokens, tokens, tokens, need_weights=False)[0].flatten(1))


def sent(module, x=X[:1], y=(1,), **options):
    loss = F.cross_entropy(module(x), torch.tensor(y), **options)
    return torch.autograd.grad(loss, list(module.parameters()))


def normed(running=False):
    """Batch norm, with running statistics or also in evaluation mode with the batch's own."""
    norm = nn.BatchNorm2d(6, track_running_stats=running)
    layers = (nn.Conv2d(2, 6, 3), norm, nn.Tanh(), nn.Flatten(), nn.Linear(216, 4))
    return fill(nn.Sequential(*layers)).double()


#: what is changed -> other values of it
MALFORMED = {
    "y": (
        *(1, [1], np.array([1]), torch.tensor(1), torch.ones(1).byte(), None),
        *(4, [-1], 1.5, "deer", [[1]], torch.full((1, 4), 0.25).double(), [], [1, 2], 0),
    ),
    "shape": (IMAGE[1:], (1, *IMAGE), [*IMAGE], 8, "288", (2, 8.5, 8), (2, -8, 8), (2, 8, 9)),
    "all": (lambda grads: None, lambda grads: grads[1:], lambda grads: dict(enumerate(grads))),
    "tensor": (
        *(torch.Tensor.numpy, torch.Tensor.tolist, torch.Tensor.long, torch.Tensor.half),
        *(torch.zeros_like, torch.Tensor.sqrt, lambda g: g + 0j, lambda g: "a"),
        *(lambda g: 1e200 * g, lambda g: g[..., None]),
    ),
    "module": (lambda: fill(Attention()), normed),
    "x": (X[:2],),
}


@pytest.mark.parametrize(
    ("what", "value"), [(what, value) for what, values in MALFORMED.items() for value in values]
)
@pytest.mark.parametrize("door", DOORS)
def test_finite_images_or_one_sentence(door, what, value):
    case = {"y": 1, "shape": IMAGE, "all": list, "tensor": torch.clone, "x": X[:1]}
    case = {"module": convolutional, **case, what: value}
    module, x = case["module"](), case["x"]
    y = None if what == "x" else case["y"]  # two images of one label, for one
    grads = case["all"]([case["tensor"](g) for g in sent(module, x, (1,) * len(x))])
    try:
        released = Gradient.received(module, F.cross_entropy, grads, y)
        candidates = getattr(attacks, door)(released, case["shape"], DOORS[door], seeded())
    except ReconError as error:
        assert len(str(error)) > 20 and "\n" not in str(error)
    else:
        assert candidates.images.isfinite().all() and candidates.score.isfinite().all()


class Declared(nn.Module):
    """The layer that answers is declared first."""

    def __init__(self, channels, classes):
        super().__init__()
        self.answer = nn.Linear(channels * 36, classes)
        self.first = nn.Conv2d(2, channels, 3)

    def forward(self, x):
        return self.answer(self.first(x).tanh().flatten(1))


@pytest.mark.parametrize("classes", [2, 3, 4, 10])
@pytest.mark.parametrize("channels", [2, 3, 4])
def test_the_label_is_that_of_the_layer_that_answers(channels, classes):
    for seed in range(6):
        module, label = fill(Declared(channels, classes), seed), seed % classes
        for each in (module, dense(128, channels, classes, seed=seed)):
            one = Gradient.received(each, F.cross_entropy, sent(each, y=(label,)))
            assert one.labels.tolist() == [label]
        if classes > 2:  # of two classes every ∂ℓ/∂b is a multiple of (1, −1)
            with pytest.raises(ReconError, match="pass the labels"):
                both = sent(module, X[:2], (label, label))
                Gradient.received(module, F.cross_entropy, both)


def solved(module, gradients, y, x=X[:1], starts=1):
    """What Gauss–Newton says, and the largest error."""
    released = Gradient.received(module, F.cross_entropy, gradients, y)
    candidates = attacks.by_gauss_newton(released, IMAGE, GaussNewtonSettings(starts))
    error = (candidates.images - x[: len(candidates)]).abs().max().item()
    return candidates.diagnostics, error, -candidates.score.max().item()


def open_form():
    """A module that has no closed form."""
    return convolutional(nn.Softplus, bias=True)


@pytest.mark.parametrize("factor", [0.5, 1e-3, 7.0])
def test_the_scale_of_a_gradient_is_fitted_by_all_and_said(factor):
    closed, module = convolutional(), open_form()
    scaled = [factor * g for g in sent(closed)]
    candidates = attacks.by_rgap(Gradient.received(closed, F.cross_entropy, scaled), IMAGE)
    about, error, left = solved(module, [factor * g for g in sent(module)], 1)
    assert max(error, left, -candidates.score.item()) < 1e-8 and not about["warning"]
    for scale in (candidates.diagnostics["scale"], about["scale"]):
        assert abs(scale.item() / factor - 1) < 1e-6
    summed = sent(module, X[:2], (1, 2), reduction="sum")
    about, error, _ = solved(module, summed, [1, 2], X)
    assert error < 1e-6 and abs(about["scale"].item() - 2) < 1e-6


@pytest.mark.parametrize(
    ("dtype", "off"), [(torch.float32, 1e-5), (torch.float16, 1e-2), (torch.bfloat16, 0.2)]
)
@pytest.mark.parametrize("closed", [True, False])
def test_certificates_follow_the_format_that_came(dtype, off, closed):
    module = convolutional() if closed else open_form()
    coarse = [g.to(dtype) for g in sent(module)]
    about, error, left = solved(module, coarse, None)
    assert 0 < error < off and 1e-9 < left < rounding(dict(enumerate(coarse)))
    assert about["certificate"] == ["global" if closed else "local"] and not about["warning"]
    disturbed = [g + 0.3 * g.abs().mean() * normal(*g.shape, seed=1) for g in sent(module)]
    assert solved(module, disturbed, 1)[0]["certificate"] == ["none"]


@pytest.mark.parametrize(
    ("x", "truth", "labels"),
    [(X[:1], (1,), 0), (X[:2], (1, 1), 1), (X[:2], (1, 2), 1), (X[:2], (1, 2), [1, 2, 3])],
    ids=["wrong label", "two of one label", "too few", "too many"],
)
def test_what_is_wrong_leaves_something_and_is_said(x, truth, labels):
    about, *_ = solved(open_form(), sent(open_form(), x, truth), labels, X)
    assert about["certificate"] == ["none"] and about["warning"]


def test_batch_norm_of_the_batch_is_said():
    module = normed(True)
    about, *_ = solved(module, sent(copy.deepcopy(module).train()), 1)
    assert about["certificate"] == ["none"] and "batch norm" in about["warning"]
    about, _, left = solved(normed(), sent(normed()), 1)
    assert left < 1e-8 and about["open"][0] > 0 and "Rank lacks" in about["warning"]
    assert about["certificate"] == ["none"]


@pytest.mark.parametrize(("ends", "count"), [([0, 1, 1, 0], 1), ([0, 1, 0, 2], 2)])
def test_distinct_solutions_are_counted_but_for_their_order(ends, count, monkeypatch):
    """Of two images, by two runs that end there; a third has the gradient of the second."""
    runs = iter(Solved(x.flatten(), torch.zeros(1)) for x in X[ends].split(2))
    monkeypatch.setattr(from_gradients, "relative_residual", lambda *_: 0.0)
    monkeypatch.setattr(from_gradients, "gauss_newton", lambda *_, **__: next(runs))
    about, *_ = solved(open_form(), sent(open_form(), X[:2], (1, 1)), [1, 1], X, starts=2)
    assert len(about["solutions"][0]) == count and ("distinct" in about["warning"]) == (count > 1)
    assert about["certificate"] == ["local"]


def test_gauss_newton_starts_once_from_grey_and_twice_from_faint_noise(monkeypatch):
    initial = []

    def one_step(system, x, **_):
        initial.append(x)
        return gauss_newton(system, x, steps=1)

    monkeypatch.setattr(from_gradients, "gauss_newton", one_step)
    attacks.by_gauss_newton(some_gradient(LOSSY, 1)[0], LOSSY.shape, generator=seeded())
    grey, *noise = initial
    assert not grey.any() and not torch.equal(*noise)
    assert [x.std().item() for x in noise] == pytest.approx([0.1, 0.1], rel=0.3)


def test_noisy_gradients_have_a_door():
    module = convolutional()
    noisy = [g + 0.01 * g.std() * normal(*g.shape) for g in sent(module)]
    released = Gradient.received(module, F.cross_entropy, noisy, 1)
    with pytest.raises(ReconError, match="noisy"):
        attacks.by_rgap(released, IMAGE)
    candidates = attacks.by_rgap(released, IMAGE, RGAPSettings(noisy=True))
    assert 1e-6 < (candidates.images - X[:1]).abs().max() < 1
    assert "noise" in candidates.diagnostics["warning"]
    attacks.by_hybrid(released, IMAGE, HybridSettings(1e-4, noisy=True))


def test_saturated_units_are_inverted_up_to_rounding():
    module = convolutional()
    module[0].weight.data *= 12
    released = Gradient.received(module, F.cross_entropy, sent(module))
    assert (attacks.by_rgap(released, IMAGE).images - X[:1]).abs().max() < 1e-6


def test_attention_has_second_derivatives():
    module = fill(Attention())
    assert solved(module, sent(module), 1)[0]["scale"] > 0


def test_images_in_another_range_are_noticed_and_can_be_set():
    module, quick = convolutional(), replace(GEIPING, steps=60)
    released = Gradient.received(module, F.cross_entropy, sent(module, X[:1] + 0.5))
    outside = attacks.by_cosine_tv(released, IMAGE, quick)
    assert outside.images.max() == 0.5 and "at bounds" in outside.diagnostics["warning"]
    quick = replace(quick, descent=replace(quick.descent, middle=0.5))
    assert attacks.by_cosine_tv(released, IMAGE, quick).images.max() > 0.5


def test_what_diverges_is_refused(monkeypatch):
    module = convolutional()
    monkeypatch.setattr(from_gradients, "dlg", lambda *_: (X[:1] * torch.nan, torch.zeros(1)))
    with pytest.raises(ReconError, match="DLG diverged"):
        attacks.by_dlg(Gradient.received(module, F.cross_entropy, sent(module)), IMAGE)
