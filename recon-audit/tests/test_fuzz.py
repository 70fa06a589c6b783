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
from torchvision import models, transforms

from recon.errors import ReconError
from recon.nets.module import watch_layers
from recon_audit.prepare import prepare

N = 24  # training images, and as many held out
REFUSED = ""  # whatever its sentence says
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


def classes(module, x):
    out = answers(module, x)
    middle = 0.5 if out.min() >= 0 and out.max() <= 1 else 0  # of probabilities, of logits
    return (out[:, 0] > middle).long() if out.shape[1] == 1 else out.argmax(1)


def check(module, train, held_out=None, refusal=None, least=0.95, **options):
    """
    Args:
        refusal: what its one sentence must hold, None for an audit that reads all as it is meant.
        least: share of training images that must be answered as their labels say.
    """
    options = {"transform": "none"} | options
    if refusal is not None:
        with pytest.raises(ReconError, match=refusal) as caught:
            prepare(module, train, held_out, **options)
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 500
        return None
    case = prepare(module, train, held_out, **options)
    assert len(case.train) == N and case.fit is not None
    assert case.fit.right / case.fit.n >= least and case.fit.why_not is None, case.fit
    return case


# --------------------------------------------------------------------------------------------- data


def dense(classes=10):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 30), nn.ReLU(), nn.Linear(30, classes))


def halves(x):
    return x[:N], x[N:]


def split(x, y):
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


def rows_of(x, y, image="image", label="label"):
    return [{image: each, label: int(k), "other": "text"} for each, k in zip(x, y, strict=True)]


BYTES = (DIGITS * 255).round()
EXACT = BYTES / 255  # what 8 bits hold

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


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout):
    module = balanced(dense(), EXACT)
    y = classes(module, EXACT)
    x = LAYOUTS[layout]
    train, held_out = halves(x)
    check(module, (train, y[:N]), (held_out, y[N:]), least=0.9)


def numbers(y):
    """As Python's own."""
    return [int(each) for each in y]


LABELS = {
    "int64": lambda y: y,
    "float": lambda y: y.float(),
    "bfloat16": lambda y: y.bfloat16(),
    "(n, 1)": lambda y: y[:, None],
    "one-hot": lambda y: torch.eye(4)[y],
    "text": lambda y: [str(int(k)) for k in y],
    "leading zeros": lambda y: [f"{int(k):03d}" for k in y],
    "text floats": lambda y: [f"{int(k)}.0" for k in y],
    "bytes": lambda y: np.array([str(int(k)).encode() for k in y]),
    "pandas": lambda y: pd.Series(numbers(y)),
    "categories": lambda y: pd.Categorical([f"c{k}" for k in numbers(y)]),
    "names in order": lambda y: [f"class-{int(k)}" for k in y],
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels(kind):
    module = balanced(dense(4), EXACT)
    y = classes(module, EXACT)
    assert len(y.unique()) == 4  # else names have no order
    check(module, *split(EXACT, LABELS[kind](y)))


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
    train, held_out = split(*MISREAD[kind](EXACT, classes(module, EXACT)))
    case = prepare(module, train, held_out, transform="none")
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
    y = NO_LABELS[kind](classes(module, EXACT))
    check(module, (EXACT[:N], y[:N]), (EXACT[N:], y[N:]), refusal=REFUSED)


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
    "rows without an image": lambda x: [{"text": "a"}] * N,
    "missing path": lambda x: "/no/such/place",
    "missing files": lambda x: ["/no/such/a.png"] * N,
    "dict": lambda x: {"a": x, "b": x},
    "tuple of three": lambda x: (x, torch.ones(len(x)), torch.arange(len(x))),
}


@pytest.mark.parametrize("kind", NO_IMAGES)
def test_what_are_no_images(kind):
    x = NO_IMAGES[kind](EXACT[:N])
    check(dense(), x, EXACT[N:], refusal=REFUSED)


