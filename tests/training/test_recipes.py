"""Training as people do it: every step against one written by hand, and what each habit
promises.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from opacus.accountants.utils import get_noise_multiplier
from torch import nn

from recon.errors import ReconError
from recon.training import recipes
from recon.training.recipes import (
    PATIENCE,
    Dropout,
    Recipe,
    accuracy,
    build,
    early_stopping,
    first_weight,
    loss_of,
    train,
)

F64 = torch.float64
PLAIN = Recipe(width=12, depth=3, steps=3, batch=None, weight_decay=0.0, cosine=False, momentum=0.0)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*size, seed=0, dtype=torch.float32):
    return torch.randn(*size, generator=seeded(seed), dtype=dtype)


def labels(n, classes=2, seed=9):
    return torch.randint(classes, (n,), generator=seeded(seed))


def linears(module):
    return [layer for layer in module if isinstance(layer, nn.Linear)]


class Witness(nn.Module):
    """Keeps what a module is shown while training."""

    def __init__(self):
        super().__init__()
        self.shown = []

    def forward(self, x):
        if self.training:
            self.shown.append(x.detach().clone())
        return x


def shown(recipe, x, y, shape=None, seed=0):
    """The batches that one training sees, one after the other."""
    module = nn.Sequential(Witness(), *build(recipe, x.shape[1], seeded(5)))
    train(recipe, x, y, seeded(seed), shape, module=module)
    return module[0].shown


# ------------------------------------------------------------------------------------------- starts


@pytest.mark.parametrize("start", ["small", "default", "kaiming"])
def test_build_draws_from_the_generator_alone(start):
    recipe = replace(PLAIN, start=start)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        first = build(recipe, 20, seeded()).state_dict()
        torch.manual_seed(2)
        before = torch.get_rng_state()
        second = build(recipe, 20, seeded()).state_dict()
        assert torch.equal(torch.get_rng_state(), before)
    other = build(recipe, 20, seeded(1)).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first if first[name].any())


def test_training_does_not_look_at_the_global_generator():
    recipe = replace(PLAIN, batch=4, dropout=0.3, label_noise=0.3, augment=("flip", "shift"))
    x, y = normal(10, 48), labels(10)
    runs = []
    with torch.random.fork_rng():
        for seed in (1, 2):
            torch.manual_seed(seed)
            module = build(recipe, 48, seeded())
            before = torch.get_rng_state()
            runs.append(train(recipe, x, y, seeded(3), (3, 4, 4), module=module))
            assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(runs[0].w1, runs[1].w1)
    assert not torch.equal(train(recipe, x, y, seeded(4), (3, 4, 4)).w1, runs[0].w1)


def test_default_start_is_that_of_pytorch():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs = nn.Linear(300, 400)
    ours = build(Recipe(width=400), 300, seeded())
    for layer, fan_in in zip(linears(ours), (300, 400, 400), strict=True):
        for parameter in layer.parameters():
            assert parameter.abs().max() <= fan_in**-0.5
    assert ours[0].weight.abs().max().item() == pytest.approx(
        theirs.weight.abs().max().item(), rel=1e-3
    )
    assert ours[0].weight.std().item() == pytest.approx(theirs.weight.std().item(), rel=1e-2)
    assert ours[0].bias.std().item() == pytest.approx(theirs.bias.std().item(), rel=0.15)
    assert abs(ours[0].weight.mean().item()) < 1e-3


def test_other_starts_change_the_first_layer_alone():
    small, default, kaiming = (
        build(Recipe(start=s), 300, seeded()) for s in ("small", "default", "kaiming")
    )
    assert small[0].weight.std().item() == pytest.approx(1e-4, rel=1e-2)
    assert (
        small[0].bias.std().item() == pytest.approx(1e-4, rel=0.15)
        and small[0].weight.abs().max() > 3.5e-4
    )
    assert kaiming[0].weight.std().item() == pytest.approx((2 / 300) ** 0.5, rel=1e-2)
    assert not kaiming[0].bias.any()
    for k in (1, 2):
        assert torch.equal(linears(small)[k].weight, linears(default)[k].weight)
        assert torch.equal(linears(kaiming)[k].weight, linears(default)[k].weight)


@pytest.mark.parametrize("start", ["small", "default", "kaiming"])
def test_start_scale(start):
    once, scaled = (
        build(replace(PLAIN, start=start, start_scale=s), 30, seeded()) for s in (1.0, 0.01)
    )
    assert torch.allclose(scaled[0].weight, 0.01 * once[0].weight)
    assert torch.equal(linears(scaled)[1].weight, linears(once)[1].weight)


def test_layers():
    module = build(Recipe(width=7, depth=4, classes=10, bias=False, dropout=0.2), 5, seeded())
    assert [tuple(layer.weight.shape) for layer in linears(module)] == [
        (7, 5),
        (7, 7),
        (7, 7),
        (10, 7),
    ]
    assert [layer.bias is not None for layer in linears(module)] == [True, False, False, False]
    kinds = ["Linear", "ReLU", "Dropout"] * 3 + ["Linear"]
    assert [type(layer).__name__ for layer in module] == kinds
    binary = build(replace(PLAIN, depth=2), 5, seeded())
    assert [type(layer).__name__ for layer in binary] == ["Linear", "ReLU", "Linear"]
    assert binary[-1].out_features == 1 and binary[-1].bias is not None


def test_first_weight_of_a_convolution_has_a_kernel_a_row():
    convolution = nn.Conv2d(3, 6, 5)
    module = nn.Sequential(
        nn.Unflatten(1, (3, 8, 8)), convolution, nn.ReLU(), nn.Flatten(), nn.Linear(96, 1)
    )
    rows = first_weight(module)
    assert rows.shape == (6, 75) and torch.equal(rows[2], convolution.weight[2].flatten())
    assert first_weight(build(PLAIN, 5, seeded())).shape == (12, 5)


# -------------------------------------------------------------------------------------------- steps


def by_hand(recipe, x, y):
    """Heavy-ball steps with coupled decay and a cosine, in float64, without torch.optim."""
    module = build(recipe, x.shape[1], seeded()).double()
    theta = [p.detach().clone() for p in module.parameters()]
    velocity = [torch.zeros_like(p) for p in theta]
    momentum = recipe.momentum if recipe.optimiser == "sgd" else 0.0
    for t in range(recipe.steps):
        rate = recipe.lr * (
            0.5 * (1 + math.cos(math.pi * t / recipe.steps)) if recipe.cosine else 1.0
        )
        leaves = [p.clone().requires_grad_() for p in theta]
        h = x
        for layer in range(recipe.depth):
            h = h @ leaves[2 * layer].mT + leaves[2 * layer + 1]
            h = h.clamp_min(0) if layer < recipe.depth - 1 else h
        if recipe.classes == 2:
            loss = torch.log1p(torch.exp(-(2 * y - 1) * h[:, 0])).mean()
        else:
            loss = (h.exp().sum(1).log() - h[torch.arange(len(y)), y]).mean()
        for k, g in enumerate(torch.autograd.grad(loss, leaves)):
            velocity[k] = momentum * velocity[k] + g + recipe.weight_decay * theta[k]
            theta[k] = theta[k] - rate * velocity[k]
    return theta, loss


@pytest.mark.parametrize(
    "change",
    [
        {"optimiser": "gd", "momentum": 0.9},  # gd has none, whatever the recipe says
        {"momentum": 0.9},
        {"momentum": 0.8, "weight_decay": 0.3},
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
    expected, _ = by_hand(recipe, x, y)
    for ours, theirs in zip(module.parameters(), expected, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-9, atol=1e-12)
    assert torch.equal(trained.w1_init, start) and torch.equal(trained.w1, module[0].weight)
    assert trained.steps == 3 and not module.training


def test_what_a_training_ends_with():
    x, y = normal(9, 6), labels(9)
    trained = train(replace(PLAIN, steps=30, lr=0.3), x, y, seeded())
    logits = trained.module(x)[:, 0]
    assert trained.loss == pytest.approx(F.softplus(-(2 * y - 1) * logits).mean().item(), rel=1e-5)
    assert trained.accuracy == pytest.approx(((logits > 0) == (y == 1)).float().mean().item())
    one = torch.tensor([[0.1], [-0.1], [3.0], [0.2]])
    assert accuracy(nn.Identity(), one, torch.tensor([1, 0, 1, 1])) == 1.0
    ten = nn.Sequential(nn.Identity())
    outputs = torch.tensor([[1.0, 3.0, 2.0], [5.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    assert accuracy(ten, outputs, torch.tensor([1, 0, 0])) == pytest.approx(2 / 3)
    assert loss_of(torch.zeros(3, 5), torch.tensor([0, 1, 4]), 5).item() == pytest.approx(
        math.log(5)
    )
    assert loss_of(torch.tensor([[2.0]]), torch.tensor([1.0]), 2).item() == pytest.approx(
        math.log1p(math.exp(-2))
    )


def test_adam_couples_its_decay_and_adamw_does_not():
    """A weight without a gradient: adam's first step is lr whatever the decay, adamw's is a share
    of the weight.
    """
    x, y = normal(9, 6), labels(9)
    x[:, 0] = 0
    adam, adamw = (
        train(replace(PLAIN, optimiser=name, steps=1, lr=1e-2, weight_decay=0.7), x, y, seeded())
        for name in ("adam", "adamw")
    )
    start = adam.w1_init[:, 0]
    assert torch.allclose(adam.w1[:, 0], start - 1e-2 * start.sign(), atol=1e-5)
    assert torch.allclose(adamw.w1[:, 0], start * (1 - 0.7e-2), atol=1e-6)
    still = train(replace(PLAIN, optimiser="adam", steps=5, lr=1e-2), x, y, seeded())
    assert torch.equal(still.w1[:, 0], start) and not torch.equal(
        still.w1[:, 1], still.w1_init[:, 1]
    )


def test_batches():
    x, y = torch.arange(10.0)[:, None].expand(10, 3).contiguous(), labels(10)
    seen = shown(replace(PLAIN, batch=4, steps=40), x, y)
    drawn = [part[:, 0].tolist() for part in seen]
    assert len(drawn) == 40 and all(len(set(part)) == 4 for part in drawn)
    assert {k for part in drawn for k in part} == set(range(10)) and len(
        {tuple(part) for part in drawn}
    ) > 30
    for change in ({"batch": None}, {"batch": 10}, {"batch": 64}, {"batch": 4, "optimiser": "gd"}):
        assert all(torch.equal(part, x) for part in shown(replace(PLAIN, **change), x, y))


def test_labels_stay_with_their_images():
    """Minibatches of a separable problem that is learned only if they do."""
    x = normal(40, 6)
    y = (x[:, 0] > 0).long()
    assert train(replace(PLAIN, batch=8, steps=150, lr=0.3), x, y, seeded()).accuracy > 0.95


@pytest.mark.parametrize(
    "change",
    [
        {"lr": 0.05, "weight_decay": 2e-3, "momentum": 0.9, "cosine": True},
        {"lr": 0.05, "weight_decay": 2e-3, "momentum": 0.8},
        {
            "optimiser": "gd",
            "lr": 0.2,
            "weight_decay": 2e-2,
            "momentum": 0.9,
            "cosine": True,
            "steps": 300,
        },
        {"optimiser": "gd", "lr": 0.2, "weight_decay": 1e-2, "steps": 300},
        {
            "optimiser": "adamw",
            "lr": 1e-3,
            "weight_decay": 4.0,
            "momentum": 0.9,
            "cosine": True,
            "steps": 300,
        },
        {"optimiser": "adamw", "lr": 1e-3, "weight_decay": 4.0, "momentum": 0.9, "steps": 300},
    ],
)
def test_decay_erases_what_it_says(change):
    """A weight that gets no gradient is what is left of its start."""
    x, y = normal(8, 6), labels(8)
    x[:, 0] = 0
    recipe = replace(PLAIN, width=6, depth=2, **{"steps": 600, **change})
    trained = train(recipe, x, y, seeded())
    left = (trained.w1[:, 0] / trained.w1_init[:, 0]).mean().item()
    assert 0.2 < recipe.erased < 3
    assert left == pytest.approx(math.exp(-recipe.erased), rel=0.02)


def test_nothing_is_erased_without_decay():
    assert all(
        Recipe(optimiser=name, weight_decay=0.0).erased == 0.0
        for name in ("gd", "sgd", "adam", "adamw")
    )
    assert math.isnan(Recipe(optimiser="adam").erased)
    recipe = Recipe(lr=0.1, momentum=0.9, weight_decay=5e-3, steps=1500, cosine=True)
    assert recipe.erased == pytest.approx(3.75) and replace(
        recipe, cosine=False
    ).erased == pytest.approx(7.5)


# ------------------------------------------------------------------------------------------- habits


def test_stop_loss_stops_at_the_first_check_below():
    x, y = normal(10, 20), labels(10)
    recipe = replace(PLAIN, steps=400, lr=0.3, stop_loss=0.1)
    stopped = train(recipe, x, y, seeded())
    assert stopped.steps < 400 and stopped.steps % 25 == 0 and stopped.loss < 0.1
    before = train(replace(recipe, steps=stopped.steps - 25, stop_loss=None), x, y, seeded())
    assert before.loss >= 0.1 and before.steps == stopped.steps - 25
    assert train(replace(recipe, stop_loss=None, steps=30), x, y, seeded()).steps == 30


def test_looking_at_the_loss_moves_no_draw():
    """A goal that is never reached changes nothing, with dropout too."""
    recipe = replace(PLAIN, steps=60, lr=0.3, dropout=0.4, batch=4)
    x, y = normal(10, 20), labels(10)
    looked, never = (
        train(replace(recipe, stop_loss=goal), x, y, seeded()) for goal in (1e-9, None)
    )
    assert torch.equal(looked.w1, never.w1)


def test_stop_is_asked_every_25_steps():
    asked = []

    def third(module):
        asked.append(module)
        return len(asked) == 3

    trained = train(replace(PLAIN, steps=400), normal(10, 5), labels(10), seeded(), stop=third)
    assert trained.steps == 75 and asked == [trained.module] * 3


@pytest.mark.parametrize(("classes", "noise"), [(2, 0.4), (10, 0.4), (10, 1.0), (2, 0.0)])
def test_label_noise_is_a_share_drawn_anew(classes, noise):
    """A perfect network that does not move is right where labels are as before."""
    y = torch.full((4000,), classes - 1)
    x = F.one_hot(y, classes).float() if classes > 2 else (2.0 * y - 1)[:, None]
    module = nn.Sequential(nn.Linear(x.shape[1], x.shape[1]))
    with torch.no_grad():
        module[0].weight.copy_(torch.eye(x.shape[1]))
        module[0].bias.zero_()
    recipe = replace(PLAIN, classes=classes, label_noise=noise, lr=0.0, steps=1)
    share = train(recipe, x, y, seeded(), module=module).accuracy
    expected = 1 - noise * (1 - 1 / classes)
    assert share == pytest.approx(
        expected, abs=4 * math.sqrt(expected * (1 - expected) / 4000) + 1e-6
    )


SHAPE = (3, 6, 5)


def augmented(names, n=300):
    """An image shown n times, as it was augmented (n, 3, 6, 5), and itself."""
    image = normal(1, 90, seed=2)
    seen = shown(
        replace(PLAIN, steps=1, augment=names), image.expand(n, -1).contiguous(), labels(n), SHAPE
    )
    return seen[0].unflatten(1, SHAPE), image.unflatten(1, SHAPE)[0]


def shifted(image):
    """The image shifted by up to four pixels each way, zeros moving in: 81 of them."""
    found = []
    for down, right in product(range(-4, 5), repeat=2):
        moved = torch.zeros_like(image)
        for i, j in product(range(image.shape[1]), range(image.shape[2])):
            if 0 <= i - down < image.shape[1] and 0 <= j - right < image.shape[2]:
                moved[:, i, j] = image[:, i - down, j - right]
        found.append(moved)
    return torch.stack(found)


def which(seen, permitted):
    """Which permitted image each of those seen is; an AssertionError for any other."""
    equal = (seen[:, None] == permitted[None]).flatten(2).all(-1)
    assert (equal.sum(1) >= 1).all()
    return equal.float().argmax(1)


def test_flips():
    seen, image = augmented(("flip",))
    mirrored = torch.stack([row.flip(-1) for row in image])
    share = which(seen, torch.stack([image, mirrored])).float().mean().item()
    assert abs(share - 0.5) < 0.12


def test_shifts():
    seen, image = augmented(("shift",), 800)
    found = which(seen, shifted(image))
    assert len(found.unique()) >= 78  # all 81, but for chance
    assert torch.bincount(found, minlength=81).max() < 35


def test_flips_and_shifts():
    seen, image = augmented(("flip", "shift"), 800)
    permitted = torch.cat([shifted(image), shifted(image.flip(-1))])
    found = which(seen, permitted)
    assert abs((found >= 81).float().mean().item() - 0.5) < 0.1 and len(found.unique()) > 150


def test_dropout():
    x = torch.ones(200, 300)
    layer = Dropout(0.3, seeded()).train()
    out = layer(x)
    assert out.unique().tolist() == pytest.approx([0.0, 1 / 0.7])
    assert (out == 0).float().mean().item() == pytest.approx(0.3, abs=0.01)
    assert out.mean().item() == pytest.approx(1.0, abs=0.02)
    assert not torch.equal(layer(x), out) and torch.equal(Dropout(0.3, seeded()).train()(x), out)
    assert torch.equal(layer.eval()(x), x)


# ----------------------------------------------------------------------------- differential privacy

PRIVATE = replace(PLAIN, width=60, depth=2, lr=0.5, steps=4, epsilon=3.0)


def noise_of(recipe, n=4, dim=80):
    """Standard deviation of what one of `steps` steps adds to a first layer whose images are zero:
    noise alone.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Opacus warns of its own hooks
        trained = train(recipe, torch.zeros(n, dim), labels(n), seeded())
    return (trained.w1 - trained.w1_init).std().item() / recipe.steps**0.5


