"""The audit as an engineer calls it: modules and arrays in, a verdict out; exit codes, JSON,
folders.
"""

from __future__ import annotations

import html
import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import recon
import recon_audit
from recon import cli
from recon.scoring.membership import named
from recon.store.files import only_one
from recon_audit import audit as audit_module
from recon_audit.anatomy import examine
from recon_audit.places import FOLDER
from recon_audit.shadows import Recipe, train_network
from recon_audit.verdict import decide
from recon_audit.words import say

SCHEMA = json.loads(Path(recon_audit.__file__).with_name("report.schema.json").read_text())
N, SHAPE = 12, (3, 8, 8)
RECIPE = Recipe("adam", 1e-2, None, 120, 1e-2)


@pytest.fixture(scope="module")
def x():
    return torch.rand(2 * N, *SHAPE, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def y():
    return torch.arange(2 * N) % 2


def fitted(module, x, y, seed=0, recipe=RECIPE):
    module.eval()
    generator = torch.Generator().manual_seed(seed)
    return train_network(examine(module, SHAPE), x, y, recipe, generator).module


def dense(outputs=1):
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 24), nn.ReLU(), nn.Linear(24, outputs))


@pytest.fixture(scope="module")
def network(x, y):
    return fitted(dense(), x[:N], y[:N])


def audit(model, train, held_out=None, **options):
    options = {"profile": "smoke", "device": "cpu", "recipe": RECIPE, "shadows": 4} | options
    return recon.audit(model, train, held_out, **options)


@pytest.fixture(scope="module")
def report(network, x, y):
    return audit(network, x[:N], x[N:], labels=(y[:N], y[N:]))


def test_a_report_says_what_its_parts_say(report, tmp_path):
    jsonschema.validate(json.loads(report.to_json()), SCHEMA)
    members, result = report.data["membership"], report.data["result"]
    assert result["looks"] == members["looks"] == 2 * 3 + 2
    assert report.data["power"]["canaries"] == 1 and members["shadows"] == 4
    for line in map(html.escape, report.lines):
        assert line in report._repr_html_() and line in report.page
    path = report.save(str(tmp_path / "a"))
    assert path.read_text(encoding="utf-8") == report.page
    assert (tmp_path / "a" / "report.json").read_text() == report.to_json()


def test_members_of_a_convolution_are_named_though_no_image_is_read(x, y):
    layers = nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 2)
    net = fitted(nn.Sequential(*layers), x[:N], y[:N])
    report = audit(net, x[:N].numpy(), x[N:].numpy(), labels=(y[:N].tolist(), y[N:].tolist()))
    assert (
        report.verdict == "cannot tell"
        and "No dense layer is given whole images" in report.data["summary"]
    )
    assert report.membership == "inferred" and report.data["power"] is None
    assert report.leaked and {image.how for image in report.leaked} == {"membership"}
    assert all(0.5 < image.probability <= 1 for image in report.leaked)


def test_weights_that_are_images_leak_and_are_named(x, y):
    net = dense()
    start = {name: value.clone() for name, value in net.state_dict().items()}
    with torch.no_grad():
        net[1].weight[:N] += 100 * (x - x[:N].mean(0))[:N].flatten(1)
        net[1].weight[N:].mul_(0.01)
    options = {"transform": "image", "attacks": ("rows",), "canaries": 0, "theta_init": start}
    for held_out in (x[N:], x[N:-3]):  # as many, and fewer
        report, n = audit(net, x[:N], held_out, **options), len(held_out)
        assert report.verdict == "leaks" and report.membership is None
        assert {image.how for image in report.leaked} == {"rows"} and len(report.leaked) == n
        assert all(image.image == f"train[{image.index}]" for image in report.leaked)
        assert min(min(image.probability, image.score) for image in report.leaked) > 0.85
        assert f"{n} of {n} training images came back" in report.data["summary"]


def test_sets_that_differ_are_not_compared(network, x):
    report = audit(network, x[:N], 0.8 * x[N:] + 0.2)
    assert report.verdict == report.membership == "cannot tell" and not report.leaked
    assert report.data["result"] is None is report.data["membership"]
    jsonschema.validate(json.loads(report.to_json()), SCHEMA)
    assert "two-sample test" in report.page


NO_INTERVALS = {"tpr_0.01": (0.0, 0.0), "tpr_0.001": (0.0, 0.0)}


def test_a_report_says_whether_inputs_are_centred(report):
    said = report.data["images"]["inputs"]
    assert said.startswith("Not centred: inputs have mean 0.5") and said in report.page
    assert say("centring", -0.05, 0.3).startswith("Centred: inputs have mean")


RESULT = {"leak": False, "attacks": {"rows": {"why_not": None}}}


