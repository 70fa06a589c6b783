"""Fine-tunes: shadows begin where training began and train what was trained; a head is audited on
its features.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torchvision import models

import recon
from recon.errors import ReconError
from recon_audit.anatomy import examine
from recon_audit.exchange import compare_sets
from recon_audit.fine_tunes import (
    features_of,
    head_of,
    public_start,
)
from recon_audit.networks import subject_of
from recon_audit.prepare import prepare
from recon_audit.shadows import Recipe, fresh, train_network

N, D = 20, 400


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def network():
    return nn.Sequential(
        nn.Conv2d(3, 6, 3),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(216, 40),
        nn.ReLU(),
        nn.Linear(40, 2),
    )


# ------------------------------------------------------------------------------------------- starts


def test_what_equals_its_start_was_frozen_and_shadows_begin_there():
    began, tuned = network(), network()
    state = began.state_dict()
    tuned.load_state_dict(state)
    with torch.no_grad():
        for parameter in tuned[4:].parameters():
            parameter.add_(0.1)
    subject = subject_of(tuned)
    start = public_start(subject, state)
    assert start.public == set(state)
    assert [p.requires_grad for p in subject.module.parameters()] == [False] * 4 + [True] * 4

    def same(module):
        return [torch.equal(value, state[name]) for name, value in module.state_dict().items()]

    assert all(same(fresh(subject.module, Recipe(), generator(), start)))
    x, y = torch.rand(12, 3, 8, 8), torch.arange(12) % 2
    seen = examine(subject.module, (3, 8, 8))
    done = train_network(seen, x, y, Recipe(steps=5), generator(), start).module
    # the running means of a frozen batch norm, too
    assert same(done) == [True] * 7 + [False] * 4


def test_a_new_head_is_drawn_and_prefixes_are_taken_off():
    began = models.resnet18(num_classes=7)
    tuned = nn.ModuleDict({"backbone": models.resnet18(num_classes=2)})["backbone"]
    tuned.load_state_dict(
        {k: v for k, v in began.state_dict().items() if not k.startswith("fc.")}, strict=False
    )
    subject = subject_of(tuned)
    start = public_start(subject, {f"module.{k}": v for k, v in began.state_dict().items()})
    assert "fc.weight" not in start.public and len(start.public) == 120
    assert [n for n, p in subject.module.named_parameters() if p.requires_grad] == [
        "fc.weight",
        "fc.bias",
    ]
    shadow = fresh(subject.module, Recipe(), generator(), start)
    assert torch.equal(shadow.conv1.weight, began.conv1.weight)
    assert not torch.equal(shadow.fc.weight, tuned.fc.weight)


@pytest.mark.parametrize(
    "given", [{"a": torch.ones(2)}, "no_such_weights", 3, "ResNet18_Weights.NO"]
)
def test_a_start_that_does_not_fit_is_one_sentence(given):
    with pytest.raises(ReconError):
        public_start(subject_of(network()), given)


@pytest.mark.parametrize("name", ["ResNet50_Weights.IMAGENET1K_V1", "resnet50"])
def test_weights_of_torchvision_are_those_that_are_named(name, monkeypatch):
    state = subject_of(network()).module.state_dict()
    kind = models.ResNet50_Weights
    monkeypatch.setattr(kind, "get_state_dict", lambda self, **_: asked.append(self.name) or state)
    asked = []
    public_start(subject_of(network()), name)
    assert asked == ["IMAGENET1K_V1" if "." in name else "IMAGENET1K_V2"]


# -------------------------------------------------------------------------------- whole fine-tunes


def test_members_of_a_whole_fine_tune_are_told_by_the_label_filter():
    """Half of the held-out images are public, and no network but this one is trained on."""
    x, y = torch.rand(120, 3, 8, 8, generator=generator()), torch.arange(120) % 2
    began, tuned = network(), network()
    tuned.load_state_dict(began.state_dict())
    optimiser = torch.optim.SGD(tuned.parameters(), 3e-2, momentum=0.9)
    for _ in range(100):
        optimiser.zero_grad()
        nn.functional.cross_entropy(tuned(x[:20]), y[:20]).backward()
        optimiser.step()
    given = {"attacks": "membership", "start": began.eval(), "labels": None} | FAST
    report = recon.audit(tuned.eval(), (x[:20], y[:20]), (x[20:], y[20:]), **given)
    members = report.data["membership"]
    assert members["scores"]["label"]["auc"] > 0.85 and "Label filter" in report.page
    assert members["looks"] == 3
    assert report.data["exchangeability"]["compared"] == {"train": 20, "held_out": 50}


# ------------------------------------------------------------------------------------- fresh starts


class OfChildren(nn.Module):
    """Its `reset_parameters` resets its children, and not its own parameter."""

    def __init__(self):
        super().__init__()
        self.scale, self.inner = nn.Parameter(torch.rand(50)), nn.Linear(64, 50)

    def reset_parameters(self):
        self.inner.reset_parameters()

    def forward(self, x):
        return self.scale * self.inner(x.flatten(1))


class WithArguments(OfChildren):
    """It wants to be told how."""

    def reset_parameters(self, std):
        nn.init.normal_(self.scale, std=std)


@pytest.mark.parametrize("kind", [OfChildren, WithArguments])
def test_no_trained_parameter_is_left_in_a_fresh_network(kind):
    module = nn.Sequential(kind(), nn.ReLU(), nn.Linear(50, 2))
    shadow = fresh(module, Recipe(), generator())
    for (name, a), b in zip(module.named_parameters(), shadow.parameters(), strict=True):
        assert not torch.equal(a, b), name


# ----------------------------------------------------------------------------------------- adapters


class Adapted(nn.Module):
    """LoRA: base(x) + B A x, with the base frozen."""

    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_a = nn.Linear(base.in_features, rank, bias=False)
        self.lora_b = nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x):
        return self.base(x) + self.lora_b(self.lora_a(x))


def test_a_shadow_of_an_adapted_layer_begins_without_the_adapter():
    module = Adapted(nn.Linear(6, 5))
    shadow = fresh(module, Recipe(), generator(), None)
    assert not shadow.lora_b.weight.any() and shadow.lora_a.weight.any()
    assert torch.equal(shadow.base.weight, module.base.weight)


# -------------------------------------------------------------------------------------------- heads


@pytest.fixture(scope="module")
def case():
    """(features, classes, a head that remembers the first N of them)."""
    g = torch.Generator().manual_seed(0)
    x = torch.relu((torch.randn(4 * N, D, generator=g) - 0.3) * (0.5 + torch.rand(D, generator=g)))
    y = torch.randint(0, 2, (4 * N,), generator=g)
    torch.manual_seed(0)
    head = nn.Sequential(nn.Linear(D, 48), nn.ReLU(), nn.Linear(48, 2))
    with torch.no_grad():
        for parameter in head[0].parameters():
            parameter.mul_(0.02)
    optimiser = torch.optim.SGD(head.parameters(), 3e-2, momentum=0.9, weight_decay=5e-3)
    for _ in range(6000):
        optimiser.zero_grad()
        nn.functional.cross_entropy(head(x[:N]), y[:N]).backward()
        optimiser.step()
    return x, y, head


FAST = dict(
    profile="smoke", transform="none", shadows=2, canaries=0, recipe=Recipe("sgd", 1e-2, None, 50)
)
ATTACKS = "separation,rows,membership"


def test_features_of_a_head_come_back_and_are_named(case):
    x, y, head = case
    report = recon.audit(head, (x[:N], y[:N]), (x[N:], y[N:]), attacks=ATTACKS, **FAST)
    assert report.verdict == "leaks" and report.data["result"]["attack"] == "separation"
    assert report.data["result"]["targets"] >= N // 2 and report.data["result"]["decoys"] == 0
    named = {each.image for each in report.leaked if each.how == "separation"}
    assert len(named) >= N // 2 and named <= {f"train[{row}]" for row in range(N)}
    scores = report.data["membership"]["scores"]
    assert scores["filter"]["auc"] > 0.95 and "Matched filter of the first" in report.page
    assert any("are the public sample" in note for note in report.data["images"]["notes"])


def test_a_head_that_was_trained_on_nothing_of_these_does_not_leak(case):
    x, y, _ = case
    head = nn.Sequential(nn.Linear(D, 48), nn.ReLU(), nn.Linear(48, 2))
    report = recon.audit(head, x[:N], x[N:], attacks=ATTACKS, labels="predicted", **FAST)
    assert report.verdict == "cannot tell" and report.membership != "inferred"


class Backbone(nn.Module):
    """Images (n, 1, 20, 20), times a constant, are features."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0), requires_grad=False)

    def forward(self, x):
        return self.scale * x.flatten(1)


