"""What a file, an answer or a pixel leaves open is settled by the labels and said, or refused by
name: files of weights, answers, what is no function, images that are kept in odd ways.
"""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from torch import nn
from torchvision import models, transforms

import recon
from recon.errors import ReconError
from recon_audit.prepare import prepare
from recon_audit.shadows import Recipe

N = 60
DIGITS = load_digits()
X, Y = torch.tensor(DIGITS.images / 16).float(), torch.tensor(DIGITS.target)
PAIR = (X[:N], Y[:N]), (X[N : 2 * N], Y[N : 2 * N])


def trained(model, x=X[:N], y=Y[:N], steps=300, answer=lambda z: z, seed=0):
    torch.manual_seed(seed)
    for part in model.modules():
        getattr(part, "reset_parameters", lambda: None)()
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(steps):
        optimiser.zero_grad()
        nn.functional.cross_entropy(answer(model(x)), y).backward()
        optimiser.step()
    return model.eval()


def dense(*middle, width=64):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), *middle, nn.Linear(width, 10))


# -------------------------------------------------------------------------------------------- files


class Net(nn.Module):
    """Four layers, of which a file tells no more than shapes and names."""

    def __init__(self, way, bias=True, act=torch.relu):
        super().__init__()
        one, two, three = ("stem", "body", "top") if way == "order" else ("fc1", "fc2", "fc3")
        self.add_module(three if way == "order" else one, nn.Linear(64, 64, bias=bias))
        self.add_module(two, nn.Linear(64, 64, bias=bias))
        self.add_module(one if way == "order" else three, nn.Linear(64, 64, bias=bias))
        self.out = nn.Linear(64, 10, bias=bias)
        self.norm = nn.BatchNorm1d(64) if "norm" in way else nn.Identity()
        self.way, self.act, self.names = way, act, (one, two, three)

    def forward(self, x):
        act, (a, b, c) = self.act, (getattr(self, name) for name in self.names)
        h = self.norm(act(a(x.flatten(1))))
        if self.way == "around one":
            h = h + act(b(h))
            return self.out(h + act(c(h)))
        if self.way == "around two":
            return self.out(h + act(c(act(b(h)))))
        if self.way == "into the activation":
            return self.out(act(c(h + act(b(h))) + h))
        if self.way == "twice":
            return self.out(act(c(act(b(act(b(h)))))))
        if self.way == "linear":
            return self.out(c(act(b(h))))
        return self.out(act(c(act(b(h)))))


