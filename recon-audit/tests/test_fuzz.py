"""Hundreds of ways to keep images and networks, each with a known right answer: it is read as it is
meant, or it is said that it is read otherwise, or it is refused for the right reason.

No network is trained here. The labels are what the network answers to the images as they are meant,
so that an audit which reads them so finds all of them right, and one that reads them otherwise does
not. A quick run takes every ninth case, `pytest -m slow` all.
"""

from __future__ import annotations

import copy
import re
import warnings
from functools import partial
from itertools import product
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
from torch.utils.data import Dataset, Subset, TensorDataset
from torchvision import models, transforms

from recon.errors import ReconError
from recon.nets.module import watch_layers
from recon_audit.prepare import prepare

N = 24  # training images, and as many held out
OTHERWISE = "read otherwise"
warnings.filterwarnings("ignore")
torch.manual_seed(0)
DIGITS = torch.tensor(load_digits().images[: 2 * N] / 16).float()
BYTES = (DIGITS * 255).round()
EXACT = BYTES / 255  # what 8 bits hold


def colour(channels=3, side=8):
    """(2N, C, side, side) of 8 bits: another digit in each channel."""
    x = torch.stack([DIGITS.roll(k, 0) for k in range(channels)], 1)
    return (nn.functional.interpolate(x, size=(side, side)) * 255).round() / 255


def answers(module, x):
    return watch_layers(module.eval(), x)[1].float().reshape(len(x), -1)


def balanced(module, x):
    """With a bias, or a shift, by which every class is answered to some images."""
    kinds = nn.Linear | nn.Conv2d
    last = [p for p in module.modules() if isinstance(p, kinds) and p.bias is not None][-1]
    with torch.no_grad():
        last.weight *= 10
        out = answers(module, x)
        if len(last.bias) == out.shape[1]:
            last.bias -= out.mean(0)
    return module


def classes(module, x):
    out = answers(module, x)
    middle = 0.5 if out.min() >= 0 and out.max() <= 1 else 0  # of probabilities, of logits
    return (out[:, 0] > middle).long() if out.shape[1] == 1 else out.argmax(1)


def dense(classes=10, inputs=64):
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 30), nn.ReLU(), nn.Linear(30, classes))


def split(x, y):
    return (x[:N], y[:N]), (x[N:], y[N:])


def meant(net, x, given, **options):
    """A network whose answers to x are the labels of what is given."""
    balanced(net, x)
    return net, *split(given, classes(net, x)), options


FOUR, TEN = (balanced(dense(k), EXACT) for k in (4, 10))
Y, Y10 = (classes(net, EXACT) for net in (FOUR, TEN))
assert len(Y.unique()) == 4  # else names have no order
CASES = {}  # name -> what is told, and the function of a folder that makes what is handed in


def case(*parts, told=""):
    """A decorator: the function of a folder and the products of tables makes (network, train,
    held-out images, options).
    """

    def add(make):
        for keys in product(*parts):
            values = [part[key] for part, key in zip(parts, keys, strict=True)]
            name = ": ".join([make.__name__, *map(str, keys)])
            CASES[name] = told, partial(make, *values)
        return make

    return add


# --------------------------------------------------------------------------------------------- data

LAYOUTS = {
    "n h w": EXACT,
    "n 1 h w": EXACT[:, None],
    "n h w 1": EXACT[..., None],
    "rows": EXACT.flatten(1),
    "bfloat16": EXACT.bfloat16(),
    "bytes": BYTES.byte(),
    "bytes as int64": BYTES.long(),
    "bytes as float": BYTES,
    "rows of bytes": BYTES.byte().flatten(1),
    "16 bits": (BYTES.numpy() * 257).astype(np.uint16),
    "with a gradient": EXACT.clone().requires_grad_(True),
    "Fortran": np.asfortranarray(EXACT.numpy()),
    "list of arrays": list(EXACT.numpy()),
}


FORMS = {
    "n h w": lambda x: x,
    "n 1 h w": lambda x: x[:, None],
    "n h w 1": lambda x: x[..., None],
    "rows": lambda x: x.flatten(1),
}


LABELS = {
    "int64": lambda y: y,
    "float": lambda y: y.float(),
    "bfloat16": lambda y: y.bfloat16(),
    "(n, 1)": lambda y: y[:, None],
    "one-hot": lambda y: torch.eye(4)[y],
    "text": lambda y: [str(int(k)) for k in y],
    "bytes": lambda y: np.array([str(int(k)).encode() for k in y]),
    "pandas": lambda y: pd.Series(y.tolist()),
    "categories": lambda y: pd.Categorical([f"c{k}" for k in y.tolist()]),
    "names in order": lambda y: [f"class-{int(k)}" for k in y],
}