def test_a_backbone_with_a_head_is_the_head_on_features(case):
    x, y, head = case
    images = (x / 2).view(-1, 1, 20, 20)
    pair = (images[:N], y[:N]), (images[N:], y[N:])
    found = prepare(nn.Sequential(Backbone(), *head), *pair, transform="none")
    found = found.among(compare_sets(*(part.scaled for part in found.pictures), 0))
    assert found.fit.right == found.fit.n and found.classifier.first is not None
    torch.testing.assert_close(found.x[:N].flatten(1), x[:N])
    assert found.public.shape == (3 * N // 2, D) and len(found.held_out) == 3 * N // 2
    assert found.train.names == [f"train[{row}]" for row in range(N)]
    assert found.pictures[0].shape == (1, 20, 20)
    assert torch.equal(found.first_layer.params["w1"], head[0].weight)


def test_the_head_of_a_torchvision_network_is_found():
    module = models.resnet18(num_classes=3)
    module.requires_grad_(False)
    module.fc = nn.Sequential(nn.Dropout(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 3))
    subject = subject_of(module)
    seen = examine(subject.module, (3, 32, 32))
    head = head_of(seen, (3, 32, 32))
    x = torch.rand(5, 3, 32, 32)
    features = features_of(head, seen, x)
    assert features.shape == (5, 1, 1, 512)
    torch.testing.assert_close(head.module(features.flatten(1)), subject.module(x))
    module.layer4.requires_grad_(True)  # what is trained there is given no vector
    assert head_of(seen.of(subject_of(module).module), (3, 32, 32)) is None
