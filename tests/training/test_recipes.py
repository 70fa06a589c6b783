"""Training as people do it: every step against one written by hand, and what each habit
promises.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from opacus.accountants.utils import get_noise_multiplier
from sklearn.metrics import accuracy_score, log_loss
from small_networks import seeded
from torch import nn

from recon.errors import ReconError
from recon.training.recipes import (
    Dropout,
    Recipe,
    accuracy,
    build,
    first_weight,
    train,
)

F64 = torch.float64
PLAIN = Recipe(width=12, depth=3, steps=3, batch=None, weight_decay=0.0, cosine=False, momentum=0.0)


def normal(*size, seed=0, dtype=torch.float32):
    return torch.randn(*size, generator=seeded(seed), dtype=dtype)


def labels(n, classes=2, seed=9):
    return torch.randint(classes, (n,), generator=seeded(seed))


def linears(module):
    return [layer for layer in module if isinstance(layer, nn.Linear)]


class Witness(nn.Module):
    """Keeps what a module gets while training."""

    def __init__(self):
        super().__init__()
        self.batches = []

    def forward(self, x):
        if self.training:
            self.batches.append(x.detach().clone())
        return x


def test_layers():
    module = build(Recipe(width=7, depth=3, classes=10, bias=False, dropout=0.2), 5, seeded())
    assert [tuple(layer.weight.shape) for layer in linears(module)] == [(7, 5), (7, 7), (10, 7)]
    assert [layer.bias is not None for layer in linears(module)] == [True, False, False]
    kinds = ["Linear", "ReLU", "Dropout"] * 2 + ["Linear"]
    assert [type(layer).__name__ for layer in module] == kinds
    binary = build(replace(PLAIN, depth=2), 5, seeded())
    assert len(binary) == 3 and binary[-1].out_features == 1


def test_first_weight_of_a_convolution_has_a_kernel_a_row():
    convolution = nn.Conv2d(3, 6, 5)
    rows = first_weight(nn.Sequential(nn.Unflatten(1, (3, 8, 8)), convolution, nn.ReLU()))
    assert rows.shape == (6, 75) and torch.equal(rows[2], convolution.weight[2].flatten())


def by_hand(recipe, x, y):
    """Heavy-ball steps with coupled decay and a cosine, in float64, without torch.optim."""
    module = build(recipe, x.shape[1], seeded()).double()
    theta = {name: p.detach().clone() for name, p in module.named_parameters()}
    velocity = {name: torch.zeros_like(p) for name, p in theta.items()}
    momentum = recipe.momentum if recipe.optimiser == "sgd" else 0.0

    def loss(params):
        outputs = torch.func.functional_call(module, params, x)
        if recipe.classes == 2:
            return torch.log1p(torch.exp(-(2 * y - 1) * outputs[:, 0])).mean()
        return (outputs.exp().sum(1).log() - outputs[torch.arange(len(y)), y]).mean()

    for t in range(recipe.steps):
        cosine = 0.5 * (1 + math.cos(math.pi * t / recipe.steps)) if recipe.cosine else 1.0
        for name, gradient in torch.func.grad(loss)(theta).items():
            decayed = gradient + recipe.weight_decay * theta[name]
            velocity[name] = momentum * velocity[name] + decayed
        theta = {name: p - recipe.lr * cosine * velocity[name] for name, p in theta.items()}
    return theta


@pytest.mark.parametrize(
    "change",
    [
        {"optimiser": "gd", "momentum": 0.9},  # gd has none, whatever the recipe says
        {"momentum": 0.8, "weight_decay": 0.3, "cosine": True},
        {"optimiser": "gd", "weight_decay": 0.3, "cosine": True, "classes": 4},
        {"classes": 4, "momentum": 0.5, "depth": 2},
    ],
)
def test_steps_are_those_written_by_hand(change):
    recipe = replace(PLAIN, lr=0.5, **change)
    x, y = normal(9, 6, dtype=F64), labels(9, recipe.classes)
    module = build(recipe, 6, seeded()).double()
    start = first_weight(module).detach().clone()
    trained = train(recipe, x, y, seeded(), module=module)
    for name, expected in by_hand(recipe, x, y).items():
        torch.testing.assert_close(module.get_parameter(name), expected, rtol=1e-9, atol=1e-12)
    assert torch.equal(trained.w1_init, start) and torch.equal(trained.w1, module[0].weight)
    assert trained.steps == 3 and not module.training


def test_what_a_training_ends_with():
    x, y = normal(9, 6), labels(9)
    trained = train(replace(PLAIN, steps=30, lr=0.3), x, y, seeded())
    logits = trained.module(x)[:, 0]
    assert trained.loss == pytest.approx(log_loss(y, logits.sigmoid().detach()), rel=1e-5)
    assert trained.accuracy == accuracy_score(y, logits > 0)
    outputs = torch.tensor([[1.0, 3.0, 2.0], [5.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    assert accuracy(nn.Identity(), outputs, torch.tensor([1, 0, 0])) == pytest.approx(2 / 3)


@pytest.mark.parametrize("optimiser", ["adam", "adamw"])
def test_adam_couples_its_decay_and_adamw_does_not(optimiser):
    """A weight without a gradient: adam's first step is lr whatever the decay, adamw's is a share
    of the weight.
    """
    x, y = normal(9, 6), labels(9)
    x[:, 0] = 0
    recipe = replace(PLAIN, optimiser=optimiser, steps=1, lr=1e-2, weight_decay=0.7)
    trained = train(recipe, x, y, seeded())
    start = trained.w1_init[:, 0]
    expected = start - 1e-2 * (start.sign() if optimiser == "adam" else 0.7 * start)
    assert torch.allclose(trained.w1[:, 0], expected, atol=1e-5)


def test_batches():
    x, y = torch.arange(10.0)[:, None].expand(10, 3).contiguous(), labels(10)
    drawn = torch.stack(batches(replace(PLAIN, batch=4, steps=40), x, y))[..., 0].long()
    assert drawn.shape == (40, 4) and set(drawn.flatten().tolist()) == set(range(10))
    assert (F.one_hot(drawn, 10).sum(1) <= 1).all()  # without repeats
    assert len(drawn.unique(dim=0)) > 30
    for change in ({"batch": None}, {"batch": 10}, {"batch": 4, "optimiser": "gd"}):
        assert all(torch.equal(batch, x) for batch in batches(replace(PLAIN, **change), x, y))


def test_labels_stay_with_their_images():
    """Minibatches of a separable problem that is learned only if they do."""
    x = normal(40, 6)
    y = (x[:, 0] > 0).long()
    assert train(replace(PLAIN, batch=8, steps=150, lr=0.3), x, y, seeded()).accuracy > 0.95


@pytest.mark.parametrize(
    "recipe",
    [
        replace(PLAIN, lr=0.05, weight_decay=2e-3, momentum=0.9, cosine=True, steps=600),
        replace(PLAIN, lr=0.05, weight_decay=2e-3, momentum=0.8, steps=600),
        replace(PLAIN, lr=0.2, weight_decay=1e-2, momentum=0.9, steps=300, optimiser="gd"),
        replace(PLAIN, lr=1e-3, weight_decay=4.0, cosine=True, steps=300, optimiser="adamw"),
    ],
)
def test_decay_erases_what_it_says(recipe):
    """A weight that gets no gradient is what is left of its start."""
    x, y = normal(8, 6), labels(8)
    x[:, 0] = 0
    trained = train(recipe, x, y, seeded())
    left = (trained.w1[:, 0] / trained.w1_init[:, 0]).mean().item()
    assert 0.2 < recipe.erased < 3
    assert left == pytest.approx(math.exp(-recipe.erased), rel=0.02)
    for optimiser in (recipe.optimiser, "adam"):
        assert replace(recipe, weight_decay=0.0, optimiser=optimiser).erased == 0
    assert math.isnan(replace(recipe, optimiser="adam").erased)


def test_stop_loss_stops_at_the_first_check_below():
    x, y = normal(10, 20), labels(10)
    recipe = replace(PLAIN, steps=400, lr=0.3, stop_loss=0.1)
    stopped = train(recipe, x, y, seeded())
    assert stopped.steps < 400 and stopped.steps % 25 == 0 and stopped.loss < 0.1
    before = train(replace(recipe, steps=stopped.steps - 25, stop_loss=None), x, y, seeded())
    assert before.loss >= 0.1


def test_looking_at_the_loss_moves_no_draw():
    """A goal that is never reached changes nothing, with dropout too."""
    recipe = replace(PLAIN, steps=60, lr=0.3, dropout=0.4, batch=4)
    x, y = normal(10, 20), labels(10)
    looked, never = (
        train(replace(recipe, stop_loss=goal), x, y, seeded()) for goal in (1e-9, None)
    )
    assert torch.equal(looked.w1, never.w1)


@pytest.mark.parametrize(("classes", "noise"), [(2, 0.4), (10, 0.4), (10, 1.0)])
def test_label_noise_is_a_share_drawn_anew(classes, noise):
    """A perfect network that does not move is right where labels are as before."""
    y = torch.full((4000,), classes - 1)
    x = F.one_hot(y, classes).float() if classes > 2 else (2.0 * y - 1)[:, None]
    module = nn.Sequential(nn.Linear(x.shape[1], x.shape[1], bias=False))
    nn.init.eye_(module[0].weight)
    recipe = replace(PLAIN, classes=classes, label_noise=noise, lr=0.0, steps=1)
    share = train(recipe, x, y, seeded(), module=module).accuracy
    expected = 1 - noise * (1 - 1 / classes)
    assert share == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / 4000))


def test_dropout():
    x = torch.ones(200, 300)
    layer = Dropout(0.3, seeded()).train()
    out = layer(x)
    assert out.unique().tolist() == pytest.approx([0.0, 1 / 0.7])
    assert (out == 0).float().mean().item() == pytest.approx(0.3, abs=0.01)
    assert not torch.equal(layer(x), out)
    assert torch.equal(layer.eval()(x), x)


PRIVATE = replace(PLAIN, width=60, depth=2, lr=0.5, steps=4, epsilon=3.0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("change", [{}, {"clip": 0.2}, {"epsilon": 8.0}, {"steps": 9}])
def test_private_noise(change):
    """What the steps add to a first layer whose images are zero: noise alone."""
    recipe = replace(PRIVATE, **change)
    multiplier = get_noise_multiplier(
        target_epsilon=recipe.epsilon,
        target_delta=1 / 40,
        sample_rate=1.0,
        steps=recipe.steps,
        accountant="rdp",
    )
    trained = train(recipe, torch.zeros(4, 80), labels(4), seeded())
    noise = (trained.w1 - trained.w1_init).std().item() / recipe.steps**0.5
    assert noise == pytest.approx(recipe.lr * multiplier * recipe.clip / 4, rel=0.04)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("clip", [1.0, 0.25])
def test_private_gradients_are_clipped(clip):
    """Copies of one image: gradients for the two labels are opposite and of norm `clip`, and the
    noise is the same.
    """
    recipe = replace(PRIVATE, steps=1, clip=clip)
    x = 3 * normal(1, 80).expand(4, -1).contiguous()
    ends = []
    for y in (0, 1):
        module = build(recipe, 80, seeded())
        train(recipe, x, torch.full((4,), y), seeded(1), module=module)
        ends.append(nn.utils.parameters_to_vector(module.parameters()))
    assert (ends[1] - ends[0]).norm().item() == pytest.approx(2 * recipe.lr * clip, rel=1e-3)


@pytest.mark.parametrize(
    "change",
    [
        {"start": "zeros"},
        {"optimiser": "lbfgs"},
        {"augment": ("flip", "rotate")},
        {"width": 0},
        {"depth": 1},
        {"classes": 1},
        {"steps": 0},
    ],
)
def test_impossible_recipes(change):
    with pytest.raises(ReconError):
        Recipe(**change)


def batches(recipe, x, y, shape=None):
    """What the network gets in one training, step by step."""
    module = nn.Sequential(Witness(), *build(recipe, x.shape[1], seeded(5)))
    train(recipe, x, y, seeded(), shape, module=module)
    return module[0].batches


def test_training_draws_from_its_generator_alone():
    recipe = replace(PLAIN, batch=4, dropout=0.3, label_noise=0.3, augment=("flip", "shift"))
    x, y = normal(10, 48), labels(10)
    ends = []
    with torch.random.fork_rng():
        for seed in (1, 2):
            torch.manual_seed(seed)
            before = torch.get_rng_state()
            ends.append(train(recipe, x, y, seeded(3), (3, 4, 4)).w1)
            assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(*ends)
    assert not torch.equal(train(recipe, x, y, seeded(4), (3, 4, 4)).w1, ends[0])


@pytest.mark.parametrize(
    ("start", "spread", "bias"),
    [("small", 1e-4, 1e-4), ("default", 900**-0.5, 900**-0.5), ("kaiming", (2 / 300) ** 0.5, 0.0)],
)
def test_starts(start, spread, bias):
    """Of the first layer; the others are PyTorch's U(±1/√d), with standard deviation 1/√(3d)."""
    first, *others = linears(build(Recipe(start=start), 300, seeded()))
    assert first.weight.std().item() == pytest.approx(spread, rel=1e-2)
    assert first.bias.std().item() == pytest.approx(bias, rel=0.15)
    for layer in others:
        bound = layer.in_features**-0.5
        assert 0.95 * bound < layer.weight.abs().max() <= bound
        assert layer.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.1)
    scaled = build(Recipe(start=start, start_scale=0.01), 300, seeded())
    assert torch.allclose(scaled[0].weight, 0.01 * first.weight)