@case(LAYOUTS, LABELS)
def labelled(x, label, folder):
    return FOUR, *split(x, label(Y))


MISREAD = {  # name -> labels, or images, that are read otherwise than the network had them
    "one higher": lambda x, y: (x, (y + 1) % 10),
    "permuted": lambda x, y: (x, torch.randperm(10)[y]),
    "text in another order": lambda x, y: (x, [chr(97 + 3 * int(k) % 10) for k in y]),
    "shuffled": lambda x, y: (x, y[torch.randperm(len(y))]),
    "negative": lambda x, y: (1 - x, y),
    "transposed": lambda x, y: (x.mT.contiguous(), y),
    "times 4": lambda x, y: (x - x.mean() * 4, y),
}


@case(MISREAD, FORMS, told=OTHERWISE)
def misread(change, form, folder):
    x, y = change(EXACT, Y10)
    return TEN, *split(form(x), y)


NO_LABELS = {
    "regression": lambda y: y + torch.rand(len(y)),
    "several": lambda y: (torch.rand(len(y), 10) > 0.5).long(),
    "too many": lambda y: torch.arange(len(y)),
    "negative": lambda y: torch.arange(len(y)) - 100,
    "nan": lambda y: torch.full((len(y),), torch.nan),
    "none": lambda y: [None] * len(y),
    "complex": lambda y: y * 1j,
    "objects": lambda y: [object()] * len(y),
}


@case(NO_LABELS, FORMS, told="label")
def no_labels(change, form, folder):
    return TEN, *split(form(EXACT), change(Y10))


class Rows(Dataset):
    """Items as `make` gives them."""

    def __init__(self, x, y, make=lambda x, y: (x, y)):
        self.x, self.y, self.make = x, y, make

    def __len__(self):
        return len(self.x)

    def __getitem__(self, row):
        return self.make(self.x[row], self.y[row])


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
    "generator": lambda x: (each for each in x),
    "broken data set": lambda x: Rows(x, None),
    "rows without an image": lambda x: [{"text": "a"}] * N,
    "missing path": lambda x: "/no/such/place",
    "dict": lambda x: {"a": x, "b": x},
    "tuple of three": lambda x: (x, torch.ones(len(x)), torch.arange(len(x))),
}


SIDES = {"train": False, "held-out": True}


@case(NO_IMAGES, SIDES, told="train|held.out|of one size|no/such|the image a ")
def no_images(change, second, folder):
    pair = change(EXACT[:N]), EXACT[N:]
    return dense(), *(pair[::-1] if second else pair)


def pictures(x):
    return [Image.fromarray(np.uint8(each.squeeze().numpy() * 255)) for each in x]


def rows_of(x, y, image="image", label="label"):
    return [{image: each, label: int(k), "other": "text"} for each, k in zip(x, y, strict=True)]


CONTAINERS = {
    "TensorDataset": lambda x, y: TensorDataset(x, y),
    "subset": lambda x, y: Subset(TensorDataset(torch.cat([x, x]), y.repeat(2)), range(len(x))),
    "pictures": lambda x, y: Rows(pictures(x), y),
    "one-hot items": lambda x, y: Rows(x, y, lambda x, y: (x, torch.eye(10)[y])),
    "hugging face": lambda x, y: rows_of(pictures(x), y),
    "pixel_values": lambda x, y: rows_of(x, y, "pixel_values", "labels"),
    "dictionary": lambda x, y: {"images": x, "labels": y},
    "arrays": lambda x, y: {"arr_0": x.numpy(), "targets": y.numpy()},
    "pair of lists": lambda x, y: (list(x), list(y)),
}


@case(CONTAINERS, {key: FORMS[key] for key in list(FORMS)[:3]})
def contained(make, form, folder):
    return TEN, *(make(*part) for part in split(form(EXACT), Y10))


NPZ = {
    "MedMNIST": ("train_images", "train_labels", "test_images", "test_labels"),
    "Keras": ("x_train", "y_train", "x_test", "y_test"),
    "own": ("train", "train_labels", "held_out", "held_out_labels"),
}


@case(NPZ)
def archive(names, folder):
    (x, y), (x_new, y_new) = split(BYTES.byte().numpy(), Y10.numpy())
    arrays = zip(names, (x, y[:, None], x_new, y_new), strict=True)
    np.savez(folder / "set.npz", **dict(arrays))
    return TEN, folder / "set.npz", None


BAND = {
    "13 bands first": (13, lambda x: x),
    "13 bands last": (13, lambda x: x.permute(0, 2, 3, 1)),
    "RGB last": (3, lambda x: x.permute(0, 2, 3, 1)),
    "RGB rows": (3, lambda x: x.flatten(1)),
}


