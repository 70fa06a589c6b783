"""Many networks and many ways to keep images: each is read as it is meant, or refused in one
sentence.

No network is trained here. The labels are what the network answers to the images as they are meant,
so that an audit which reads them so finds all of them right, and one that reads them otherwise does
not.
"""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from opacus import GradSampleModule
from opacus.validators import ModuleValidator
from PIL import Image
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.utils import prune
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset
from torchvision import models

from recon.errors import ReconError
from recon.nets.module import watch_layers
from recon_audit.prepare import Submission, prepare

N = 24  # training images, and as many held out
REFUSED = "refused"
warnings.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


DIGITS = torch.tensor(load_digits().images[: 2 * N] / 16).float()


def colour(channels=3, side=8):
    """(2N, C, side, side) in [0, 1]: another digit in each channel."""
    x = torch.stack([DIGITS.roll(k, 0) for k in range(channels)], 1)
    return nn.functional.interpolate(x, size=(side, side))


def balanced(module, x):
    """With a bias, or a shift, by which every class is answered to some images; in evaluation
    mode.
    """
    module.eval()
    last = [
        part
        for part in module.modules()
        if isinstance(part, nn.Linear | nn.Conv2d) and part.bias is not None
    ][-1]
    with torch.no_grad():
        out = answers(module, x)
        if last.weight.shape[0] == out.shape[1]:
            last.weight /= out.std().clamp_min(1e-6)
            last.bias.zero_()
            out = answers(module, x)
            last.bias -= out.mean(0)
    return module


def answers(module, x):
    return watch_layers(module.eval(), x)[1].float().reshape(len(x), -1)


def said(module, x):
    out = answers(module, x)
    return (out[:, 0] > 0).long() if out.shape[1] == 1 else out.argmax(1)


def check(module, meant, train, held_out, expected, labels=None, transform="none", least=0.95):
    """
    Args:
        expected: "done", or what the one sentence of the refusal must hold.
    """
    if expected != "done":
        with pytest.raises(ReconError, match=expected if expected != REFUSED else "") as caught:
            prepare(Submission(module, train, held_out, labels, transform=transform))
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 500
        return None
    case = prepare(Submission(module, train, held_out, labels, transform=transform))
    assert len(case.train) == N and case.classes is not None
    assert case.fit.right / case.fit.n >= least and case.fit.why_not is None, case.fit
    return case


# --------------------------------------------------------------------------------------------- data


def dense(classes=10):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 30), nn.ReLU(), nn.Linear(30, classes))


def halves(x):
    return x[:N], x[N:]


def both(x, y):
    return (x[:N], y[:N]), (x[N:], y[N:])


class Rows(Dataset):
    """Items as `make` gives them."""

    def __init__(self, x, y, make=lambda x, y: (x, y)):
        self.x, self.y, self.make = x, y, make

    def __len__(self):
        return len(self.x)

    def __getitem__(self, row):
        return self.make(self.x[row], self.y[row])


class Broken(Dataset):
    """One that cannot be read."""

    def __len__(self):
        return N

    def __getitem__(self, row):
        raise AttributeError("no such thing")


class Stream(torch.utils.data.IterableDataset):
    """One without a length."""

    def __iter__(self):
        yield from DIGITS


def pictures(x):
    return [Image.fromarray(np.uint8(each.numpy() * 255)) for each in x]


def palette(x):
    return [each.convert("P") for each in pictures(x)]


def rows_of(x, y, image="image", label="label"):
    return [{image: each, label: int(k), "other": "text"} for each, k in zip(x, y, strict=True)]


BYTES = (DIGITS * 255).round()
EXACT = BYTES / 255  # what 8 bits hold