CONTAINERS = {
    "TensorDataset": lambda x, y: TensorDataset(x, y),
    "subset": lambda x, y: Subset(TensorDataset(x.repeat(2, 1, 1), y.repeat(2)), range(len(x))),
    "pictures": lambda x, y: Rows(pictures(x), y),
    "one bit more": lambda x, y: Rows(x, y, lambda x, y: (x, y, {"meta": 1})),
    "labels as tensors": lambda x, y: Rows(x, y, lambda x, y: (x, torch.tensor([y]))),
    "one-hot items": lambda x, y: Rows(x, y, lambda x, y: (x, torch.eye(10)[y])),
    "hugging face": lambda x, y: rows_of(pictures(x), y),
    "pixel_values": lambda x, y: rows_of(x[:, None], y, "pixel_values", "labels"),
    "pair of lists": lambda x, y: (list(x), list(y)),
}


@pytest.mark.parametrize("kind", CONTAINERS)
def test_containers(kind):
    module = balanced(dense(), EXACT)
    y = classes(module, EXACT)
    train, held_out = (CONTAINERS[kind](*part) for part in split(EXACT, y))
    check(module, train, held_out)


NPZ = {
    "MedMNIST": ("train_images", "train_labels", "test_images", "test_labels", True),
    "Keras": ("x_train", "y_train", "x_test", "y_test", False),
    "own": ("train", "train_labels", "held_out", "held_out_labels", False),
}


@pytest.mark.parametrize("kind", NPZ)
def test_npz(kind, tmp_path):
    module = balanced(dense(), EXACT)
    y = classes(module, EXACT).numpy()
    x_train, y_train, x_new, y_new, column = NPZ[kind]
    y = y[:, None] if column else y
    images = BYTES.byte().numpy()
    np.savez(
        tmp_path / "set.npz",
        **{x_train: images[:N], y_train: y[:N], x_new: images[N:], y_new: y[N:]},
    )
    check(module, tmp_path / "set.npz")


@pytest.mark.parametrize("names", [("images", "labels"), ("x", "y"), ("arr_0", "targets")])
def test_npz_of_one_part(names, tmp_path):
    module = balanced(dense(), EXACT)
    files = [tmp_path / "a.npz", tmp_path / "b.npz"]
    for file, pair in zip(files, split(EXACT, classes(module, EXACT)), strict=True):
        np.savez(file, **dict(zip(names, pair, strict=True)))
    check(module, *files)