@case(BAND, {"dense": False, "convolution": True})
def bands(band, convolution, folder):
    channels, make = band
    first = [nn.Conv2d(channels, 4, 3)] if convolution else []
    size = 4 * 36 if convolution else channels * 64
    x = colour(channels)
    return meant(nn.Sequential(*first, *dense(10, size)), x, make(x))


@case({"CT": 3000})
def scanner(top, folder):
    x = (DIGITS * top - 1000).round().short()
    return meant(dense(), (x.float() + 1000) / top, x, transform=None)


@case({k: k for k in (12, 30, 100, 192, 3)}, {"floats": False, "counts": True})
def table(features, counts, folder):
    x = torch.randn(2 * N, features) * torch.rand(features) * 100
    # whole numbers below 256 are no bytes where they are no images
    x = x.abs().round().long() if counts else x
    return meant(dense(1, features), x.float(), x)


TRANSFORMS = {
    "CIFAR-10": transforms.Normalize((0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616)),
    "ImageNet": transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "mean image": lambda x: x - x[:N].mean(0),
    "mean colour": lambda x: x - x[:N].mean((0, 2, 3), keepdim=True),
}


@case(TRANSFORMS)
def transformed(change, folder):
    net = body(nn.Sequential(nn.ReLU(), nn.Linear(30, 30), nn.ReLU()))
    return meant(net, change(colour()), colour(), transform=None)


TABLES = {
    "comma": "{name},{label}\n",
    "semicolon, byte-order mark": "\ufefffile;class\n{name};{label}\n",
    "tab": "{name}\t{label}\n",
    "backslashes": "{part}\\{name},{label}\n",
    "quotes": '"{name}","{label}"\n',
    "spaces": "{name} , {label}\n",
    "headings": "filename,label\n{name},{label}\n",
    "index column": ",file_name,label\n0,{name},{label}\n",
    "sep=": "sep=;\n{name};{label}\n",
    "bare stems": "{stem},{label}\n",
    "UTF-16": "{name}\t{label}\n",
}
NO_TABLES = {
    "one column": "{name}\n",
    "another image": "x{name},{label}\n",
    "empty": "",
    "zeros": "{name}\0,{label}\n",
    "Windows": "{name};{label};\u00e4\n",
}