#: (way, other arguments) of what a file may be of
KINDS = {
    "plain": ("plain", {}),
    "plain without biases": ("plain", {"bias": False}),
    "around one": ("around one", {}),
    "around two": ("around two", {}),
    "around two without biases": ("around two", {"bias": False}),
    "into the activation": ("into the activation", {}),
    "order": ("order", {}),
    "norm": ("norm", {}),
    "twice": ("twice", {}),
    "linear": ("linear", {}),
    **{act: ("plain", {"act": getattr(nn.functional, act)}) for act in ("tanh", "silu", "mish")},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_the_network_that_it_was_or_refused(kind, tmp_path):
    way, more = KINDS[kind]
    exact = 0
    for seed in range(6):
        rows = slice(40 * seed, 40 * seed + N)
        net = trained(Net(way, **more), X[rows], Y[rows], steps=150, seed=seed)
        (torch.save if seed % 2 else save_file)(net.state_dict(), tmp_path / "net")
        try:
            case = prepare(tmp_path / "net", (X[rows], Y[rows]), (X[900:960], Y[900:960]))
        except ReconError as error:
            assert "module itself" in str(error)
            continue
        # of such a reading silence says nothing: networks of kinds not listed may answer so, too
        assert "does not say what its layers form" in case.unchecked
        if case.fit.why_not is None:
            pair = torch.stack([case.subject.module(X[:N]).flatten(), net(X[:N]).flatten()])
            assert torch.corrcoef(pair)[0, 1] > 0.99, seed
            exact += 1
    assert exact >= 6 * (kind in ("plain", "plain without biases"))


def test_widths_that_are_named_settle_what_labels_leave_open(tmp_path):
    net = trained(Net("plain"), steps=12)
    torch.save(net.state_dict(), tmp_path / "net.pt")
    given = (X[:N:3], Y[:N:3]), PAIR[1]  # of some of the images training does not balance
    with pytest.raises(ReconError, match="module itself, or name the widths"):
        prepare(tmp_path / "net.pt", *given)
    case = prepare(tmp_path / "net.pt", *given, arch="64-64-64-64-10")
    torch.testing.assert_close(case.subject.module(X), net(X))
    assert case.unchecked == prepare(net, *given).unchecked == ""


@pytest.mark.parametrize("shuffled", [False, True])
def test_labels_are_what_membership_goes_by_only_where_they_are_trusted(shuffled):
    net, order = trained(Net("plain"), steps=40), torch.arange(60).flip(0)
    sets = (X[:N], Y[:N]), (X[900:960], Y[900:960][order] if shuffled else Y[900:960])
    answers = net(torch.cat([X[:N], X[900:960]])).argmax(1)
    case, other = prepare(net, *sets, trust_labels=True), prepare(net, *sets)
    assert torch.equal(other.member_classes, answers)
    labels = torch.cat([sets[0][1], sets[1][1]])
    assert torch.equal(case.member_classes, answers if shuffled else labels)
    assert not torch.equal(answers, labels)


def changed(change):
    net = models.resnet18(num_classes=10)
    net.conv1 = nn.Conv2d(1, 64, 7, 2, 3, bias=False)
    change(net)
    return net


STEMS = {
    "no max-pool": lambda net: setattr(net, "maxpool", nn.Identity()),
    "3 × 3": lambda net: (
        setattr(net, "conv1", nn.Conv2d(1, 64, 3, 1, 1, bias=False)),
        setattr(net, "maxpool", nn.Identity()),
    ),
}


@pytest.mark.parametrize("kind", STEMS)
def test_the_stem_of_a_resnet_is_read_by_the_labels(kind, tmp_path):
    x = nn.functional.interpolate(X[:, None], size=16)
    net = trained(changed(STEMS[kind]), x[:30], Y[:30], steps=25)
    torch.save(net.state_dict(), tmp_path / "net.pt")
    case = prepare(tmp_path / "net.pt", (x[:30], Y[:30]), (x[30:60], Y[30:60]))
    assert case.fit.right > 25
    torch.testing.assert_close(case.subject.module(x[:5]), net(x[:5]))


def shard(folder):
    save_file(dense().state_dict(), folder / "model-00001-of-00002.safetensors")
    return folder / "model-00001-of-00002.safetensors"


def indexed(folder):
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "w.safetensors"}}')
    save_file(dense().state_dict(), folder / "w.safetensors")
    return folder / "w.safetensors"


def no_file(name, write):
    def make(folder):
        write(folder / name)
        return folder / name

    return make


def two(path):
    torch.save({"state_dict": dense().state_dict(), "ema": dense().state_dict()}, path)


NO_FILES = {
    "network in several files": shard,
    "in several files": indexed,
    "name a file, and no folder": lambda folder: folder,
    "page of the web": no_file("w.pt", lambda path: path.write_text("<!DOCTYPE html><p>404")),
    "pointer of Git LFS": no_file(
        "w.safetensors", lambda path: path.write_text("version https://git-lfs.github.com/spec/v1")
    ),
    "as of a quantised network": no_file(
        "w.safetensors",
        lambda path: save_file({"a.weight": torch.ones(10, 64, dtype=torch.int8)}, path),
    ),
    "is an ONNX file": no_file("w.onnx", lambda path: path.write_bytes(b"\x08\x07")),
    "holds several networks": no_file("w.pt", two),
}