BAND = {
    "13 bands first": (13, lambda x: x),
    "13 bands last": (13, lambda x: x.permute(0, 2, 3, 1)),
    "RGB last": (3, lambda x: x.permute(0, 2, 3, 1)),
    "RGB rows": (3, lambda x: x.flatten(1)),
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
    case = check(module, *split(make(x), classes(module, x)), least=0.9)
    assert case.train.picture(case.train.scaled[0]).shape[2] in (1, 3)


def test_units_of_a_scanner():
    ct = ((DIGITS * 3000) - 1000).round().short()
    meant = (ct.float() + 1000) / 3000
    module = balanced(dense(), meant)
    case = check(module, *split(ct, classes(module, meant)), transform=None, least=0.9)
    assert "over their range" in case.transform.words


@pytest.mark.parametrize("features", [12, 30, 100, 192, 3])
def test_tables_are_no_images(features):
    x = torch.randn(2 * N, features) * torch.rand(features) * 100
    module = balanced(nn.Sequential(nn.Linear(features, 40), nn.ReLU(), nn.Linear(40, 1)), x)
    case = check(module, *split(x, classes(module, x)))
    assert case.train.shape == (1, 1, features)
    counts = x.abs().round().long()  # whole numbers below 256 are no bytes where they are no images
    check(module, *split(counts, classes(module, counts.float())))


TRANSFORMS = {
    "CIFAR-10": transforms.Normalize((0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616)),
    "ImageNet": transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
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
    check(module, *split(x, classes(module, meant)), transform=None, least=0.9)


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
    for row in range(2 * N):
        inside = folder / ("train" if row < N else "held_out")
        inside = inside if classes is None else inside / str(int(classes[row]))
        inside.mkdir(parents=True, exist_ok=True)
        Image.fromarray(BYTES[row].byte().numpy()).convert("P").save(inside / f"{row}.png")


@pytest.mark.parametrize("kind", [*TABLES, *NO_TABLES])
def test_spreadsheets(kind, tmp_path):
    module = balanced(dense(), EXACT)
    y = numbers(classes(module, EXACT))
    save_pictures(tmp_path)
    *head, form = (TABLES | NO_TABLES)[kind].splitlines(keepends=True) or [""]
    lines = [
        form.format(
            name=f"{row}.png", stem=row, label=label, part="train" if row < N else "held_out"
        )
        for row, label in enumerate(y)
    ]
    labels = tmp_path / "labels.csv"
    coding = {"UTF-16": "utf-16", "Windows": "cp1252"}.get(kind, "utf-8")
    labels.write_bytes("".join([*head, *lines]).encode(coding))
    check(module, tmp_path, refusal=REFUSED if kind in NO_TABLES else None, labels=labels)


def test_folders(tmp_path):
    module = balanced(dense(), EXACT)
    save_pictures(tmp_path, classes(module, EXACT))
    check(module, tmp_path)
    inside = next(path for path in (tmp_path / "train").iterdir())
    (inside / "broken.png").write_bytes(b"no picture")
    check(module, tmp_path, refusal="cannot be read")
    (tmp_path / "empty").mkdir()
    check(module, tmp_path / "empty", tmp_path / "held_out", refusal="no images")


# ------------------------------------------------------------------------------------------ modules

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


@pytest.mark.parametrize("name", TORCHVISION)
def test_networks_of_torchvision(name):
    x = (colour(side=32) * 255).round() / 255
    module = balanced(models.get_model(name, weights=None, num_classes=4), x)
    case = check(module, *split(x, classes(module, x)))
    assert case.released.first is None


class Out(nn.Module):
    """A network with another way to answer."""

    def __init__(self, body, way):
        super().__init__()
        self.body, self.way = body, way

    def forward(self, x):
        return self.way(self.body(x))


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


def shaken(module):
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.normal_()
            part.running_var.uniform_(0.5, 2)
    return module


PRECISIONS = {"half": torch.half, "bfloat16": torch.bfloat16, "double": torch.double}
MODULES = {
    "dense": body,
    "in-place": lambda: body(inplace=True),
    "tanh": lambda: body(nn.Tanh()),
    "batch norm": lambda: shaken(conv()),
    "train mode with batch norm": lambda: shaken(conv()).train(),
    "fixed by Opacus": lambda: ModuleValidator.fix(conv()),
    "GradSampleModule": lambda: GradSampleModule(body()),
    "DataParallel": lambda: nn.DataParallel(body()),
    "compiled": lambda: torch.compile(body(), backend="eager"),
    "averaged": lambda: torch.optim.swa_utils.AveragedModel(body()),
    "weight norm": lambda: body(first=nn.utils.weight_norm(nn.Linear(192, 30))),
    "spectral norm, parametrised": lambda: body(
        first=nn.utils.parametrizations.spectral_norm(nn.Linear(192, 30))
    ),
    "pruned": lambda: body(first=prune.l1_unstructured(nn.Linear(192, 30), "weight", 0.5)),
    **dict.fromkeys(PRECISIONS, body),
    "frozen all": lambda: body().requires_grad_(False),
    "dict": lambda: Out(body(), lambda z: {"logits": z, "features": z}),
    "tuple": lambda: Out(body(), lambda z: (z, z)),
    "model output": lambda: Out(body(), lambda z: SimpleNamespace(loss=None, logits=z)),
    "log-softmax": lambda: Out(body(), lambda z: z.log_softmax(1)),
    "softmax": lambda: Out(body(), lambda z: z.softmax(1)),
    "one logit": lambda: body(classes=1),
    "sigmoid": lambda: Out(body(classes=1), torch.sigmoid),
    "one logit, squeezed": lambda: Out(body(classes=1), lambda z: z[:, 0]),
    "two": lambda: body(classes=2),
    "bare": lambda: nn.Linear(192, 10),
    "resnet, small stem": lambda: resnet(_small_stem),
    "normalises inside": lambda: nn.Sequential(nn.BatchNorm2d(3, affine=False), body()),
}


@pytest.mark.parametrize("kind", MODULES)
def test_modules(kind):
    x = (colour(3, 16 if "resnet" in kind else 8) * 255).round() / 255
    module = balanced(MODULES[kind](), x)
    y = classes(module, x)
    if "train mode" in kind:
        module.train()
    if kind in PRECISIONS:
        module = module.to(PRECISIONS[kind])
    check(module, *split(x, y), least=0.9)


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
    check(NO_NETWORKS[kind](), *split(x, y), refusal=REFUSED)