@pytest.mark.parametrize(
    ("power", "verdict", "words"),
    [
        (None, "cannot tell", "was not measured"),
        ((2, 0, 0.0), "cannot tell", "images in only 0 of 2 networks"),
        ((4, 1, 3.0), "cannot tell", "only 1 of 4 networks"),
        (
            (2, 1, 7.0),
            "not by these attacks",
            "would have found 7 of 20 images",
        ),
    ],
)
def test_silence_counts_for_what_the_canaries_say(power, verdict, words):
    table = (
        None
        if power is None
        else dict(zip(("canaries", "leaking", "found"), power, strict=True)) | {"n": 20}
    )
    found = decide(RESULT, 20, table, None, None)
    assert found.images == verdict and words in found.on_images


@pytest.mark.parametrize(
    ("lira", "p_by_labels", "verdict"),
    [(0.5, 1.0, "cannot tell"), (None, 1.0, "cannot tell"), (0.8, 1.0, "not by")]
    + [(0.8, 0.04, "cannot tell"), (0.8, 0.06, "not by")],
)
def test_silence_counts_for_what_shadows_tell_and_where_labels_do_not_tell(
    lira, p_by_labels, verdict
):
    row = {"named": named({"tpr_0.01": 0.0, "tpr_0.001": 0.0, "intervals": NO_INTERVALS}, 10, 10)}
    power = {"auc": lira}
    found = decide(
        None,
        10,
        None,
        {
            "scores": {"lira": row},
            "best": "lira",
            "p_value": 0.5,
            "power": power,
            "groups": False,
            "p_by_labels": p_by_labels,
            "accuracy": {"train": 1.0, "held_out": 0.9},
            "why_not": None,
        },
        None,
    )
    assert found.membership.startswith(verdict)
    assert ("labels do not hold for both sets" in found.on_membership) == (p_by_labels < 0.05)


# ------------------------------------------------------------------------------------- command line


@pytest.fixture
def files(network, x, tmp_path):
    save_file(network.state_dict(), tmp_path / "w.safetensors", metadata={"format": "pt"})
    images = (x * 255).byte().numpy()
    np.savez(
        tmp_path / "d.npz",
        train=images[:N],
        held_out=images[N:],
        train_labels=np.arange(N) % 2,
        held_out_labels=np.arange(N) % 2,
    )
    return tmp_path


def command(files, *more):
    paths = [f"--weights={files / 'w.safetensors'}", f"--data={files / 'd.npz'}"]
    fixed = ["--mean=none", f"--out={files / 'out'}", "--profile=smoke", "--device=cpu"]
    return ["audit", *paths, *fixed, *more]


def told(files):
    return json.loads((files / "out" / "report.json").read_text())


QUICK = ("--attacks", "rows", "--canaries", "0")


def test_exit_codes_and_json(files, capsys):
    def run(*more):
        return cli.main(command(files, *QUICK, *more))

    assert run("--fail-on", "leaks") == 0
    data = told(files)
    jsonschema.validate(data, SCHEMA)
    assert data["verdict"] == "cannot tell" and data["tensors"][0] == "w1 = 1.weight"
    assert run("--fail-on", "cannot-tell") == 4
    weights = load_file(files / "w.safetensors")
    images = np.load(files / "d.npz")["train"]
    weights["1.weight"][:N] = 50 * torch.from_numpy(images / 255.0).flatten(1).float()
    weights["1.weight"][N:] = 0
    save_file(weights, files / "w.safetensors")
    assert run() == 0
    assert all(run("--fail-on", name) == 3 for name in ("leaks", "cannot-tell", "membership"))
    assert "these weights leak training images" in capsys.readouterr().out


# ------------------------------------------------------------------------------------------ folders


def test_two_audits_do_not_share_a_folder(files, capsys):
    with only_one(files / "out"):
        assert cli.main(command(files, *QUICK)) == 2
    assert "another run is at work" in capsys.readouterr().err


def test_a_failed_audit_leaves_no_older_report_and_every_other_file(files):
    assert cli.main(command(files, *QUICK)) == 0
    attack = files / "out" / FOLDER
    own = [attack / "mine.txt", files / "out" / "report.docx"]
    for path in own:
        path.write_text("the owner's")
    assert list(attack.glob("*.safetensors"))
    assert cli.main(command(files, *QUICK, "--mean", "median")) == 2
    assert sorted((files / "out").rglob("*.*")) == sorted(own)
    (files / "out" / "report.html").write_text("the owner's")
    assert cli.main(command(files, *QUICK)) == 2 and all(path.exists() for path in own)
    assert (files / "out" / "report.html").read_text() == "the owner's"


def test_pictures_of_another_network_do_not_stay(files):
    assert cli.main(command(files, *QUICK)) == 0
    assert list((files / "out" / FOLDER).iterdir())
    assert cli.main(command(files, "--attacks=membership", "--shadows=2")) == 0
    assert not list((files / "out" / FOLDER).iterdir())


def test_import_of_the_package_does_not_import_torch():
    code = "import sys, recon; recon.audit; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert audit_module.audit.__doc__