@pytest.mark.parametrize(
    ("names", "least"), [(("flip",), 2), (("shift",), 78), (("flip", "shift"), 150)]
)
def test_augmentations(names, least):
    """One image 800 times: itself or its mirror image, shifted by up to four pixels each way, zeros
    moving in, and nearly all of those images.
    """
    image = normal(1, 90, seed=2)
    recipe = replace(PLAIN, steps=1, augment=names)
    (batch,) = batches(recipe, image.expand(800, -1).contiguous(), labels(800), (3, 6, 5))
    image = image.view(3, 6, 5)
    permitted = []
    for source in [image, image.flip(-1)] if "flip" in names else [image]:
        padded = F.pad(source, (4, 4, 4, 4))
        corners = product(range(9), range(9)) if "shift" in names else [(4, 4)]
        permitted += [padded[:, i : i + 6, j : j + 5].flatten() for i, j in corners]
    equal = (batch[:, None] == torch.stack(permitted)).all(-1)
    assert equal.any(1).all()
    counts = torch.bincount(equal.float().argmax(1), minlength=len(permitted))
    assert (counts > 0).sum() >= least and counts.max() < 3.5 * 800 / len(permitted)
    if "flip" in names:
        assert abs(counts[: len(permitted) // 2].sum() / 800 - 0.5) < 0.08


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (torch.zeros(4, 75), torch.tensor([0, 1, 2, 0])),
        (torch.zeros(4, 75), torch.tensor([0, 1, -1, 0])),
        (torch.zeros(4, 75), torch.tensor([0, 1, 1])),
        (torch.zeros(4, 1, 75), torch.tensor([0, 1, 1, 0])),
    ],
)
def test_what_training_refuses(x, y):
    with pytest.raises(ReconError):
        train(PLAIN, x, y, seeded())
    with pytest.raises(ReconError, match="shape"):
        train(replace(PLAIN, augment=("flip",)), torch.zeros(4, 75), labels(4), seeded())
