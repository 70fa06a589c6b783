"""What an audit reads otherwise than training did, it says; it is never silently wrong."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from torch import nn
from torchvision import models

import recon
from recon.errors import ReconError
from recon_audit.fit import read
from recon_audit.images import Expected, load_images, raw_of
from recon_audit.networks import subject_of
from recon_audit.prepare import prepare
from recon_audit.shadows import Recipe

N = 100
FAST = dict(
    profile="smoke",
    attacks="membership",
    shadows=2,
    canaries=0,
    recipe=Recipe(lr=1e-2, batch=None, steps=150),
)


@pytest.fixture(scope="module")
def digits():
    found = load_digits()
    rows = np.random.default_rng(0).permutation(len(found.target))[: 2 * N]
    return torch.tensor(found.images[rows] / 16).float(), torch.tensor(found.target[rows])


def train_network(x, y, model=None, steps=150):
    torch.manual_seed(0)
    model = model or nn.Sequential(nn.Flatten(), nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10))
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()
    return model


@pytest.fixture(scope="module")
def model(digits):
    x, y = digits
    return train_network(x[:N], y[:N])


def fit(model, x, y, transform="none"):
    train, held_out = load_images((x[:N], y[:N]), (x[N:], y[N:]), Expected())
    return read(subject_of(model), train, held_out, None, transform).fit


def test_labels_that_begin_at_one_are_numbers_and_no_text(model, digits):
    x, y = digits
    assert fit(model, x, y + 1).why_not is None  # "10" comes after "9", and not after "1"


def test_a_misfit_leaves_no_verdict_on_membership(model, digits):
    x, y = digits
    wrong = [chr(ord("a") + 3 * int(each) % 10) for each in y]
    report = recon.audit(model, (x[:N], wrong[:N]), (x[N:], wrong[N:]), **FAST)
    assert (
        report.membership == report.verdict == "cannot tell"
        and "no more than chance" in report.data["summary"]
    )
    assert "the labels are numbered otherwise" in report.data["fit"]["why_not"]
    good = recon.audit(model, (x[:N], y[:N]), (x[N:], y[N:]), **FAST)
    assert good.membership == "inferred" and "100 of 100 training images" in good.page


class Augmented(torch.utils.data.Dataset):
    """Another crop each time."""

    def __len__(self):
        return 8

    def __getitem__(self, row):
        return torch.rand(1, 8, 8), row % 2


def test_augmentation_in_the_data_set_is_refused():
    with pytest.raises(ReconError, match="turn its augmentation off"):
        raw_of(Augmented(), "train", Expected())


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"base.q.lora_A.weight": (8, 64), "base.q.lora_B.weight": (64, 8)}, "adapters"),
        ({"embedding.weight": (1000, 64), "out.weight": (1000, 64)}, "form no chain"),
    ],
)
def test_files_that_are_no_network_are_refused(tmp_path, names, message):
    file = tmp_path / "model.pt"
    torch.save({name: torch.rand(shape) for name, shape in names.items()}, file)
    with pytest.raises(ReconError, match=message):
        subject_of(file)


class HeadFirst(nn.Module):
    """Its head is registered before the layer that sees the image."""

    def __init__(self):
        super().__init__()
        self.head, self.stem = nn.Linear(16, 10), nn.Linear(64, 16)

    def forward(self, x):
        return self.head(torch.relu(self.stem(x.flatten(1))))


def test_the_first_layer_is_the_one_that_sees_the_image(digits):
    x, y = digits
    model = train_network(x[:N], y[:N], HeadFirst())
    case = prepare(model, (x[:N], y[:N]), (x[N:], y[N:]))
    assert case.fit.right > 0.9 * N and case.classifier.first == "stem"


@pytest.mark.parametrize("colours", [1, 4])
def test_resnets_for_other_colours(tmp_path, colours):
    net = models.resnet18(num_classes=5)
    net.conv1 = nn.Conv2d(colours, 64, 7, 2, 3, bias=False)
    # whose names are in the order of the alphabet
    save_file(net.state_dict(), tmp_path / "net.safetensors")
    x = torch.rand(2, colours, 32, 32)
    for arch in (None, "resnet18"):
        subject = subject_of(tmp_path / "net.safetensors", arch)
        assert subject.arch == "resnet18" and subject.expected.channels == colours
        torch.testing.assert_close(subject.module(x), net.eval()(x))


WAYS = {
    "nothing": lambda x: x,
    "the mean of the training images": lambda x: x - x[:N].mean(0),
    "0.5, over 0.5": lambda x: (x - 0.5) / 0.5,
    "the mean colour of the training images, over its deviation": lambda x: (
        (x - x[:N].mean()) / x[:N].std()
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_of_ways_by_which_all_are_right_that_of_training_is_inferred(digits, way):
    x, y = digits
    y = y % 2  # two classes: most ways answer all images
    other = train_network(WAYS[way](x)[:N], y[:N])
    case = prepare(other, (x[:N], y[:N]), (x[N:], y[N:]))
    assert case.transform.words.startswith(f"{way} (inferred") and not case.notes


def test_a_way_that_is_said_and_fits_less_is_noted(digits):
    x, y = digits
    plain = train_network(x[:N], y[:N] % 2)
    case = prepare(plain, (x[:N], y[:N] % 2), (x[N:], y[N:] % 2), transform="image")
    assert case.fit.right / case.fit.n == 1 and any(
        "with the pixels minus nothing" in note for note in case.notes
    )