LAYOUTS = {
    "n h w": EXACT,
    "n 1 h w": EXACT[:, None],
    "n h w 1": EXACT[..., None],
    "rows": EXACT.flatten(1),
    "numpy": EXACT.numpy(),
    "float64": EXACT.double(),
    "float16": EXACT.half(),
    "bfloat16": EXACT.bfloat16(),
    "bytes": BYTES.byte(),
    "bytes as int64": BYTES.long(),
    "bytes as int16": BYTES.short(),
    "bytes as float": BYTES,
    "bytes as float64": BYTES.double().numpy(),
    "rows of bytes": BYTES.byte().flatten(1),
    "rows of bytes as int64": BYTES.long().flatten(1),
    "rows of bytes as float": BYTES.flatten(1),
    "16 bits": (BYTES.numpy() * 257).astype(np.uint16),
    "with a gradient": EXACT.clone().requires_grad_(True),
    "Fortran": np.asfortranarray(EXACT.numpy()),
    "list of arrays": list(EXACT.numpy()),
    "list of pictures": pictures(EXACT),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout):
    module = balanced(dense(), EXACT)
    y = said(module, EXACT)
    x = LAYOUTS[layout]
    train, held_out = halves(x)
    check(module, EXACT, (train, y[:N]), (held_out, y[N:]), "done", least=0.9)


def numbers(y):
    """As Python's own."""
    return [int(each) for each in y]