@pytest.mark.parametrize("change", [{}, {"clip": 0.2}, {"epsilon": 8.0}, {"steps": 9}])
def test_private_noise(change):
    recipe = replace(PRIVATE, **change)
    multiplier = get_noise_multiplier(
        target_epsilon=recipe.epsilon,
        target_delta=1 / 40,
        sample_rate=1.0,
        steps=recipe.steps,
        accountant="rdp",
    )
    assert noise_of(recipe) == pytest.approx(recipe.lr * multiplier * recipe.clip / 4, rel=0.04)


def test_more_privacy_is_more_noise():
    by_epsilon = [noise_of(replace(PRIVATE, epsilon=epsilon)) for epsilon in (100.0, 8.0, 1.0)]
    assert by_epsilon == sorted(by_epsilon) and by_epsilon[2] > 3 * by_epsilon[1]
    assert noise_of(replace(PRIVATE, epsilon=None)) == 0
    assert noise_of(PRIVATE, n=40) < noise_of(PRIVATE) / 5


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
        ends.append(torch.cat([p.detach().flatten() for p in module.parameters()]))
    assert (ends[1] - ends[0]).norm().item() == pytest.approx(2 * recipe.lr * clip, rel=1e-3)


# ------------------------------------------------------------------------------------------- errors


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


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (torch.zeros(4, 5), torch.tensor([0, 1, 2, 0]), "classes"),
        (torch.zeros(4, 5), torch.tensor([0, 1, -1, 0]), "classes"),
        (torch.zeros(4, 5), torch.tensor([0, 1, 1]), "fit"),
        (torch.zeros(4, 5), torch.tensor([[0, 1, 1, 0]]).mT, "fit"),
        (torch.zeros(4, 1, 5), torch.tensor([0, 1, 1, 0]), "fit"),
    ],
)
def test_labels_that_do_not_fit(x, y, message):
    with pytest.raises(ReconError, match=message):
        train(PLAIN, x, y, seeded())


