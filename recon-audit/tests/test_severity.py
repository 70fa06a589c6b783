"""What a report opens with, and reports without names: lines by hand, counts beside guesses, no
name or picture.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import jsonschema
import pytest
import torch
import yaml
from PIL import Image
from torch import nn

import recon
import recon_audit
from recon import cli
from recon.errors import ReconError
from recon_audit.aggregates import hash_name, salt_in
from recon_audit.places import FOLDER
from recon_audit.report import EDPB
from recon_audit.shadows import Recipe
from recon_audit.verdict import Verdict, lines, worst

SCHEMA = json.loads(Path(recon_audit.__file__).with_name("report.schema.json").read_text())
N, SHAPE = 12, (3, 8, 8)
QUICK = {
    "profile": "smoke",
    "device": "cpu",
    "recipe": Recipe("adam", 1e-2, None, 120, 1e-2),
    "shadows": 2,
}
NAMES = [f"Ada Lovelace {k}.png" for k in range(2 * N)]


# -------------------------------------------------------------------------------------------- lines


def leaked(*rows):
    names = ("image", "index", "how", "score", "probability")
    return [dict(zip(names, row, strict=True)) for row in rows]


def test_the_worst_image_is_the_best_copy_and_the_surest_member():
    a, b = ("a", 0, "rows", 0.7, 0.9), ("b", 1, "rows", 0.95, 0.8)
    said = worst(leaked(a, b, ("c", 2, "membership", 3.0, 0.7), ("d", 3, "membership", 4.0, 0.6)))
    assert "b, which came back at a likeness (NCC) of 0.95" in said and "and c, which" in said


def test_three_lines_whatever_was_asked():
    names = leaked(*((f"{k}\u202e.png", k, "rows", 0.9, 0.9) for k in range(5)))
    report = {"leaked": names, "attacks_asked": ["rows"]}
    first, second, _ = lines(report, Verdict("leaks", None, "5 came back."))
    assert first.endswith("and 2 more.") and "\u202e" not in first
    assert second.endswith("was not asked.")


# --------------------------------------------------------------------------------------- aggregates


@pytest.fixture(scope="module")
def leaky():
    """A network whose rows are its images, and images (2N, 3, 8, 8), half of them its own."""
    x = torch.rand(2 * N, *SHAPE, generator=torch.Generator().manual_seed(0))
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 24), nn.ReLU(), nn.Linear(24, 1)).eval()
    with torch.no_grad():
        net[1].weight[:N] = 50 * x[:N].flatten(1)
        net[1].weight[N:] = 0
    return net, x


@pytest.fixture(scope="module")
def folders(leaky, tmp_path_factory):
    """The images as files whose names name somebody, in classes that do, labels in a file that
    does, and weights.
    """
    net, x = leaky
    folder = tmp_path_factory.mktemp("folders")
    pixels = (x * 255).byte().permute(0, 2, 3, 1).numpy()
    for k, name in enumerate(NAMES):
        part = folder / ("train" if k < N else "held_out") / f"Mrs Byron {k % 2}"
        part.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels[k]).save(part / name)
    (folder / "train" / "Mrs Byron 0" / "Ada notes.txt").write_text("no image")
    torch.save(net.state_dict(), folder / "Babbage.pt")
    return folder


def command(folder, *more):
    paths = [f"--weights={folder / 'Babbage.pt'}", f"--data={folder}", f"--out={folder / 'out'}"]
    few = ["--attacks=rows,membership", "--canaries=0", "--shadows=2", "--mean=none"]
    return ["audit", *paths, *few, "--profile=smoke", "--device=cpu", *map(str, more)]


def test_aggregates_hold_no_name_and_no_picture(folders, capsys):
    options = {"json": "j.json", "junit": "j.xml", "model-card": "card.md", "salt": "salt"}
    more = [f"--{option}={folders / name}" for option, name in options.items()]
    assert cli.main(command(folders, "--aggregates-only", *more)) == 0
    texts = [capsys.readouterr().out.replace(str(folders), "")]
    reports = list((folders / "out").iterdir())
    assert sorted(path.name for path in reports) == ["report.html", "report.json"]
    written = [folders / name for name in ("j.json", "j.xml", "card.md")]
    texts += [path.read_text() for path in [*reports, *written]]
    key = (folders / "salt").read_text().strip()
    for text in texts:
        assert not re.search("Ada|Lovelace|Byron|Babbage|base64|<img|train/|held_out/", text)
        assert key not in text
    data = json.loads((folders / "j.json").read_text())
    jsonschema.validate(data, SCHEMA)
    assert data["aggregates_only"] and data["verdict"] == "leaks" and len(data["leaked"]) >= N
    hashes = {hash_name(f"train/Mrs Byron {k % 2}/{NAMES[k]}", key) for k in range(N)}
    assert {image["image"] for image in data["leaked"] if image["how"] == "rows"} == hashes
    assert all(image["index"] is None for image in data["leaked"])


def test_a_whole_report_names_them(folders, capsys):
    assert cli.main(command(folders)) == 0
    assert "Lovelace" in capsys.readouterr().out
    text = (folders / "out" / "report.html").read_text()
    assert "Lovelace" in text and "base64" in text
    assert (folders / "out" / FOLDER).is_dir()  # what that run recovered
    assert cli.main(command(folders, "--aggregates-only")) == 0
    assert not list((folders / "out" / FOLDER).iterdir())
    shutil.rmtree(folders / "out")


def test_salts(tmp_path, folders, capsys):
    salt = salt_in(tmp_path / "salt")
    assert salt_in(tmp_path / "salt") == salt and (tmp_path / "salt").stat().st_mode & 0o077 == 0
    assert hash_name("a", salt) != hash_name("b", salt) != hash_name("b", salt + "0")
    (tmp_path / "short").write_text("1234\n")
    with pytest.raises(ReconError, match="16 characters"):
        salt_in(tmp_path / "short")
    with pytest.raises(ReconError, match="cannot be written"):
        salt_in(tmp_path / "no" / "salt")
    assert cli.main(command(folders, "--salt", tmp_path / "salt")) == 2
    assert "--aggregates-only" in capsys.readouterr().err


def test_a_salt_is_random_and_no_text_holds_a_name(leaky):
    net, x = leaky
    options = {"attacks": ("rows",), "canaries": 0, "transform": "none", "aggregates_only": True}
    a, b = (recon.audit(net, x[:N], x[N:], **QUICK, **options) for _ in range(2))
    assert a.salt != b.salt and a.leaked[0].image == hash_name("train[0]", a.salt)
    assert "train[" not in a._repr_html_()
    with pytest.raises(ReconError, match="16 characters"):
        recon.audit(net, x[:N], x[N:], **QUICK, **options, salt="1")


# --------------------------------------------------------------------------------------------- card


def test_a_model_card_holds_the_numbers_of_the_report(leaky):
    net, x = leaky
    y = torch.arange(2 * N) % 2
    options = {"canaries": 0, "attacks": "rows,membership"}
    report = recon.audit(net, (x[:N], y[:N]), (x[N:], y[N:]), **options, **QUICK)
    text = report.model_card()
    block = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)[1]
    numbers = yaml.safe_load(block)["privacy_audit"]
    assert numbers["verdict"] == report.verdict and numbers["training_images"] == N
    assert numbers["images_came_back"] == report.data["result"]["targets"]
    assert numbers["named_at_false_alarms_of_0.01"] is None  # of 12 images held out
    assert EDPB in text and EDPB in report.page and "train[" not in text