@pytest.mark.parametrize("refusal", NO_FILES)
def test_files_that_are_refused_by_name(refusal, tmp_path):
    with pytest.raises(ReconError, match=refusal):
        prepare(NO_FILES[refusal](tmp_path), *PAIR)


# ------------------------------------------------------------------------------------------ answers


@dataclasses.dataclass
class Answer:
    prediction: torch.Tensor
    hidden: torch.Tensor


class Way(nn.Module):
    """A network with hidden features, and its own way to answer."""

    def __init__(self, way):
        super().__init__()
        self.hidden, self.head, self.way = nn.Linear(64, 100), nn.Linear(100, 10), way

    def forward(self, x):
        h = self.hidden(x.flatten(1)).relu()
        return self.way(self, h, self.head(h))


WAYS = {
    "(features, logits)": lambda net, h, z: (h, z),
    "(None, logits)": lambda net, h, z: (None, z),
    "output": lambda net, h, z: {"output": z},
    "scores beside a loss": lambda net, h, z: {"loss": z.mean(), "scores": z},
    "dataclass": lambda net, h, z: Answer(z, h),
    "nested": lambda net, h, z: {"features": h, "heads": SimpleNamespace(main=z)},
    "probabilities beside logits": lambda net, h, z: (z, z.softmax(1), z.argmax(1)),
    "auxiliary in training": lambda net, h, z: (z, z) if net.training else z,
}


def classes_in(answers):
    while not isinstance(answers, torch.Tensor):
        parts = answers.values() if isinstance(answers, dict) else answers
        parts = vars(parts).values() if hasattr(parts, "__dict__") else parts
        tensors = [part for part in parts if part is not None and getattr(part, "ndim", 2) == 2]
        answers = min(tensors, key=lambda part: part.shape[1] if hasattr(part, "shape") else 0)
    return answers


@pytest.mark.parametrize("kind", WAYS)
def test_what_fits_the_labels_is_taken_for_the_classes(kind):
    net = trained(Way(WAYS[kind]), answer=classes_in)
    case = prepare(net, *PAIR)
    assert case.classifier.outputs == 10 and case.fit.right == N
    several = kind in ("(features, logits)", "probabilities beside logits", "dataclass", "nested")
    assert any("is taken for its classes" in note for note in case.notes) == several
    if several:
        with pytest.raises(ReconError, match="several answers"):
            prepare(net, X[:N], X[N : 2 * N], labels="predicted")


class Attention(nn.Module):
    """Stochastic depth that is never turned off, of one image in twenty."""

    def forward(self, x):
        return x * (torch.rand(len(x), 1) > 0.05)


NO_FUNCTIONS = {
    "another answer each time": lambda net, h, z: nn.functional.dropout(z, 0.5),
    "another answer each": lambda net, h, z: Attention()(z),
    "in training mode": lambda net, h, z: z if net.training else h,
    "10 probabilities in evaluation": lambda net, h, z: z if net.training else z.softmax(1),
}


@pytest.mark.parametrize("labels", [None, "predicted"])
@pytest.mark.parametrize("refusal", NO_FUNCTIONS)
def test_a_network_is_a_function_or_refused(refusal, labels):
    with pytest.raises(ReconError, match=refusal):
        prepare(Way(NO_FUNCTIONS[refusal]), *PAIR, labels=labels)


class InPlace(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x.sub_(0.3).div_(0.35))


def test_a_network_that_works_in_place_changes_no_image():
    net, before = dense(nn.ReLU()), X[:N].clone()
    trained(net, (X[:N] - 0.3) / 0.35)
    case = prepare(InPlace(net), *PAIR, transform="none")
    assert case.fit.right == N and torch.equal(case.train.scaled[:, 0], before)
    assert torch.equal(case.classifier.logits(case.x), case.classifier.logits(case.x))