@pytest.mark.parametrize("shape", [None, (75,)])
def test_augmentation_needs_a_shape(shape):
    with pytest.raises(ReconError, match="shape"):
        train(replace(PLAIN, augment=("flip",)), torch.zeros(4, 75), labels(4), seeded(), shape)


# ----------------------------------------------------------------------------------------- settings


def test_the_recipe_of_the_book_unless_it_says_otherwise():
    """What the stored results were trained with."""
    assert vars(Recipe()) == {
        "width": 400,
        "depth": 3,
        "classes": 2,
        "bias": True,
        "start": "default",
        "start_scale": 1.0,
        "optimiser": "sgd",
        "lr": 0.1,
        "momentum": 0.9,
        "batch": 32,
        "weight_decay": 1e-2,
        "cosine": True,
        "steps": 1000,
        "stop_loss": None,
        "label_noise": 0.0,
        "augment": (),
        "dropout": 0.0,
        "epsilon": None,
        "clip": 1.0,
    }


def test_a_generator_stays_on_its_own_device():
    generator = seeded(3)
    before = generator.get_state()
    assert recipes._on(torch.device("cpu"), generator) is generator
    assert torch.equal(generator.get_state(), before)  # and nothing is drawn for that


def test_early_stopping_waits():
    """Validation accuracies that rise, then stay: the last rise, and `PATIENCE` checks more."""
    x = torch.arange(20.0)[:, None] - 4.5
    y = (x[:, 0] > 0).long()
    module = nn.Sequential(nn.Linear(1, 1))
    stop = early_stopping(x[:10], y[:10])
    answers = []
    for check in range(20):
        with torch.no_grad():
            module[0].weight.fill_(1.0)
            module[0].bias.fill_(min(check - 5.0, 0.0))  # right from check 5 on
        answers.append(stop(module))
        assert module.training
    assert answers.index(True) == 5 + PATIENCE
