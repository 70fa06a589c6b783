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
from small_networks import IMAGE, convolutional, fill, normal, seeded
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
from recon.attacks.gauss_newton import Solved
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


def changed(change, y=1, shape=IMAGE, module=None, x=X[:1], truth=(1,)):
    """A case: what is received, and the shape."""

    def case():
        network = module() if module else convolutional()
        return Gradient.received(
            network, F.cross_entropy, change(sent(network, x, truth)), y
        ), shape

    return case


def labelled(y, **options):
    return changed(list, y, **options)


def shaped(shape):
    return changed(list, shape=shape)


def normed(running=False):
    """Batch norm, with running statistics or also in evaluation mode with the batch's own."""
    norm = nn.BatchNorm2d(6, track_running_stats=running)
    layers = (nn.Conv2d(2, 6, 3), norm, nn.Tanh(), nn.Flatten(), nn.Linear(216, 4))
    return fill(nn.Sequential(*layers)).double()


def flipped(grads):
    return {f"module.{k}": g for k, g in enumerate(grads)}


CASES = {
    "label int": labelled(1),
    "label list": labelled([1]),
    "label numpy": labelled(np.array([1])),
    "label scalar": labelled(torch.tensor(1)),
    "label byte": labelled(torch.tensor([1], dtype=torch.uint8)),
    "label read": labelled(None),
    "label too large": labelled(4),
    "label negative": labelled([-1]),
    "label fraction": labelled(1.5),
    "label word": labelled("deer"),
    "label matrix": labelled([[1]]),
    "labels soft": labelled(torch.full((1, 4), 0.25).double()),
    "labels none": labelled([]),
    "labels two": labelled([1, 2]),
    "label wrong": labelled(0),
    "batch of one label": labelled(None, x=X[:2], truth=(1, 1)),
    "numpy": changed(lambda grads: [g.numpy() for g in grads]),
    "lists": changed(lambda grads: [g.tolist() for g in grads]),
    "whole numbers": changed(lambda grads: [g.long() for g in grads]),
    "complex": changed(lambda grads: [g + 0j for g in grads]),
    "words": changed(lambda grads: ["a" for _ in grads]),
    "nothing": changed(lambda grads: None),
    "zero": changed(lambda grads: [0 * g for g in grads]),
    "nan": changed(lambda grads: [g * torch.nan for g in grads]),
    "one missing": changed(lambda grads: grads[1:]),
    "other names": changed(flipped),
    "half": changed(lambda grads: [g.half() for g in grads]),
    "huge": changed(lambda grads: [1e150 * g for g in grads]),
    "no batch": shaped(IMAGE[1:]),
    "with batch": shaped((1, *IMAGE)),
    "a list": shaped(list(IMAGE)),
    "a number": shaped(8),
    "a word": shaped("288"),
    "fractions": shaped((2, 8.5, 8)),
    "negative": shaped((2, -8, 8)),
    "wide": shaped((2, 8, 9)),
    "attention": changed(list, module=lambda: fill(Attention())),
    "own statistics": changed(list, module=normed),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("door", DOORS)
def test_finite_images_or_one_sentence(door, case):
    try:
        released, shape = CASES[case]()
        candidates = getattr(attacks, door)(released, shape, DOORS[door], seeded())
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
        one = Gradient.received(module, F.cross_entropy, sent(module, y=(label,)))
        assert one.labels.tolist() == [label]
        if classes > 2:  # of two classes every ∂ℓ/∂b is a multiple of (1, −1)
            with pytest.raises(ReconError, match="pass the labels"):
                both = sent(module, X[:2], (label, label))
                Gradient.received(module, F.cross_entropy, both)


def solved(module, gradients, y, x=X[:1], **settings):
    """What Gauss–Newton says, and the largest error."""
    released = Gradient.received(module, F.cross_entropy, gradients, y)
    candidates = attacks.by_gauss_newton(released, IMAGE, GaussNewtonSettings(**settings))
    about = candidates.diagnostics
    return about, float((candidates.images - x).abs().max()), float(-candidates.score.max())


@pytest.mark.parametrize("factor", [0.5, 1e-3, 7.0])
def test_the_scale_of_a_gradient_is_fitted_by_all_and_said(factor):
    closed, module = convolutional(), convolutional(nn.Softplus, bias=True)
    scaled = [factor * g for g in sent(closed)]
    found = attacks.by_rgap(Gradient.received(closed, F.cross_entropy, scaled), IMAGE)
    assert found.score.item() > -1e-9 and (found.images - X[:1]).abs().max() < 1e-8
    about, error, left = solved(module, [factor * g for g in sent(module)], 1, starts=1)
    assert error < 1e-8 and left < 1e-9 and not about["warning"]
    for scale in (found.diagnostics["scale"].item(), about["scale"].item()):
        assert abs(scale / factor - 1) < 1e-6
    summed = sent(module, X[:2], (1, 2), reduction="sum")
    about, error, _ = solved(module, summed, [1, 2], X[:2], starts=1)
    assert error < 1e-6 and abs(about["scale"].item() - 2) < 1e-6


@pytest.mark.parametrize(
    ("dtype", "off"), [(torch.float32, 1e-5), (torch.float16, 1e-2), (torch.bfloat16, 0.2)]
)
@pytest.mark.parametrize("closed", [True, False])
def test_certificates_follow_the_format_that_came(dtype, off, closed):
    module = convolutional() if closed else convolutional(nn.Softplus, bias=True)
    coarse = [g.to(dtype) for g in sent(module)]
    about, error, left = solved(module, coarse, None)
    assert 0 < error < off and 1e-9 < left < rounding(dict(enumerate(coarse)))
    assert about["certificate"] == ["global" if closed else "local"] and not about["warning"]
    disturbed = [g + 0.3 * g.abs().mean() * normal(*g.shape, seed=1) for g in sent(module)]
    assert solved(module, disturbed, 1, starts=1)[0]["certificate"] == ["none"]


@pytest.mark.parametrize(
    ("x", "truth", "told"),
    [(X[:1], (1,), 0), (X[:2], (1, 1), 1), (X[:2], (1, 2), 1), (X[:2], (1, 2), [1, 2, 3])],
    ids=["wrong label", "two of one label", "too few", "too many"],
)
def test_what_is_wrong_leaves_something_and_is_said(x, truth, told):
    module = convolutional(nn.Softplus, bias=True)
    about, *_ = solved(module, sent(module, x, truth), told, X[:1], starts=1)
    assert about["certificate"] == ["none"] and about["warning"]


def test_batch_norm_of_the_batch_is_said():
    module = normed(True)
    away = copy.deepcopy(module).train()
    about, *_ = solved(module, sent(away), 1, starts=1)
    assert about["certificate"] == ["none"] and "batch norm" in about["warning"]
    about, *_, left = solved(normed(), sent(normed()), 1)
    assert left < 1e-8 and about["open"][0] > 0 and "Rank lacks" in about["warning"]
    assert about["certificate"] == ["none"]


def circular(channels, outputs):
    return nn.Conv2d(channels, outputs, 3, padding=1, padding_mode="circular")


def test_full_rank_is_local_and_distinct_solutions_are_counted():
    """Shifts of the image have its gradient."""
    layers = (circular(2, 8), nn.Tanh(), circular(8, 16), nn.Tanh(), nn.AdaptiveAvgPool2d(1))
    module = nn.Sequential(*layers, nn.Flatten(), nn.Linear(16, 10)).double().eval()
    for k, parameter in enumerate(module.parameters()):
        parameter.data = 0.3 * normal(*parameter.shape, seed=k)
    x = X[:1, :, :5, :5]
    released = Gradient.received(module, F.cross_entropy, sent(module, x))
    about = attacks.by_gauss_newton(released, (2, 5, 5), GaussNewtonSettings(8)).diagnostics
    assert (
        about["rank"] == [50] and about["certificate"] == ["local"] and about["condition"][0] < 1e3
    )
    shifts = torch.stack([x.roll((k, j), (2, 3)) for k in range(5) for j in range(5)])
    solutions = about["solutions"][0]
    assert 2 <= len(solutions) <= 8 and f"{len(solutions)} distinct" in about["warning"]
    for image in solutions:
        assert (image - shifts).abs().flatten(1).amax(1).min() < 1e-6


def test_images_of_one_label_in_another_order_are_one_solution(monkeypatch):
    module, ends = convolutional(nn.Softplus, bias=True), iter((X[:2], X[:2].flip(0), X[1:]))
    monkeypatch.setattr(
        from_gradients,
        "gauss_newton",
        lambda system, x, steps: Solved(next(ends).flatten(), torch.zeros(1)),
    )
    about, *_ = solved(module, sent(module, X[:2], (1, 1)), [1, 1], X[:2], starts=3)
    assert len(about["solutions"][0]) == 1 and about["certificate"] == ["local"]


def test_noisy_gradients_have_a_door():
    module = convolutional()
    noisy = [g + 0.01 * g.std() * normal(*g.shape) for g in sent(module)]
    released = Gradient.received(module, F.cross_entropy, noisy, 1)
    with pytest.raises(ReconError, match="noisy"):
        attacks.by_rgap(released, IMAGE)
    found = attacks.by_rgap(released, IMAGE, RGAPSettings(noisy=True))
    assert 1e-6 < (found.images - X[:1]).abs().max() < 1
    assert "noise" in found.diagnostics["warning"]
    attacks.by_hybrid(released, IMAGE, HybridSettings(1e-4, noisy=True))


def test_saturated_units_are_inverted_up_to_rounding():
    module = convolutional()
    module[0].weight.data *= 8
    assert (module[:2](X[:1]).abs() > 0.9999).any()
    found = attacks.by_rgap(Gradient.received(module, F.cross_entropy, sent(module)), IMAGE)
    assert (found.images - X[:1]).abs().max() < 1e-6


def test_images_in_another_range_are_noticed_and_can_be_set():
    module, x = convolutional(), X[:1] + 0.5
    released = Gradient.received(module, F.cross_entropy, sent(module, x))
    quick = replace(GEIPING, steps=60)
    outside = attacks.by_cosine_tv(released, IMAGE, quick)
    assert outside.images.max() == 0.5 and "at bounds" in outside.diagnostics["warning"]
    moved = replace(quick, descent=replace(quick.descent, middle=0.5))
    assert attacks.by_cosine_tv(released, IMAGE, moved).images.max() > 0.5