NO_TRANSFORMS = {
    "other inputs of the same images": transforms.RandomCrop(8, padding=1),
    "other inputs of": transforms.RandomHorizontalFlip(),
    "depends on the images beside it": lambda x: x - x.mean(0),
}


@pytest.mark.parametrize("refusal", NO_TRANSFORMS)
def test_a_transform_is_a_function_of_each_image(refusal):
    with pytest.raises(ReconError, match=refusal):
        prepare(dense(), *PAIR, transform=NO_TRANSFORMS[refusal])


NO_CLASSES = {
    "as an autoencoder does": lambda net, h, z: h,
    "as features are": lambda net, h, z: h.relu(),
    "whole numbers": lambda net, h, z: z.argmax(1),
    "as an embedding does": lambda net, h, z: nn.functional.normalize(z),
}


@pytest.mark.parametrize("refusal", NO_CLASSES)
def test_what_gives_no_classes_is_refused_without_labels(refusal):
    net = Way(NO_CLASSES[refusal])
    if "autoencoder" in refusal:
        net.hidden = nn.Linear(64, 64)
        nn.init.eye_(net.hidden.weight)
        nn.init.zeros_(net.hidden.bias)
        net.head = nn.Linear(64, 10)
    with pytest.raises(ReconError, match=refusal):
        prepare(net, X[:N], X[N : 2 * N])


FAST = dict(
    profile="smoke", attacks="membership", canaries=0, recipe=Recipe("adam", 1e-2, None, 40)
)


def test_silence_on_a_guessed_reading_is_no_verdict():
    net = trained(dense(nn.ReLU()), X[600:], Y[600:], 60)
    for labels, verdict in ((None, "not by these attacks"), ("predicted", "cannot tell")):
        report = recon.audit(net, *PAIR, labels=labels, seed=1, **FAST)
        assert report.membership == verdict, report.lines
    assert "no labels bear out that its 10 outputs are classes" in report.data["summary"]


def test_one_answer_for_all_is_the_reason():
    net = dense(nn.ReLU())
    net[-1].bias.data[3] += 100
    report = recon.audit(net, *PAIR, **FAST)
    assert "one answer to all images, output 3" in report.data["summary"]


def test_a_quantised_network_is_refused():
    net = torch.ao.quantization.quantize_dynamic(dense(nn.ReLU()), {nn.Linear})
    with pytest.raises(ReconError, match="is quantised"):
        prepare(net, *PAIR)


# ------------------------------------------------------------------------------------------- images


def save_folder(root, suffix="png", convert=lambda image: image):
    for row in range(2 * N):
        folder = root / ("train" if row < N else "held_out") / f"digit {int(Y[row])}"
        folder.mkdir(parents=True, exist_ok=True)
        convert(Image.fromarray((X[row] * 255).byte().numpy())).save(folder / f"{row}.{suffix}")
    return root


def stray(root):
    Image.new("L", (8, 8)).save(root / "train" / "contact sheet.png")


def checkpoint(root):
    (root / "train" / ".ipynb_checkpoints").mkdir()
    Image.new("L", (8, 8)).save(root / "train" / ".ipynb_checkpoints" / "0-checkpoint.png")


def resource_fork(root):
    (root / "train" / "digit 0" / "._0.png").write_bytes(b"\0\5\x16\7")


def size(root):
    Image.new("L", (9, 9)).save(root / "train" / "digit 0" / "large.png")


ODD = {"in no class folder": stray, "hidden": checkpoint, "by a dot": resource_fork, "size": size}


@pytest.mark.parametrize("kind", ODD)
def test_one_odd_file_changes_nothing_for_the_others(kind, tmp_path):
    ODD[kind](save_folder(tmp_path))
    net = trained(nn.Sequential(nn.Flatten(), *dense(nn.ReLU())[1:]))
    case = prepare(net, tmp_path)
    assert len(case.train) == N and case.fit.right == N and "used 60 of 61" in case.train.note