def save_pictures(folder, classes=None):
    """All images as files in train and held_out, in subfolders where there are classes."""
    for row, pixels in enumerate(BYTES.byte().numpy()):
        inside = folder / ("train", "held_out")[row // N]
        inside = inside if classes is None else inside / str(classes[row].item())
        inside.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(inside / f"{row}.png")


def spreadsheet(form, folder):
    save_pictures(folder)
    *head, form = form.splitlines(keepends=True) or [""]
    for row, label in enumerate(Y10.tolist()):
        part = ("train", "held_out")[row // N]
        head.append(form.format(name=f"{row}.png", stem=row, label=label, part=part))
    coding = "utf-16" if form == TABLES["UTF-16"] else "cp1252" if "\u00e4" in form else "utf-8"
    (folder / "labels.csv").write_text("".join(head), coding)
    return TEN, folder, None, {"labels": folder / "labels.csv"}


case(TABLES)(spreadsheet)
case(NO_TABLES, told="labels.csv")(spreadsheet)

STRAY = {
    "nothing": lambda folder: None,
    "an image": lambda folder: Image.new("L", (8, 8)).save(folder / "sheet.png"),
    "a note": lambda folder: (folder / "notes.txt").write_text(""),
    "a hidden folder": lambda folder: save_pictures(folder / ".checkpoints"),
    "a small one": lambda folder: Image.new("L", (7, 8)).save(folder / str(int(Y10[0])) / "a.png"),
}
NO_FOLDER = {
    "broken": lambda folder: (next(folder.iterdir()) / "broken.png").write_bytes(b""),
    "no image": lambda folder: [
        path.rename(path.with_suffix(".txt")) for path in folder.rglob("*.png")
    ],
}


def stray(add, folder):
    save_pictures(folder, Y10)
    add(folder / "train")
    return TEN, folder, None


case(STRAY)(stray)
case(NO_FOLDER, told="broken.png cannot be read|0 of 24 files in train .no image by its name")(
    stray
)


# ------------------------------------------------------------------------------------------ modules


class Out(nn.Module):
    """A network with another way to answer."""

    def __init__(self, body, way):
        super().__init__()
        self.body, self.way = body, way

    def forward(self, x):
        return self.way(self.body(x))


def body(middle=None, classes=10, first=None):
    return nn.Sequential(
        nn.Flatten(),
        first or nn.Linear(192, 30),
        middle or nn.ReLU(),
        nn.Linear(30, classes),
    )


def conv():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(32, 10),
    )


TORCHVISION = (
    "densenet121",
    "efficientnet_b0",
    "mnasnet0_5",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "regnet_y_400mf",
    "resnet18",
    "shufflenet_v2_x0_5",
    "squeezenet1_1",
)
PRECISIONS = {"half": torch.half, "bfloat16": torch.bfloat16, "double": torch.double}
MODULES = {
    "dense": body,
    "in-place": lambda: body(nn.ReLU(inplace=True)),
    "train mode with batch norm": lambda: conv().train(),
    "fixed by Opacus": lambda: ModuleValidator.fix(conv()),
    "GradSampleModule": lambda: GradSampleModule(body()),
    "DataParallel": lambda: nn.DataParallel(body()),
    "compiled": lambda: torch.compile(body(), backend="eager"),
    "averaged": lambda: torch.optim.swa_utils.AveragedModel(body()),
    "weight norm": lambda: body(first=nn.utils.weight_norm(nn.Linear(192, 30))),
    "pruned": lambda: body(first=prune.l1_unstructured(nn.Linear(192, 30), "weight", 0.5)),
    **dict.fromkeys(PRECISIONS, body),
    "dict": lambda: Out(body(), lambda z: {"logits": z, "features": z}),
    "tuple": lambda: Out(body(), lambda z: (z, z)),
    "model output": lambda: Out(body(), lambda z: SimpleNamespace(loss=None, logits=z)),
    "softmax": lambda: Out(body(), lambda z: z.softmax(1)),
    "one logit": lambda: body(classes=1),
    "sigmoid": lambda: Out(body(classes=1), torch.sigmoid),
    "bare": lambda: nn.Linear(192, 10),
    **{name: partial(models.get_model, name, num_classes=4) for name in TORCHVISION},
    "normalises inside": lambda: nn.Sequential(nn.BatchNorm2d(3, affine=False), body()),
}


PIXELS = {
    "floats": lambda x: x,
    "channels last": lambda x: x.permute(0, 2, 3, 1),
    "bytes": lambda x: (x * 255).round().byte(),
}


@case({name: name for name in MODULES}, PIXELS)
def module(kind, pixels, folder):
    x = colour(3, 32 if kind in TORCHVISION else 8)
    net, *parts, _ = meant(MODULES[kind](), x, pixels(x))
    net.train("train mode" in kind)
    return net.to(PRECISIONS.get(kind)), *parts


NO_NETWORKS = {
    "none": lambda: None,
    "function": lambda: torch.relu,
    "state": lambda: body().state_dict(),
    "no weights": lambda: nn.Sequential(nn.Flatten()),
    "nan": lambda: body().apply(lambda part: [p.data.fill_(torch.nan) for p in part.parameters()]),
    "several sigmoids": lambda: Out(body(), torch.sigmoid),
    "segmentation": lambda: nn.Conv2d(3, 2, 3),
    "raises": lambda: Out(body(), lambda z: z.no_such_thing),
    "text": lambda: Out(body(), str),
    "nothing": lambda: Out(body(), lambda z: None),
    "infinite": lambda: Out(body(), lambda z: z / 0),
    "empty tuple": lambda: Out(body(), lambda z: ()),
    "lazy": lambda: nn.Sequential(nn.Flatten(), nn.LazyLinear(2)),
    "script": lambda: torch.jit.script(body()),
    "another size": lambda: nn.Sequential(nn.Flatten(), nn.Linear(100, 2)),
    "missing file": lambda: "/no/such/model.pt",
}


@case(
    {name: name for name in NO_NETWORKS}, told="the network|weight|answers|100 inputs|TorchScript"
)
def no_network(kind, folder):
    return NO_NETWORKS[kind](), *split(colour(), torch.arange(2 * N) % 2)


# -------------------------------------------------------------------------------------------- cases


def told_of(name, folder):
    """What is told of a case: "" where all is read as it is meant, or why it is refused, or what
    is read otherwise.
    """
    torch.manual_seed(0)
    net, *sets, options = (*CASES[name][1](folder), {})[:4]
    try:
        found = prepare(copy.deepcopy(net), *sets, **{"transform": "none"} | options)
    except ReconError as error:
        return f"refused: {error}"
    fit = found.fit
    fits = fit and not fit.why_not and fit.right >= 0.9 * fit.n and len(found.train) == N
    return "" if fits else f"{OTHERWISE}: {fit and fit.why_not}"


def right(told, wanted):
    return bool(re.search(wanted, told)) if wanted else told == ""


def test_there_are_enough_cases():
    assert len(CASES) >= 400


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow][: k % 9]) for k, name in enumerate(CASES)],
)
def test_case(name, tmp_path):
    told, wanted = told_of(name, tmp_path), CASES[name][0]
    assert right(told, wanted), told
    assert "\n" not in told and len(told) < 600