LABELS = {
    "int64": lambda y: y,
    "int8": lambda y: y.to(torch.int8),
    "float": lambda y: y.float(),
    "bfloat16": lambda y: y.bfloat16(),
    "(n, 1)": lambda y: y[:, None],
    "one-hot": lambda y: torch.eye(4)[y],
    "one-hot bytes": lambda y: torch.eye(4)[y].byte().numpy(),
    "text": lambda y: [str(int(k)) for k in y],
    "leading zeros": lambda y: [f"{int(k):03d}" for k in y],
    "spaces": lambda y: [f" {int(k)} " for k in y],
    "text floats": lambda y: [f"{int(k)}.0" for k in y],
    "bytes": lambda y: np.array([str(int(k)).encode() for k in y]),
    "objects": lambda y: np.array([str(int(k)) for k in y], object),
    "pandas": lambda y: pd.Series(numbers(y)),
    "pandas text": lambda y: pd.Series([str(k) for k in numbers(y)]),
    "categories": lambda y: pd.Categorical([f"c{k}" for k in numbers(y)]),
    "names in order": lambda y: [f"class-{int(k)}" for k in y],
    "tuple": lambda y: tuple(numbers(y)),
    "uint8 numpy": lambda y: y.numpy().astype(np.uint8),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels(kind):
    module = balanced(dense(4), EXACT)
    y = said(module, EXACT)
    assert len(y.unique()) == 4  # else names have no order
    check(module, EXACT, *both(EXACT, LABELS[kind](y)), "done")


MISREAD = {  # name -> labels, or images, that are read otherwise than the network had them
    "one higher": lambda x, y: (x, (y + 1) % 10),
    "permuted": lambda x, y: (x, torch.randperm(10)[y]),
    "text in another order": lambda x, y: (x, [chr(97 + 3 * int(k) % 10) for k in y]),
    "shuffled": lambda x, y: (x, y[torch.randperm(len(y))]),
    "negative": lambda x, y: (1 - x, y),
    "transposed": lambda x, y: (x.mT.contiguous(), y),
    "times 4": lambda x, y: (x - x.mean() * 4, y),
}


@pytest.mark.parametrize("kind", MISREAD)
def test_what_is_misread_is_said(kind):
    module = balanced(dense(), EXACT)
    train, held_out = both(*MISREAD[kind](EXACT, said(module, EXACT)))
    case = prepare(Submission(module, train, held_out, transform="none"))
    assert case.fit.why_not is not None, case.fit


NO_LABELS = {
    "regression": lambda y: y + torch.rand(len(y)),
    "several": lambda y: (torch.rand(len(y), 10) > 0.5).long(),
    "too many": lambda y: torch.arange(len(y)),
    "negative": lambda y: torch.arange(len(y)) - 100,
    "nan": lambda y: torch.full((len(y),), torch.nan),
    "none": lambda y: [None] * len(y),
    "ragged": lambda y: [[1], *([[1, 2]] * (len(y) - 1))],
    "three axes": lambda y: y[:, None, None].expand(-1, 2, 2),
    "complex": lambda y: y * 1j,
    "objects": lambda y: [object()] * len(y),
}


@pytest.mark.parametrize("kind", NO_LABELS)
def test_what_are_no_labels(kind):
    module = balanced(dense(), EXACT)
    y = NO_LABELS[kind](said(module, EXACT))
    check(module, EXACT, (EXACT[:N], y[:N]), (EXACT[N:], y[N:]), REFUSED)


NO_IMAGES = {
    "nan": lambda x: torch.where(x > 0.9, torch.nan, x),
    "infinite": lambda x: x / 0,
    "text": lambda x: [["a"] * 64] * len(x),
    "empty": lambda x: x[:0],
    "five": lambda x: x[:5],
    "complex": lambda x: x * 1j,
    "five axes": lambda x: x[:, None, None],
    "objects": lambda x: np.array([object()] * len(x)),
    "another size": lambda x: x[:, :7],
    "none": lambda x: None,
    "number": lambda x: 3,
    "generator": lambda x: (each for each in x),
    "broken data set": lambda x: Broken(),
    "stream": lambda x: Stream(),
    "loader": lambda x: DataLoader(TensorDataset(x)),
    "ragged": lambda x: [x[0], x[1, :3], *x[2:]],
    "rows without an image": lambda x: [{"text": "a"}] * N,
    "missing path": lambda x: "/no/such/place",
    "missing files": lambda x: ["/no/such/a.png"] * N,
    "dict": lambda x: {"a": x},
}


@pytest.mark.parametrize("kind", NO_IMAGES)
def test_what_are_no_images(kind):
    x = NO_IMAGES[kind](EXACT[:N])
    check(dense(), EXACT, x, EXACT[N:], REFUSED)


CONTAINERS = {
    "TensorDataset": lambda x, y: TensorDataset(x, y),
    "subset": lambda x, y: Subset(TensorDataset(x.repeat(2, 1, 1), y.repeat(2)), range(len(x))),
    "pictures": lambda x, y: Rows(pictures(x), y),
    "palette": lambda x, y: Rows([each.convert("L") for each in palette(x)], y),
    "one bit more": lambda x, y: Rows(x, y, lambda x, y: (x, y, {"meta": 1})),
    "labels as tensors": lambda x, y: Rows(x, y, lambda x, y: (x, torch.tensor([y]))),
    "one-hot items": lambda x, y: Rows(x, y, lambda x, y: (x, torch.eye(10)[y])),
    "hugging face": lambda x, y: rows_of(pictures(x), y),
    "hugging face, img": lambda x, y: rows_of(pictures(x), y, "img", "fine_label"),
    "pixel_values": lambda x, y: rows_of(x[:, None], y, "pixel_values", "labels"),
    "lists": lambda x, y: rows_of(x.tolist(), y),
    "pair of lists": lambda x, y: (list(x), list(y)),
    "pair as a list": lambda x, y: [x, y],
}


@pytest.mark.parametrize("kind", CONTAINERS)
def test_containers(kind):
    module = balanced(dense(), EXACT)
    y = said(module, EXACT)
    train, held_out = (CONTAINERS[kind](*part) for part in both(EXACT, y))
    check(module, EXACT, train, held_out, "done")


NPZ = {
    "MedMNIST": ("train_images", "train_labels", "test_images", "test_labels", True),
    "MedMNIST with val": ("train_images", "train_labels", "val_images", "val_labels", True),
    "Keras": ("x_train", "y_train", "x_test", "y_test", False),
    "Keras, large": ("X_train", "Y_train", "X_test", "Y_test", False),
    "turned": ("train_x", "train_y", "test_x", "test_y", False),
    "own": ("train", "train_labels", "held_out", "held_out_labels", False),
    "data and targets": ("train_data", "train_targets", "test_data", "test_targets", True),
    "together": ("xtrain", "ytrain", "xtest", "ytest", False),
}


@pytest.mark.parametrize("kind", NPZ)
def test_npz(kind, tmp_path):
    module = balanced(dense(), EXACT)
    y = said(module, EXACT).numpy()
    x_train, y_train, x_new, y_new, column = NPZ[kind]
    y = y[:, None] if column else y
    images = BYTES.byte().numpy()
    np.savez(
        tmp_path / "set.npz",
        **{x_train: images[:N], y_train: y[:N], x_new: images[N:], y_new: y[N:]},
    )
    check(module, EXACT, tmp_path / "set.npz", None, "done")


@pytest.mark.parametrize(
    "names", [("images", "labels"), ("x", "y"), ("arr_0", "targets"), ("data", "y"), ("X", "Y")]
)
def test_npz_of_one_part(names, tmp_path):
    module = balanced(dense(), EXACT)
    y = said(module, EXACT).numpy()
    for part, rows in (("a", slice(0, N)), ("b", slice(N, None))):
        np.savez(tmp_path / f"{part}.npz", **{names[0]: EXACT.numpy()[rows], names[1]: y[rows]})
    check(module, EXACT, tmp_path / "a.npz", tmp_path / "b.npz", "done")


BAND = {
    "13 bands first": (13, lambda x: x),
    "13 bands last": (13, lambda x: x.permute(0, 2, 3, 1)),
    "RGB last": (3, lambda x: x.permute(0, 2, 3, 1)),
    "RGB bytes last": (3, lambda x: (x.permute(0, 2, 3, 1) * 255).round().byte()),
    "RGB rows": (3, lambda x: x.flatten(1)),
    "grey": (1, lambda x: x[:, 0]),
    "two": (2, lambda x: x),
    "four last": (4, lambda x: x.permute(0, 2, 3, 1)),
}


@pytest.mark.parametrize("convolution", [True, False])
@pytest.mark.parametrize("kind", BAND)
def test_bands(kind, convolution):
    channels, make = BAND[kind]
    x = (colour(channels) * 255).round() / 255
    first = nn.Conv2d(channels, 4, 3) if convolution else nn.Flatten()
    size = 4 * 36 if convolution else channels * 64
    module = balanced(nn.Sequential(first, nn.ReLU(), nn.Flatten(), nn.Linear(size, 10)), x)
    case = check(module, x, *both(make(x), said(module, x)), "done", least=0.9)
    assert case.train.picture(0).shape[2] in (1, 3)


def test_units_of_a_scanner():
    ct = ((DIGITS * 3000) - 1000).round().short()
    meant = (ct.float() + 1000) / 3000
    module = balanced(dense(), meant)
    case = check(module, meant, *both(ct, said(module, meant)), "done", transform=None, least=0.9)
    assert "over their range" in case.transform.words


@pytest.mark.parametrize("features", [12, 30, 100, 192, 3])
def test_tables_are_no_images(features):
    x = torch.randn(2 * N, features) * torch.rand(features) * 100
    module = balanced(nn.Sequential(nn.Linear(features, 40), nn.ReLU(), nn.Linear(40, 1)), x)
    case = check(module, x, *both(x, said(module, x)), "done")
    assert case.train.shape == (1, 1, features)
    counts = x.abs().round().long()  # whole numbers below 256 are no bytes where they are no images
    check(module, counts, *both(counts, said(module, counts.float())), "done")


TRANSFORMS = {
    "plain": lambda x: x,
    "half": lambda x: (x - 0.5) / 0.5,
    "CIFAR-10": lambda x: (
        (x - torch.tensor((0.4914, 0.4822, 0.4465)).view(3, 1, 1))
        / torch.tensor((0.247, 0.2435, 0.2616)).view(3, 1, 1)
    ),
    "ImageNet": lambda x: (
        (x - torch.tensor((0.485, 0.456, 0.406)).view(3, 1, 1))
        / torch.tensor((0.229, 0.224, 0.225)).view(3, 1, 1)
    ),
    "mean image": lambda x: x - x[:N].mean(0),
    "mean colour": lambda x: x - x[:N].mean((0, 2, 3), keepdim=True),
}


@pytest.mark.parametrize("kind", TRANSFORMS)
def test_transforms_are_inferred(kind):
    x = (colour() * 255).round() / 255
    meant = TRANSFORMS[kind](x)
    module = balanced(
        nn.Sequential(
            nn.Flatten(),
            nn.Linear(192, 60),
            nn.ReLU(),
            nn.Linear(60, 20),
            nn.ReLU(),
            nn.Linear(20, 10),
        ),
        meant,
    )
    check(module, meant, *both(x, said(module, meant)), "done", transform=None, least=0.9)


TABLES = {
    "comma": "{name},{label}\n",
    "semicolon, byte-order mark": "\ufefffile;class\n{name};{label}\n",
    "tab": "{name}\t{label}\n",
    "backslashes": "train\\{name},{label}\n",
    "quotes": '"{name}","{label}"\n',
    "spaces": "{name} , {label}\n",
    "headings": "filename,label\n{name},{label}\n",
    "index column": ",file_name,label\n0,{name},{label}\n",
    "sep=": "sep=;\n{name};{label}\n",
    "bare stems": "{stem},{label}\n",
    "UTF-16": "{name}\t{label}\n",
    "Windows": "{name};{label};\u00e4\n",
    "one column": "{name}\n",
    "another image": "x{name},{label}\n",
    "empty": "",
    "zeros": "{name}\0,{label}\n",
}


@pytest.mark.parametrize("kind", TABLES)
def test_spreadsheets(kind, tmp_path):
    module = balanced(dense(), EXACT)
    y = said(module, EXACT)
    lines = []
    for part, rows in (("train", range(N)), ("held_out", range(N, 2 * N))):
        (tmp_path / part).mkdir()
        for row in rows:
            Image.fromarray(BYTES[row].byte().numpy()).save(tmp_path / part / f"{row}.png")
            lines.append((f"{row}.png", row, int(y[row])))
    *head, form = TABLES[kind].splitlines(keepends=True) or [""]
    text = "".join(head) + "".join(
        form.format(name=name, stem=stem, label=k) for name, stem, k in lines
    )
    if kind == "backslashes":
        text = text.replace("train\\", "held_out\\").replace("held_out\\", "train\\", N)
    coding = {"UTF-16": "utf-16", "Windows": "cp1252"}.get(kind, "utf-8")
    (tmp_path / "labels.csv").write_bytes(text.encode(coding))
    refused = kind in ("one column", "another image", "empty", "zeros", "Windows")
    labels = tmp_path / "labels.csv"
    check(module, EXACT, tmp_path, None, REFUSED if refused else "done", labels=labels)


def test_folders(tmp_path):
    module = balanced(dense(), EXACT)
    y = said(module, EXACT)
    for row in range(2 * N):
        folder = tmp_path / ("train" if row < N else "held_out") / str(int(y[row]))
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(BYTES[row].byte().numpy()).convert("P").save(folder / f"{row}.png")
    check(module, EXACT, tmp_path, None, "done")
    (tmp_path / "train" / "broken.png").write_bytes(b"no picture")
    check(module, EXACT, tmp_path, None, "cannot be read")
    (tmp_path / "empty").mkdir()
    check(module, EXACT, tmp_path / "empty", tmp_path / "held_out", "no images")


# ------------------------------------------------------------------------------------------ modules

SMALL = {  # torchvision's, at the smallest input that they take
    "densenet121": 32,
    "efficientnet_b0": 32,
    "mnasnet0_5": 32,
    "mobilenet_v2": 32,
    "mobilenet_v3_small": 32,
    "regnet_y_400mf": 32,
    "resnet18": 32,
    "shufflenet_v2_x0_5": 32,
    "squeezenet1_1": 32,
}


@pytest.mark.parametrize("name", SMALL)
def test_networks_of_torchvision(name):
    x = (colour(3, SMALL[name]) * 255).round() / 255
    kinds = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    module = balanced(models.get_model(name, weights=None, num_classes=4, **kinds), x)
    case = check(module, x, *both(x, said(module, x)), "done")
    assert case.released.first is None


class Out(nn.Module):
    """A network with another way to answer."""

    def __init__(self, body, way):
        super().__init__()
        self.body, self.way = body, way

    def forward(self, x):
        return self.way(self.body(x))


class Adapted(nn.Module):
    """LoRA by hand around a frozen layer."""

    def __init__(self, base, rank=4):
        super().__init__()
        self.base, self.lora_a, self.lora_b = (
            base.requires_grad_(False),
            nn.Linear(base.in_features, rank, bias=False),
            nn.Linear(rank, base.out_features, bias=False),
        )

    def forward(self, x):
        return self.base(x) + self.lora_b(self.lora_a(x))


class Tied(nn.Module):
    """An autoencoder's transposed weight, and a buffer."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(192, 20), nn.Linear(192, 10)
        self.register_buffer("mean", torch.rand(192))

    def forward(self, x):
        hidden = torch.relu(self.a(x.flatten(1) - self.mean))
        return self.b(hidden @ self.a.weight)


def body(middle=None, classes=10, first=None, inplace=False):
    return nn.Sequential(
        nn.Flatten(),
        first or nn.Linear(192, 30),
        middle or nn.ReLU(inplace=inplace),
        nn.Linear(30, classes),
    )


def conv(norm=nn.BatchNorm2d, **kinds):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, **kinds),
        norm(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(32, 10),
    )


def resnet(change):
    module = models.resnet18(num_classes=10)
    change(module)
    return module


def _small_stem(module):
    module.conv1, module.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()


def _headed(module):
    module.fc = nn.Sequential(nn.Dropout(0.5), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10))


def _frozen(module):
    module.requires_grad_(False)
    module.fc = nn.Linear(512, 10)


def shaken(module):
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.normal_()
            part.running_var.uniform_(0.5, 2)
    return module


MODULES = {
    "dense": body,
    "in-place": lambda: body(inplace=True),
    "tanh": lambda: body(nn.Tanh()),
    "gelu": lambda: body(nn.GELU()),
    "train mode with dropout": lambda: body(nn.Dropout(0.5)).train(),
    "batch norm": lambda: shaken(conv()),
    "train mode with batch norm": lambda: shaken(conv()).train(),
    "group norm": lambda: conv(lambda c: nn.GroupNorm(2, c)),
    "fixed by Opacus": lambda: ModuleValidator.fix(conv()),
    "GradSampleModule": lambda: GradSampleModule(body()),
    "GradSampleModule of a fixed one": lambda: GradSampleModule(ModuleValidator.fix(conv())),
    "DataParallel": lambda: nn.DataParallel(body()),
    "DataParallel inside": lambda: nn.Sequential(nn.DataParallel(body()), nn.Identity()),
    "compiled": lambda: torch.compile(body(), backend="eager"),
    "compiled inside": lambda: nn.Sequential(torch.compile(body(), backend="eager")),
    "averaged": lambda: torch.optim.swa_utils.AveragedModel(body()),
    "weight norm": lambda: body(first=nn.utils.weight_norm(nn.Linear(192, 30))),
    "spectral norm": lambda: body(first=nn.utils.spectral_norm(nn.Linear(192, 30))),
    "weight norm, parametrised": lambda: body(
        first=nn.utils.parametrizations.weight_norm(nn.Linear(192, 30))
    ),
    "spectral norm, parametrised": lambda: body(
        first=nn.utils.parametrizations.spectral_norm(nn.Linear(192, 30))
    ),
    "orthogonal": lambda: body(first=nn.utils.parametrizations.orthogonal(nn.Linear(192, 30))),
    "weight norm of a convolution": lambda: nn.Sequential(
        nn.utils.weight_norm(nn.Conv2d(3, 4, 3)), nn.Flatten(), nn.Linear(144, 10)
    ),
    "pruned": lambda: body(first=prune.l1_unstructured(nn.Linear(192, 30), "weight", 0.5)),
    "tied": Tied,
    "half": lambda: body().half(),
    "bfloat16": lambda: body().bfloat16(),
    "double": lambda: body().double(),
    "LoRA by hand": lambda: body(first=Adapted(nn.Linear(192, 30))),
    "LoRA in the head": lambda: nn.Sequential(
        nn.Flatten(),
        nn.Linear(192, 30),
        nn.ReLU(),
        Adapted(nn.Linear(30, 30)),
        nn.ReLU(),
        nn.Linear(30, 10),
    ),
    "frozen all": lambda: body().requires_grad_(False),
    "frozen first": lambda: body(first=nn.Linear(192, 30).requires_grad_(False)),
    "dict": lambda: Out(body(), lambda z: {"logits": z, "features": z}),
    "dict of out": lambda: Out(body(), lambda z: {"logits": z}),
    "tuple": lambda: Out(body(), lambda z: (z, z)),
    "model output": lambda: Out(body(), lambda z: SimpleNamespace(loss=None, logits=z)),
    "log-softmax": lambda: Out(body(), lambda z: z.log_softmax(1)),
    "softmax": lambda: Out(body(), lambda z: z.softmax(1)),
    "one logit": lambda: body(classes=1),
    "one logit, squeezed": lambda: Out(body(classes=1), lambda z: z[:, 0]),
    "two": lambda: body(classes=2),
    "logistic": lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 10)),
    "bare": lambda: nn.Linear(192, 10),
    "double answers": lambda: Out(body(), lambda z: z.double()),
    "half answers": lambda: Out(body(), lambda z: z.half()),
    "resnet, small stem": lambda: resnet(_small_stem),
    "resnet, own head": lambda: resnet(_headed),
    "resnet, frozen": lambda: resnet(_frozen),
    "no biases": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(192, 30, bias=False), nn.ReLU(), nn.Linear(30, 10)
    ),
    "normalises inside": lambda: nn.Sequential(nn.BatchNorm2d(3, affine=False), body()),
}


@pytest.mark.parametrize("kind", MODULES)
def test_modules(kind):
    x = (colour(3, 16 if "resnet" in kind else 8) * 255).round() / 255
    module = MODULES[kind]()
    plain = module
    if kind not in ("half", "bfloat16", "double"):
        balanced(module, x)
    else:
        plain = module.float()
        balanced(plain, x)
    y = said(plain, x)
    if "train mode" in kind:
        module.train()
    module = {
        "half": nn.Module.half,
        "bfloat16": nn.Module.bfloat16,
        "double": nn.Module.double,
    }.get(kind, lambda m: m)(module)
    check(module, x, *both(x, y), "done", least=0.9)


NO_NETWORKS = {
    "none": lambda: None,
    "function": lambda: torch.relu,
    "state": lambda: body().state_dict(),
    "no weights": lambda: nn.Sequential(nn.Flatten()),
    "zero": lambda: nn.Sequential(
        nn.Flatten(), nn.utils.skip_init(nn.Linear, 192, 2).requires_grad_(False)
    ).apply(lambda part: [p.zero_() for p in part.parameters()]),
    "nan": lambda: body().apply(lambda part: [p.data.fill_(torch.nan) for p in part.parameters()]),
    "several sigmoids": lambda: Out(body(), torch.sigmoid),
    "segmentation": lambda: nn.Conv2d(3, 2, 3),
    "raises": lambda: Out(body(), lambda z: z.no_such_thing),
    "text": lambda: Out(body(), str),
    "nothing": lambda: Out(body(), lambda z: None),
    "infinite": lambda: Out(body(), lambda z: z / 0),
    "empty tuple": lambda: Out(body(), lambda z: ()),
    "dict of others": lambda: Out(body(), lambda z: {"a": z}),
    "lazy": lambda: nn.Sequential(nn.Flatten(), nn.LazyLinear(2)),
    "script": lambda: torch.jit.script(body()),
    "another size": lambda: nn.Sequential(nn.Flatten(), nn.Linear(100, 2)),
    "missing file": lambda: "/no/such/model.pt",
    "integers": lambda: nn.Embedding(10, 4),
    "recurrent": lambda: nn.LSTM(8, 4),
}


@pytest.mark.parametrize("kind", NO_NETWORKS)
def test_what_are_no_networks(kind):
    x = colour()
    y = torch.arange(2 * N) % 2
    check(NO_NETWORKS[kind](), x, *both(x, y), REFUSED)
