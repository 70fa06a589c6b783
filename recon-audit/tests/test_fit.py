"""What an audit reads otherwise than training did, it says; it is never silently wrong."""

from __future__ import annotations

import argparse

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from torch import nn
from torchvision import models

import recon
from recon.errors import ReconError
from recon_audit.anatomy import anatomy
from recon_audit.files import load_state
from recon_audit.fit import fit_of, inferred_transform, transform_of
from recon_audit.images import Expected, classes_of
from recon_audit.inputs import images_of, load_images
from recon_audit.networks import subject_of
from recon_audit.prepare import prepared
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


def trained(x, y, model=None, steps=150):
    torch.manual_seed(0)
    model = model or nn.Sequential(nn.Flatten(), nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10))
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        optimiser.zero_grad()
        out = model(x)
        loss = nn.functional.cross_entropy(out, y) if out.shape[-1] > 1 else None
        if loss is None:
            loss = nn.functional.binary_cross_entropy(out.reshape(-1), y.float())
        loss.backward()
        optimiser.step()
    return model


@pytest.fixture(scope="module")
def model(digits):
    x, y = digits
    return trained(x[:N], y[:N])


def fit(model, x, y, transform=None):
    train, held_out = load_images((x[:N], y[:N]), (x[N:], y[N:]))
    subject = subject_of(model)
    seen = anatomy(subject.module, train.shape)
    known = classes_of(train, held_out, None, seen.outputs)
    return fit_of(subject.module, seen, train, transform_of(transform, train), known[0])


def test_a_network_fits_what_it_was_trained_on(model, digits):
    found = fit(model, *digits)
    assert found.right == found.n and found.why_not is None and not found.better


def test_labels_that_begin_at_one_are_numbers_and_no_text(model, digits):
    x, y = digits
    assert fit(model, x, y + 1).why_not is None  # "10" comes after "9", and not after "1"


def test_labels_in_another_order_are_seen_and_the_order_is_said(model, digits):
    x, y = digits
    found = fit(model, x, [chr(ord("a") + 3 * int(each) % 10) for each in y])
    assert (
        "no more than chance" in found.why_not
        and "label 1 is output 7" in found.why_not
        and "in another order" in found.why_not
    )


def test_labels_one_too_high_are_seen(model, digits):
    x, y = digits
    found = fit(model, x, (y + 1) % 10)
    assert "with the labels one" in found.why_not


def test_another_mean_is_seen_and_inferred(digits):
    x, y = digits
    mean = x[:N].mean(0)
    other = trained(x[:N] - mean, y[:N])
    found = fit(other, x, y)
    assert "minus the mean of the training images" in found.why_not and found.right < N
    train, held_out = load_images((x[:N], y[:N]), (x[N:], y[N:]))
    subject = subject_of(other)
    way = inferred_transform(subject.module, anatomy(subject.module, train.shape), train, y[:N])
    assert way.words.startswith("the mean of the training images (inferred: 100 of 100")
    unknown = inferred_transform(subject.module, anatomy(subject.module, train.shape), train, None)
    assert "assumed" in unknown.words


def test_a_misfit_leaves_no_verdict_on_membership(model, digits):
    x, y = digits
    wrong = [chr(ord("a") + 3 * int(each) % 10) for each in y]
    report = recon.audit(model, (x[:N], wrong[:N]), (x[N:], wrong[N:]), **FAST)
    assert (
        report.membership == report.verdict == "cannot tell"
        and "no more than chance" in report.sentence
    )
    assert report.data["fit"]["why_not"] and "label 1 is output 7" in report.page
    good = recon.audit(model, (x[:N], y[:N]), (x[N:], y[N:]), **FAST)
    assert good.membership == "inferred" and "100 of 100 training images" in good.page