def test_another_bit_depth_changes_nothing_for_the_others(tmp_path):
    save_folder(tmp_path)
    deep = [("0.png", lambda row: (X[row] * 65535).numpy().astype(np.uint16))]
    deep += [("1.tiff", lambda row: (X[row] * 255).numpy())]
    for row, (name, pixels) in enumerate(deep):
        folder = tmp_path / "train" / f"digit {int(Y[row])}"
        (folder / f"{row}.png").unlink()
        Image.fromarray(pixels(row)).save(folder / name)
    case = prepare(trained(dense(nn.ReLU())), tmp_path)
    by_name = dict(zip(case.train.names, case.train.scaled[:, 0], strict=True))
    for row, (name, _) in enumerate(deep):
        found = by_name[f"train/digit {int(Y[row])}/{name}"]
        torch.testing.assert_close(found, X[row], atol=2 / 255, rtol=0)


def test_a_file_with_numbers_that_are_not_finite_is_named(tmp_path):
    save_folder(tmp_path)
    pixels = np.full((8, 8), np.nan, np.float32)
    Image.fromarray(pixels).save(tmp_path / "train" / "digit 0" / "bad.tiff")
    with pytest.raises(ReconError, match=r"bad\.tiff.*not finite"):
        prepare(dense(), tmp_path)


BYTES = (X * 255).round()
UNITS = {
    "whole in one set": (BYTES[:N], BYTES[N : 2 * N] + 0.25),
    "one pixel above": (BYTES[:N].short(), (BYTES[N : 2 * N] + (BYTES[N : 2 * N] == 255)).short()),
    "bytes and floats": (BYTES[:N].byte(), BYTES[N : 2 * N] + 0.25),
}


@pytest.mark.parametrize("kind", UNITS)
def test_both_sets_are_in_one_unit(kind):
    train, held_out = UNITS[kind]
    case = prepare(trained(dense(nn.ReLU())), (train, Y[:N]), (held_out, Y[N : 2 * N]))
    ratio = case.held_out.scaled.mean() / case.train.scaled.mean()
    assert case.fit.right == N and 0.8 < ratio < 1.25


def test_the_array_of_an_archive_is_no_guess(tmp_path):
    arrays = {"train_ids": np.arange(N), "train_images": X[:N].numpy(), "train_labels": Y[:N]}
    arrays |= {"test_images": X[N : 2 * N].numpy(), "test_labels": Y[N : 2 * N]}
    np.savez(tmp_path / "a.npz", **arrays)
    net = trained(dense(nn.ReLU()))
    assert prepare(net, tmp_path / "a.npz").fit.right == N
    for more, words in (("train_masks", "one array"), ("train_fine_labels", "at most one")):
        extra = arrays["train_images"] if "masks" in more else arrays["train_labels"]
        np.savez(tmp_path / "b.npz", **arrays, **{more: extra})
        with pytest.raises(ReconError, match=words):
            prepare(net, tmp_path / "b.npz")


def test_dictionaries_and_sparse_tensors():
    net = trained(dense(nn.ReLU()))
    assert prepare(net, *({"x": x, "y": y} for x, y in PAIR)).fit.right == N
    assert prepare(net, *((x.to_sparse(), y) for x, y in PAIR)).fit.right == N


def test_photographs_of_many_sizes_are_resized_and_cropped(tmp_path):
    random = np.random.default_rng(0)
    for row in range(24):
        folder = tmp_path / ("train" if row % 2 else "held_out")
        folder.mkdir(exist_ok=True)
        pixels = random.integers(0, 256, (20 + row, 30, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{row}.png")
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
    with pytest.raises(ReconError, match="--resize 256 --crop 224"):
        prepare(net, tmp_path)
    assert prepare(net, tmp_path, resize=18, crop=16).train.shape == (3, 16, 16)


LINES = {
    "have two lines for 0.png": lambda row: f"{row % N}.png,{int(Y[row])}\n",
    "say 0.png, as 2 images": lambda row: f"{row % N}.png,{int(Y[row])}\n" if row < N else "",
}


@pytest.mark.parametrize("refusal", [*LINES, None])
def test_bare_names_that_two_images_have_are_refused(refusal, tmp_path):
    for row in range(2 * N):
        folder = tmp_path / ("train" if row < N else "held_out")
        folder.mkdir(exist_ok=True)
        Image.fromarray((X[row] * 255).byte().numpy()).save(folder / f"{row % N}.png")
    line = LINES.get(
        refusal, lambda row: f"{('train', 'held_out')[row // N]}/{row % N}.png,{int(Y[row])}\n"
    )
    (tmp_path / "labels.csv").write_text("".join(map(line, range(2 * N))))
    net = trained(dense(nn.ReLU()))
    if refusal is None:
        assert prepare(net, tmp_path, labels=tmp_path / "labels.csv").fit.right == N
        return
    with pytest.raises(ReconError, match=refusal):
        prepare(net, tmp_path, labels=tmp_path / "labels.csv")


SIGNALS = {
    "signals": (nn.Conv1d, (2, 32)),
    "one channel": (nn.Conv1d, (1, 64)),
    "volumes": (nn.Conv3d, (1, 4, 4, 4)),
}


@pytest.mark.parametrize("axes", ["first", "last"])
@pytest.mark.parametrize("kind", SIGNALS)
def test_members_of_signals_and_volumes_are_named(kind, axes):
    layer, shape = SIGNALS[kind]
    x = X.view(-1, *shape)
    pooled = nn.AdaptiveAvgPool1d(8) if layer is nn.Conv1d else nn.AdaptiveAvgPool3d(2)
    net = nn.Sequential(layer(shape[0], 16, 3), nn.ReLU(), pooled, nn.Flatten(), nn.Linear(128, 10))
    trained(net, x[:N])
    x = x if axes == "first" else x.movedim(1, -1)
    options = FAST | {"attacks": "rows,membership"}
    report = recon.audit(net, (x[:N], Y[:N]), (x[N : 2 * N], Y[N : 2 * N]), **options)
    assert report.membership == "inferred" and report.data["fit"]["right"] == N
    assert report.verdict == "cannot tell" and "No dense layer is given" in report.data["summary"]


# ---------------------------------------------------------------------------------------- arguments

ARGUMENTS = [
    {"device": torch.device("cpu")},
    {"seed": np.int64(3)},
    {"attacks": None},
    {"shadows": 4.0},
    {"recipe": {"lr": 1e-2, "steps": 5}},
]
NO_ARGUMENTS = [
    {"device": 99},
    {"seed": 1.5},
    {"seed": None},
    {"shadows": "4"},
    {"canaries": 0.5},
    {"recipe": {"speed": 1}},
    {"recipe": torch.optim.Adam},
    {"attacks": 3},
    {"out": 3},
    {"crop": 0},
]


@pytest.mark.parametrize("options", [*ARGUMENTS, *NO_ARGUMENTS], ids=str)
def test_types_of_arguments(options, tmp_path):
    rows = {"profile": "smoke", "attacks": "rows", "canaries": 0, "out": tmp_path}
    (tmp_path / "report.html").write_text("<h1>What do these weights give away?</h1>")
    if options in ARGUMENTS:
        rows |= {"recipe": Recipe(steps=5)} | options
        assert recon.audit(dense(nn.ReLU()), *PAIR, **rows).verdict
        return
    with pytest.raises(ReconError):
        recon.audit(dense(nn.ReLU()), *PAIR, **rows | options)
    assert (tmp_path / "report.html").exists()


def test_a_folder_without_permission_is_one_sentence(tmp_path, monkeypatch):
    def refuse(self):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(type(tmp_path), "iterdir", refuse)
    with pytest.raises(ReconError, match="cannot be read: Permission denied"):
        recon.audit(dense(), tmp_path, tmp_path)