class Probability(nn.Module):
    """A sigmoid that is no module."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(64, 50), nn.Linear(50, 1)

    def forward(self, x):
        return torch.sigmoid(self.b(torch.relu(self.a(x.flatten(1)))))


def test_a_sigmoid_in_forward_is_seen(digits):
    x, y = digits
    other = trained(x[:N], y[:N] % 2, Probability())
    assert anatomy(subject_of(other).module, (1, 8, 8)).scale == "probabilities"
    assert fit(other, x, y % 2).right > 0.95 * N


def test_several_sigmoids_are_refused():
    many = nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.Sigmoid())
    with pytest.raises(ReconError, match="do not add up to 1"):
        anatomy(many.eval(), (1, 8, 8))


def test_floats_of_whole_bytes_are_bytes(model, digits):
    x, y = digits
    assert images_of((x * 255).round(), "train", Expected()).pixels.dtype == np.uint8
    bright = images_of(x * 130 + 0.25, "train", Expected())
    subject = subject_of(model)
    assert (
        "go up to 130"
        in inferred_transform(subject.module, anatomy(subject.module, (1, 8, 8)), bright, y).words
    )


def test_rows_of_hugging_face_and_pictures_with_a_palette():
    pictures = [
        Image.fromarray(np.full((8, 8, 3), 20 * k, np.uint8)).convert("P") for k in range(8)
    ]
    rows = [{"image": each, "label": k % 2} for k, each in enumerate(pictures)]
    found = images_of(rows, "train", Expected())
    assert found.shape == (3, 8, 8) and found.labels == ["0", "1"] * 4
    assert abs(int(found.pixels[3].mean()) - 60) < 8  # colours, and not their numbers
    with pytest.raises(ReconError, match="has no image, only text"):
        images_of([{"text": "x"}] * 8, "train", Expected())


class Augmented(torch.utils.data.Dataset):
    """Another crop each time."""

    def __len__(self):
        return 8

    def __getitem__(self, row):
        return torch.rand(1, 8, 8), row % 2


class Flipped(Augmented):
    """Turned round every third time that an image is read."""

    read = 0

    def __getitem__(self, row):
        Flipped.read += 1
        x = torch.arange(64.0).view(1, 8, 8) + row
        return (x.flip(2) if Flipped.read % 3 == 0 else x), row % 2


@pytest.mark.parametrize("kind", [Augmented, Flipped])
def test_augmentation_in_the_data_set_is_refused(kind):
    with pytest.raises(ReconError, match="turn its augmentation off"):
        images_of(kind(), "train", Expected())


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"base.q.lora_A.weight": (8, 64), "base.q.lora_B.weight": (64, 8)}, "adapters"),
        ({"embedding.weight": (1000, 64), "out.weight": (1000, 64)}, "embedding"),
    ],
)
def test_files_that_are_no_network_are_refused(tmp_path, names, message):
    file = tmp_path / "model.pt"
    torch.save({name: torch.rand(shape) for name, shape in names.items()}, file)
    with pytest.raises(ReconError, match=message):
        subject_of(file)


def test_scalars_beside_the_weights_are_read(tmp_path, model):
    file = tmp_path / "model.pt"
    kept = {
        "state_dict": model.state_dict(),
        "best_acc": np.float64(0.9),
        "args": argparse.Namespace(lr=0.1),
    }
    torch.save(kept, file)
    assert set(load_state(file)) == set(model.state_dict())


def test_a_few_training_images_among_the_held_out_ones_are_left_out(digits):
    x, y = digits
    train, held_out = load_images(
        (x[:N], y[:N]), (torch.cat([x[N:], x[:2]]), torch.cat([y[N:], y[:2]]))
    )
    assert len(held_out) == N and "2 held-out images are training images" in held_out.note
    with pytest.raises(ReconError, match="is the training image"):
        load_images((x[:N], y[:N]), (x[:20], y[:20]))


class HeadFirst(nn.Module):
    """Its head is registered before the layer that sees the image."""

    def __init__(self):
        super().__init__()
        self.head, self.stem = nn.Linear(16, 10), nn.Linear(64, 16)

    def forward(self, x):
        return self.head(torch.relu(self.stem(x.flatten(1))))


def test_the_first_layer_is_the_one_that_sees_the_image(digits):
    x, y = digits
    model = trained(x[:N], y[:N], HeadFirst())
    report = recon.audit(model, (x[:N], y[:N]), (x[N:], y[N:]), **FAST)
    assert report.data["fit"]["right"] > 0.9 * N


@pytest.mark.parametrize("kind", [nn.Tanh, nn.ReLU])
def test_activations_of_a_file_are_not_assumed_in_silence(tmp_path, digits, kind):
    x, y = digits
    wide = nn.Sequential(nn.Flatten(), nn.Linear(64, 100), kind(), nn.Linear(100, 10))
    torch.save(trained(x[:N], y[:N], wide, 40).state_dict(), tmp_path / "net.pt")
    case = prepared(tmp_path / "net.pt", (x[:N], y[:N]), (x[N:], y[N:]), None, None, "none", None)
    assert any("ReLU is assumed" in note for note in case.notes)
    if kind is nn.Tanh:
        assert "with Tanh in the place of ReLU" in case.fit.why_not
    else:
        assert case.fit.why_not is None


@pytest.mark.parametrize("tail", [["fc.weight", "fc.bias"], ["fc.1.weight", "fc.1.bias"]])
@pytest.mark.parametrize("colours", [1, 3, 4])
def test_resnets_for_other_colours_and_with_dropout_before_the_head(tmp_path, tail, colours):
    net = models.resnet18(num_classes=5)
    net.conv1 = nn.Conv2d(colours, 64, 7, 2, 3, bias=False)
    net.fc = nn.Sequential(nn.Dropout(), nn.Linear(512, 5)) if "1" in tail[0] else nn.Linear(512, 5)
    # whose names are in the order of the alphabet
    save_file(net.state_dict(), tmp_path / "net.safetensors")
    x = torch.rand(2, colours, 32, 32)
    for arch in (None, "resnet18"):
        subject = subject_of(tmp_path / "net.safetensors", arch)
        assert subject.arch == "resnet18" and subject.expected.channels == colours
        torch.testing.assert_close(subject.module(x), net.eval()(x))


def test_lightning_keeps_its_criterion_beside_the_weights(tmp_path, model):
    state = {f"model.{name}": value for name, value in model.state_dict().items()} | {
        "criterion.weight": torch.ones(10)
    }
    torch.save({"state_dict": state, "epoch": 3}, tmp_path / "last.ckpt")
    assert subject_of(tmp_path / "last.ckpt").arch == "64-100-10"


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
    other = trained(WAYS[way](x)[:N], y[:N])
    case = prepared(other, (x[:N], y[:N]), (x[N:], y[N:]), None, None, None, None)
    assert case.transform.words.startswith(f"{way} (inferred") and not case.notes


def test_a_way_that_is_said_and_fits_less_is_noted(digits):
    x, y = digits
    plain = trained(x[:N], y[:N] % 2)
    case = prepared(plain, (x[:N], y[:N] % 2), (x[N:], y[N:] % 2), None, None, "image", None)
    assert case.fit.right / case.fit.n == 1 and any(
        "with the pixels minus nothing" in note for note in case.notes
    )
